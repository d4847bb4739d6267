package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// lateAsk: asks are held back on their way, their connection is reset, and their
// owners give up. Only then do they arrive. Meanwhile their process holds something
// else, and waits for something else. Whatever the asks did, their names are free
// soon.
func lateAsk(t *trial, c Linked, after int) {
	here, link, proc := t.linked(c)
	there, _, other := t.linked(c)
	t.warm(there, other)
	defer t.keep(here, proc, there, other)()
	l := &lateAsks{t, link, here, there, proc, other}
	for i := range exchanges {
		l.round(after+i*exchanges, (after+i)%2 == 1)
	}
}

type lateAsks struct {
	*trial
	link        Link
	here, there store.Store
	proc, other store.Process
}

// round makes asks arrive late, after that many pieces: tries of free names, and asks for held
// names that their store object last saw free. If known is set, all ask for names that it has
// seen held, and whose queue has changed since. If a store needs several requests for that,
// the second one is certainly late once a single piece has passed.
func (t *lateAsks) round(after int, known bool) {
	var late []store.Claim
	var held []store.Hold
	for i := range beside {
		one := t.lasting(t.proc, t.name(), t.lastsLong())
		late = append(late, one)
		first := t.lasting(t.proc, one.Name, t.lastsLong())
		t.given(t.here, store.Hold{Name: one.Name, ID: first.ID, Token: t.granted(t.here, first).Token})
		if late[i].Try = !known && i%2 == 0; late[i].Try {
			continue
		}
		theirs, began := t.lasting(t.other, one.Name, t.long), store.Now()
		held = append(held, store.Hold{Name: one.Name, ID: theirs.ID, Token: t.granted(t.there, theirs).Token})
		if known {
			t.givesUp(t.here, t.proc, theirs, began)
			t.givesUp(t.there, t.other, theirs, began)
		}
	}
	t.link.HoldAfter(after)
	var waiting sync.WaitGroup
	var mu sync.Mutex
	tokens := map[store.ID]int64{}
	asking, cancel := context.WithCancel(t.ctx)
	defer cancel()
	for _, one := range late {
		waiting.Go(func() {
			if a, err := t.here.Ask(asking, one); err == nil && a.Granted {
				mu.Lock()
				defer mu.Unlock()
				tokens[one.ID] = a.Token
			}
		})
	}
	t.fallSilent(t.link, after, over(&waiting))
	t.link.Reset()
	cancel() // not earlier: a canceled request would not arrive
	waiting.Wait()
	for _, one := range late {
		t.given(t.here, store.Hold{Name: one.Name, ID: one.ID, Token: tokens[one.ID]})
	}
	t.link.Deliver()
	// If sessions keep the claims, an entry of an ask done now would last as long as its session. So the ask must
	// not be done, or the entry must expire or be removed. The names below show that.
	t.Logf("%d of %d asks arrived after they had been withdrawn", t.landed(late), len(late))
	for _, h := range held {
		t.given(t.there, h)
	}
	for _, one := range late {
		t.isFree(t.there, t.other, one.Name)
	}
}

// givesUp makes a claim of the process wait for a name that another claim holds, which was asked for at began, and
// then give up. If the machine was so slow that the other may have expired, the trial is inconclusive.
func (t *lateAsks) givesUp(s store.Store, p store.Process, held store.Claim, began store.Instant) {
	t.Helper()
	claim := t.lasting(p, held.Name, t.lastsLong())
	t.until("an ask is answered: "+held.Name, func() bool {
		ctx, cancel := t.once()
		defer cancel()
		a, err := s.Ask(ctx, claim)
		switch {
		case err != nil || !a.Granted:
		case t.expires(held, began):
			panic(tooSlow)
		default:
			t.Fatalf("%q is granted: %+v", held.Name, a)
		}
		return err == nil
	})
	t.given(s, store.Hold{Name: held.Name, ID: claim.ID})
}

// landed returns how many of the claims are listed within a while. Whether any are
// depends on the store and its server.
func (t *lateAsks) landed(late []store.Claim) int {
	in, ok := t.there.(store.Inspector)
	if !ok {
		return 0
	}
	seen := map[store.ID]bool{}
	for deadline := time.Now().Add(silent); time.Now().Before(deadline) && len(seen) < len(late); time.Sleep(time.Millisecond) {
		for _, one := range late {
			if slices.ContainsFunc(MustList(t.T, in, one.Name).Entries, func(e store.Entry) bool { return e.ID == one.ID }) {
				seen[one.ID] = true
			}
		}
	}
	return len(seen)
}
