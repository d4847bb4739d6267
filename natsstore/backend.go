package natsstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// taken is the header of a record that says up to where notes are taken in.
const taken = "Holdfast-Taken"

// idle is the header of a record that may be deleted.
const idle = "Holdfast-Idle"

// noteTTL is how long a note is kept that is not taken in. That usually happens
// within seconds, unless all processes have crashed.
const noteTTL = time.Hour

// A mark is a point in the inbox: all messages with a smaller sequence are taken in, and the
// first n notes of this one. It only ever advances.
type mark struct {
	seq uint64
	n   int
}

func (m mark) String() string { return fmt.Sprintf("%d.%d", m.seq, m.n) }

// has reports whether a note is taken in, by its sequence and its number in the message.
func (m mark) has(note mark) bool { return note.seq < m.seq || note.seq == m.seq && note.n < m.n }

func parseMark(text string) (m mark) {
	_, _ = fmt.Sscanf(text, "%d.%d", &m.seq, &m.n)
	return m
}

// A version is that of a record: its sequence and its mark, in that bucket. A recreated bucket, and a server
// that has lost unsynced writes, may reuse the same numbers: so a version is valid for one bucket, and on one
// server.
type version struct {
	which int64
	seq   uint64
	mark
}

func (v version) String() string {
	if v.seq == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%v", v.which, v.seq, v.mark)
}

func parseVersion(text string) (v version) {
	_, _ = fmt.Sscanf(text, "%d.%d.%d.%d", &v.which, &v.seq, &v.mark.seq, &v.mark.n)
	return v
}

// Traits implements [record.Backend].
func (b *backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByMark, Notifies: true, Clock: true, MaxRecord: 900_000, Retention: b.retention}
}

// Load implements [record.Backend]. The inbox is read first (law 11). Notes that were taken in are
// deleted soon; until then they are left out by the record's header.
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	k, err := b.prepared(ctx, false) //mutant:nats-looking-makes-bucket
	if err != nil {
		return record.Record{}, b.failed(err)
	}
	if k == nil { // nothing was written, and there is no server's clock
		return record.Record{}, nil
	}
	for {
		notes, all, err := b.notes(ctx, k, name)
		if err != nil {
			return record.Record{}, b.failed(err)
		}
		m, err := b.get(ctx, k, keyOf(name))
		if err != nil {
			return record.Record{}, b.failed(err)
		}
		r := recordOf(k, m)
		after := parseMark(m.header.Get(taken))
		more := b.passed(name, after)
		for _, n := range notes {
			if !after.has(parseMark(n.Version)) { //mutant:nats-taken-in-is-left-out
				r.Inbox = append(r.Inbox, n)
			}
		}
		if all || len(r.Inbox) >= record.MaxNotes {
			r.More = !all //mutant:nats-more-notes
			return r, nil
		}
		// What was read had been taken in, and there is more behind it.
		if !more && len(r.Inbox) == len(notes) {
			return record.Record{}, fmt.Errorf("the inbox of %q has what its record says is taken in", name)
		}
	}
}

// Peek implements [record.Peeker].
func (b *backend) Peek(ctx context.Context, name string) (record.Record, error) {
	k, err := b.prepared(ctx, false)
	if err != nil || k == nil {
		return record.Record{}, b.failed(err)
	}
	m, err := b.get(ctx, k, keyOf(name))
	if err != nil {
		return record.Record{}, b.failed(err)
	}
	b.passed(name, parseMark(m.header.Get(taken)))
	return recordOf(k, m), nil
}

// Oldest implements [record.Peeker].
func (b *backend) Oldest(ctx context.Context, name string) (record.Note, error) {
	k, err := b.prepared(ctx, false)
	if err != nil || k == nil {
		return record.Note{}, b.failed(err)
	}
	in := b.inbox(name)
	for seq := in.taken.seq; ; {
		m, err := b.next(ctx, k, seq, noteKeys(name))
		if err != nil || m.seq == 0 {
			return record.Note{}, b.failed(err)
		}
		if some := unpack(m.data); len(some) > 0 {
			return some[0], nil
		}
		seq = m.seq + 1 // it is a marker
	}
}

func recordOf(k *bucket, m message) record.Record {
	return record.Record{Data: m.data, Version: version{k.which, m.seq, parseMark(m.header.Get(taken))}.String(), Now: k.now()}
}

// An inbox is what is known of the notes of a name. Notes do not change: what was read is there
// until a record says that it was taken in.
type inbox struct {
	taken mark          // up to where notes are taken in
	notes []record.Note // behind it
	next  uint64        // the sequence from which on to read
	since store.Instant // when the first of the notes was read
}

// inboxAge is how long notes are remembered. A deleted bucket has none.
const inboxAge = 5 * time.Second

