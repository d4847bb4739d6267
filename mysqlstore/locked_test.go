package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// lockRow keeps a row locked in another transaction until end is called.
func lockRow(t *testing.T, dsn, where string) (end func()) {
	t.Helper()
	tx, err := dbOn(t, dsn).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.QueryContext(t.Context(), "SELECT * FROM "+where+" FOR UPDATE")
	if err != nil {
		t.Fatal(err)
	}
	if !rows.Next() {
		t.Fatal("the row does not exist")
	}
	rows.Close()
	return sync.OnceFunc(func() { tx.Rollback() })
}

// waiting returns how many statements that begin so wait for a lock, or are running.
func waiting(t *testing.T, db *sql.DB, begins string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID<>CONNECTION_ID() AND INFO LIKE ?", begins+"%").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// An ask for a name whose row is locked leaves a note. When its caller leaves, no statement waits in the server, and what is left can be taken
// back by its id.
func TestAnAskForALockedRowLeavesNothingWaitingInTheServer(t *testing.T) {
	for within := 500 * time.Millisecond; !leavesNothingWaiting(t, within); within *= 2 {
		if within > patience {
			t.Fatal("this machine is too slow: each time an ask ended before it left its note, or a statement of it waits in the server")
		}
	}
}

// leavesNothingWaiting asks, for that long, for a name whose row is locked. It returns false if the server was too slow for that.
func leavesNothingWaiting(t *testing.T, within time.Duration) bool {
	t.Helper()
	s := newShared(t)
	h := mustHold(t, s, mutex("n"))
	other := storeOn(t, dbOn(t, sharedDSN(t)), &s.b.o)
	defer other.Close()
	w := mutex("n")
	unlock := lockRow(t, sharedDSN(t), s.b.records+" WHERE name='n'")
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	_, err := other.Ask(ctx, w)
	cancel()
	if errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrContended) {
		t.Logf("Ask, given up after %v: %v", within, err)
		return false
	}
	if !errors.Is(err, store.ErrContended) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ask: %v, want ErrContended at its deadline", err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 2 { // neither a reader nor a process that leaves a note waits
		t.Errorf("got %+v listed, want two entries", st)
	}
	// A statement that waits in the server waits for 50 s, even after its sender has left. One that is merely running ends soon.
	until(t, "no statement waits in the server for the row", func() bool { return waiting(t, s.b.db, "%"+s.b.records) == 0 })
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Errorf("renewal of the hold in the locked row: %v", err)
	}
	unlock()
	until(t, "only the hold is left", func() bool {
		if err := other.Release(t.Context(), store.Hold{Name: "n", ID: w.ID}); err != nil {
			t.Fatal(err)
		}
		st := state(t, s, "n")
		return len(st.Entries) == 1 && st.Entries[0].ID == h.ID
	})
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Error(err)
	}
	return true
}

// onBoth runs f on the server that the tests share and on a MySQL server, unless that is the shared one.
func onBoth(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Run("shared", func(t *testing.T) { f(t, sharedDSN(t)) })
	t.Run("MySQL 9.7", func(t *testing.T) { f(t, testserver.MariaDBDSN(testserver.SharedMySQL9(t))) })
}

// One locked row does not affect the other holds: a renewal writes only the row of the session.
func TestALockedRowDoesNotStopOtherRenewals(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		s := storeOn(t, dbOn(t, dsn), apart())
		defer s.Close()
		var holds []store.Hold
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for i := range 40 {
			holds = append(holds, mustHold(t, s, mutex(fmt.Sprint(i))))
		}
		unlock := lockRow(t, dsn, s.b.records+" WHERE name='17'")
		defer unlock()
		for i, r := range s.Renew(ctx, holds) {
			if r.Err != nil {
				t.Errorf("renewal %d: %v", i, r.Err)
			}
		}
		for i := range holds {
			if i != 17 {
				if err := s.Release(ctx, holds[i]); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// A session whose row somebody has locked does not block the renewal, the end or the check of any other session.
func TestALockedSessionDelaysNoOtherSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		b := backendOn(t, dsn, apart())
		defer b.Close()
		var ids []session.ID
		for range 10 {
			id := session.NewID()
			if _, err := b.Begin(t.Context(), id, time.Hour); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		mustExec(t, b.db, "UPDATE "+b.sessions+" SET expires=1 WHERE id IN ("+text(ids[4][:])+","+text(ids[5][:])+")")
		unlock := lockRow(t, dsn, b.sessions+" WHERE id="+text(ids[4][:]))
		defer unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		b.sweep(ctx) // it waits for the locked session
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), patience)
		defer cancel()
		for i, id := range ids {
			if i == 4 || i == 5 {
				continue
			}
			if _, err := b.Renew(ctx, id); err != nil {
				t.Errorf("renewal %d: %v", i, err)
			}
		}
		if left, err := b.Left(ctx, ids[5:]); err != nil || left[0] > 0 || left[1] <= 0 {
			t.Errorf("got %v left, %v", left, err)
		}
		if _, err := b.Begin(ctx, session.NewID(), time.Hour); err != nil {
			t.Error(err)
		}
		if err := b.End(ctx, ids[9]); err != nil {
			t.Error(err)
		}
	})
}

