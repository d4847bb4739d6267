package holdfast

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Law 7 of the records: a store that answers is not away, although other processes win every race. A waiter continues to wait.
func TestOutage_LostRacesAreNoOutage(t *testing.T) {
	for _, notifies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			down(s, fmt.Errorf("ask: %w", store.ErrContended))
			var locks *Locker
			if locks = locker(t, s, nil); notifies {
				locks = locker(t, withNotifications{s}, nil)
			}
			_, err := locks.Mutex("a").TryLock(t.Context()) // it does not wait
			is(t, err, ErrUnavailable, store.ErrContended)
			all := inLine(t, locks, 5)
			// The context ends within the first ask, which has got no answer yet and only lost races.
			hurried := waits(t, locks.With(&Options{Wait: 3 * time.Second}).Mutex("b").Lock)
			hurried.failed(context.DeadlineExceeded)
			isNot(t, hurried.err, ErrUnavailable)
			time.Sleep(time.Minute)
			s.on(nil)
			for _, w := range all {
				release(t, w.got())
			}
			time.Sleep(time.Minute)
			same(t, "local waiters left", locks.kept(), 0)
			empty(t, s.mem)
		})
	}
}

// The same for an upgrade: it waits on, and only a try reports the lost races. Each has a hold of its own, as a failed one is
// changed back first.
func TestOutage_LostRacesEndNoUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		tries, hurries, waits := upgradeableLease(t, locks.RWMutex("a")), upgradeableLease(t, locks.RWMutex("b")), upgradeableLease(t, locks.RWMutex("c"))
		s.on(func(c *call) fate {
			if c.op == "change" {
				return fate{fail: fmt.Errorf("change: %w", store.ErrContended)}
			}
			return fate{}
		})
		is(t, tries.TryUpgrade(t.Context()), ErrUnavailable, store.ErrContended)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := hurries.Upgrade(ctx)
		is(t, err, context.DeadlineExceeded)
		isNot(t, err, ErrUnavailable)
		upgraded := upgrading(t, waits)
		time.Sleep(time.Minute)
		s.on(nil)
		release(t, upgraded.got())
	})
}
