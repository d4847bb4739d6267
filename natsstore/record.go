package natsstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// version is that of the stored form.
const version = 1

// form begins all that is stored.
type form struct {
	V int `json:"v"`
}

// A record is what is stored of a name.
type record struct {
	name  string
	seq   uint64 // of the message
	data  []byte // what it is made of; nil: nothing
	now   queue.Time
	q     queue.Queue
	lives map[store.ID]string // the session of each entry
}

type storedName struct {
	form
	Limit   int32         `json:"limit,omitempty"`
	Last    int64         `json:"last"`
	Entries []storedEntry `json:"entries,omitempty"`
}

// A storedEntry is an entry. There is no expiry in it: that is its session's.
type storedEntry struct {
	Hex     string  `json:"id"`
	Session string  `json:"session"`
	Owner   string  `json:"owner,omitempty"`
	Weight  int32   `json:"weight"`
	Want    int32   `json:"want,omitempty"` // if not the weight
	Turn    int32   `json:"turn,omitempty"`
	N       uint16  `json:"n,omitempty"`
	Granted bool    `json:"granted,omitempty"`
	Shown   bool    `json:"shown,omitempty"` // of one with a minimum hold
	Over    bool    `json:"over,omitempty"`  // it has expired, and is in the way
	Token   int64   `json:"token,omitempty"`
	Fence   int64   `json:"fence,omitempty"`
	Since   int64   `json:"since,omitempty"`
	Keep    int64   `json:"keep,omitempty"`
	Broken  *string `json:"broken,omitempty"`
}

// unending is how far the expiry of what has a session is, in microseconds, as far
// as the queue knows.
const unending = int64(10 * 365 * 24 * time.Hour / time.Microsecond)

// encode is the stored form of the record; nil if there is none, and need be none.
func (r *record) encode(force bool) ([]byte, error) {
	if len(r.q.Entries) == 0 && r.q.Last == 0 && r.data == nil && !force { //mutant:nats-ask-name-never-used
		return nil, nil // never used
	}
	n := storedName{form: form{version}, Last: r.q.Last}
	if len(r.q.Entries) > 0 {
		n.Limit, n.Entries = r.q.Limit, make([]storedEntry, len(r.q.Entries))
	}
	for i := range r.q.Entries {
		e := &r.q.Entries[i]
		n.Entries[i] = storedEntry{
			Hex: e.ID.String(), Session: r.lives[e.ID], Owner: e.Owner, Weight: e.Weight, Turn: e.Turn, N: e.N, Granted: e.Granted,
			Shown: e.Shown && e.Keep > 0, Over: e.Expires <= r.now.Clock, Token: e.Token, Fence: e.Fence, Since: e.Since, Keep: e.Keep, Broken: e.Broken,
		}
		if e.Want != e.Weight {
			n.Entries[i].Want = e.Want
		}
	}
	return json.Marshal(&n)
}

// decode reads what encode wrote, at an instant.
func (s *Store) decode(name string, m message, now queue.Time) (*record, error) {
	r := &record{name: name, seq: m.seq, data: m.data, now: now, lives: map[store.ID]string{}}
	if m.data == nil {
		return r, nil
	}
	var n storedName
	if err := s.parse(m.data, &n, &n.form, s.where(name)); err != nil {
		return nil, err
	}
	r.q = queue.Queue{Limit: n.Limit, Last: n.Last, Entries: make([]queue.Entry, len(n.Entries), len(n.Entries)+1)}
	for i := range n.Entries { // each process has its own idea of the server's clock
		r.now.Clock = max(r.now.Clock, n.Entries[i].Since) //mutant:nats-clock-behind-keeps-way
	}
	now = r.now
	for i := range n.Entries {
		e := &n.Entries[i]
		id, err := store.ParseID(e.Hex)
		if e.Want == 0 {
			e.Want = e.Weight
		}
		if err != nil || e.Weight < 1 || e.Weight > n.Limit || n.Limit > store.Full || e.Granted && e.Token < 1 || e.Session == "" {
			return nil, s.corrupt(s.where(name))
		}
		expires := now.Clock + unending
		if e.Over {
			expires = now.Clock
		}
		r.q.Entries[i] = queue.Entry{
			ID: id, Weight: e.Weight, Want: e.Want, Turn: e.Turn, N: e.N, Granted: e.Granted, Shown: e.Shown, Broken: e.Broken,
			Token: e.Token, Fence: e.Fence, Since: e.Since, Expires: expires, Keep: e.Keep, Owner: e.Owner,
		}
		r.lives[id] = e.Session
	}
	return r, nil
}

// parse reads a stored object, whose form is f.
func (s *Store) parse(data []byte, into any, f *form, where string) error {
	err := json.Unmarshal(data, into)
	switch {
	case f.V > version: // whatever else is in it
		return store.NewerFormError(where, f.V, version)
	case err != nil || f.V < 1:
		return s.corrupt(where)
	}
	return nil
}

func (s *Store) corrupt(where string) error {
	return fmt.Errorf("%w: %s is not of holdfast, or is damaged: it was left alone", store.ErrCorrupt, where)
}

// where is the key of a name, for people.
func (s *Store) where(name string) string {
	return fmt.Sprintf("the record of %q in %s", name, s.address)
}

// find is the entry of an id, or nil.
func (r *record) find(id store.ID) *queue.Entry {
	for i := range r.q.Entries {
		if r.q.Entries[i].ID == id {
			return &r.q.Entries[i]
		}
	}
	return nil
}

const hexDigits = "0123456789ABCDEF"

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// keyOf is the key of a name.
func keyOf(name string) string {
	var b strings.Builder
	b.WriteString("n.")
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'=', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

// nameOf is the name that has the key.
func nameOf(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, "n.")
	b := make([]byte, 0, len(rest))
	for i := 0; ok && i < len(rest); i++ {
		c := rest[i]
		if c == '=' && i+2 < len(rest) {
			high, low := strings.IndexByte(hexDigits, rest[i+1]), strings.IndexByte(hexDigits, rest[i+2])
			ok = high >= 0 && low >= 0
			c = byte(high<<4 | low&15)
			i += 2
		}
		b = append(b, c)
	}
	return string(b), ok && len(b) > 0 && keyOf(string(b)) == key
}
