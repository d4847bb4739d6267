package mongostore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// newSim returns a Store on a stand-in of its own, already tried, and the stand-in.
func newSim(t *testing.T, o mongosim.Options) (*Store, *mongosim.Server) {
	t.Helper()
	server := mongosim.Start(t, o)
	return simStore(t, server), server
}

// simStore is one more Store on the same stand-in, as another process would have it.
func simStore(t *testing.T, server *mongosim.Server) *Store {
	t.Helper()
	s := storeOn(t, clientOf(t, server.URI()).Database(database), nil)
	t.Cleanup(func() { s.Close() })
	tried(t, s.b)
	return s
}

func mustRenew(t *testing.T, s *Store, holds ...store.Hold) {
	t.Helper()
	for i, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Fatalf("renew %q: %v", holds[i].Name, r.Err)
		}
	}
}

func isIndeterminate(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
		t.Fatalf("%v, want an indeterminate error that matches ErrUnavailable", err)
	}
}

func isFree(t *testing.T, s *Store, name string) {
	t.Helper()
	c := mutex(name)
	c.Try = true
	a := storetest.MustAsk(t, s, c)
	if !a.Granted {
		t.Fatalf("%q is not free: got %+v, %+v", name, a, storetest.MustList(t, s, name))
	}
	if err := s.Release(t.Context(), store.Hold{Name: name, ID: c.ID, Token: a.Token}); err != nil {
		t.Fatal(err)
	}
}

// Whatever retryWrites of the client is: an unanswered ask is repeated by its id, and is in the queue once.
func TestAnUnansweredAskIsRepeatedByItsID(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]mongosim.Fault{
		"the reply is lost": {Cut: true}, "the request is lost": {Cut: true, Before: true}, "no majority has confirmed the write": {Code: 64, Name: "WriteConcernFailed"},
		"the server is no longer primary": {Before: true, Code: 10107, Name: "NotWritablePrimary"}, "the server shuts down": {Before: true, Code: 91, Name: "ShutdownInProgress"},
		"the server steps down": {Code: 11602, Name: "InterruptedDueToReplStateChange"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, server := newSim(t, mongosim.Options{})
			storetest.MustHold(t, s, mutex("before")) // in a session that exists
			c := mutex("n")
			server.Fault("$unset", f) // of a swap
			_, err := s.Ask(t.Context(), c)
			isIndeterminate(t, err)
			h := storetest.MustHold(t, s, c)
			if st := storetest.MustList(t, s, "n"); len(st.Entries) != 1 || st.Entries[0].Token != h.Token {
				t.Errorf("got %+v, want one entry with token %d", st, h.Token)
			}
			mustRenew(t, s, h)
			server.Fault("$set", f)
			if err := s.Release(t.Context(), h); err != nil {
				isIndeterminate(t, err)
				if err := s.Release(t.Context(), h); err != nil && !errors.Is(err, store.ErrLost) {
					t.Fatal(err)
				}
			}
			isFree(t, simStore(t, server), "n")
		})
	}
}

