package etcdstore

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// isEmpty waits until nothing of the name is there, whichever process reads.
func isEmpty(t *testing.T, what string, b *Store, name string) {
	t.Helper()
	until(t, what, func() bool { return len(entriesOf(t, b, name).Entries) == 0 })
}

// The owner withdraws once. If etcd has not answered, the store must repeat it.
func TestAnUnansweredWithdrawalIsRepeated(t *testing.T) {
	t.Parallel()
	for _, itself := range []bool{true, false} {
		s, kv := lossy(t, testserver.SharedEtcd(t), apart())
		hold := mustHold(t, s, mutex("a"))
		kv.loses(1, itself)
		if err := s.Release(t.Context(), store.Hold{Name: "a", ID: hold.ID}); err == nil || store.Definite(err) {
			t.Fatalf("an unanswered withdrawal: %v, want it indeterminate", err)
		}
		isEmpty(t, "the ask is withdrawn", s, "a")
	}
}

// The same holds for a release, which its owner may also repeat. Otherwise the name would stay taken for a whole TTL in
// a process that lives on.
func TestAnUnansweredReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	for _, itself := range []bool{true, false} {
		s, kv := lossy(t, testserver.SharedEtcd(t), apart())
		c := mutex("a")
		c.TTL = lateTTL
		hold := mustHold(t, s, c)
		kv.loses(1, itself)
		if err := s.Release(t.Context(), hold); err == nil || store.Definite(err) {
			t.Fatalf("an unanswered release: %v, want it indeterminate", err)
		}
		isEmpty(t, "the hold is released", s, "a")
	}
}

// An ask that was not answered can reach etcd at any time, even after its withdrawal, and more than once. It may be a
// grant, or the note of a waiter.
func TestAnAskThatArrivesAfterItsWithdrawalIsNotDone(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{true, false} {
		for _, itself := range []bool{true, false} {
			addr, o := testserver.SharedEtcd(t), apart()
			s, kv := lossy(t, addr, o)
			b := closing(t, storeOn(t, clientOf(t, addr), o))
			warm := mustHold(t, s, mutex("warm"))
			waiter := mutex("warm") // so that there is a session of waiters
			mustAsk(t, s, waiter)
			var hold store.Hold
			if waits {
				hold = mustHold(t, b, storetest.Mutex(store.NewProcess(), "a"))
			}
			kv.loses(1, itself)
			c := mutex("a")
			c.TTL = lateTTL
			if _, err := s.Ask(t.Context(), c); err == nil || store.Definite(err) {
				t.Fatalf("an unanswered ask: %v, want it indeterminate", err)
			}
			until(t, "the ask is withdrawn", func() bool {
				return s.Release(t.Context(), store.Hold{Name: "a", ID: c.ID}) == nil
			})
			kv.again(t)
			if waits {
				if err := b.Release(t.Context(), hold); err != nil {
					t.Fatal(err)
				}
			}
			kv.again(t)
			if st := entriesOf(t, b, "a"); len(st.Entries) != 0 {
				t.Errorf("got entries of the late ask: %+v", st.Entries)
			}
			if st := entriesOf(t, b, "warm"); len(st.Entries) != 2 || st.Entries[0].ID != warm.ID {
				t.Errorf("got entries %+v of the other name", st.Entries)
			}
		}
	}
}

// A hold goes on under another id. The late ask for the old id neither harms it nor adds anything.
func TestALateAskDoesNotHarmAnAdoptedHold(t *testing.T) {
	t.Parallel()
	s, kv := lossy(t, testserver.SharedEtcd(t), apart())
	if err := s.Release(t.Context(), mustHold(t, s, mutex("a"))); err != nil {
		t.Fatal(err)
	}
	c := mutex("a")
	c.TTL = lateTTL
	kv.loses(1, false)
	if _, err := s.Ask(t.Context(), c); err == nil || store.Definite(err) {
		t.Fatalf("an unanswered ask: %v, want it indeterminate", err)
	}
	hold := mustHold(t, s, c)
	adopted := hold
	adopted.NewID, adopted.TTL = me.NewID(), lateTTL
	if r := s.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	adopted.ID, adopted.NewID = adopted.NewID, store.ID{}
	kv.again(t)
	if r := s.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err != nil {
		t.Fatalf("the adopted hold: %v", r.Err)
	}
	if st := entriesOf(t, s, "a"); len(st.Entries) != 1 || st.Entries[0].ID != adopted.ID {
		t.Errorf("got %+v, want the adopted hold", st.Entries)
	}
	if err := s.Release(t.Context(), adopted); err != nil {
		t.Fatal(err)
	}
	kv.again(t)
	isEmpty(t, "no entry of it is left", s, "a")
}

// A session can end while a claim is asked for in it. A claim granted then belongs to nobody, and is removed.
func TestAnAskWhoseSessionEndedMeanwhileLeavesNothing(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedEtcd(t), apart()
	for _, answered := range []bool{true, false} {
		s, kv := lossy(t, addr, o)
		b := closing(t, storeOn(t, clientOf(t, addr), o))
		c := mutex("a")
		c.TTL = lateTTL
		kept := mutex("kept")
		kept.TTL = lateTTL
		mustHold(t, s, kept)
		once := true
		kv.meets(func(tx *sent) error {
			if !once || !tx.writes() {
				return nil
			}
			once = false
			if err := tx.arrive(tx.ctx); err != nil {
				return err
			}
			revoke(t, s)
			if !answered {
				tx.r = nil
				return errors.New("no answer")
			}
			return nil
		})
		if a, err := s.Ask(t.Context(), c); err == nil && a.Granted {
			if r := s.Renew(t.Context(), []store.Hold{{Name: "a", ID: c.ID, Token: a.Token, TTL: lateTTL}})[0]; r.Err == nil {
				t.Error("a grant in an ended session was renewed")
			}
		}
		_ = s.Release(t.Context(), store.Hold{Name: "a", ID: c.ID})
		isEmpty(t, "no entry of it is left", b, "a")
		isEmpty(t, "no entry of its session is left", b, "kept")
	}
}

// A session can also end while its claim waits. The claim is lost, and is granted nothing that the next session keeps.
func TestAWaiterWhoseSessionEndedIsLost(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedEtcd(t), apart()
	s, other := closing(t, storeOn(t, clientOf(t, addr), o)), closing(t, storeOn(t, clientOf(t, addr), o))
	hold := mustHold(t, other, storetest.Mutex(store.NewProcess(), "a"))
	c := mutex("a")
	c.TTL = lateTTL
	if mustAsk(t, s, c).Granted {
		t.Fatal("granted while another claim holds the lock")
	}
	if err := endSessions(t, s); err != nil {
		t.Fatal(err)
	}
	if err := other.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrLost) {
		t.Errorf("second ask: got %+v, %v, want ErrLost", a, err)
	}
	next := mustHold(t, other, storetest.Mutex(store.NewProcess(), "a"))
	if next.Token <= hold.Token {
		t.Errorf("got token %d after %d, want a larger one", next.Token, hold.Token)
	}
}
