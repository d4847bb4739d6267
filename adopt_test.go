package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// detach must work.
func detach(t testing.TB, l *Lease) Ref {
	t.Helper()
	ref, err := l.Detach()
	if err != nil {
		t.Fatal("Detach:", err)
	}
	return ref
}

// adopt must work.
func adopt(t testing.TB, l *Locker, ref Ref) *Lease {
	t.Helper()
	lease, err := l.Adopt(t.Context(), ref)
	if err != nil {
		t.Fatal("Adopt:", err)
	}
	return lease
}

func TestAdopt_TheTokenStaysAndTheNameStaysTaken(t *testing.T) {
	for what, claim := range map[string]func(context.Context, *Locker) (*Lease, error){
		"mutex": func(ctx context.Context, l *Locker) (*Lease, error) { return l.Mutex("a").TryLock(ctx) },
		"read":  func(ctx context.Context, l *Locker) (*Lease, error) { return l.RWMutex("a").Read().TryLock(ctx) },
		"slots": func(ctx context.Context, l *Locker) (*Lease, error) { return l.Semaphore("a", 3).TryAcquire(ctx, 2) },
	} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			one, two := locker(t, linkTo(t, mem), nil), locker(t, linkTo(t, mem), &Options{Note: "the second"})
			l, err := claim(t.Context(), one)
			is(t, err, nil)
			was := stored(mem, "a").Entries[0]
			time.Sleep(time.Minute)
			ref := detach(t, l)
			same(t, what+": token", ref.Token, l.Token())
			same(t, "name", ref.Name, "a")
			if err := one.Close(); err != nil { // its process may end
				t.Fatal(err)
			}
			between := stored(mem, "a").Entries[0]
			same(t, "id", ref.ID, between.ID.String())
			same(t, "process of the id", between.ID.Process(), store.Process{})
			time.Sleep(20 * time.Second)
			adopted := adopt(t, two, ref)
			same(t, "token", adopted.Token(), l.Token())
			now := stored(mem, "a").Entries[0]
			same(t, "weight", now.Weight, was.Weight)
			same(t, "granted", now.Age, was.Age+80*time.Second)
			same(t, "note", now.Owner.Note, "the second")
			same(t, "id", adopted.ID(), now.ID.String())
			if now.ID == between.ID || now.ID == was.ID {
				t.Error("the adopted lease has the id of the detached one, want a new id")
			}
			time.Sleep(time.Hour) // it renews itself
			same(t, "valid", adopted.Valid(), true)
			_, err = two.Adopt(t.Context(), ref) // a reference works once
			is(t, err, ErrLost)
			same(t, "valid", adopted.Valid(), true)
			release(t, adopted)
			empty(t, mem)
		})
	}
}

// The same on a store in the same process, with no link in between.
func TestAdopt_InTheSameProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		locks := locker(t, mem, nil)
		l := lock(t, locks, "a")
		w := waits(t, locks.Mutex("a").Lock)
		ref := detach(t, l)
		time.Sleep(20 * time.Second)
		w.waiting()
		adopted := adopt(t, locks, ref)
		time.Sleep(time.Hour)
		w.waiting()
		release(t, adopted)
		release(t, w.got())
		empty(t, mem)
	})
}

func TestAdopt_DetachEndsTheLeaseHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		l := lock(t, locks, "a")
		ctx, lost := l.Context(t.Context()), l.Lost()
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{hang: hang}
			}
			return fate{}
		})
		done := make(chan Ref)
		go func() { done <- detach(t, l) }()
		synctest.Wait() // the detaching write is under way
		same(t, "valid", l.Valid(), false)
		is(t, context.Cause(ctx), ErrReleased)
		s.on(nil)
		close(hang)
		<-done
		same(t, "lost", over(lost), false)
		is(t, l.Release(), ErrReleased)
		_, err := l.Detach()
		is(t, err, ErrReleased)
		is(t, l.Renew(t.Context(), time.Minute), ErrReleased)
		time.Sleep(20 * time.Second)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		same(t, "renewals", len(s.made("renew")), 1)
		same(t, "releases", len(s.made("release", "withdraw")), 0)
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		time.Sleep(10 * time.Second) // nobody adopts it
		empty(t, s.mem)
	})
}

func TestAdopt_TooLateIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ref := detach(t, lock(t, locks, "a"))
		if left := time.Until(ref.Expires); left < 29*time.Second || left > 30*time.Second {
			t.Errorf("the ref expires in %v, want about 30s", left)
		}
		time.Sleep(30 * time.Second)
		_, err := locks.Adopt(t.Context(), ref)
		is(t, err, ErrLost)
		empty(t, s.mem) // and nothing is appended
		release(t, lock(t, locks, "a"))
		ref = detach(t, lock(t, locks, "a"))
		s.mem.Break("a")
		_, err = locks.Adopt(t.Context(), ref)
		is(t, err, ErrLost)
	})
}

func TestAdopt_ABrokenHoldIsLostWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ref := detach(t, lock(t, locks, "a"))
		e := stored(s.mem, "a").Entries[0]
		err := s.mem.BreakHold(t.Context(), store.Break{Name: "a", ID: e.ID, Token: ref.Token, Reason: "because"})
		is(t, err, nil)
		_, err = locks.Adopt(t.Context(), ref)
		is(t, err, ErrLost)
		if !strings.Contains(err.Error(), "because") {
			t.Errorf("%v does not give the reason", err)
		}
	})
}

// The reply of either write may be lost. The write is repeated, and it is still
// the same hold.
func TestAdopt_AWriteWithALostReplyIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		s.on(func(c *call) fate {
			if c.op == "renew" && c.n%2 == 0 {
				return fate{lose: errLink}
			}
			return fate{}
		})
		l := lock(t, locks, "a")
		adopted := adopt(t, locks, detach(t, l))
		same(t, "writes", len(s.made("renew")), 4)
		same(t, "token", adopted.Token(), l.Token())
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		release(t, adopted)
		empty(t, s.mem)
	})
}

func TestAdopt_TheDeadlineCountsFromTheSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ref := detach(t, lock(t, locks, "a"))
		s.on(func(c *call) fate { return fate{there: 2 * time.Second, back: time.Second} })
		start := time.Now()
		adopted := adopt(t, locks, ref)
		same(t, "deadline", adopted.Deadline().Sub(start), 30*time.Second-300*time.Millisecond-engine.Margin)
	})
}

// A caller that leaves during the adoption has no lease, and the store keeps no entry.
func TestAdopt_ACanceledOneIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		ref := detach(t, lock(t, locks, "a"))
		s.on(func(c *call) fate { return fate{there: time.Second, back: time.Second} })
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := locks.Adopt(ctx, ref)
		same(t, "the caller returned after", time.Since(start), 500*time.Millisecond)
		is(t, err, context.DeadlineExceeded)
		same(t, "calls", s.ops(), "try renew renew")
		time.Sleep(5 * time.Second)
		same(t, "calls", s.ops(), "try renew renew withdraw")
		empty(t, s.mem)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = locks.Adopt(cancelled, ref)
		is(t, err, context.Canceled)
		same(t, "calls", len(s.made()), 4)
	})
}

func TestAdopt_AnIndeterminateOutcomeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		l, ref := lock(t, locks, "a"), detach(t, lock(t, locks, "b"))
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{lose: errLink}
			}
			return fate{}
		})
		start := time.Now()
		_, err := l.Detach()
		is(t, err, ErrUnavailable)
		same(t, "valid", l.Valid(), false)
		_, err = locks.Adopt(t.Context(), ref)
		is(t, err, ErrUnavailable)
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("returned after %v", d)
		}
		synctest.Wait()
		same(t, "entries of b", len(stored(s.mem, "b").Entries), 0) // it was given back
		time.Sleep(30 * time.Second)
		empty(t, s.mem)
	})
}

func TestAdopt_ARefusedDetachGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{fail: ErrDenied}
			}
			return fate{}
		})
		_, err := lock(t, locker(t, s, nil), "a").Detach()
		is(t, err, ErrDenied)
		empty(t, s.mem)
	})
}

func TestAdopt_DetachOfAnEndedLeaseIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		l := lock(t, locks, "a")
		s.mem.Break("a")
		_, err := l.Detach() // not known here yet
		is(t, err, ErrLost)
		l = lock(t, locks, "a")
		l.engine().Probe().Forget() // its timer never fires
		time.Sleep(time.Minute)
		_, err = l.Detach()
		is(t, err, ErrLost)
		same(t, "reported as lost", over(l.Lost()), true)
		l = lock(t, locks, "a")
		release(t, l)
		_, err = l.Detach()
		is(t, err, ErrReleased)
		l = lock(t, locks, "a")
		locks.Close()
		_, err = l.Detach()
		is(t, err, ErrClosed)
		_, err = locks.Adopt(t.Context(), Ref{Name: "a", ID: l.ID(), Token: 1, grant: 1, limit: 1, weight: 1})
		is(t, err, ErrClosed)
	})
}

