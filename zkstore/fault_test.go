package zkstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// lockerOn is a process of its own on the members.
func lockerOn(t *testing.T, ttl time.Duration, members ...string) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(storeOn(t, nil, members...), &holdfast.Options{TTL: ttl, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A hold lasts, and waiters get in, whatever happens to one member of three: it
// is killed, or stops for longer than an election; be it the leader.
func TestALostMemberIsSurvived(t *testing.T) {
	for name, strike := range map[string]func(*testserver.Server) func(){
		"killed": func(s *testserver.Server) func() { s.Kill(); return s.Restart },
		"frozen": func(s *testserver.Server) func() { s.Freeze(); return s.Thaw },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := testserver.ZooKeeperEnsemble(t, 3)
			var addrs []string
			for _, m := range members {
				addrs = append(addrs, m.Addr)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			const ttl = 30 * time.Second
			here, there := lockerOn(t, ttl, addrs...), lockerOn(t, ttl, addrs...)
			kept, err := here.Mutex("kept").Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, leader := range []bool{true, false} {
				held, err := here.Mutex("handed").Lock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				var next *holdfast.Lease
				var waiting sync.WaitGroup
				waiting.Go(func() {
					var err error
					if next, err = there.Mutex("handed").Lock(ctx); err != nil {
						t.Error(err)
					}
				})
				waitsFor(t, here, "handed")
				i := testserver.ZooKeeperLeader(t, members)
				if !leader {
					i = (i + 1) % len(members)
				}
				mend := strike(members[i])
				// A release may time out while there is no leader; it is unclear
				// then, and done all the same.
				if err := held.Release(); err != nil && !errors.Is(err, holdfast.ErrUnavailable) {
					t.Fatal(err)
				}
				if waiting.Wait(); t.Failed() {
					t.FailNow()
				}
				if next.Token() <= held.Token() {
					t.Errorf("token %d after %d", next.Token(), held.Token())
				}
				if err := kept.Renew(ctx, ttl); err != nil || !kept.Valid() {
					t.Fatalf("the hold that was kept all the time: %v, valid %v", err, kept.Valid())
				}
				if err := next.Release(); err != nil && !errors.Is(err, holdfast.ErrUnavailable) {
					t.Fatal(err)
				}
				mend()
			}
			if err := kept.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// waitsFor returns when somebody waits for the name.
func waitsFor(t *testing.T, l *holdfast.Locker, name string) {
	t.Helper()
	until(t, "somebody waits for "+name, func() bool {
		_, err := l.Mutex(name).TryLock(t.Context())
		var held *holdfast.HeldError
		return errors.As(err, &held) && held.Waiting > 0 || errors.Is(err, holdfast.ErrDeadlock)
	})
}

// A holder that is cut off is told in time: before another is in. So is one whose
// link goes silent without being cut.
func TestAHolderThatIsCutOffIsLostBeforeTheNextIsIn(t *testing.T) {
	for name, strike := range map[string]func(*link){"cut": (*link).cut, "silent": (*link).hush} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testserver.ZooKeeper(t)
			link := newLink(t, s.Addr)
			far, near := lockerOn(t, 3*time.Second, link.addr()), lockerOn(t, 3*time.Second, s.Addr)
			lease, err := far.Mutex("a").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			strike(link)
			next, err := near.Mutex("a").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if lease.Valid() {
				t.Error("the next is in, and the first thinks that it holds the name")
			}
			if next.Token() <= lease.Token() {
				t.Errorf("token %d after %d", next.Token(), lease.Token())
			}
			if err := next.Release(); err != nil {
				t.Error(err)
			}
			link.mend()
		})
	}
}

// A connection that breaks and comes back keeps holds, places and watches.
func TestABrokenConnectionKeepsHoldsAndPlaces(t *testing.T) {
	t.Parallel()
	s := testserver.ZooKeeper(t)
	link := newLink(t, s.Addr)
	here := closing(t, storeOn(t, nil, s.Addr))
	there := closing(t, storeOn(t, nil, link.addr()))
	var hints atomic.Int32
	if err := there.Watch(t.Context(), me, func(store.Hint) { hints.Add(1) }); err != nil {
		t.Fatal(err)
	}
	kept := mustHold(t, there, mutex("kept"))
	hold := mustHold(t, here, mutex("a"))
	waits := mutex("a")
	if mustAsk(t, there, waits).Granted {
		t.Fatal("two hold it")
	}
	link.cut()
	if err := here.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	link.mend()
	until(t, "the waiter is woken", func() bool { return hints.Load() > 0 })
	if !mustAsk(t, there, waits).Granted {
		t.Error("it was woken and is not granted")
	}
	if r := there.Renew(t.Context(), []store.Hold{kept})[0]; r.Err != nil {
		t.Errorf("the hold that was there all the time: %v", r.Err)
	}
}

// The answer to an ask is lost: asked for again, it finds its node.
func TestALostAnswerFindsItsNodeAgain(t *testing.T) {
	t.Parallel()
	s := testserver.ZooKeeper(t)
	link := newLink(t, s.Addr)
	there := closing(t, storeOn(t, nil, link.addr()))
	mustHold(t, there, mutex("warm"))
	for range 5 {
		c := mutex("a")
		link.mute() // what is asked for arrives, and no answer does
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := there.Ask(ctx, c)
		cancel()
		if err == nil || store.Definite(err) {
			t.Fatalf("ask without an answer: %v, want it unclear", err)
		}
		link.cut()
		link.mend()
		var a store.Answer
		until(t, "it is answered", func() bool {
			var err error
			a, err = there.Ask(t.Context(), c)
			return err == nil
		})
		if !a.Granted {
			t.Fatalf("not granted: %+v", a)
		}
		if st := entriesOf(t, there, "a"); len(st.Entries) != 1 || st.Entries[0].ID != c.ID {
			t.Fatalf("listed as %+v, want one entry", st.Entries)
		}
		if err := there.Release(t.Context(), store.Hold{Name: "a", ID: c.ID, Token: a.Token}); err != nil {
			t.Fatal(err)
		}
	}
}

// What was asked for, was never answered, and was given up is gone before long,
// though it slips in later.
func TestAnAskThatSlipsInLateIsGoneAgain(t *testing.T) {
	t.Parallel()
	s := testserver.ZooKeeper(t)
	a, b := closing(t, storeOn(t, nil, s.Addr)), closing(t, storeOn(t, nil, s.Addr))
	mustHold(t, a, mutex("warm")) // the session is there
	s.Freeze()
	late := mutex("a")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := a.Ask(ctx, late); err == nil || store.Definite(err) {
		t.Errorf("ask of a frozen server: %v, want it unclear", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := a.Release(short, store.Hold{Name: "a", ID: late.ID}); err == nil {
		t.Error("a frozen server has answered")
	}
	s.Thaw()
	until(t, "the name is free", func() bool {
		r, err := b.Ask(t.Context(), mutexTry("a"))
		return err == nil && r.Granted
	})
	until(t, "nothing of it is left", func() bool {
		st := entriesOf(t, b, "a")
		return len(st.Entries) == 1 && st.Entries[0].ID != late.ID
	})
	// Others keep what they had.
	if st := entriesOf(t, b, "warm"); len(st.Entries) != 1 {
		t.Errorf("the hold beside it is lost: %+v", st)
	}
}

func mutexTry(name string) store.Claim {
	c := mutex(name)
	c.Try = true
	return c
}

// The process of a holder is killed: the name is free within its TTL and a
// second, and what the test machine takes.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	s := testserver.ZooKeeper(t)
	const ttl = 3 * time.Second
	cmd := exec.Command(os.Args[0], "-test.run=TestHelperHolds$")
	cmd.Env = append(os.Environ(), "HOLDFAST_TEST_HOLD="+s.Addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	near := lockerOn(t, ttl, s.Addr)
	if _, err := near.Mutex("a").TryLock(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
		t.Fatalf("the name is not held: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	lease, err := near.Mutex("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(killed)
	t.Logf("in after %v", took.Round(time.Millisecond))
	if took > patience/2 { // of time nothing shorter is asserted: machines stall
		t.Errorf("the next was in after %v, the TTL is %v", took, ttl)
	}
	lease.Release()
}

// TestHelperHolds is the holder that is killed.
func TestHelperHolds(t *testing.T) {
	addr := os.Getenv("HOLDFAST_TEST_HOLD")
	if addr == "" {
		return
	}
	l, err := holdfast.New(storeOn(t, nil, addr), &holdfast.Options{TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Mutex("a").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	os.Stdout.Write([]byte("x"))
	select {}
}