// notes reads the notes that are not taken in, and reports whether these are all; otherwise they
// are as many as one Load returns. They are read from the leader of the bucket: so none is skipped
// that has come before one that is read.
func (b *backend) notes(ctx context.Context, k *bucket, name string) (notes []record.Note, all bool, err error) {
	in := b.inbox(name)
	if in.since == 0 || store.Now() > in.since.Add(inboxAge) {
		in.since, in.next, in.notes = store.Now(), in.taken.seq, nil
	}
	defer func() { b.knows(name, in) }()
	keys := noteKeys(name)
	for read := 0; ; read++ {
		if read == few {
			if all, err := b.gather(ctx, k, keys, &in); all || err != nil {
				return in.notes, all, err
			}
		}
		m, err := b.next(ctx, k, in.next, keys)
		if err != nil || m.seq == 0 {
			return in.notes, err == nil, err
		}
		if m.data != nil && len(in.notes) >= record.MaxNotes { // else it is a marker
			return in.notes, false, nil
		}
		in.add(m)
	}
}

const (
	few  = 3   // messages of an inbox are read one after another
	many = 500 // are read at once; of more than that only the oldest
)

// gather reads all messages of an inbox: what there is, and then each, many at a time. What comes
// meanwhile is behind them. It reports false if they are too many.
func (b *backend) gather(ctx context.Context, k *bucket, keys string, in *inbox) (all bool, err error) {
	info, err := k.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject(keys)))
	if err != nil {
		return false, b.unread(b.noStream(err))
	}
	if len(info.State.Subjects) > many {
		return false, nil
	}
	for _, n := range in.notes { // those that were read
		delete(info.State.Subjects, b.subject(strings.TrimSuffix(keys, "*")+n.Key))
	}
	var mu sync.Mutex
	var found []message
	err = together(slices.Collect(maps.Keys(info.State.Subjects)), func(subject string) error {
		m, err := b.get(ctx, k, strings.TrimPrefix(subject, b.subject("")))
		mu.Lock()
		defer mu.Unlock()
		found = append(found, m)
		return err
	})
	slices.SortFunc(found, func(x, y message) int { return cmp.Compare(x.seq, y.seq) })
	for _, m := range found {
		if err == nil && m.seq >= in.next {
			in.add(m)
		}
	}
	return err == nil, err
}

// add puts the notes of a message behind the others.
func (in *inbox) add(m message) {
	in.next = m.seq + 1
	some := unpack(m.data) // empty if it is a marker
	for i, n := range some {
		n.Version = mark{m.seq, i}.String()
		if i == len(some)-1 {
			n.Version += last
		}
		if !in.taken.has(mark{m.seq, i}) {
			in.notes = append(in.notes, n)
		}
	}
}

// last ends the version of the last note of a message.
const last = ".last"

// pack is the notes of a join in one message: they come together or not at all.
func pack(notes []record.Note) (out []byte) {
	for _, n := range notes {
		out = binary.AppendUvarint(out, uint64(len(n.Key)))
		out = append(out, n.Key...)
		out = binary.AppendUvarint(out, uint64(len(n.Data)))
		out = append(out, n.Data...)
	}
	return out
}

func unpack(data []byte) (notes []record.Note) {
	for len(data) > 0 {
		var parts [2][]byte
		for i := range parts {
			n, used := binary.Uvarint(data)
			if used <= 0 || n > uint64(len(data)-used) {
				return notes // it is not of holdfast
			}
			parts[i], data = data[used:used+int(n)], data[used+int(n):]
		}
		notes = append(notes, record.Note{Key: string(parts[0]), Data: parts[1]})
	}
	return notes
}

// Swap implements [record.Backend]. Notes are taken in by a mark in the record that never goes back
// (law 8), so a note that was passed can be in no other inbox.
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	k, err := b.prepare(ctx)
	if err != nil {
		return out, b.failed(err)
	}
	if s.Lost && s.Join != nil { //mutant:nats-lost-swap-is-sent
		return b.join(ctx, k, s.Name, s.Join.Notes)
	}
	old := parseVersion(s.Old.Version)
	if old.seq > 0 && old.which != k.which { //mutant:nats-version-of-another-bucket
		return out, nil // refused
	}
	next := old.mark
	for _, n := range s.Old.Inbox {
		m := parseMark(n.Version)
		if next.has(m) { //mutant:nats-notes-taken-in-twice
			return out, nil // refused: it was taken in before
		}
		if m.n++; strings.HasSuffix(n.Version, last) {
			m = mark{m.seq + 1, 0}
		}
		next = m
	}
	m := message{key: keyOf(s.Name), data: s.Data, header: nats.Header{taken: {next.String()}}}
	ttl := time.Duration(0)
	if s.Idle {
		ttl = b.retention
		m.header.Set(idle, "1")
	}
	seq, ok, err := b.put(ctx, k, m, old.seq, ttl)
	switch {
	case err != nil:
		return out, b.failed(err)
	case !ok && s.Join != nil:
		return b.join(ctx, k, s.Name, s.Join.Notes)
	case !ok:
		return out, nil
	}
	b.notify(s.Notifications) //mutant:nats-granted-told-nobody
	if next != old.mark {
		b.took(s.Name, next)
	}
	return record.Outcome{Done: true, Current: true, Now: record.Record{Version: version{k.which, seq, next}.String()}}, nil
}

