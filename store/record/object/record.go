package object

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// form is the version of the stored form.
const form = 1

// A head is the first line of a record's object; the record follows.
type head struct {
	V     int      `json:"v"`
	Name  []byte   `json:"name"`
	Rev   string   `json:"rev"`             // random for each swap, so that no two bodies are the same
	Idle  bool     `json:"idle,omitempty"`  // it may be deleted
	Taken []string `json:"taken,omitempty"` // notes that are taken in, and may still be in the inbox
}

// A version is the version of a record: that of its object, and the notes that the object lists as taken in.
type version struct {
	object string
	taken  []string
}

func (v version) String() string {
	if v.object == "" {
		return ""
	}
	return strings.Join(append([]string{v.object}, v.taken...), " ")
}

func parseVersion(text string) (v version) {
	v.object, text, _ = strings.Cut(text, " ")
	v.taken = strings.Fields(text)
	return v
}

// longest is how many bytes of an escaped name a key may have: servers that store files allow 255.
const longest = 180

// keyOf returns the part of a key that stands for a name. It differs for any two names.
func keyOf(name string) string {
	key := strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	if len(key) > longest {
		sum := sha256.Sum256([]byte(name))
		key = key[:100] + "=" + hex.EncodeToString(sum[:]) // no escaped name has an =
	}
	return key + ".lock" // "." and ".." cannot be keys
}

func (b *Backend) recordKey(name string) string { return b.Prefix + "n/" + keyOf(name) }
func (b *Backend) inboxKey(name string) string  { return b.Prefix + "j/" + keyOf(name) + "!" } // no escaped name has a !

// Traits implements [record.Backend].
func (b *Backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByMark, Clock: true, Age: Age, MaxRecord: 1 << 20, Retention: b.Retention}
}

// Load implements [record.Backend]. It reads the keys of the inbox first (law 11), then the record, then the notes.
// So that record has not taken in a remaining note, unless it lists it: the notes that it no longer lists were
// deleted before it was written. If a note was deleted meanwhile, Load starts over.
func (b *Backend) Load(ctx context.Context, name string) (record.Record, error) {
	for {
		var keys []string
		before, there := b.deleted.of(name), map[string]bool{}
		for o, err := range b.lister.List(ctx, b.inboxKey(name), "", page) {
			if err != nil {
				return record.Record{}, err
			}
			keys = append(keys, o.Key)
			there[noteID(o.Key)] = true
		}
		b.deleted.listed(name, before, there)
		r, h, err := b.read(ctx, name)
		if err != nil {
			return record.Record{}, err
		}
		gone := false
		var now int64
		r.Inbox, now, r.More, gone, err = b.notes(ctx, keys, h.Taken)
		r.Now = max(r.Now, now)  // reading many notes takes a while //mutant:object-now-of-the-notes
		if err != nil || !gone { //mutant:object-note-gone-meanwhile
			return r, err
		}
	}
}

// notes reads notes by their keys, except those taken in, and reports whether one is gone. If there are many, it
// reads the first of them. now is the newest time in the answers. One that this process has deleted is deleted again,
// and counts as gone: no swap of this process would take it in, and to others it is void by the mark of its session.
func (b *Backend) notes(ctx context.Context, keys, taken []string) (notes []record.Note, now int64, more, gone bool, err error) {
	all := whole(taken)
	keys = slices.DeleteFunc(keys, func(key string) bool { return all[noteID(key)] != nil })
	found := make([][]record.Note, min(len(keys), most))
	there, times := make([]bool, len(found)), make([]int64, len(found)+1)
	err = together(len(found), func(i int) error {
		o, err := b.server.Get(ctx, keys[i])
		there[i], found[i], times[i] = o.Version != "", unpack(keys[i], o.Body), clockOf(o)
		if slices.ContainsFunc(found[i], func(n record.Note) bool { return b.isDeleted(n.Version) }) { // a proxy has sent its write again //mutant:object-note-that-comes-back
			there[i], found[i], err = false, nil, b.server.Delete(ctx, keys[i], "")
		}
		return err
	})
	for _, n := range slices.Concat(found...) {
		if !slices.Contains(taken, n.Version) { //mutant:object-taken-in-is-left-out
			notes = append(notes, n)
		}
	}
	return notes, slices.Max(times), len(keys) > len(found), slices.Contains(there, false), err
}

// most is how many objects of an inbox one call reads. Each has a note at least. In a crowd several processes read the
// same notes, and all but one in vain.
const most = record.MaxNotes

// Peek implements [record.Peeker].
func (b *Backend) Peek(ctx context.Context, name string) (record.Record, error) {
	r, _, err := b.read(ctx, name)
	return r, err
}

// Oldest implements [record.Peeker].
func (b *Backend) Oldest(ctx context.Context, name string) (record.Note, error) {
	for {
		var first Object
		before := b.deleted.of(name)
		for o, err := range b.lister.List(ctx, b.inboxKey(name), "", 1) {
			if err != nil {
				return record.Note{}, err
			}
			first = o
			break
		}
		if first.Key == "" {
			b.deleted.listed(name, before, nil)
			return record.Note{}, nil
		}
		notes, _, _, gone, err := b.notes(ctx, []string{first.Key}, nil)
		switch {
		case err != nil:
			return record.Note{}, err
		case len(notes) > 0:
			return notes[0], nil
		case !gone: //mutant:object-oldest-is-unreadable
			return record.Note{Data: []byte("unreadable")}, nil // Load passes over it
		}
	}
}

