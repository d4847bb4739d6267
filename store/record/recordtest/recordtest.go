// Package recordtest tests a record.Backend: each sentence of what record.Backend and
// session.Backend promise is a named subtest, without a store on top.
//
// The test of a backend has one call:
//
//	func TestBackend(t *testing.T) {
//		recordtest.Run(t, recordtest.Subject{Open: func(t *testing.T) record.Backend { return newBackend(t) }})
//	}
//
// [Memory] is a backend in this process that keeps every promise, and with which a test decides the fate of
// each request: lost, late, done twice, or done and not answered.
package recordtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A Subject is a backend to test. Subtests that need a nil field are skipped, and say so.
type Subject struct {
	// Open returns one more backend on the same server, as another process would have it. Run closes it. Names and
	// sessions are random, so the server need not be empty.
	Open func(t *testing.T) record.Backend

	// Linked is Open, with a link of its own.
	Linked func(t *testing.T) (record.Backend, storetest.Link)

	// Freeze is Open on a server that answers nothing after freeze is called, until the test ends.
	Freeze func(t *testing.T) (b record.Backend, freeze func())

	// Brief is Open for backends whose Retention is as short as the server allows, on a server of their own if need
	// be.
	Brief func(t *testing.T) record.Backend

	// InProcess says that the server is a value in this process. The promises about links and frozen servers are left out.
	InProcess bool
}

// Run tests every promise, each in a parallel subtest, and returns when all have ended.
func Run(t *testing.T, s Subject) {
	t.Helper()
	first := s.Open(t)
	traits, sessions := first.Traits(), first.SessionTraits()
	can := abilitiesOf(first)
	if err := first.Close(); err != nil {
		t.Fatalf("Close of a backend just opened: %v", err)
	}
	if sessions.MinTTL <= 0 || sessions.Tick <= 0 || sessions.MaxTTL < sessions.MinTTL || sessions.MinTTL%sessions.Tick != 0 || sessions.MaxTTL%sessions.Tick != 0 {
		t.Fatalf("SessionTraits: MinTTL %v, MaxTTL %v, Tick %v", sessions.MinTTL, sessions.MaxTTL, sessions.Tick)
	}
	if traits.MaxRecord <= 0 || traits.Retention <= 0 {
		t.Fatalf("Traits: MaxRecord %d, Retention %v", traits.MaxRecord, traits.Retention)
	}
	run(t, s, traits, sessions, can, readPromises, swapPromises, retentionPromises, joinPromises, voidPromises, lateJoinPromises, notifyPromises, watchPromises, listPromises,
		sessionPromises, endPromises, leftPromises, closePromises)
}

// RunSessions tests what session.Backend promises. The backends of s come from OnlySessions.
func RunSessions(t *testing.T, s Subject) {
	t.Helper()
	first := s.Open(t)
	sessions := first.SessionTraits()
	can := abilitiesOf(first)
	if err := first.Close(); err != nil {
		t.Fatalf("Close of a backend just opened: %v", err)
	}
	run(t, s, record.Traits{}, sessions, can, sessionPromises, endPromises, leftPromises)
}

// OnlySessions returns a backend that has sessions and no records.
func OnlySessions(b session.Backend, end func() error) record.Backend {
	only := sessionsOnly{b, noRecords{}, end}
	if r, is := b.(session.Replaceable); is {
		return replaceableOnly{only, r}
	}
	return only
}

type replaceableOnly struct {
	sessionsOnly
	session.Replaceable
}

type sessionsOnly struct {
	session.Backend
	noRecords
	end func() error
}

type noRecords struct{ record.Backend } // nil: none is called

func (s sessionsOnly) Close() error { return s.end() }

// abilities are the optional features of a backend.
type abilities struct{ peek, tellServer, watch bool }

func abilitiesOf(b record.Backend) (can abilities) {
	_, can.peek = b.(record.Peeker)
	_, can.tellServer = b.(session.Replaceable)
	_, can.watch = b.(record.NameWatcher)
	return can
}

