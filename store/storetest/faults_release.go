package storetest

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A release is not answered, as the answer is lost, or as it comes late; then its connection is reset, and it is repeated. The name is kept for
// the minimum hold, as if it had been answered the first time, and there is no lock delay.
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
		if after%2 == 0 { // else the release is the first to show the token
			t.until("it is renewed", func() bool { return here.Renew(t.ctx, []store.Hold{h})[0].Err == nil })
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
		for end := time.Now().Add(silent); !answered || time.Now().Before(end); time.Sleep(silent / 10) { // what was not answered may be done still
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
				t.Fatalf("another was granted it %v before its minimum hold ends", left)
			}
			if a.Granted { // it took as long
				t.given(there, store.Hold{Name: try.Name, ID: try.ID, Token: a.Token})
				break
			}
			if e := a.Holders[0]; e.ID != h.ID || e.Expires > 0 || e.Ends > t.late(keep) {
				t.Fatalf("in the way is %+v, want the released hold, for %v at most", e, keep)
			}
		}
	}
}
