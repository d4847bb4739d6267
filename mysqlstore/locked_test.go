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

// lockRow has a row locked by somebody else's transaction until end is called.
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
		t.Fatal("there is no such row")
	}
	rows.Close()
	return sync.OnceFunc(func() { tx.Rollback() })
}

// waiting is how many statements that begin so wait for a lock, or are under way.
func waiting(t *testing.T, db *sql.DB, begins string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID<>CONNECTION_ID() AND INFO LIKE ?", begins+"%").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Who asks for a name whose row is locked leaves a note, and no statement that waits in the server when the caller leaves:
// what is left can be taken back by its id.
func TestAnAskForALockedRowLeavesNothingWaitingInTheServer(t *testing.T) {
	for within := 500 * time.Millisecond; !leavesNothingWaiting(t, within); within *= 2 {
		if within > patience {
			t.Fatal("this machine is too slow: each time an ask was over before it left its note, or a statement of it waits in the server")
		}
	}
}

// leavesNothingWaiting asks for so long for a name whose row is locked. It is false if the server was too slow for that.
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
		t.Logf("ask, given up after %v: %v", within, err)
		return false
	}
	if !errors.Is(err, store.ErrContended) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ask: %v, want that the server answers, at its deadline", err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 2 { // who reads waits for nobody, nor does who leaves a note
		t.Errorf("listed: %+v", st)
	}
	// What waits there does so for 50 s, whoever sent it has left or not. What is just under way does not stay.
	until(t, "no statement waits in the server for the row", func() bool { return waiting(t, s.b.db, "%"+s.b.records) == 0 })
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Errorf("renewal of a hold whose row is locked: %v", err)
	}
	unlock()
	until(t, "nothing but the hold is left", func() bool {
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

// onBoth runs f on the server that the tests share and on a MySQL server, unless
// that is the one they share.
func onBoth(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Run("shared", func(t *testing.T) { f(t, sharedDSN(t)) })
	t.Run("MySQL 9.7", func(t *testing.T) { f(t, testserver.MariaDBDSN(testserver.SharedMySQL9(t))) })
}

// One row that somebody has locked keeps the other holds from nothing: a renewal writes the row of the session.
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

// A session whose row somebody has locked keeps no other from being renewed, ended or judged.
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
		b.sweep(ctx) // it waits for the one that is locked
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
			t.Errorf("left: %v, %v", left, err)
		}
		if _, err := b.Begin(ctx, session.NewID(), time.Hour); err != nil {
			t.Error(err)
		}
		if err := b.End(ctx, ids[9]); err != nil {
			t.Error(err)
		}
	})
}

// One row that somebody has locked keeps nobody from the other names whose rows are deleted with it.
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
		ctx, cancel = context.WithTimeout(t.Context(), patience) // a server waits for 50 s
		defer cancel()
		for i := range 10 {
			if i == 7 {
				continue
			}
			if a, err := s.Ask(ctx, mutex(fmt.Sprint(i))); err != nil || !a.Granted {
				t.Errorf("name %d: %+v, %v", i, a, err)
			}
		}
	})
}

// The session of a process is one row, too, by which it holds all that it has asked for with that TTL. If somebody has
// that row locked, all of it goes into another.
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

// If somebody has the table of the sessions locked, its owner is told of the loss by the deadline, and nobody else gets what
// it held before.
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
			t.Fatalf("%+v, in sessions %v", a, s.Sessions())
		}
		h, until := store.Hold{Name: "a", ID: mine.ID, Token: a.Token, TTL: mine.TTL}, a.From.Add(a.TTL)
		unlock := lockRow(t, dsn, s.b.sessions) // and what is between them, so that none can be begun
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
			if err != nil { // it may have been granted, or be yet: what cannot be given back now the store gives back later
				_ = within(d, func(ctx context.Context) error { return other.Release(ctx, store.Hold{Name: "a", ID: try.ID}) })
			}
			return b, err
		}
		for began := time.Now(); ; {
			if time.Since(began) > patience {
				t.Fatalf("its owner is not told that it is lost in %v", patience)
			}
			late, r := store.Now() > until, store.Renewal{}
			// Longer than the session waits for its own renewal: what the caller did not wait for counts for nothing.
			err := within(mine.TTL/2, func(ctx context.Context) error { r = s.Renew(ctx, []store.Hold{h})[0]; return r.Err })
			if errors.Is(err, store.ErrLost) {
				break
			} else if late {
				t.Fatalf("renewed past its deadline: %+v, want lost", r)
			} else if err == nil {
				until = max(until, r.From.Add(r.TTL))
			}
			if b, err := tries(300 * time.Millisecond); err == nil && b.Granted {
				t.Fatalf("another was granted it %v before the deadline of who holds it", until.Sub(store.Now()))
			}
		}
		unlock()
		for deadline := time.Now().Add(patience); ; {
			if b, err := tries(patience / 3); err == nil && b.Granted {
				if b.Token <= h.Token {
					t.Errorf("token %d after %d", b.Token, h.Token)
				}
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("nobody is granted what was lost: %+v, %v", b, err)
			}
		}
		if r := s.Renew(t.Context(), []store.Hold{h})[0]; !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("renewed once the row is free: %+v, want lost", r)
		}
	})
}
