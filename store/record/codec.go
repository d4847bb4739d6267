package record

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// form is the version of the stored form, the first byte of everything stored.
//
// A record is: form, newest token, limit of the first entry, sessions, marks, entries. Numbers are unsigned varints.
// An entry names its session by index. It has no expiry of its own, unless it has expired and still blocks.
const form = 1

// unending is the time, in microseconds, after which the queue believes that an entry expires, if it is unknown when
// its session ends.
const unending = int64(10 * 365 * 24 * time.Hour / time.Microsecond)

// Flags of the optional fields of an entry.
const (
	hasGrant  = 1 << iota // token, since
	hasMore               // turn, tokens, upgrade token, minimum hold, delay
	hasWant               // an upgrade is pending
	hasReason             // it was broken
	hasEnd                // it has expired, and still blocks
	hasShown              // its owner has used the token
	hasKept               // its minimum hold is a session
	hasOther              // its limit is not that of the first entry, or it asks the holders to give up
)

// encode returns the stored form; nil if there is no record and none is needed.
func (v *view) encode(force bool) []byte {
	q, entries := &v.q, v.own()
	if len(entries) == 0 && q.Last == 0 && len(v.marks) == 0 && !v.had && !force {
		return nil // never used
	}
	w := writer(make([]byte, 0, 64+96*len(entries)))
	w.byte(form)
	w.int(q.Last)
	limit := int32(0)
	if len(entries) > 0 {
		limit = entries[0].Limit
	}
	w.int(int64(limit))
	index := map[session.ID]int{}
	var sessions []session.ID
	for i := range entries {
		in := v.in[entries[i].ID]
		if _, known := index[in]; !known {
			index[in] = len(sessions)
			sessions = append(sessions, in)
		}
	}
	w.int(int64(len(sessions)))
	for _, in := range sessions {
		w.bytes(in[:])
	}
	w.int(int64(len(v.marks)))
	for _, m := range v.marks {
		w.bytes(m.in[:])
		w.int(int64(m.number))
	}
	w.int(int64(len(entries)))
	for i := range entries {
		e := &entries[i]
		w.entry(e, limit, index[v.in[e.ID]], v.keptBy(e), v.wish[e.ID], v.now)
	}
	return w
}

func (w *writer) entry(e *queue.Entry, limit int32, in int, kept session.ID, wish int64, now queue.Time) {
	keep := e.MinHold
	if kept != (session.ID{}) || wish > 0 {
		keep = wish
	}
	var has byte
	set := func(on bool, bit byte) {
		if on {
			has |= bit
		}
	}
	set(e.Granted, hasGrant)
	set(e.Turn != 0 || e.N > 1 || e.UpgradeToken != 0 || keep != 0 || e.LockDelay != 0, hasMore)
	set(e.Want != e.Weight, hasWant)
	set(e.Broken != nil, hasReason)
	set(e.Expires <= now.Clock, hasEnd)
	set(e.Shown && keep > 0, hasShown)
	set(kept != (session.ID{}), hasKept)
	set(e.Limit != limit || e.GiveUp != nil, hasOther) //mutant:record-one-limit-for-all
	w.byte(has)
	w.bytes(e.ID[:])
	w.int(int64(in))
	w.int(int64(e.Weight))
	if has&hasGrant != 0 {
		w.int(e.Token)
		w.int(e.Since)
	}
	if has&hasMore != 0 {
		w.int(int64(e.Turn))
		w.int(int64(e.N))
		w.int(e.UpgradeToken)
		w.int(keep)
		w.int(e.LockDelay)
	}
	if has&hasWant != 0 {
		w.int(int64(e.Want))
	}
	if has&hasReason != 0 {
		w.text(*e.Broken)
	}
	if has&hasEnd != 0 {
		w.int(max(e.Expires, 1))
	}
	if has&hasKept != 0 {
		w.bytes(kept[:])
	}
	if has&hasOther != 0 {
		w.int(int64(e.Limit))
		w.text(e.Asks())
	}
	w.text(e.Owner)
}

