package mongostore

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A document is what is stored of a name, as far as anybody reads it.
type document struct {
	V       int64         `bson:"v"`
	Limit   int64         `bson:"limit"`
	Last    int64         `bson:"fencingToken"`
	Entries []entry       `bson:"entries"`
	At      bson.DateTime `bson:"at"`
	Op      struct {
		Call string `bson:"call"`
		OK   bool   `bson:"ok"`
		Why  string `bson:"why"`
	} `bson:"op"`
	Now bson.DateTime `bson:"now"` // when it was read; not stored
}

type entry struct {
	ID      string        `bson:"id"`
	Weight  int64         `bson:"weight"`
	Want    int64         `bson:"want"`
	Turn    int64         `bson:"turn"`
	N       int64         `bson:"n"`
	Granted bool          `bson:"granted"`
	Shown   bool          `bson:"shown"`
	Broken  string        `bson:"broken"`
	Token   int64         `bson:"token"`
	Fence   int64         `bson:"fence"`
	Since   bson.DateTime `bson:"since"`
	Expires bson.DateTime `bson:"expires"`
	Keep    int64         `bson:"keep"`
	Delay   int64         `bson:"delay"`
	Owner   string        `bson:"owner"`
}

// fields is what a reply has of a document. A server that repeats its answer to
// a write ignores it, and then there is no now: it is that of the write.
func (s *Store) fields() bson.D {
	return object("v", 1, "limit", 1, "fencingToken", 1, "entries", 1, "at", 1, "op", 1, "now", add(s.now(), long(0)))
}

// A row is a document as the rule sees it, and how the call came out that made
// it so.
type row struct {
	q     queue.Queue
	now   queue.Time
	timed bool   // now is that of the reading; else that of the newest change
	call  string // the newest that has written
	ok    bool
	why   string
}

// parse reads the document of a name.
func (s *Store) parse(name string, raw bson.Raw) (r row, err error) {
	// A foreign document can have anything in any field, so the version is
	// looked at first.
	v, isLong := raw.Lookup("v").Int64OK()
	if !isLong || v < 1 {
		return r, s.corrupt(name)
	}
	if v > form { //mutant:mongo-newer-form-read
		return r, store.NewerFormError(s.where(name), int(min(v, 1<<30)), form)
	}
	var d document
	if err := bson.Unmarshal(raw, &d); err != nil || d.Last < 0 || d.Limit < 0 || d.Limit > store.Full {
		return r, s.corrupt(name)
	}
	timed := d.Now != 0
	if !timed {
		d.Now = d.At
	}
	us := int64(d.Now) * 1000
	r = row{now: queue.Time{Clock: us, Wall: us}, call: d.Op.Call, timed: timed, ok: d.Op.OK, why: d.Op.Why}
	r.q = queue.Queue{Limit: int32(d.Limit), Last: d.Last}
	for i := range d.Entries {
		e := &d.Entries[i]
		id, err := store.ParseID(e.ID)
		if err != nil || e.Weight < 1 || e.Weight > d.Limit || e.Want < 1 || e.Want > d.Limit || e.Turn != int64(int32(e.Turn)) || e.N != int64(uint16(e.N)) || e.Granted && e.Token < 1 {
			return r, s.corrupt(name)
		}
		q := queue.Entry{
			ID: id, Weight: int32(e.Weight), Want: int32(e.Want), Turn: int32(e.Turn), N: uint16(e.N), Granted: e.Granted, Shown: e.Shown,
			Token: e.Token, Fence: e.Fence, Since: int64(e.Since) * 1000, Expires: int64(e.Expires) * 1000,
			Keep: e.Keep * 1000, Delay: e.Delay * 1000, Owner: e.Owner,
		}
		if e.Broken != "" {
			q.Broken = &e.Broken
		}
		r.q.Entries = append(r.q.Entries, q)
	}
	return r, nil
}

// find is the entry of an id, or nil.
func (r *row) find(id store.ID) *queue.Entry {
	for i := range r.q.Entries {
		if r.q.Entries[i].ID == id {
			return &r.q.Entries[i]
		}
	}
	return nil
}

// lost is why the hold of the id is lost to the call: with the reason of an
// operator, which an entry that is over takes with it.
func (r *row) lost(id store.ID, call call) error {
	why := ""
	if e := r.find(id); e != nil {
		why = e.Reason()
	} else if r.call == call.number {
		why = r.why
	}
	if why != "" {
		return &store.LostError{Reason: why}
	}
	return store.ErrLost
}

// where is the document of a name, for people.
func (s *Store) where(name string) string {
	return fmt.Sprintf("the document of %q in %s", strings.ToValidUTF8(name, "?"), s.address)
}

func (s *Store) corrupt(name string) error {
	return fmt.Errorf("%w: %s is not of holdfast, or is damaged: it was left alone; delete it if nobody needs it", store.ErrCorrupt, s.where(name))
}