// read reads the record of a name, without its inbox.
func (b *Backend) read(ctx context.Context, name string) (record.Record, head, error) {
	o, err := b.server.Get(ctx, b.recordKey(name))
	if err != nil {
		return record.Record{}, head{}, err
	}
	r, h, err := b.recordOf(name, o)
	if err == nil {
		b.deleted.took(name, h.Taken)
	}
	return r, h, err
}

// recordOf returns the record of an object. It checks the name unless that is empty.
func (b *Backend) recordOf(name string, o Object) (record.Record, head, error) {
	r := record.Record{Now: clockOf(o)}
	if o.Version == "" {
		return r, head{}, nil
	}
	var h head
	line, data, whole := bytes.Cut(o.Body, []byte("\n"))
	switch err := json.Unmarshal(line, &h); {
	case h.V > form: // even if the rest cannot be read
		return r, h, store.NewerFormError("its object in "+b.Address, h.V, form)
	case err != nil || h.V < 1 || !whole || name != "" && string(h.Name) != name:
		return r, h, fmt.Errorf("%w: its object in %s was not written by holdfast, or is damaged: it was not changed; delete it if nothing else uses it", store.ErrCorrupt, b.Address)
	}
	r.Data, r.Version = data, version{o.Version, h.Taken}.String()
	return r, h, nil
}

// clockOf returns the server's time in an answer, or 0.
func clockOf(o Object) int64 {
	if o.Now.IsZero() {
		return 0
	}
	return o.Now.UnixMicro()
}

// Swap implements [record.Backend]. The record lists the notes that it has taken in (law 8) until they are known to
// be deleted.
func (b *Backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	if err := b.Prepare(ctx); err != nil {
		return out, err
	}
	if s.Lost && s.Join != nil {
		return b.join(ctx, s)
	}
	old := parseVersion(s.Old.Version)
	h := head{V: form, Name: []byte(s.Name), Rev: rand.Text(), Idle: s.Idle, Taken: b.untilDeleted(old.taken)} //mutant:object-version-is-drawn
	there, own := true, []string(nil)
	for _, n := range s.Old.Inbox {
		there = there && !slices.Contains(old.taken, n.Version) && !b.isDeleted(n.Version) //mutant:object-note-taken-in-twice
		own = append(own, n.Version)
	}
	h.Taken = append(h.Taken, own...)
	line, err := json.Marshal(&h)
	if err != nil {
		return out, err
	}
	o, what := Object{}, Refused
	if there {
		body := append(append(line, '\n'), s.Data...)
		o, what, err = b.server.Put(ctx, b.recordKey(s.Name), body, old.object)
		// A proxy may have sent it twice: a release would be reported as lost. All but the first write of a name may be one.
		if err == nil && what != Done && s.Join == nil && old.object != "" {
			if is, err := b.server.Get(ctx, b.recordKey(s.Name)); err == nil && bytes.Equal(is.Body, body) { //mutant:object-swap-sent-twice
				o, what = is, Done
			}
		}
	}
	switch {
	case err != nil:
		return out, err
	case what == Done:
		b.delete(s.Name, b.deleted.mine(s.Name, h.Taken, own))
		return record.Outcome{Done: true, Current: true, Now: record.Record{Version: version{o.Version, h.Taken}.String(), Now: clockOf(o)}}, nil
	case s.Join != nil:
		return b.join(ctx, s)
	}
	return out, nil
}

// The object of a join has all its notes, which so come together or not at all. Its key has a number that is larger
// than those that existed when the join began, so that notes are in the order in which they came, and then the key
// of the first note.

// join leaves notes.
func (b *Backend) join(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	number := 0
	for o, err := range b.lister.List(ctx, b.inboxKey(s.Name), "", page) {
		if err != nil {
			return out, err
		}
		digits, _, _ := strings.Cut(noteID(o.Key), "-")
		n, _ := strconv.Atoi(digits)
		number = max(number, n) //mutant:object-notes-in-order
	}
	body, err := json.Marshal(inbox{V: form, Notes: s.Join.Notes})
	if err != nil {
		return out, err
	}
	key := fmt.Sprintf("%s%010d-%s", b.inboxKey(s.Name), number+1, s.Join.Notes[0].Key)
	_, _, err = b.put(ctx, key, body, "")
	out.Joined = err == nil // if refused, an earlier try wrote the same
	return out, err
}

// An inbox is the object of a join.
type inbox struct {
	V     int           `json:"v"`
	Notes []record.Note `json:"notes"`
}

// noteID returns the part of a key that names the object of a join in an inbox.
func noteID(key string) string { return key[strings.LastIndexByte(key, '!')+1:] }

// unpack returns the notes of an object; none if it is foreign. The version of a note is the object's, its index,
// and the number of notes.
func unpack(key string, body []byte) []record.Note {
	var in inbox
	if err := json.Unmarshal(body, &in); err != nil || in.V != form {
		return nil
	}
	for i := range in.Notes {
		in.Notes[i].Version = fmt.Sprintf("%s.%d.%d", noteID(key), i, len(in.Notes))
	}
	return in.Notes
}
