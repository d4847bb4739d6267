package pgstore

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestAHoldIsKeptIfItsSessionIsLocked(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	pool, schema := poolOn(t, addr), apart(t, addr)
	var of *Store
	storetest.LockedSession(t, storetest.Lockable[session.ID]{
		Open: func(t *testing.T) store.Store {
			of = tableOn(t, pool, &Options{Schema: schema})
			return of
		},
		Sessions: func(s store.Store) []session.ID { return s.(*Store).sessions.IDs() },
		Lock: func(t *testing.T, id session.ID) {
			tx, err := poolOn(t, addr).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			if _, err := tx.Exec(t.Context(), "SELECT FROM "+sessionsOf(of)+" WHERE id = $1 FOR UPDATE", id[:]); err != nil {
				t.Fatal(err)
			}
		},
	})
}
