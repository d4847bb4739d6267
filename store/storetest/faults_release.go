package storetest

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// repeatedRelease: a release is not answered, because the answer is lost or the release is late. Then its connection is
// reset, and it is repeated. The name stays taken for the minimum hold, as if the first release had been answered, and
// there is no lock delay.
func repeatedRelease(t *trial, c Linked, after int) {
	if why, lacks := t.d.Lacks[store.PromiseMinHold]; lacks {
		t.Skipf("the store lacks %q: %s", store.PromiseMinHold, why)
	}
	here, link, proc := t.linked(c)
	there, _, other := t.linked(c)
	keep := t.long / 2 // so that it differs from a lock delay
	t.warm(here, proc)
	t.warm(there, other)
	for i := range exchanges {
		claim := t.lasting(proc, t.name(), t.long)
		if claim.MinHold = keep; !t.lacks(store.PromiseLockDelay) {
			claim.LockDelay = t.long
		}
		before := store.Now()
		h := store.Hold{Name: claim.Name, ID: claim.ID, Token: t.granted(here, claim).Token, TTL: claim.TTL}
		if after%2 == 0 { // otherwise the release is the first to show the token
			t.until("the hold is renewed", func() bool { return here.Renew(t.ctx, []store.Hold{h})[0].Err == nil })
		}
		if i%2 == 0 {
			link.MuteAfter(after)
		} else {
			link.HoldAfter(after)
		}
		ctx, cancel := context.WithCancel(t.ctx)
		released := make(chan struct{})
		go func() {
			defer close(released)
			here.Release(ctx, h)
		}()
		t.fallSilent(link, after, released)
		link.Reset()
		cancel() // some drivers ignore a reset
		<-released
		t.given(here, h)
		link.Deliver()
		answered := false
		for end := time.Now().Add(silent); !answered || time.Now().Before(end); time.Sleep(silent / 10) { // an unanswered release may still be done
			try := t.lasting(other, claim.Name, t.lasts())
			try.Try = true
			a, err := there.Ask(t.ctx, try)
			if err != nil && !store.Definite(err) && time.Now().Before(end.Add(patience)) {
				continue
			}
			if err != nil {
				t.Fatalf("ask: %v", err)
			}
			answered = true
			left := keep - store.Now().Sub(before)
			if a.Granted && left > 0 {
				t.Fatalf("another was granted the name %v before its MinHold ends", left)
			}
			if a.Granted { // the minimum hold has passed
				t.given(there, store.Hold{Name: try.Name, ID: try.ID, Token: a.Token})
				break
			}
			if e := a.Holders[0]; e.ID != h.ID || e.Expires > 0 || e.Ends > t.late(keep) {
				t.Fatalf("blocked by %+v, want the released hold, for at most %v", e, keep)
			}
		}
	}
}