// These are refused before anything is sent, and the lease continues.
func TestAdopt_ALeaseThatCannotBeDetachedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{Reentrant: On})
		l := lock(t, locks, "a")
		again, err := locks.Mutex("a").Lock(l.Context(t.Context()))
		is(t, err, nil)
		up, err := locks.RWMutex("b").Upgradeable().Lock(t.Context())
		is(t, err, nil)
		blind := newLink(t)
		blind.desc.Lacks = map[store.Promise]string{store.PromiseDetach: "it is bound to a session"}
		poor := locker(t, blind, nil)
		bound := lock(t, poor, "a")
		calls := len(s.made()) + len(blind.made())
		_, err = l.Detach()
		is(t, err, ErrInvalid)
		_, err = up.Detach()
		is(t, err, ErrInvalid)
		_, err = bound.Detach()
		is(t, err, ErrUnsupported)
		_, err = poor.Adopt(t.Context(), Ref{Name: "a", ID: l.ID(), Token: 1, grant: 1, limit: 1, weight: 1})
		is(t, err, ErrUnsupported)
		same(t, "calls", len(s.made())+len(blind.made()), calls)
		for _, l := range []*Lease{l, again, up.Lease, bound} {
			same(t, "valid", l.Valid(), true)
		}
		release(t, again)
		detach(t, l)
	})
}

func TestAdopt_TheMinimumHoldStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		l, err := locks.With(&Options{MinHold: time.Hour}).Mutex("a").Lock(t.Context())
		is(t, err, nil)
		release(t, adopt(t, locks, detach(t, l)))
		time.Sleep(time.Hour - time.Second)
		_, err = locks.Mutex("a").TryLock(t.Context())
		is(t, err, ErrHeld)
		time.Sleep(time.Second)
		release(t, lock(t, locks, "a"))
	})
}

func TestAdopt_ARefIsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, memstore.New(), nil)
		for _, name := range []string{"a", "a/b c%2F\x00\n", "Zürich 🔒"} {
			ref := detach(t, lock(t, locks, name))
			if text := ref.String(); strings.ContainsAny(text, " \n\t\x00\"'") {
				t.Errorf("the text %q has characters that need quoting", text)
			}
			data, err := json.Marshal(map[string]Ref{"ref": ref})
			is(t, err, nil)
			var read map[string]Ref
			is(t, json.Unmarshal(data, &read), nil)
			same(t, "ref", read["ref"].String(), ref.String())
			release(t, adopt(t, locks, read["ref"]))
		}
		good := detach(t, lock(t, locks, "a")).String()
		for i, bad := range []string{
			"", "1", strings.Replace(good, "1/", "2/", 1), good + "/", strings.Replace(good, "/a", "/%zz", 1),
			strings.ToLower(good), strings.Replace(good, "/0", "/x", 1), strings.Replace(good, "Z/", "/", 1), "1/" + good,
			strings.Replace(good, "/"+"1073741824/", "/0/", 1), strings.Replace(good, "/"+"1073741824/", "/-1/", 1),
		} {
			ref := Ref{Name: "as before"}
			if err := ref.UnmarshalText([]byte(bad)); !errors.Is(err, ErrInvalid) {
				t.Errorf("%d: %q: %v", i, bad, err)
			}
			same(t, "ref", ref.Name, "as before")
		}
		for _, ref := range []Ref{{}, {Name: "a"}, {Name: "a", limit: 1, weight: 1, grant: 1, Token: 1}} {
			_, err := locks.Adopt(t.Context(), ref)
			is(t, err, ErrInvalid)
		}
	})
}

// A hold that was handed over inside the process keeps its token there. Once it is
// detached, it is not handed over here any more.
func TestAdopt_OfALeaseThatWasHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		one, two := locker(t, withNotifications{s}, nil), locker(t, linkTo(t, s.mem), nil)
		first, err := one.Mutex("a").Lock(t.Context())
		is(t, err, nil)
		all := inLine(t, one, 2)
		release(t, first)
		second := all[0].got()
		same(t, "releases", len(s.made("release")), 0) // it was handed over
		ref := detach(t, second)
		same(t, "token", ref.Token, second.Token())
		all[1].waiting()
		same(t, "entries", len(stored(s.mem, "a").Entries), 2) // it asks the store, at once
		time.Sleep(20 * time.Second)
		all[1].waiting()
		adopted := adopt(t, two, ref)
		same(t, "token", adopted.Token(), second.Token())
		time.Sleep(time.Minute)
		same(t, "valid", adopted.Valid(), true)
		all[1].waiting()
		release(t, adopted)
		third := all[1].got()
		if third.Token() <= adopted.Token() {
			t.Errorf("got token %d after %d, want a larger one", third.Token(), adopted.Token())
		}
		release(t, third)
		empty(t, s.mem)
	})
}