// decode reads what encode wrote, as of now. The view has no name yet.
func decode(data []byte, now queue.Time) (*view, error) {
	v := &view{
		now: now,
		in:  map[store.ID]session.ID{}, kept: map[store.ID]session.ID{}, wish: map[store.ID]int64{}, stored: map[store.ID]bool{}, left: map[session.ID]time.Duration{},
	}
	if len(data) == 0 {
		return v, nil
	}
	if data[0] > form {
		return nil, store.NewerFormError("its record", int(data[0]), form)
	}
	v.had = true
	r := reader{b: data[1:], bad: data[0] != form}
	v.q.Last = r.int()
	v.drawn = v.q.Last
	limit := int32(r.int())
	sessions := make([]session.ID, r.count(8))
	for i := range sessions {
		sessions[i] = session.ID(r.bytes(8))
	}
	v.marks = make([]mark, r.count(9))
	for i := range v.marks {
		v.marks[i] = mark{session.ID(r.bytes(8)), uint64(r.int())}
	}
	n := r.count(19)
	v.q.Entries = make([]queue.Entry, n, n+2)
	for i := range v.q.Entries {
		e := &v.q.Entries[i]
		in, kept := r.entry(e, limit)
		if r.bad || in >= int64(len(sessions)) || e.Weight < 1 || e.Weight > e.Limit || e.Limit > store.Full || e.Granted && e.Token < 1 {
			r.bad = true
			break
		}
		v.in[e.ID], v.stored[e.ID] = sessions[in], true
		if kept != (session.ID{}) {
			v.kept[e.ID] = kept
		}
		// Each process estimates the server's clock. An estimate behind the stored times is corrected (law 5).
		v.now.Clock = max(v.now.Clock, e.Since, e.Expires) //mutant:record-clock-behind-what-is-stored
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: its record was not written by holdfast, or is damaged: it was not changed", store.ErrCorrupt)
	}
	for i := range v.q.Entries {
		if e := &v.q.Entries[i]; e.Expires == 0 {
			e.Expires = v.now.Clock + unending
		}
	}
	return v, nil
}

func (r *reader) entry(e *queue.Entry, limit int32) (in int64, kept session.ID) {
	has := r.byte()
	e.ID = store.ID(r.bytes(16))
	in = r.int()
	e.Granted, e.Shown = has&hasGrant != 0, has&hasShown != 0
	e.Weight, e.N = int32(r.int()), 1
	if has&hasGrant != 0 {
		e.Token, e.Since = r.int(), r.int()
	}
	if has&hasMore != 0 {
		e.Turn, e.N, e.UpgradeToken, e.MinHold, e.LockDelay = int32(r.int()), uint16(r.int()), r.int(), r.int(), r.int()
	}
	e.Want = e.Weight
	if has&hasWant != 0 {
		e.Want = int32(r.int())
	}
	if has&hasReason != 0 {
		why := r.text()
		e.Broken = &why
	}
	if has&hasEnd != 0 {
		e.Expires = r.int()
	}
	if has&hasKept != 0 {
		kept = session.ID(r.bytes(8))
	}
	if e.Limit = limit; has&hasOther != 0 {
		e.Limit = int32(r.int())
		if why := r.text(); why != "" {
			e.GiveUp = &why
		}
	}
	e.Owner = r.text()
	return in, kept
}

// A waiter is a claim in a note.
type waiter struct {
	claim  store.Claim
	in     session.ID
	number uint64
}

// note returns the note of a claim.
func (n *waiter) note() Note {
	c := &n.claim
	w := writer(make([]byte, 0, 64+len(c.Owner)))
	w.byte(form)
	w.bytes(c.ID[:])
	w.bytes(n.in[:])
	for _, x := range []int64{int64(n.number), c.Limit, c.Weight, int64(c.Tokens()), micros(c.MinHold), micros(c.LockDelay)} {
		w.int(x)
	}
	w.text(c.Owner)
	w.text(c.GiveUp) //mutant:record-note-without-reason
	return Note{Key: fmt.Sprintf("%s%016x", n.in, n.number), Data: w}
}

