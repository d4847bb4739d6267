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

// taken is the header of a record that says up to which mark its notes are taken in.
const taken = "Holdfast-Taken"

// idle is the header of a record that may be deleted.
const idle = "Holdfast-Idle"

// noteTTL is how long a note is kept that is not taken in. Notes are usually taken in within
// seconds, unless all processes have crashed.
const noteTTL = time.Hour

// A mark is a point in the inbox: all messages with a smaller sequence are taken in, and the
// first n notes of this one. It only ever advances.
type mark struct {
	seq uint64
	n   int
}

func (m mark) String() string { return fmt.Sprintf("%d.%d", m.seq, m.n) }

// has reports whether a note, given by its sequence and its number in the message, is taken in.
func (m mark) has(note mark) bool { return note.seq < m.seq || note.seq == m.seq && note.n < m.n }

func parseMark(text string) (m mark) {
	_, _ = fmt.Sscanf(text, "%d.%d", &m.seq, &m.n)
	return m
}

// A version is the version of a record: its sequence and its mark, in one bucket. A recreated
// bucket, and a server that has lost unsynced writes, may reuse the same numbers. So a version is
// valid for one bucket, and on one server.
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

// Load implements [record.Backend]. It reads the inbox first (law 11). Notes that were taken in are
// deleted soon; until then the record's header excludes them.
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	k, err := b.prepared(ctx, false) //mutant:nats-looking-makes-bucket
	if err != nil {
		return record.Record{}, b.failed(err)
	}
	if k == nil { // nothing was written, and the server's clock is unknown
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
		// What was read had been taken in, and there are more notes after it.
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
	defer func() { b.knows(name, in) }()
	for seq := in.taken.seq; ; {
		m, err := b.next(ctx, k, seq, noteKeys(name))
		if err != nil || m.seq == 0 {
			return record.Note{}, b.failed(err)
		}
		if m.seq >= in.next { // Load need not read it again
			in.add(m)
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

// An inbox is what is known of the notes of a name. Notes do not change: what was read stays valid
// until a record says that it was taken in.
type inbox struct {
	taken mark          // all notes before it are taken in
	notes []record.Note // those after it
	next  uint64        // the sequence to read from
	since store.Instant // when the first of the notes was read
}

// inboxAge is how long notes are remembered: a deleted bucket has none.
const inboxAge = 5 * time.Second

// notes reads the notes that are not taken in, and reports whether these are all; otherwise it
// returns as many as one Load does. It reads from the leader of the bucket, so if it has read a
// note, it has read all earlier ones.
func (b *backend) notes(ctx context.Context, k *bucket, name string) (notes []record.Note, all bool, err error) {
	in := b.inbox(name)
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
		if m.data != nil && len(in.notes) >= record.MaxNotes { // otherwise it is a marker
			return in.notes, false, nil
		}
		in.add(m)
	}
}

const (
	few  = 3   // messages of an inbox to read one after another
	many = 500 // messages to read at once; if there are more, only the oldest are read
)

// gather reads all messages of an inbox: first the list, and then each message, many at a time.
// Messages that arrive meanwhile come after them. It returns false if there are too many.
func (b *backend) gather(ctx context.Context, k *bucket, keys string, in *inbox) (all bool, err error) {
	info, err := k.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject(keys)))
	if err != nil {
		return false, b.unread(b.noStream(err))
	}
	if len(info.State.Subjects) > many {
		return false, nil
	}
	for _, n := range in.notes { // these were read already
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

// add appends the notes of a message.
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

// pack encodes the notes of a join as one message: they arrive together or not at all.
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

// Swap implements [record.Backend]. A mark in the record, which never goes back, takes notes in
// (law 8). So a note before the mark can be in no other inbox.
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
			return out, nil // refused: the note was taken in before
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

// join leaves notes. If they exist already, the same join has left them.
func (b *backend) join(ctx context.Context, k *bucket, name string, notes []record.Note) (out record.Outcome, err error) {
	_, _, err = b.put(ctx, k, message{key: noteKey(name, notes[0].Key), data: pack(notes)}, 0, noteTTL)
	out.Joined = err == nil
	return out, b.failed(err)
}

// took deletes the notes that are taken in, in the background. If that fails, they are deleted with
// notes that are taken in later, or expire.
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

// maxInboxes is how many inboxes are remembered.
const maxInboxes = 10_000

// inbox returns what is known of an inbox, and is not too old.
func (b *backend) inbox(name string) inbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.inboxes[name]
	if in.notes = slices.Clip(in.notes); in.since == 0 || store.Now() > in.since.Add(inboxAge) {
		in.since, in.next, in.notes = store.Now(), in.taken.seq, nil
	}
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

// passed notes up to which mark notes are taken in. It returns false if that was known.
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

// after drops the notes that are taken in. It returns false if the mark was known.
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

// errEnough means that the caller wants no more.
var errEnough = fmt.Errorf("enough")

// listed yields all names, in order.
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

// old yields the names that were not written for that long. It reads them in the order in which
// they were last written, and stops at the first that is young enough.
func (b *backend) old(ctx context.Context, k *bucket, age time.Duration, yield func(record.Named, error) bool) error {
	begun := k.latest() // a name that is written meanwhile comes again, and is young
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

// yield yields a record that has data and is not idle.
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
