package holdfast

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/memstore"
)

func TestByName_LocksAndUnlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		one, two := locker(t, mem, nil).ByName(), locker(t, mem, nil).ByName()
		ctx := t.Context()
		if err := one.Lock(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		ok, err := two.TryLock(ctx, "a")
		if ok || err != nil {
			t.Fatal(ok, err)
		}
		is(t, two.Unlock(ctx, "a"), ErrReleased)
		same(t, "held", one.Lease("a").Valid(), true)
		w := waits(t, func(ctx context.Context) (*Lease, error) { return nil, two.Lock(ctx, "a") })
		if err := one.Unlock(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		w.got()
		is(t, one.Unlock(ctx, "a"), ErrReleased)
		same(t, "the first caller has no lease", one.Lease("a") == nil, true)
		if err := two.Unlock(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		ok, err = one.TryLock(ctx, "a")
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		_, err = one.TryLock(ctx, "")
		is(t, err, ErrInvalid)
		is(t, one.Lock(ctx, ""), ErrInvalid)
	})
}

// A caller that has lost its lease does not release the lease of the next one.
func TestByName_ALateUnlockReleasesNoOtherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		locks := locker(t, mem, nil).ByName()
		if err := locks.Lock(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		mem.Break("a")
		<-locks.Lease("a").Lost()
		if err := locks.Lock(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		second := locks.Lease("a")
		is(t, locks.Unlock(t.Context(), "a"), ErrLost)
		same(t, "the second lease is valid", second.Valid(), true)
		if err := locks.Unlock(t.Context(), "a"); err != nil || !errors.Is(second.Release(), ErrReleased) {
			t.Fatal(err)
		}
		empty(t, mem)
	})
}
