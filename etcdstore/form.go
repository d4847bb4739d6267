package etcdstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/holdfast-go/holdfast/store"
)

// version is that of the stored form.
const version = 1

func (s *Store) baseKey() string { return s.prefix + "base" }

var nameEscape = strings.NewReplacer("%", "%25", "/", "%2F")

// keys begins the keys of a name; what ends them is one byte further.
func (s *Store) keys(name string) string { return s.prefix + "n/" + nameEscape.Replace(name) + "/" }

// after is the end of the range of keys that begin with the keys of a name, or
// of a limit.
func after(keys string) string { return keys[:len(keys)-1] + string(keys[len(keys)-1]+1) }

// limited begins the keys of a name that have this limit.
func limited(keys string, limit int64) string { return keys + hex8(limit) + "/" }

func entryKey(keys string, limit, weight int64, id store.ID) string {
	return limited(keys, limit) + hex8(weight) + "/" + id.String()
}

// keepKey is where the minimum hold of an entry is.
func keepKey(entry string) string { return entry + "+" }

func hex8(n int64) string { return fmt.Sprintf("%08x", n) }

// A value is what is stored under a key.
type value struct {
	V     int    `json:"v"`
	Owner string `json:"owner,omitempty"`
	TTL   int64  `json:"ttl"`             // seconds; of a minimum hold: what was left
	Asked int64  `json:"asked"`           // by the owner's wall clock, in microseconds; for people
	Keep  int64  `json:"keep,omitempty"`  // the minimum hold asked for, in microseconds
	N     int    `json:"n,omitempty"`     // the size of the block of tokens, if not 1
	Token int64  `json:"token,omitempty"` // 0: that of the key's creation, or not stored yet
	Used  int64  `json:"used,omitempty"`  // the newest of the block that was told to be used
	ID    string `json:"id,omitempty"`    // the present one, if it is not that of the key
	Shown bool   `json:"shown,omitempty"` // the owner has used the token, so Keep counts

	Turn  int32  `json:"turn,omitempty"`
	Want  int64  `json:"want,omitempty"`   // an upgrade to this was asked for
	UpTo  int64  `json:"up_to,omitempty"`  // with Want: who was granted then was created up to here
	Fence int64  `json:"fence,omitempty"`  // drawn by the newest upgrade that was granted
	Drawn bool   `json:"drawn,omitempty"`  // with Want: that is this one
	Full  bool   `json:"full,omitempty"`   // of a minimum hold: it was upgraded
	Break string `json:"broken,omitempty"` // why an operator broke it
}

func (v *value) String() string {
	v.V = version
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it has nothing but numbers and strings
	}
	return string(b)
}

// A row is an entry of a name, or a minimum hold whose entry has gone, as it
// was found.
type row struct {
	value
	key               string
	id                store.ID
	limit             int64
	asked             int64 // the weight in the key
	weight            int64 // in the way
	created, modified int64 // revisions
	lease             int64
	kept              bool // a minimum hold whose entry has gone
	hasKeep           bool // an entry with a minimum hold beside it
	granted           bool
	upgraded          bool // the upgrade asked for has room
}

// A view is the state of a name at a revision.
type view struct {
	rows []row // minimum holds, then entries in order
	rev  int64
	base int64
	wait int // the index of the first that waits, or len(rows)
}

// parse makes a view of the keys of a name.
func (s *Store) parse(name string, kvs []*mvccpb.KeyValue, rev, base int64) (*view, error) {
	v := &view{rows: make([]row, 0, len(kvs)), rev: rev, base: base}
	var keeps []row
	for _, kv := range kvs {
		r, keep, err := s.parseRow(name, kv)
		if err != nil {
			return nil, err
		}
		if keep {
			keeps = append(keeps, r)
		} else {
			v.rows = append(v.rows, r)
		}
	}
	slices.SortFunc(v.rows, func(a, b row) int { return cmp.Compare(a.created, b.created) })
	orphans := keeps[:0]
	for _, k := range keeps {
		i := slices.IndexFunc(v.rows, func(r row) bool { return keepKey(r.key) == k.key })
		if i >= 0 {
			v.rows[i].hasKeep = true
			continue
		}
		k.kept, k.granted = true, true
		if k.Full {
			k.weight = store.Full
		}
		orphans = append(orphans, k)
	}
	v.rows = append(orphans, v.rows...)
	v.grant()
	return v, nil
}