func run(t *testing.T, s Subject, traits record.Traits, sessions session.Traits, can abilities, all ...[]promise) {
	t.Helper()
	t.Run("promise", func(t *testing.T) {
		seen := map[string]bool{}
		for _, some := range all {
			for _, p := range some {
				if seen[p.name] {
					t.Fatalf("two promises have the name %q", p.name)
				}
				seen[p.name] = true
				if s.InProcess && (p.linked || p.frozen) {
					continue
				}
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					if why := p.skips(s, traits, sessions); why != "" {
						t.Skip(why)
					}
					if p.peeks && !can.peek {
						t.Skip("the backend is no Peeker")
					}
					if p.server && !can.tellServer {
						t.Skip("the backend does not report its server: no test with a server that forgets")
					}
					if p.watches && (!can.watch || !traits.Notifies) {
						t.Skip("the backend is no NameWatcher")
					}
					p.run(&trial{T: t, s: s, traits: traits, sessions: sessions, ctx: t.Context()})
				})
			}
		}
	})
}

// A promise is one subtest.
type promise struct {
	name    string
	run     func(*trial)
	void    record.Void // only with this kind of Void
	notify  bool        // needs notifications
	clock   bool        // needs a clock
	linked  bool        // needs Subject.Linked
	frozen  bool        // needs Subject.Freeze
	brief   bool        // needs Subject.Brief
	await   bool        // needs ReportsEnd
	peeks   bool        // needs a record.Peeker
	watches bool        // needs a record.NameWatcher
	server  bool        // needs a session.Replaceable
}

// skips returns why the promise is not tested, or "".
func (p *promise) skips(s Subject, traits record.Traits, sessions session.Traits) string {
	switch {
	case p.void != 0 && p.void != traits.Void:
		return "joins are void in the other way"
	case p.notify && !traits.Notifies:
		return "the backend has no notifications: waiters poll"
	case p.clock && !traits.Clock:
		return "the backend has no clock"
	case p.await && !sessions.ReportsEnd:
		return "the backend does not report the end of a session"
	case p.linked && s.Linked == nil:
		return "the subject has no link"
	case p.frozen && s.Freeze == nil:
		return "the subject cannot be frozen"
	case p.brief && s.Brief == nil:
		return "the subject has no short retention"
	}
	return ""
}

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// moment is how long a test watches that something does not happen. It proves nothing, and a correct backend passes
// however long it is.
const moment = 50 * time.Millisecond

// A trial is one subtest.
type trial struct {
	*testing.T
	s        Subject
	traits   record.Traits
	sessions session.Traits
	ctx      context.Context
}

// open returns one more backend, which is closed when the test ends.
func (t *trial) open() record.Backend {
	t.Helper()
	return t.closing(t.s.Open(t.T))
}

func (t *trial) closing(b record.Backend) record.Backend {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// linked is open with a link.
func (t *trial) linked() (record.Backend, storetest.Link) {
	t.Helper()
	b, link := t.s.Linked(t.T)
	t.Cleanup(func() { b.Close() }) // on a link that was reset it may fail
	return b, link
}

func random() string {
	b := make([]byte, 8)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// fresh returns an unused name.
func fresh() string { return "recordtest-" + random() }

func newSession() (id session.ID) {
	rand.Read(id[:]) // never fails
	return id
}

// until waits for what must happen.
func (t *trial) until(what string, f func() bool) {
	t.Helper()
	testwait.Until(t, what, f)
}

// unanswered runs f with a context that ends once the link has withheld something. f's error must say that there was
// no answer.
func (t *trial) unanswered(link storetest.Link, f func(ctx context.Context) error) {
	t.Helper()
	t.givenUp("the request is lost", func() bool { return link.Met() > 0 }, f)
}

// givenUp is unanswered with a context that ends once once returns true.
func (t *trial) givenUp(what string, once func() bool, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.until(what, once)
	cancel()
	select {
	case err := <-done:
		if err == nil || store.Definite(err) {
			t.Fatalf("a request that was not answered: got %v, want an indeterminate error", err)
		}
	case <-time.After(patience):
		t.Fatal("a call does not return after its context has ended")
	}
}

// answered calls f until it is answered: connections are lost while the machine stalls.
func (t *trial) answered(what string, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := f()
		switch {
		case err == nil:
			return
		case store.Definite(err) || time.Now().After(deadline):
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// load reads the record of a name.
func (t *trial) load(b record.Backend, name string) record.Record {
	t.Helper()
	var r record.Record
	t.answered("Load", func() (err error) {
		r, err = b.Load(t.ctx, name)
		return err
	})
	return r
}

// swap sends a swap that must be answered.
func (t *trial) swap(b record.Backend, s record.Swap) record.Outcome {
	t.Helper()
	out, err := b.Swap(t.ctx, &s)
	if err != nil {
		t.Fatalf("Swap: %v", err)
	}
	if out.Done && out.Joined {
		t.Fatal("the Swap is done and joined")
	}
	return out
}

// write makes a swap that must be done, and returns the record after it. The notes in the inbox stay.
func (t *trial) write(b record.Backend, name, data string) record.Record {
	t.Helper()
	old := t.load(b, name)
	old.Inbox = nil
	if out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte(data)}); !out.Done {
		t.Fatalf("a Swap of %q on the newest version, %q, is refused", data, old.Version)
	}
	r := t.load(b, name)
	if string(r.Data) != data {
		t.Fatalf("Load: got %.40q, want %.40q", r.Data, data)
	}
	return r
}

// note returns a note with an unused key.
func note(data string) record.Note { return record.Note{Key: random(), Data: []byte(data)} }

// long is the TTL of sessions that outlast the test, unless the machine stalls for most of a minute.
func (t *trial) long() time.Duration { return min(time.Minute, t.sessions.MaxTTL) }

// session begins a long session.
func (t *trial) session(b record.Backend) session.ID {
	t.Helper()
	return t.begin(b, t.long())
}

// begin begins a session, which ends no later than the test.
func (t *trial) begin(b record.Backend, ttl time.Duration) session.ID {
	t.Helper()
	ttl = max(ttl, t.sessions.MinTTL)
	ttl -= ttl % t.sessions.Tick
	id, _, lasts := t.beginFor(b, ttl)
	if lasts <= 0 || lasts > ttl {
		t.Fatalf("Begin with a TTL of %v: the session lasts %v", ttl, lasts)
	}
	ctx := context.WithoutCancel(t.ctx)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = b.End(ctx, id)
	})
	return id
}

