// Package objecttest tests a store that uses package store/record/object: everything that does not depend on its
// server alone. So such a store needs only these tests, and tests of its server's answers, permissions and costs.
//
// Call each function in its own test. A nil field of the Subject skips the tests that need it, and the test says so.
package objecttest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
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

// A Process is a backend as another process has it.
type Process struct {
	Backend record.Backend
	Objects *object.Backend // the implementation of Backend
	Server  object.Lister   // the server of Objects
}

// A Link is the connection of one process to its server. It can also be cut for good.
type Link interface {
	storetest.Link
	Cut()
}

// A Subject is a store under test.
type Subject struct {
	// Place returns a new place on a server that all tests share. It is one line, and means the same in another
	// process.
	Place func(t testing.TB) string

	// Open opens one more process at a place, without I/O. When the test ends it closes only its own clients.
	Open func(t testing.TB, place string) *Process

	// Linked returns the place as reached through its own link.
	Linked func(t testing.TB, place string) (string, Link)

	// Untimed returns the place as reached through a proxy that removes all times from the
	// server's answers; nil: the store does not work without.
	Untimed func(t testing.TB, place string) string

	// Freeze returns a place on its own server. After a call of freeze the server answers nothing until the test
	// ends.
	Freeze func(t *testing.T) (place string, freeze func())

	// InProcess says that the server is a value in this process, so it has no link and cannot
	// be frozen.
	InProcess bool

	// Within runs each subtest of the suites, like the one of storetest.Run; nil: they run as
	// they are.
	Within storetest.Within
}

func (s *Subject) within() []storetest.Within {
	if s.Within == nil {
		return nil
	}
	return []storetest.Within{s.Within}
}

// A process has its own store.
type process struct {
	*Process
	*record.Store
}

func (s *Subject) start(t testing.TB, place string) *process {
	t.Helper()
	p := s.Open(t, place)
	return &process{p, record.New(p.Backend)}
}

// open starts a process. It is closed when the test ends.
func (s *Subject) open(t testing.TB, place string) *process {
	t.Helper()
	p := s.start(t, place)
	t.Cleanup(func() { p.Close() })
	return p
}

// ready opens a process and waits until its server has passed the trial.
func (s *Subject) ready(t testing.TB, place string) *Process {
	t.Helper()
	p := s.Open(t, place)
	prepare(t, p.Objects)
	return p
}

func prepare(t testing.TB, b *object.Backend) {
	t.Helper()
	if err := b.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Finish()
}

// Sweeping makes the trial of a backend, and returns a function that sweeps. It is for tests that count requests.
func Sweeping(t testing.TB, b record.Sweeper, objects *object.Backend) func() {
	t.Helper()
	prepare(t, objects)
	return func() {
		for range b.Sweep(t.Context(), time.Hour) {
		}
	}
}

// until waits for a condition.
var until = testwait.Until

// A patient store has no sessions short enough to end when the machine stalls for a while.
type patient struct{ *record.Store }

func (p patient) Describe() store.Description {
	d := p.Store.Describe()
	d.MinTTL = max(d.MinTTL, 10*time.Second)
	return d
}

// Suite tests every promise that all stores make.
func Suite(t *testing.T, s Subject) {
	t.Helper()
	place := s.Place(t)
	storetest.Run(t, func(t *testing.T) store.Store { return patient{s.start(t, place).Store} }, s.within()...)
}

// An untimed store lacks the promises that need the server's time.
type untimed struct{ patient }

func (u untimed) Describe() store.Description {
	d := u.patient.Describe()
	const why = "the server tells no time"
	d.Lacks[store.PromiseMinHold], d.Lacks[store.PromiseLockDelay] = why, why
	return d
}

// SuiteWithoutTime is Suite on a server without time.
func SuiteWithoutTime(t *testing.T, s Subject) {
	t.Helper()
	place := s.withoutTime(t)
	storetest.Run(t, func(t *testing.T) store.Store { return untimed{patient{s.start(t, place).Store}} }, s.within()...)
}

func (s *Subject) withoutTime(t testing.TB) string {
	t.Helper()
	if s.Untimed == nil {
		t.Skip("the store does not work without the server's time")
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

// sweeping returns a backend with a short retention, which is swept until the test ends. No test writes an idle name
// just when it is deleted, so it does no harm if the server does not compare and delete in one step.
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

// Differential compares the store with the rule. It closes sessions like a process that finds them expired.
func Differential(t *testing.T, s Subject) {
	t.Helper()
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			place := s.Place(t)
			return func() store.Store { return s.start(t, place) }
		},
		End: func(t *testing.T, of store.Store) error { return of.(*process).endSessions(t.Context()) },
	})
}

// endSessions closes all sessions like a process that finds them expired, and then settles their names.
func (p *process) endSessions(ctx context.Context) error {
	for _, id := range p.Sessions() {
		if err := closeSession(ctx, p.Process, id); err != nil {
			return err
		}
	}
	return p.Settle(ctx)
}

// closeSession closes a session as if it had expired.
func closeSession(ctx context.Context, p *Process, id session.ID) error {
	key := p.Objects.Prefix + "s/" + id.String()
	for {
		o, err := p.Server.Get(ctx, key)
		if err != nil || o.Version == "" {
			return err
		}
		_, what, err := p.Server.Put(ctx, key, []byte(`{"v":1,"closed":true}`), o.Version)
		if err != nil || what == object.Done {
			return err
		}
	}
}

// Faults makes connections hang and resets them during use.
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

// Killed kills a holder's process: the name must be free within the TTL plus a second.
func Killed(t *testing.T, s Subject) {
	t.Helper()
	storetest.Killed(t, storetest.Killable{
		At:   func(t *testing.T) string { return s.Place(t) },
		Open: func(t *testing.T, at string) store.Store { return s.start(t, at).Store },
	})
}

// CheckDeletes tests what the check of a backend says about the right to delete: its level, and for a warning also
// which right is missing.
func CheckDeletes(t *testing.T, b record.Backend, want store.Level, right string) {
	t.Helper()
	all := b.Check(t.Context())
	i := slices.IndexFunc(all, func(f store.Finding) bool { return f.About == "deletes" })
	if i < 0 || all[i].Level() != want || strings.Contains(all[i].Text(), right) != (want == store.LevelWarning) {
		t.Errorf("got %+v, want %v about deletes", all, want)
	}
}

// SentTwice sends a request twice, like some proxies, and returns the second answer.
func SentTwice(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		one := r.Clone(r.Context())
		one.Body = io.NopCloser(bytes.NewReader(body))
		answer, err := send(one)
		if err != nil || again {
			return answer, err
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}
