package holdfast

import (
	"testing"
	"testing/synctest"
	"time"
)

// Rule 3: a store can give a hold that is not renewed automatically an expiry of its own.
func TestRenewByHand_TheStoreIsInformed(t *testing.T) {
	for name, o := range map[string]*Options{"by hand": {NoRenew: On}, "by itself": nil, "a minimum hold": {NoRenew: On, MinHold: time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				locks := locker(t, s, o)
				l := lock(t, locks, "a")
				if o == nil || o.MinHold == 0 { // otherwise it is renewed once to show its token, and not again
					renew(t, l, time.Minute)
				}
				all, err := locks.All(mutexes(locks, "b", "c")...).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				renewals := s.made("renew")
				if len(renewals) == 0 {
					t.Fatal("nothing was renewed, so the test proves nothing")
				}
				for _, c := range renewals {
					for _, h := range c.holds {
						same(t, h.Name+" by hand", h.ByHand, o != nil)
					}
				}
				release(t, l)
				if err := all.Release(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