// One locked row does not block the other names whose rows are deleted together with it.
func TestALockedRowBlocksNoOtherNameBeingDeleted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		s := storeOn(t, dbOn(t, dsn), apart())
		defer s.Close()
		for i := range 10 {
			if err := s.Release(t.Context(), mustHold(t, s, mutex(fmt.Sprint(i)))); err != nil {
				t.Fatal(err)
			}
		}
		mustExec(t, s.b.db, "UPDATE "+s.b.records+" SET written=1")
		unlock := lockRow(t, dsn, s.b.records+" WHERE name='7'")
		defer unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		s.b.sweep(ctx) // at best it deletes all but one
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), patience) // a server would wait for 50 s
		defer cancel()
		for i := range 10 {
			if i == 7 {
				continue
			}
			if a, err := s.Ask(ctx, mutex(fmt.Sprint(i))); err != nil || !a.Granted {
				t.Errorf("name %d: got %+v, %v", i, a, err)
			}
		}
	})
}

// The session of a process is one row too. It keeps all holds that the process asked for with that TTL. If somebody has that row locked, all
// its holds move into another session.
func TestAHoldIsKeptIfItsSessionIsLocked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		t.Parallel()
		o, table := apart(), ""
		storetest.LockedSession(t, storetest.Lockable[session.ID]{
			Open: func(t *testing.T) store.Store {
				s := storeOn(t, dbOn(t, dsn), o)
				table = s.b.sessions
				return s
			},
			Sessions: func(s store.Store) []session.ID { return s.(*Store).Sessions() },
			Lock: func(t *testing.T, id session.ID) {
				t.Cleanup(lockRow(t, dsn, table+" WHERE id="+text(id[:])))
			},
		})
	})
}

// If somebody has the whole table of sessions locked, the owner gets the loss reported by the deadline, and nobody else is granted the lock
// before that.
func TestAHoldWhoseSessionsAreAllLockedIsLostByItsDeadline(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		o := apart()
		s, other := storeOn(t, dbOn(t, dsn), o), storeOn(t, dbOn(t, dsn), o)
		defer s.Close()
		defer other.Close()
		them := store.NewProcess()
		mine := mutex("a")
		mine.TTL = 4 * time.Second
		a := mustAsk(t, s, mine)
		if !a.Granted || len(s.Sessions()) != 1 {
			t.Fatalf("got %+v, in sessions %v", a, s.Sessions())
		}
		h, until := store.Hold{Name: "a", ID: mine.ID, Token: a.Token, TTL: mine.TTL}, a.From.Add(a.TTL)
		unlock := lockRow(t, dsn, s.b.sessions) // and the gaps between the rows, so that no session can begin
		defer unlock()
		within := func(d time.Duration, f func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return f(ctx)
		}
		tries := func(d time.Duration) (b store.Answer, err error) {
			try := storetest.Mutex(them, "a")
			try.Try = true
			err = within(d, func(ctx context.Context) (err error) { b, err = other.Ask(ctx, try); return err })
			if err != nil { // it may be granted, now or later: what cannot be released now, the store releases later
				_ = within(d, func(ctx context.Context) error { return other.Release(ctx, store.Hold{Name: "a", ID: try.ID}) })
			}
			return b, err
		}
		for began := time.Now(); ; {
			if time.Since(began) > patience {
				t.Fatalf("the owner did not get ErrLost within %v", patience)
			}
			late, r := store.Now() > until, store.Renewal{}
			// Wait longer than the session waits for its own renewal: a renewal that the caller does not wait for does not count.
			err := within(mine.TTL/2, func(ctx context.Context) error { r = s.Renew(ctx, []store.Hold{h})[0]; return r.Err })
			if errors.Is(err, store.ErrLost) {
				break
			} else if late {
				t.Fatalf("after its deadline: got renewal %+v, want ErrLost", r)
			} else if err == nil {
				until = max(until, r.From.Add(r.TTL))
			}
			if b, err := tries(300 * time.Millisecond); err == nil && b.Granted {
				t.Fatalf("another claim was granted %v before the holder's deadline", until.Sub(store.Now()))
			}
		}
		unlock()
		for deadline := time.Now().Add(patience); ; {
			if b, err := tries(patience / 3); err == nil && b.Granted {
				if b.Token <= h.Token {
					t.Errorf("got token %d after %d, want a larger one", b.Token, h.Token)
				}
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("the lost lock is not granted: got %+v, %v", b, err)
			}
		}
		if r := s.Renew(t.Context(), []store.Hold{h})[0]; !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("after the row was unlocked: got renewal %+v, want ErrLost", r)
		}
	})
}
