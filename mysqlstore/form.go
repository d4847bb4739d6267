package mysqlstore

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// The flags of an entry.
const (
	flagGranted = 1 << iota
	flagShown
	noFlag // the first that this form does not know
)

func flags(e *queue.Entry) (f int64) {
	if e.Granted {
		f |= flagGranted
	}
	if e.Shown {
		f |= flagShown
	}
	return f
}

// A row is what is stored of a name, and the instant at which it was read.
type row struct {
	name string
	now  queue.Time
	rev  int64 // 0: there is no row
	idle int64 // with no entries: since when
	q    queue.Queue
}

// scan reads a row of statements.all. The name is read even if there is an
// error.
func (s *Store) scan(rows *sql.Rows) (r row, err error) {
	var autocommit, f, total, flag, block int64
	var name, id, broken, owner, rest []byte
	var e queue.Entry
	err = rows.Scan(&r.now.Clock, &autocommit, &name, &f, &r.rev, &r.q.Last, &total, &r.q.Limit, &id, &e.Weight, &e.Want, &e.Turn, &block, &flag,
		&e.Token, &e.Fence, &e.Since, &e.Expires, &e.Keep, &e.Delay, &broken, &owner, &rest)
	r.name, r.now.Wall = string(name), r.now.Clock
	switch {
	case err != nil:
		return r, err
	case autocommit != 1:
		return r, s.noCommit()
	case f > form:
		return r, store.NewerFormError(s.where(r.name), int(f), form)
	case f < 1 || r.rev < 1 || r.q.Last < 0:
		return r, s.corrupt(r.name)
	case total == 0:
		r.idle = e.Expires
		return r, nil
	case len(id) != len(e.ID) || block < 0 || block > math.MaxUint16:
		return r, s.corrupt(r.name)
	}
	e.ID, e.N, e.Owner = store.ID(id), uint16(block), string(owner)
	e.Granted, e.Shown = flag&flagGranted != 0, flag&flagShown != 0
	if len(broken) > 0 {
		reason := string(broken)
		e.Broken = &reason
	}
	r.q.Entries = append(make([]queue.Entry, 0, total+1), e)
	r.q.Entries, err = parseRest(r.q.Entries, rest)
	if err != nil || int64(len(r.q.Entries)) != total || flag >= noFlag {
		return r, s.corrupt(r.name)
	}
	for i := range r.q.Entries {
		if e := &r.q.Entries[i]; e.Weight < 1 || r.q.Limit < e.Weight || r.q.Limit > store.Full || e.Granted && e.Token < 1 {
			return r, s.corrupt(r.name)
		}
	}
	return r, nil
}

// where is the row of a name, for people.
func (s *Store) where(name string) string { return fmt.Sprintf("the row of %q in %s", name, s.address) }

// The column rest is the version of the form and then entries, in numbers that
// are little-endian: the id, four numbers, the flags, six numbers, and two
// strings, each behind its length.
const restFixed = 16 + 4*4 + 1 + 6*8 + 2 + 2

var le = binary.LittleEndian

// appendRest is the stored form of the entries behind the first.
func appendRest(b []byte, entries []queue.Entry) []byte {
	if len(entries) == 0 {
		return b
	}
	b = append(b, form)
	for i := range entries {
		e := &entries[i]
		b = append(b, e.ID[:]...)
		for _, n := range [...]uint32{uint32(e.Weight), uint32(e.Want), uint32(e.Turn), uint32(e.N)} {
			b = le.AppendUint32(b, n)
		}
		b = append(b, byte(flags(e)))
		for _, n := range [...]int64{e.Token, e.Fence, e.Since, e.Expires, e.Keep, e.Delay} {
			b = le.AppendUint64(b, uint64(n))
		}
		for _, s := range [...]string{e.Reason(), e.Owner} {
			b = append(le.AppendUint16(b, uint16(len(s))), s...)
		}
	}
	return b
}

// parseRest reads what appendRest wrote, and appends it.
func parseRest(all []queue.Entry, b []byte) ([]queue.Entry, error) {
	if len(b) == 0 {
		return all, nil
	}
	bad := fmt.Errorf("%d bytes that are no entries", len(b))
	if b[0] != form {
		return all, bad
	}
	for b = b[1:]; len(b) > 0; {
		if len(b) < restFixed {
			return all, bad
		}
		var e queue.Entry
		b = b[copy(e.ID[:], b):]
		e.Weight, e.Want, e.Turn = int32(le.Uint32(b)), int32(le.Uint32(b[4:])), int32(le.Uint32(b[8:]))
		n, f := le.Uint32(b[12:]), b[16]
		if n > math.MaxUint16 || f >= noFlag {
			return all, bad
		}
		e.N, e.Granted, e.Shown = uint16(n), f&flagGranted != 0, f&flagShown != 0
		b = b[17:]
		for _, n := range [...]*int64{&e.Token, &e.Fence, &e.Since, &e.Expires, &e.Keep, &e.Delay} {
			*n = int64(le.Uint64(b))
			b = b[8:]
		}
		var reason string
		for _, s := range [...]*string{&reason, &e.Owner} {
			if len(b) < 2 || len(b)-2 < int(le.Uint16(b)) {
				return all, bad
			}
			end := 2 + int(le.Uint16(b))
			*s, b = string(b[2:end]), b[end:]
		}
		if reason != "" {
			e.Broken = &reason
		}
		all = append(all, e)
	}
	return all, nil
}

// micros rounds up, so that no hold is shorter than was asked for.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
