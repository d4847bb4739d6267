package zkstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A fault is what happens to an ask: its connection falls silent and is then reset.
type fault struct {
	waits  bool // the name is held: the ask leaves a note
	itself bool // the ask does not arrive; else its answer does not
}

// eachFault runs f for each fault, on a store that also has a hold and a waiter. Their sessions live on, so nothing
// ends with a session. It checks that the hold is still there.
func eachFault(t *testing.T, f func(t *testing.T, at fault, s *Store, r *replay, other *Store)) {
	t.Helper()
	addr := testserver.SharedZooKeeper(t)
	for _, at := range []fault{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", at), func(t *testing.T) {
			t.Parallel()
			o := apart()
			s, r := replayOn(t, o, addr)
			other := closing(t, storeOn(t, o, addr))
			warm := mustHold(t, s, mutex("warm"))
			if mustAsk(t, s, mutex("warm")).Granted {
				t.Fatal("two claims hold the lock")
			}
			if err := s.Release(t.Context(), mustHold(t, s, mutex("a"))); err != nil { // so that the store knows the record
				t.Fatal(err)
			}
			f(t, at, s, r, other)
			if h := s.Renew(t.Context(), []store.Hold{warm})[0]; h.Err != nil {
				t.Errorf("the other hold: %v", h.Err)
			}
		})
	}
}

// meets asks for the claim, and gets no answer.
func (at fault) meets(t *testing.T, s *Store, r *replay, c store.Claim) {
	t.Helper()
	path := s.backend.nameNode(c.Name)
	if at.waits {
		path += "/" // the path of its note
	}
	err := r.unanswered(t, &loss{of: path, itself: at.itself}, func() error {
		_, err := s.Ask(t.Context(), c)
		return err
	})
	if err == nil || store.Definite(err) {
		t.Fatalf("an unanswered ask: %v, want it indeterminate", err)
	}
}

// isEmpty waits until nothing of the name is there.
func isEmpty(t *testing.T, s *Store, name string) {
	t.Helper()
	until(t, "no entry of it is left: "+name, func() bool { return len(entriesOf(t, s, name).Entries) == 0 })
}

// An ask that was not answered can arrive at any time, even after its withdrawal, and more than once. It is not done
// then, though its session lives on with other claims of its process.
func TestAnAskThatArrivesAfterItsWithdrawalIsNotDone(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, at fault, s *Store, r *replay, other *Store) {
		var hold store.Hold
		if at.waits {
			hold = mustHold(t, other, storetest.Mutex(store.NewProcess(), "a"))
		}
		c := mutex("a")
		at.meets(t, s, r, c)
		withdrawn(t, s, store.Hold{Name: "a", ID: c.ID})
		if r.again(t); at.waits {
			if err := other.Release(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
			r.again(t)
		}
		if st := entriesOf(t, other, "a"); len(st.Entries) != 0 {
			t.Errorf("got entries of the late ask: %+v", st.Entries)
		}
		if in := other.backend.mustLoad(t, "a").Inbox; len(in) > 0 {
			t.Errorf("got notes: %+v", in)
		}
	})
}

// If it is asked for again, it is in the queue once, whatever arrived of it before or arrives later. Once released, it
// is gone.
func TestARepeatedAskIsInTheQueueOnce(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, at fault, s *Store, r *replay, other *Store) {
		var hold store.Hold
		if at.waits {
			hold = mustHold(t, other, storetest.Mutex(store.NewProcess(), "a"))
		}
		c := mutex("a")
		at.meets(t, s, r, c)
		repeated := func() (a store.Answer) {
			t.Helper()
			until(t, "the repeated ask is answered", func() bool {
				var err error
				if a, err = s.Ask(t.Context(), c); err != nil && store.Definite(err) {
					t.Fatal("the repeated ask:", err)
				}
				return err == nil
			})
			return a
		}
		if a := repeated(); a.Granted == at.waits {
			t.Fatalf("the repeated ask: got %+v", a)
		}
		if r.again(t); at.waits {
			if err := other.Release(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
		}
		a := repeated()
		if !a.Granted {
			t.Fatalf("the name is free, but got %+v", a)
		}
		r.again(t)
		if st := entriesOf(t, other, "a"); len(st.Entries) != 1 || st.Entries[0].ID != c.ID {
			t.Errorf("got %+v listed, want one entry", st.Entries)
		}
		withdrawn(t, s, store.Hold{Name: "a", ID: c.ID, Token: a.Token})
		r.again(t)
		if next := mustAsk(t, other, mutexTry("a")); !next.Granted {
			t.Errorf("after the release: got %+v for the next claim, want a grant", next)
		}
	})
}

// A hold goes on under another id. The late ask for the old id neither harms it nor adds anything.
func TestALateAskDoesNotHarmAnAdoptedHold(t *testing.T) {
	t.Parallel()
	s, r := replayOn(t, apart(), testserver.SharedZooKeeper(t))
	c := mutex("a")
	fault{itself: true}.meets(t, s, r, c)
	var a store.Answer
	until(t, "the repeated ask is answered", func() bool {
		var err error
		a, err = s.Ask(t.Context(), c)
		return err == nil
	})
	hold := store.Hold{Name: "a", ID: c.ID, Token: a.Token, NewID: me.NewID(), TTL: c.TTL}
	if r := s.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	hold.ID, hold.NewID = hold.NewID, store.ID{}
	r.again(t)
	if r := s.Renew(t.Context(), []store.Hold{hold})[0]; r.Err != nil {
		t.Fatalf("the adopted hold: %v", r.Err)
	}
	if st := entriesOf(t, s, "a"); len(st.Entries) != 1 || st.Entries[0].ID != hold.ID {
		t.Errorf("got %+v, want the adopted hold", st.Entries)
	}
	if err := s.Release(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	r.again(t)
	isEmpty(t, s, "a")
}

// A session can end while a claim is asked for in it. A claim granted then belongs to nobody, and is removed.
func TestAnAskWhoseSessionEndedMeanwhileLeavesNothing(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	s, r := replayOn(t, o, addr)
	other := closing(t, storeOn(t, o, addr))
	kept, c := mustHold(t, s, mutex("kept")), mutex("a")
	ends := func() {
		for _, id := range s.Sessions() {
			endSession(t, addr, s.backend.ofOwn(id).conn)
		}
	}
	_ = r.unanswered(t, &loss{of: s.backend.nameNode("a"), arrived: ends}, func() error {
		_, err := s.Ask(t.Context(), c)
		return err
	})
	until(t, "the owner gets ErrLost", func() bool {
		_, err := s.Ask(t.Context(), c)
		return errors.Is(err, store.ErrLost)
	})
	if h := s.Renew(t.Context(), []store.Hold{kept})[0]; !errors.Is(h.Err, store.ErrLost) {
		t.Errorf("a hold of its session: %v, want ErrLost", h.Err)
	}
	isEmpty(t, other, "a")
	isEmpty(t, other, "kept")
}

// A session can also end while its claim waits. The claim is lost, and is granted nothing that the next session keeps.
func TestAWaiterWhoseSessionEndedIsLost(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	s, other := closing(t, storeOn(t, o, addr)), closing(t, storeOn(t, o, addr))
	hold := mustHold(t, other, storetest.Mutex(store.NewProcess(), "a"))
	c := mutex("a")
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