// renew renews a session, and returns its call counter.
func (t *trial) renew(b record.Backend, id session.ID) (calls int64) {
	t.Helper()
	t.answered("Renew", func() (err error) {
		calls, err = b.Renew(t.ctx, id)
		return err
	})
	return calls
}

// join leaves notes in the inbox of a name that has a record.
func (t *trial) join(b record.Backend, name string, id session.ID, calls int64, notes ...record.Note) record.Outcome {
	t.Helper()
	out := t.swap(b, t.joining(name, id, calls, notes...))
	if out.Done {
		t.Fatal("a Swap on no version is done, although there is a record")
	}
	return out
}

// joined is join, which must be done.
func (t *trial) joined(b record.Backend, name string, id session.ID, notes ...record.Note) {
	t.Helper()
	if !t.join(b, name, id, 0, notes...).Joined {
		t.Fatal("a Join whose Swap was refused is not done")
	}
}

// joining returns a Swap that joins, because it is refused if there is a record.
func (t *trial) joining(name string, id session.ID, calls int64, notes ...record.Note) record.Swap {
	return record.Swap{Name: name, Data: []byte("refused"), Join: &record.Join{Session: id, Calls: calls, Notes: notes}}
}

// keys returns the keys of the notes, in order.
func keys(notes []record.Note) []string {
	all := make([]string, len(notes))
	for i := range notes {
		all[i] = notes[i].Key
	}
	return all
}

// left returns how much longer a session lasts.
func (t *trial) left(b record.Backend, id session.ID) time.Duration {
	t.Helper()
	return t.leftOf(b, id)[0]
}

// leftOf returns how much longer each of the sessions lasts.
func (t *trial) leftOf(b record.Backend, ids ...session.ID) (left []time.Duration) {
	t.Helper()
	t.answered("Left", func() (err error) {
		left, err = b.Left(t.ctx, ids)
		return err
	})
	if len(left) != len(ids) {
		t.Fatalf("Left of %d sessions: got %v", len(ids), left)
	}
	return left
}

// has reports whether Data is data.
func has(r record.Record, data string) bool { return string(r.Data) == data }

func describe(r record.Record) string {
	return fmt.Sprintf("%.40q as version %q with notes %v", r.Data, r.Version, keys(r.Inbox))
}

// swapping returns a Swap as a function for unanswered.
func swapping(b record.Backend, name string, old record.Record, data string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := b.Swap(ctx, &record.Swap{Name: name, Old: old, Data: []byte(data)})
		return err
	}
}

// never watches for a moment that something does not happen.
func (t *trial) never(what string, f func() bool) {
	t.Helper()
	const rounds = 10 // on a busy machine each takes longer, and so may what must not happen
	for range rounds {
		time.Sleep(moment / rounds)
		if f() {
			t.Fatalf("%s", what)
		}
	}
}
