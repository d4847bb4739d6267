package usecases_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// A fleet goes from one store to another: another prefix, table, directory or server. Release 0 takes
// the lock in the old store, release 1 in both, release 2 in the new one. docs/production.md and
// docs/migrating.md have the rules.

// A replica is one process of the fleet: the stores in which it takes a lock, in this order.
type replica []*holdfast.Locker

// try takes the name in each store of the replica, or in none.
func (r replica) try(ctx context.Context, name string) (release func(), err error) {
	var leases []*holdfast.Lease
	release = func() {
		for _, lease := range slices.Backward(leases) {
			lease.Release()
		}
	}
	for _, locks := range r {
		lease, err := locks.Mutex(name).TryLock(ctx)
		if err != nil {
			release()
			return nil, err
		}
		leases = append(leases, lease)
	}
	return release, nil
}

// twoStores returns what makes a replica of a release: 0, 1 or 2.
func twoStores(t *testing.T) func(release int) replica {
	from, to := memstore.New(), memstore.New()
	on := func(s *memstore.Store) *holdfast.Locker {
		locks, err := holdfast.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locks.Close() })
		return locks
	}
	return func(release int) replica {
		switch release {
		case 0:
			return replica{on(from)}
		case 1:
			return replica{on(from), on(to)}
		default:
			return replica{on(to)}
		}
	}
}

// Three replicas are replaced one by one, twice. Whichever of them holds the name, no other gets it;
// and who was refused leaves nothing behind that keeps the next holder out.
func TestFleetMovesWithoutASecondHolder(t *testing.T) {
	ctx := context.Background()
	start := twoStores(t)
	for _, releases := range [][]int{{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {2, 2, 2}} {
		var fleet []replica
		for _, release := range releases {
			fleet = append(fleet, start(release))
		}
		for i, holder := range fleet {
			release, err := holder.try(ctx, "nightly")
			if err != nil {
				t.Fatalf("fleet %v: replica %d cannot get a free name: %v", releases, i, err)
			}
			for k, other := range fleet {
				if _, err := other.try(ctx, "nightly"); k != i && !errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("fleet %v: replica %d holds the lock, and %d gets %v, want ErrHeld", releases, i, k, err)
				}
			}
			release()
		}
	}
}

// Why release 1 is needed: releases 0 and 2 have no store in common.
func TestWithoutReleaseOneTwoHoldTheName(t *testing.T) {
	start := twoStores(t)
	for _, release := range []int{0, 2} {
		giveBack, err := start(release).try(context.Background(), "nightly")
		if err != nil {
			t.Fatalf("release %d is refused, so the two releases share a store, and this test proves nothing: %v", release, err)
		}
		defer giveBack()
	}
}

// Release 1 as docs/production.md writes it: the work runs under both locks, and its context ends with
// either. A claim of the same name in the other store is no deadlock.
func TestWorkUnderTwoStoresEndsWithEither(t *testing.T) {
	for _, lost := range []string{"old", "new"} {
		synctest.Test(t, func(t *testing.T) {
			stores := map[string]*memstore.Store{"old": memstore.New(), "new": memstore.New()}
			on := func(name string) *holdfast.Lock {
				locks, err := holdfast.New(stores[name], nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { locks.Close() })
				return locks.Mutex("nightly")
			}
			before, after := on("old"), on("new")

			err := before.Do(t.Context(), func(ctx context.Context) error {
				return after.Do(ctx, func(ctx context.Context) error {
					stores[lost].Break("nightly")
					<-ctx.Done()
					return ctx.Err()
				})
			})
			if !errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrNotRun) {
				t.Errorf("the lock of the %s store is lost: got %v, want ErrLost without ErrNotRun", lost, err)
			}
		})
	}
}
