package holdfast

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

// Observers are notified of operations that announce. A lock has no observers, and its operations do not announce.
func TestElection_AllThatItDoesIsAnnounced(t *testing.T) {
	for name, of := range map[string]struct {
		says  bool
		claim func(*Locker) func(context.Context) (*Lease, error)
	}{
		"election": {true, func(l *Locker) func(context.Context) (*Lease, error) { return l.Election("n").Campaign }},
		"mutex":    {false, func(l *Locker) func(context.Context) (*Lease, error) { return l.Mutex("n").Lock }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				s, other := listed(t, mem), listed(t, mem)
				l := locker(t, s, &Options{MinHold: time.Second}) // the token is shown before the owner has the lease
				first := waits(t, of.claim(l)).got()
				time.Sleep(time.Minute)
				leaves := waits(t, of.claim(locker(t, other, nil)))
				leaves.cancel()
				<-leaves.done
				synctest.Wait()
				second := waits(t, of.claim(locker(t, other, nil)))
				release(t, first)
				detach(t, second.got())
				var did []string
				for _, c := range append(s.made(), other.made()...) {
					says := c.claim.Announce
					for _, h := range c.holds {
						says = h.Announce
					}
					switch c.op {
					case "ask", "try", "renew", "release", "withdraw":
						same(t, c.op+" is announced", says, of.says)
						did = append(did, c.op)
					}
				}
				for _, want := range []string{"ask", "renew", "withdraw", "release"} {
					same(t, want+" was done", slices.Contains(did, want), true)
				}
			})
		})
	}
}

// What Detach returns does not say whether it is of an election.
func TestAdopt_WhatIsAdoptedIsAnnounced(t *testing.T) {
	s := newLink(t)
	locks := locker(t, s, nil)
	ref := detach(t, lock(t, locks, "n"))
	before := len(s.made())
	release(t, adopt(t, locks, ref))
	for _, c := range s.made()[before:] {
		same(t, c.op+" is announced", c.holds[0].Announce, true)
	}
}