// The driver retries writes by itself, unless it gets whole commands.
func TestEachCommandIsSentOnce(t *testing.T) {
	t.Parallel()
	server := mongosim.Start(t, mongosim.Options{})
	b := tried(t, backendOn(t, clientOf(t, server.URI()).Database(database), nil)) // without a store, which would sweep
	t.Cleanup(func() { b.Close() })
	r, err := b.Load(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	for command, try := range map[string]func() error{
		"findAndModify": func() error {
			_, err := b.Swap(t.Context(), &record.Swap{Name: "n", Old: r, Data: []byte("x")})
			return err
		},
		"find": func() error { _, err := b.Load(t.Context(), "n"); return err },
	} {
		for _, f := range []mongosim.Fault{{Cut: true}, {Cut: true, Before: true}, {Before: true, Code: 10107, Name: "NotWritablePrimary"}} {
			was := server.Sent(command)
			server.Fault(command, f)
			if err := try(); err == nil || store.Definite(err) {
				t.Errorf("%s with %+v: %v, want indeterminate", command, f, err)
			}
			if n := server.Sent(command) - was; n != 1 {
				t.Errorf("%s with %+v: sent %d times, want once", command, f, n)
			}
		}
	}
}

// A swap that was delayed on its way, even the first of a name, is not done once another swap was.
func TestASwapThatComesLateIsNotDone(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	for _, first := range []string{"", "x"} {
		name := "n" + first
		if first != "" {
			mustSwap(t, s.b, name, "x")
		}
		r, err := s.b.Load(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		server.Fault("$unset", mongosim.Fault{Late: true})
		if _, err := s.b.Swap(t.Context(), &record.Swap{Name: name, Old: r, Data: []byte("late")}); err == nil || store.Definite(err) {
			t.Fatalf("%v, want an indeterminate error", err)
		}
		mustSwap(t, s.b, name, "newer")
		server.Deliver()
		if now, err := s.b.Load(t.Context(), name); err != nil || string(now.Data) != "newer" {
			t.Errorf("got %q, %v, want newer", now.Data, err)
		}
	}
}

// mustSwap writes a name.
func mustSwap(t *testing.T, b *backend, name, data string, all ...record.Notification) {
	t.Helper()
	r, err := b.Load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := b.Swap(t.Context(), &record.Swap{Name: name, Old: r, Data: []byte(data), Notifications: all}); err != nil || !out.Done {
		t.Fatalf("got %+v, %v, want it done", out, err)
	}
}

// A note that arrives again, after it was taken in and its claim was released, restores nothing. Neither does one that
// arrives late, after its claim was given up.
func TestALateCopyOfANoteBringsNothingBack(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]mongosim.Fault{"again": {Again: true}, "late": {Late: true}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			one, server := newSim(t, mongosim.Options{})
			two, three := simStore(t, server), simStore(t, server)
			h := storetest.MustHold(t, one, mutex("n"))
			c := mutex("n")
			storetest.MustHold(t, one, mutex("other"))
			storetest.MustAsk(t, two, mutex("other")) // from here on it begins with a swap, as if there was no record
			server.Fault("$push", f)
			switch a, err := two.Ask(t.Context(), c); {
			case f.Late:
				isIndeterminate(t, err)
			case err != nil || a.Granted:
				t.Fatalf("got %+v, %v, want no grant", a, err)
			}
			if err := one.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			gone := store.Hold{Name: "n", ID: c.ID}
			if f.Again {
				a := storetest.MustAsk(t, two, c)
				if gone.Token = a.Token; !a.Granted {
					t.Fatalf("%+v", a)
				}
			}
			if err := two.Release(t.Context(), gone); err != nil && !errors.Is(err, store.ErrLost) {
				t.Fatal(err)
			}
			was := server.Written()
			server.Deliver()
			if server.Written() != was+1 {
				t.Fatal("the note has not arrived")
			}
			isFree(t, three, "n")
			isFree(t, two, "n")
			if st := storetest.MustList(t, three, "n"); len(st.Entries) > 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A handClock is a clock that a test sets.
type handClock struct{ ahead atomic.Int64 }

func (c *handClock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *handClock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func TestARenewalThatComesLateRevivesNoEndedSession(t *testing.T) {
	t.Parallel()
	var clock handClock
	s, server := newSim(t, mongosim.Options{Clock: clock.now})
	id := mustBegin(t, s.b, time.Minute)
	server.Fault("$currentDate", mongosim.Fault{Late: true})
	if _, err := s.b.Renew(t.Context(), id); err == nil || store.Definite(err) {
		t.Fatal(err)
	}
	clock.advance(2 * time.Minute)
	other := simStore(t, server)
	if left := mustLeft(t, other.b, id); left > 0 {
		t.Fatal(left)
	}
	server.Deliver()
	if left := mustLeft(t, other.b, id); left > 0 {
		t.Errorf("got %v left, want an ended session", left)
	}
	if _, err := s.b.Renew(t.Context(), id); !errors.Is(err, store.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
}

// The server cuts its dates to milliseconds.
func TestASessionLastsAsLongAsAReadSays(t *testing.T) {
	t.Parallel()
	start := time.Now().Truncate(time.Millisecond)
	var past atomic.Int64
	s, _ := newSim(t, mongosim.Options{Clock: func() time.Time { return start.Add(time.Duration(past.Load())) }})
	id := mustBegin(t, s.b, time.Minute)
	for _, at := range []time.Duration{0, 900 * time.Microsecond, time.Minute - 1500*time.Microsecond, time.Minute - 100*time.Microsecond} {
		past.Store(int64(at))
		if left := mustLeft(t, s.b, id); left <= 0 || left > time.Minute-at {
			t.Errorf("after %v: got %v left, want at most %v", at, left, time.Minute-at)
		}
	}
	past.Store(int64(time.Minute))
	if left := mustLeft(t, s.b, id); left > 0 {
		t.Errorf("at its end: got %v left", left)
	}
}

func mustBegin(t *testing.T, b *backend, ttl time.Duration) session.ID {
	t.Helper()
	id := session.ID(newRev().Data)
	if lasts, err := b.Begin(t.Context(), id, ttl); err != nil || lasts != ttl-time.Millisecond {
		t.Fatalf("got %v, %v", lasts, err)
	}
	return id
}

func mustLeft(t *testing.T, b *backend, id session.ID) time.Duration {
	t.Helper()
	left, err := b.Left(t.Context(), []session.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	return left[0]
}

// The owner renews its session between the read that finds it expired and the write that ends it.
func TestASessionThatIsRenewedMeanwhileIsNotEnded(t *testing.T) {
	t.Parallel()
	var clock handClock
	s, server := newSim(t, mongosim.Options{Clock: clock.now})
	id := mustBegin(t, s.b, time.Minute)
	clock.advance(2 * time.Minute)
	renewed := false
	other := storeOn(t, monitored(t, server.URI(), func(e *event.CommandStartedEvent) {
		if over, _ := e.Command.Lookup("update", "$set", "over").BooleanOK(); over && !renewed {
			renewed = true
			if _, err := s.b.Renew(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
	}), nil)
	defer other.Close()
	if left := mustLeft(t, other.b, id); left <= 0 || !renewed {
		t.Errorf("got %v left, renewed: %v", left, renewed)
	}
	if _, err := s.b.Renew(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// The TTL index deletes no session that may still be renewed, and no name that is in use again.
func TestLiveDocumentsAreNotDeleted(t *testing.T) {
	t.Parallel()
	var clock handClock
	s, server := newSim(t, mongosim.Options{Clock: clock.now})
	s.b.indexed.Store(false)
	id := mustBegin(t, s.b, 10*24*time.Hour)
	s.b.tasks.Wait() // the task that makes the index
	if n := len(server.Indexes(database + "." + DefaultCollection)); n != 1 {
		t.Fatalf("got %d indexes, want 1", n)
	}
	for range 3 {
		clock.advance(9 * 24 * time.Hour)
		for range 2 { // the first reads the server's clock
			if _, err := s.b.Renew(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock.advance(12 * 24 * time.Hour)
	if left := mustLeft(t, s.b, id); left > 0 {
		t.Errorf("got %v left", left)
	}
	clock.advance(2 * 24 * time.Hour)
	if raw, err := s.b.find(t.Context(), sessionID(id)); err != nil || raw != nil {
		t.Errorf("got %v, %v, want it deleted", raw, err)
	}
}

func TestErrorsOfTheServerAreReturned(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	for code, want := range map[int32]error{
		unauthorized: store.ErrDenied, authenticationFailed: store.ErrDenied, unknownStage: store.ErrUnsupported, failedToParse: store.ErrUnsupported,
		commandNotFound: store.ErrUnsupported, invalidNamespace: store.ErrInvalid, tooLarge: store.ErrUnavailable, 91: store.ErrUnavailable, 11602: store.ErrUnavailable,
	} {
		server.Fault("findAndModify", mongosim.Fault{Before: true, Code: code, Name: "x"})
		if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", code, err, want)
		}
	}
	if st := storetest.MustList(t, s, "n"); len(st.Entries) > 0 {
		t.Errorf("%+v", st)
	}
}

func TestManyHoldsAreRenewedByOneRequest(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	var holds []store.Hold
	for i := range 100 {
		holds = append(holds, storetest.MustHold(t, s, mutex(fmt.Sprint("n", i))))
	}
	mustRenew(t, s, holds...) // each hold moves to the long session
	was := server.Sent("findAndModify") + server.Sent("find")
	mustRenew(t, s, holds...)
	if n := server.Sent("findAndModify") + server.Sent("find") - was; n > 5 { // one, and what the store does by itself meanwhile
		t.Errorf("got %d requests, want at most 5", n)
	}
	// The others get no notification when one hold is lost.
	if err := s.BreakHold(t.Context(), store.Break{Name: "n7", ID: holds[7].ID, Token: holds[7].Token, Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.Renew(t.Context(), holds) {
		var lost *store.LostError
		if i == 7 && (!errors.As(r.Err, &lost) || lost.Reason != "why") || i != 7 && r.Err != nil {
			t.Errorf("hold %d: got %+v", i, r)
		}
	}
}

// A stream that ends is reopened, and then all listeners poll.
func TestABrokenStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	heard := make(chan record.Notification, 10)
	if err := s.b.Listen(t.Context(), me, func(n record.Notification) { heard <- n }); err != nil {
		t.Fatal(err)
	}
	server.Fault("getMore", mongosim.Fault{Before: true, Code: 280, Name: "ChangeStreamFatalError"})
	server.Fault("aggregate", mongosim.Fault{Before: true, Code: 91, Name: "ShutdownInProgress"})
	n := record.Notification{Name: "n", ID: me.NewID(), Token: 1, N: 1}
	mustSwap(t, s.b, "n", "x", n) // an event ends the getMore under way
	for got := (record.Notification{Name: "none"}); got != (record.Notification{}); {
		select {
		case got = <-heard:
		case <-time.After(patience):
			t.Fatal("no listener got a notification")
		}
	}
}

// A notification list that does not change is no change for the server. The notification is sent all the same, and a
// listener gets those for its own process.
func TestTheSameNotificationComesWithEachSwap(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	heard := make(chan record.Notification, 10)
	err := s.b.Listen(t.Context(), me, func(n record.Notification) { heard <- n })
	if errors.Is(err, store.ErrUnsupported) {
		t.Skipf("this MongoDB server does not let the tests watch: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	of, n := record.Notification{Name: "n", ID: store.NewProcess().NewID(), Token: 1}, record.Notification{Name: "n", ID: me.NewID()}
	for i := range 3 {
		mustSwap(t, s.b, "n", fmt.Sprint(i), of, n)
		select {
		case got := <-heard:
			if got != n {
				t.Errorf("got %+v, want %+v", got, n)
			}
		case <-time.After(patience):
			t.Fatalf("the notification of swap %d did not arrive", i)
		}
	}
}

// A standalone has no change streams, no linearizable reads and no retryable writes.
func TestAStandaloneLocksWithoutNotifications(t *testing.T) {
	t.Parallel()
	for _, o := range []mongosim.Options{{Standalone: true}, {Standalone: true, Engine: mongosim.NoChangeStreams}} {
		s, _ := newSim(t, o)
		if err := s.Watch(t.Context(), me, func(store.Notification) {}); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("watch: %v, want ErrUnsupported", err)
		}
		h := storetest.MustHold(t, s, mutex("n"))
		mustRenew(t, s, h)
		waits := mutex("n")
		if storetest.MustAsk(t, s, waits).Granted {
			t.Error("two claims hold the lock")
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if a, err := s.Poll(t.Context(), waits); err != nil || !a.Granted || a.Token <= h.Token {
			t.Errorf("the waiter polled %+v, %v, after token %d", a, err, h.Token)
		}
	}
}