// parseNote reads what note wrote, which lacks the name.
func parseNote(data []byte) (n waiter, ok bool) {
	if len(data) == 0 || data[0] != form {
		return n, false
	}
	r := reader{b: data[1:]}
	ever := time.Duration(unending) * time.Microsecond
	n.claim = store.Claim{ID: store.ID(r.bytes(16)), TTL: ever, PositionTTL: ever}
	n.in, n.number = session.ID(r.bytes(8)), uint64(r.int())
	n.claim.Limit, n.claim.Weight, n.claim.Block = r.int(), r.int(), int(r.int())
	n.claim.MinHold, n.claim.LockDelay = time.Duration(r.int())*time.Microsecond, time.Duration(r.int())*time.Microsecond
	n.claim.Owner, n.claim.GiveUp = r.text(), r.text()
	c := &n.claim
	fits := c.Limit >= 1 && c.Limit <= store.Full && c.Weight >= 1 && c.Weight <= c.Limit && len(c.Owner) <= store.MaxOwner && len(c.GiveUp) <= store.MaxReason
	return n, fits && !r.bad && len(r.b) == 0
}

// parseInbox reads the notes of an inbox that holdfast wrote.
func parseInbox(inbox []Note) (all []waiter) {
	for i := range inbox {
		if n, ok := parseNote(inbox[i].Data); ok {
			all = append(all, n)
		}
	}
	return all
}

// AppendNotifications appends the notifications to b, for one message to one process.
func AppendNotifications(b []byte, some []Notification) []byte {
	w := writer(b)
	for i := range some {
		n := &some[i]
		w.byte(form)
		w.bytes(n.ID[:])
		w.bytes(n.Session[:])
		w.bytes(binary.BigEndian.AppendUint64(nil, uint64(n.Token)))
		w.int(int64(n.N))
		asked := byte(0)
		if n.Asked {
			asked = 1
		}
		w.byte(asked)
		w.text(n.Name)
	}
	return w
}

// ParseNotifications calls sink for each notification that AppendNotifications wrote. It stops at a damaged one: a
// notification may be lost.
func ParseNotifications(b []byte, sink func(Notification)) {
	for r := (reader{b: b}); len(r.b) > 0 && !r.bad; {
		known := r.byte() == form
		n := Notification{ID: store.ID(r.bytes(16)), Session: session.ID(r.bytes(8)), Token: int64(binary.BigEndian.Uint64(r.bytes(8))), N: int(r.int()), Asked: r.byte() != 0, Name: r.text()}
		if !known || r.bad {
			return
		}
		sink(n)
	}
}

// micros rounds up, as package queue does.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

type writer []byte

func (w *writer) byte(b byte) { *w = append(*w, b) }

func (w *writer) bytes(b []byte) { *w = append(*w, b...) }

func (w *writer) int(n int64) { *w = binary.AppendUvarint(*w, uint64(n)) }

func (w *writer) text(s string) {
	w.int(int64(len(s)))
	*w = append(*w, s...)
}

// A reader reads what a writer wrote. After an error it is bad, and reads zeros.
type reader struct {
	b   []byte
	bad bool
}

var zeros [16]byte

// bytes returns the next n bytes. If they are missing, it returns zeros, at most 16.
func (r *reader) bytes(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad, r.b = true, nil
		return zeros[:min(n, len(zeros))]
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte { return r.bytes(1)[0] }

func (r *reader) int() int64 {
	n, k := binary.Uvarint(r.b)
	if r.bad || k <= 0 || n > 1<<62 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[k:]
	return int64(n)
}

// count reads a number of items of at least the given size each, in bytes.
func (r *reader) count(least int) int {
	n := r.int()
	if n > int64(len(r.b)/least) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.int()
	if n > int64(len(r.b)) {
		r.bad, r.b = true, nil
	}
	if r.bad {
		return ""
	}
	return string(r.bytes(int(n)))
}
