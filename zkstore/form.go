package zkstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// version is that of the stored form.
const version = 1

// plain are the bytes of a name that stand for themselves.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-~"

// escape is the name of the node of a name. No two are the same.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c) //mutant:zk-escape-two-digits
		}
	}
	return b.String()
}

// unescape undoes escape, and says whether it is one.
func unescape(node string) (name string, ok bool) {
	var b []byte
	for i := 0; i < len(node); i++ {
		if node[i] != '%' {
			b = append(b, node[i])
			continue
		}
		if i+2 >= len(node) {
			return "", false
		}
		c, err := strconv.ParseUint(node[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b), len(b) > 0 && escape(string(b)) == node
}

// nameNode is the node of a name.
func (s *Store) nameNode(name string) string { return s.path + "/n/" + escape(name) }

// parent is the node above; empty: there is none that has to be made.
func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// The nodes of one claim begin so.
func nodesOf(id store.ID) string { return "v" + strconv.Itoa(version) + "-" + id.String() + "-" }

// entryNode is what ZooKeeper appends the sequence number to.
func entryNode(limit, weight int64, id store.ID) string {
	return fmt.Sprintf("%s%08x-%08x-", nodesOf(id), limit, weight)
}

func freezeNode(id store.ID) string          { return nodesOf(id) + "freeze" }
func upToNode(id store.ID, seq int32) string { return fmt.Sprintf("%supto-%d", nodesOf(id), seq) }
func millis(d time.Duration) (ms int64)      { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// A value is what is stored in an entry.
type value struct {
	V     int    `json:"v"`
	Owner string `json:"owner,omitempty"`
	TTL   int64  `json:"ttl"`             // milliseconds
	Asked int64  `json:"asked"`           // by the owner's wall clock, in microseconds; for people
	N     int    `json:"n,omitempty"`     // the size of the block of tokens, if not 1
	Token int64  `json:"token,omitempty"` // 0: that of the node's creation, or not stored yet
	Used  int64  `json:"used,omitempty"`  // the newest of the block that was told to be used
	Fence int64  `json:"fence,omitempty"` // drawn by the newest upgrade that was granted
	Break string `json:"broken,omitempty"`
}

func (v *value) bytes() []byte {
	v.V = version
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it has nothing but numbers and strings
	}
	return b
}

func (s *Store) parseValue(path string, data []byte) (v value, err error) {
	err = json.Unmarshal(data, &v)
	if err == nil && v.V > version {
		return v, store.NewerFormError(fmt.Sprintf("node %q on %s", path, s.address), v.V, version)
	}
	if err != nil || v.V < 1 {
		return v, s.foreign(path)
	}
	return v, nil
}

func (s *Store) foreign(path string) error {
	return fmt.Errorf("%w: node %q on %s is not of holdfast, or is damaged: it was left alone; delete it if nobody needs it", store.ErrCorrupt, path, s.address)
}

// A row is an entry of a name, as its node's name tells.
type row struct {
	id       store.ID
	path     string
	seq      int32
	limit    int64
	asked    int64 // the weight in the name
	weight   int64 // in the way
	granted  bool
	marker   string // the node of its upgrade, if it was asked for
	frozen   bool   // that is the first of the two
	upTo     int32  // else who was granted then came up to here
	upgraded bool   // the upgrade has room

	// What fetch reads:
	value
	created int64 // the transaction
	stored  int32 // the version of the value
	gone    bool  // it was not there any more
}

func (r *row) upgrading() bool { return r.marker != "" }

// A view is the state of a name after a transaction.
type view struct {
	rows   []row // in order
	rev    int64 // the last transaction that has added or removed one
	wait   int   // the index of the first that waits, or len(rows)
	frozen bool
	extra  []row // of an id that is there already, or of another limit
}

// parse makes a view of the children of the node of a name.
func (s *Store) parse(dir string, children []string, rev int64) (*view, error) {
	v := &view{rows: make([]row, 0, len(children)), rev: rev}
	markers := map[store.ID]row{}
	for _, child := range children {
		r, err := s.parseRow(dir+"/"+child, child)
		switch {
		case err != nil:
			return nil, err //mutant:zk-foreign-entry-refused
		case r.marker != "":
			markers[r.id] = r
		default:
			v.rows = append(v.rows, r)
		}
	}
	slices.SortFunc(v.rows, func(a, b row) int { return cmp.Compare(a.seq, b.seq) })
	rows := v.rows[:0]
	seen := map[store.ID]bool{}
	for _, r := range v.rows {
		if seen[r.id] || len(rows) > 0 && rows[0].limit != r.limit {
			v.extra = append(v.extra, r)
			continue
		}
		seen[r.id] = true
		if m, ok := markers[r.id]; ok {
			r.marker, r.frozen, r.upTo = m.marker, m.frozen, m.upTo
			v.frozen = v.frozen || m.frozen
		}
		rows = append(rows, r)
	}
	v.rows = rows
	v.grant()
	return v, nil
}

func (s *Store) parseRow(path, node string) (r row, err error) {
	r.path = path
	form, rest, _ := strings.Cut(node, "-")
	if n, err := strconv.Atoi(strings.TrimPrefix(form, "v")); strings.HasPrefix(form, "v") && err == nil && n > version {
		return r, store.NewerFormError(fmt.Sprintf("node %q on %s", path, s.address), n, version)
	}
	const ids = 32
	if form != "v"+strconv.Itoa(version) || len(rest) <= ids+1 || rest[ids] != '-' {
		return r, s.foreign(path)
	}
	if r.id, err = store.ParseID(rest[:ids]); err != nil {
		return r, s.foreign(path)
	}
	rest = rest[ids+1:]
	seq, upTo := strings.CutPrefix(rest, "upto-")
	switch {
	case rest == "freeze":
		r.marker, r.frozen = path, true
		return r, nil
	case upTo:
		r.marker = path
	case len(rest) < 19 || rest[8] != '-' || rest[17] != '-':
		return r, s.foreign(path)
	default:
		var errs [2]error
		r.limit, errs[0] = strconv.ParseInt(rest[:8], 16, 64)
		r.asked, errs[1] = strconv.ParseInt(rest[9:17], 16, 64)
		if errs[0] != nil || errs[1] != nil || r.limit < 1 || r.limit > store.Full || r.asked < 1 || r.asked > r.limit {
			return r, s.foreign(path)
		}
		seq, r.weight = rest[18:], r.asked
	}
	n, err := strconv.ParseInt(seq, 10, 32)
	if err != nil {
		return r, s.foreign(path)
	}
	if upTo {
		r.upTo = int32(n)
	}
	r.seq = int32(n)
	return r, nil
}

// grant finds who is granted: all that fit in order, up to the first that does
// not. While an upgrade is asked for those are in who were when it was asked
// for; it has room when the others of them have gone.
func (v *view) grant() {
	var held int64
	up := slices.IndexFunc(v.rows, func(r row) bool { return r.upgrading() && !r.frozen })
	v.wait = len(v.rows)
	for i := range v.rows {
		r := &v.rows[i]
		if up >= 0 {
			r.granted = r.seq <= v.rows[up].upTo
		} else {
			r.granted = held+r.weight <= r.limit
		}
		if !r.granted {
			v.wait = i
			break
		}
		held += r.weight
	}
	if up == 0 && v.wait == 1 {
		v.rows[0].upgraded, v.rows[0].weight = true, store.Full
	}
}

// find is the row of the id, or nil.
func (v *view) find(id store.ID) *row {
	for i := range v.rows {
		if v.rows[i].id == id {
			return &v.rows[i]
		}
	}
	return nil
}

// limit is that of the name, or 0 if it is not in use.
func (v *view) limit() int64 {
	if len(v.rows) == 0 {
		return 0
	}
	return v.rows[0].limit
}

// upgrade reports whether one is asked for.
func (v *view) upgrade() bool {
	return slices.ContainsFunc(v.rows, func(r row) bool { return r.upgrading() })
}

// room reports whether one more claim would be granted.
func (v *view) room(limit, weight int64) bool {
	if v.wait < len(v.rows) || v.upgrade() {
		return false
	}
	for i := range v.rows {
		weight += v.rows[i].weight
	}
	return weight <= limit
}

// obstacle is the row that has to go before r can be granted, whatever else
// happens; nil if it is the sum of them, or an upgrade.
func (v *view) obstacle(r *row) *row {
	if v.upgrade() {
		return nil
	}
	var nearest *row
	for i := range v.rows {
		b := &v.rows[i]
		if b == r {
			break
		}
		if b.weight+r.weight > r.limit {
			nearest = b
		}
	}
	return nearest
}

// rank is how many are before the row.
func (v *view) rank(own *row) int64 {
	return int64(slices.IndexFunc(v.rows, func(r row) bool { return r.id == own.id }))
}

// tokenOf is the first token of a hold, as far as it can be seen from outside.
func tokenOf(r *row) int64 { return cmp.Or(r.Token, r.created*maxBlock) }

// last is the newest token drawn by those that were fetched.
func (v *view) last() (last int64) {
	for i := range v.rows {
		if r := &v.rows[i]; r.granted {
			last = max(last, tokenOf(r)+int64(max(r.N, 1))-1, r.Fence)
		}
	}
	return last
}

// wants is the weight that the hold is to have.
func (r *row) wants() int64 {
	if r.upgrading() && r.granted && r.Break == "" {
		return store.Full
	}
	return r.weight
}

// show is a row that was fetched as an entry for others.
func (r *row) show() store.Entry {
	left := time.Duration(r.TTL) * time.Millisecond // when its session was renewed
	e := store.Entry{
		ID: r.id, Weight: r.weight, Want: r.wants(), Granted: r.granted,
		Expires: left, Ends: left, Broken: r.Break, Owner: store.ParseOwner(r.Owner),
	}
	if r.granted {
		e.Age = max(0, time.Duration(time.Now().UnixMicro()-r.Asked)*time.Microsecond)
		e.Token, e.N, e.Fence = tokenOf(r), max(r.N, 1), r.Fence
		e.Used = max(e.Token, r.Used)
	}
	return e
}

// read takes over what is stored in the node of a row.
func (s *Store) read(r *row, data []byte, stat *zk.Stat) (err error) {
	r.created, r.stored = stat.Czxid, stat.Version
	r.value, err = s.parseValue(r.path, data)
	return err
}