func (s *Store) parseRow(name string, kv *mvccpb.KeyValue) (r row, keep bool, err error) {
	key := string(kv.Key)
	bad := func() error {
		return fmt.Errorf("%w: key %q on %s is not of holdfast, or is damaged: it was left alone; delete it if nobody needs it", store.ErrCorrupt, key, s.address)
	}
	part := strings.Split(strings.TrimPrefix(key, s.keys(name)), "/")
	if len(part) != 3 {
		return r, false, bad()
	}
	id, keep := strings.CutSuffix(part[2], "+")
	var errs [4]error
	r.limit, errs[0] = strconv.ParseInt(part[0], 16, 64)
	r.asked, errs[1] = strconv.ParseInt(part[1], 16, 64)
	errs[2] = json.Unmarshal(kv.Value, &r.value)
	if r.V > version {
		return r, false, store.NewerFormError(fmt.Sprintf("key %q on %s", key, s.address), r.V, version)
	}
	r.id, errs[3] = store.ParseID(cmp.Or(r.ID, id))
	for _, err := range errs {
		if err != nil {
			return r, false, bad()
		}
	}
	if r.V < 1 || r.limit < 1 || r.limit > store.Full || r.asked < 1 || r.asked > r.limit {
		return r, false, bad()
	}
	r.key, r.weight, r.lease = key, r.asked, kv.Lease
	r.created, r.modified = kv.CreateRevision, kv.ModRevision
	return r, keep, nil
}

// grant finds who is granted: all that fit in order, up to the first that does
// not. While an upgrade is asked for those are in who were when it was asked
// for; it has room when the others of them have gone.
func (v *view) grant() {
	var held int64
	up := slices.IndexFunc(v.rows, func(r row) bool { return r.UpTo > 0 })
	v.wait = len(v.rows)
	for i := range v.rows {
		r := &v.rows[i]
		switch {
		case r.kept:
		case up >= 0:
			r.granted = r.created <= v.rows[up].UpTo
		default:
			r.granted = held+r.weight <= r.limit
		}
		if !r.granted {
			v.wait = i
			break
		}
		held += r.weight
	}
	if up < 0 {
		return
	}
	if u := &v.rows[up]; v.wait == 1 && up == 0 {
		u.upgraded, u.weight = true, u.Want
	}
}

// find is the row of the id, or nil.
func (v *view) find(id store.ID) *row {
	for i := range v.rows {
		if r := &v.rows[i]; r.id == id && !r.kept {
			return r
		}
	}
	return nil
}

// keeps reports whether only a minimum hold is left of what the id had.
func (v *view) keeps(id store.ID) bool {
	return slices.ContainsFunc(v.rows, func(r row) bool { return r.id == id && r.kept })
}

// limit is that of the name, or 0 if it is not in use.
func (v *view) limit() int64 {
	if len(v.rows) == 0 {
		return 0
	}
	return v.rows[0].limit
}

// room reports whether one more claim would be granted.
func (v *view) room(limit, weight int64) bool {
	if v.wait < len(v.rows) {
		return false
	}
	for i := range v.rows {
		if r := &v.rows[i]; r.UpTo > 0 {
			return false
		}
		weight += v.rows[i].weight
	}
	return weight <= limit
}

// obstacle is the row that has to go, or to change, before r can be granted,
// whatever else happens; nil if it is the sum of them.
func (v *view) obstacle(r *row) *row {
	var nearest *row
	for i := range v.rows {
		b := &v.rows[i]
		if b.UpTo > 0 && b.id != r.id {
			return b
		}
		if b == r {
			break
		}
		if b.weight+r.weight > r.limit {
			nearest = b
		}
	}
	return nearest
}

// tokenOf is the first token of a hold, as far as it can be seen from outside.
func (v *view) tokenOf(r *row) int64 {
	return cmp.Or(r.Token, v.base+r.created*maxBlock)
}

// last is the newest token drawn, as far as it can be seen.
func (v *view) last() (last int64) {
	for i := range v.rows {
		if r := &v.rows[i]; r.granted {
			last = max(last, v.tokenOf(r)+int64(max(r.N, 1))-1, r.Fence)
		}
	}
	return last
}

// show is the row as an entry for others. left is how long its lease lasts.
func (v *view) show(r *row, left time.Duration) store.Entry {
	e := store.Entry{
		ID: r.id, Weight: r.weight, Want: r.weight, Granted: r.granted,
		Expires: left, Ends: left, Broken: r.Break, Owner: store.ParseOwner(r.Owner),
	}
	if r.kept {
		e.Expires = 0
	}
	if r.UpTo > 0 && r.granted && r.Break == "" {
		e.Want = r.Want
	}
	if r.granted {
		e.Age = max(0, time.Duration(time.Now().UnixMicro()-r.Asked)*time.Microsecond)
		e.Token, e.N, e.Fence = v.tokenOf(r), max(r.N, 1), r.Fence
		e.Used = max(e.Token, r.Used)
	}
	return e
}

// refused answers who is in the way of the row, or of one behind all.
func (v *view) refused(own *row) store.Answer {
	a := store.Answer{Last: v.last()}
	for i := range v.rows {
		r := &v.rows[i]
		switch {
		case r == own && !r.granted:
			return a
		case r == own:
		case !r.granted:
			a.Waiting++
		default:
			a.Holding++
			if len(a.Holders) < store.MaxHolders {
				a.Holders = append(a.Holders, v.show(r, time.Duration(r.TTL)*time.Second))
			}
		}
	}
	return a
}