// join leaves notes. One that is there already was left by the same join.
func (b *backend) join(ctx context.Context, k *bucket, name string, notes []record.Note) (out record.Outcome, err error) {
	_, _, err = b.put(ctx, k, message{key: noteKey(name, notes[0].Key), data: pack(notes)}, 0, noteTTL)
	out.Joined = err == nil
	return out, b.failed(err)
}

// took deletes the notes that are taken in. That is not waited for, and if it fails they are
// deleted with those that are taken in later, or with their time.
func (b *backend) took(name string, upTo mark) {
	k := b.present(b.nc.Stats().Reconnects)
	if k == nil || !b.passed(name, upTo) {
		return
	}
	b.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, checkPatience)
		defer cancel()
		_ = k.stream.Purge(ctx, jetstream.WithPurgeSubject(b.subject(noteKeys(name))), jetstream.WithPurgeSequence(upTo.seq)) //mutant:nats-taken-in-is-deleted
	})
}

// maxInboxes is of how many names the inbox is remembered.
const maxInboxes = 10_000

func (b *backend) inbox(name string) inbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.inboxes[name]
	in.notes = slices.Clip(in.notes)
	return in
}

// knows remembers what was read of an inbox.
func (b *backend) knows(name string, in inbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.inboxes[name].taken
	if len(b.inboxes) >= maxInboxes {
		clear(b.inboxes)
	}
	in.after(now)
	b.inboxes[name] = in
}

// passed notes up to where notes are taken in. It reports false if that was known.
func (b *backend) passed(name string, upTo mark) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.inboxes[name]
	if !in.after(upTo) {
		return false
	}
	b.inboxes[name] = in
	return true
}

// after drops the notes that are taken in.
func (in *inbox) after(upTo mark) bool {
	if in.taken == upTo || in.taken.has(upTo) {
		return false
	}
	in.taken, in.next = upTo, max(in.next, upTo.seq)
	n := 0
	for n < len(in.notes) && upTo.has(parseMark(in.notes[n].Version)) {
		n++
	}
	in.notes = in.notes[n:]
	return true
}

// List implements [record.Backend].
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		k, err := b.prepared(ctx, false)
		if err == nil && k == nil {
			return
		}
		all := b.listed
		if unwritten > 0 {
			all = b.old
		}
		if err == nil {
			err = all(ctx, k, unwritten, yield)
		}
		if err != nil && err != errEnough {
			yield(record.Named{}, b.failed(err))
		}
	}
}

// errEnough says that no more is wanted.
var errEnough = fmt.Errorf("enough")

// listed is all names, in order.
func (b *backend) listed(ctx context.Context, k *bucket, _ time.Duration, yield func(record.Named, error) bool) error {
	info, err := k.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject("n.>")))
	if err != nil {
		return b.noStream(err)
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		m, err := b.get(ctx, k, strings.TrimPrefix(subject, b.subject("")))
		if err != nil {
			return err
		}
		if m.seq > 0 && !b.yield(k, m, yield) {
			return errEnough
		}
	}
	return nil
}

// old is the names that were not written for so long. They are met in the order in which they
// were last written: with the first that is young enough it is done.
func (b *backend) old(ctx context.Context, k *bucket, age time.Duration, yield func(record.Named, error) bool) error {
	begun := k.latest() // what is written meanwhile is met again, and is young
	for seq := uint64(1); ; {
		m, err := b.next(ctx, k, seq, "n.>")
		if err != nil || m.seq == 0 || begun-m.at.UnixMicro() < age.Microseconds() { //mutant:nats-young-listed
			return err
		}
		if seq = m.seq + 1; !b.yield(k, m, yield) {
			return errEnough
		}
	}
}

// yield yields what has data and is not idle.
func (b *backend) yield(k *bucket, m message, yield func(record.Named, error) bool) bool {
	if m.data == nil || m.header.Get(idle) != "" {
		return true
	}
	name, ok := nameOf(m.key)
	if !ok {
		return yield(record.Named{Name: m.key}, fmt.Errorf("%w: no name has the key %q in %s: it is not of holdfast", store.ErrCorrupt, m.key, b.address))
	}
	return yield(record.Named{Name: name, Record: recordOf(k, m)}, nil)
}
