// Package objecttest tests a store on package store/record/object: all that is not of its server alone. So the tests of such a
// store are these, and those of its server's answers, rights and prices.
//
// Each function is called in a test of its own. What is left nil in the Subject skips what needs it, and the test says so.
package objecttest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A Process is a backend as one more process has it.
type Process struct {
	Backend record.Backend
	Objects *object.Backend // what it is made of
	Server  object.Server   // what that is on
}

// A Link is the way of one process to its server, which can also be cut for good.
type Link interface {
	storetest.Link
	Cut()
}

// A Subject is a store to be tested.
type Subject struct {
	// Place returns a place of which nobody knows, on a server that all tests share. It is one line, which means the same in another process.
	Place func(t testing.TB) string

	// Open opens one more process there, without I/O. It closes nothing but clients of its own, with the test.
	Open func(t testing.TB, place string) *Process

	// Linked is the place as it is reached by a link of its own.
	Linked func(t testing.TB, place string) (string, Link)

	// Untimed is the place as it is reached by a proxy that drops what the server tells of times.
	Untimed func(t testing.TB, place string) string

	// Freeze returns a place on a server of its own, which answers nothing from when freeze is called on, until the test ends.
	Freeze func(t *testing.T) (place string, freeze func())

	// InProcess says that the server is a value in this process, without a link and a way to freeze it.
	InProcess bool

	// Within runs each subtest of the suites, as that of storetest.Run does; nil: nothing does.
	Within storetest.Within
}

func (s *Subject) within() []storetest.Within {
	if s.Within == nil {
		return nil
	}
	return []storetest.Within{s.Within}
}

// A process has a store of its own.
type process struct {
	*Process
	*record.Store
}

func (s *Subject) start(t testing.TB, place string) *process {
	t.Helper()
	p := s.Open(t, place)
	return &process{p, record.New(p.Backend)}
}

// open starts a process, which is closed with the test.
func (s *Subject) open(t testing.TB, place string) *process {
	t.Helper()
	p := s.start(t, place)
	t.Cleanup(func() { p.Close() })
	return p
}

// ready is Open, of a process whose server has passed the trial.
func (s *Subject) ready(t testing.TB, place string) *Process {
	t.Helper()
	p := s.Open(t, place)
	if err := p.Objects.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Objects.Finish()
	return p
}

// until waits for what must happen.
var until = testwait.Until

// A patient store has no sessions that end while the machine stalls for a while.
type patient struct{ *record.Store }

func (p patient) Describe() store.Description {
	d := p.Store.Describe()
	d.MinTTL = max(d.MinTTL, 10*time.Second)
	return d
}

// Suite holds the store to every promise of all stores.
func Suite(t *testing.T, s Subject) {
	t.Helper()
	place := s.Place(t)
	storetest.Run(t, func(t *testing.T) store.Store { return patient{s.start(t, place).Store} }, s.within()...)
}

// An untimed store lacks what a server that tells no time cannot count.
type untimed struct{ patient }

func (u untimed) Describe() store.Description {
	d := u.patient.Describe()
	const why = "the server tells no time"
	d.Lacks[store.PromiseMinHold], d.Lacks[store.PromiseLockDelay] = why, why
	return d
}

// SuiteWithoutTime is Suite, of a server that tells no time.
func SuiteWithoutTime(t *testing.T, s Subject) {
	t.Helper()
	place := s.withoutTime(t)
	storetest.Run(t, func(t *testing.T) store.Store { return untimed{patient{s.start(t, place).Store}} }, s.within()...)
}

func (s *Subject) withoutTime(t testing.TB) string {
	t.Helper()
	if s.Untimed == nil {
		t.Skip("no proxy drops the times of this server")
	}
	return s.Untimed(t, s.Place(t))
}

// Backend tests every promise of a record.Backend.
func Backend(t *testing.T, s Subject) {
	t.Helper()
	place, brief := s.Place(t), s.Place(t)
	of := recordtest.Subject{
		Open:  func(t *testing.T) record.Backend { return s.ready(t, place).Backend },
		Brief: func(t *testing.T) record.Backend { return s.sweeping(t, brief) },

		InProcess: s.InProcess,
	}
	if s.Linked != nil {
		of.Linked = func(t *testing.T) (record.Backend, storetest.Link) {
			at, link := s.Linked(t, place)
			return s.ready(t, at).Backend, link
		}
	}
	if s.Freeze != nil {
		of.Freeze = func(t *testing.T) (record.Backend, func()) {
			at, freeze := s.Freeze(t)
			return s.ready(t, at).Backend, freeze
		}
	}
	recordtest.Run(t, of)
}

// sweeping is a backend with a short retention, which is swept until the test ends. Nobody writes an idle name right when it is deleted, so it does
// no harm if the server does not compare and delete in one step.
func (s *Subject) sweeping(t *testing.T, place string) record.Backend {
	t.Helper()
	p := s.Open(t, place)
	p.Objects.Atomic = func(string) bool { return true }
	p.Objects.Retention = 2 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for ctx.Err() == nil {
			for range p.Backend.List(ctx, time.Millisecond) {
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-swept
	})
	return p.Backend
}

// Differential compares the store with the rule. Its sessions are closed as whoever finds them over does.
func Differential(t *testing.T, s Subject) {
	t.Helper()
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			place := s.Place(t)
			return func() store.Store { return s.start(t, place) }
		},
		End: func(t *testing.T, of store.Store) { of.(*process).endSessions(t) },
	})
}

// endSessions does with sessions what who comes does with those whose time is over, and what then somebody does with the names.
func (p *process) endSessions(t testing.TB) {
	t.Helper()
	for _, id := range p.Sessions() {
		closeSession(t, p.Process, id)
	}
	if err := p.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// closeSession closes a session as if its time were over.
func closeSession(t testing.TB, p *Process, id session.ID) {
	t.Helper()
	key := p.Objects.Prefix + "s/" + id.String()
	for {
		o, err := p.Server.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if o.Version == "" {
			return
		}
		_, what, err := p.Server.Put(t.Context(), key, []byte(`{"v":1,"closed":true}`), o.Version)
		if err != nil {
			t.Fatal(err)
		}
		if what == object.Done {
			return
		}
	}
}

// Faults has connections fall silent and be reset while they are used.
func Faults(t *testing.T, s Subject) {
	t.Helper()
	if s.Linked == nil {
		t.Skip("there is no link to this server")
	}
	place := s.Place(t)
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		at, link := s.Linked(t, place)
		return patient{s.start(t, at).Store}, link
	}})
}

// Killed kills the process of a holder: the name is free within its TTL and a second.
func Killed(t *testing.T, s Subject) {
	t.Helper()
	storetest.Killed(t, storetest.Killable{
		At:   func(t *testing.T) string { return s.Place(t) },
		Open: func(t *testing.T, at string) store.Store { return s.start(t, at).Store },
	})
}
