package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// atEachLevel runs f under each supported isolation level, on both servers. On MariaDB it also runs f with the default of 11.8, where a row
// that changed while a transaction waited for it is an error.
func atEachLevel(t *testing.T, f func(t *testing.T, b *backend, dsn string)) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		for _, level := range []string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"} {
			t.Run(level, func(t *testing.T) {
				b := backendOn(t, with(dsn, isolation(t, dsn, level)), apart())
				defer b.Close()
				f(t, b, dsn)
			})
		}
		if iso := isolation(t, dsn, "SERIALIZABLE"); strings.HasPrefix(iso, "tx_") {
			t.Run("SERIALIZABLE, notified of changes", func(t *testing.T) {
				b := backendOn(t, with(dsn, iso, "innodb_snapshot_isolation=ON"), apart())
				defer b.Close()
				f(t, b, dsn)
			})
		}
	})
}

// A statement that has waited for a row reads that row as it is after the wait, and everything else as it was when the statement began
// (decision 23). So one statement on the session's own row decides its end. The order does not matter: a renewal that was done while that
// statement waited counts.
func TestAnEndThatWaitsForARenewalDoesNotHappen(t *testing.T) {
	atEachLevel(t, func(t *testing.T, b *backend, dsn string) {
		id, now := session.NewID(), time.Now().UnixMicro()
		if _, err := b.Begin(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
		late := &backend{Base: b.Base, db: b.db, o: b.o, records: b.records, sessions: b.sessions, notes: b.notes, clock: func() int64 { return now + (90 * time.Second).Microseconds() }}
		// Another transaction has locked the row, for a renewal.
		tx, err := dbOn(t, dsn).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(t.Context(), "UPDATE "+b.sessions+" SET expires=expires+3600000000 WHERE id="+text(id[:])); err != nil {
			t.Fatal(err)
		}
		var left []time.Duration
		var judging sync.WaitGroup
		judging.Go(func() {
			if left, err = late.Left(t.Context(), []session.ID{id}); err != nil {
				t.Error(err)
			}
		})
		until(t, "a statement waits for the row", func() bool { return waiting(t, b.db, "UPDATE "+b.sessions+" SET expires=0") == 1 })
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if judging.Wait(); len(left) != 1 || left[0] <= time.Minute {
			t.Errorf("the renewed session: got %v left", left)
		}
		if _, err := b.Renew(t.Context(), id); err != nil {
			t.Errorf("the session's renewal: %v", err)
		}
	})
}

// The other way around: a renewal that waited while the end was made final finds the session lost.
func TestARenewalThatWaitsForTheEndIsLost(t *testing.T) {
	atEachLevel(t, func(t *testing.T, b *backend, dsn string) {
		id := session.NewID()
		if _, err := b.Begin(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
		tx, err := dbOn(t, dsn).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(t.Context(), "UPDATE "+b.sessions+" SET expires=0 WHERE id="+text(id[:])); err != nil {
			t.Fatal(err)
		}
		var renewing sync.WaitGroup
		var renewed error
		renewing.Go(func() { _, renewed = b.Renew(t.Context(), id) })
		until(t, "a statement waits for the row", func() bool { return waiting(t, b.db, "UPDATE "+b.sessions+" SET expires=GREATEST") == 1 })
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if renewing.Wait(); !errors.Is(renewed, store.ErrLost) {
			t.Errorf("renewal: %v, want ErrLost", renewed)
		}
		if left, err := b.Left(t.Context(), []session.ID{id}); err != nil || left[0] > 0 {
			t.Errorf("got %v left, %v", left, err)
		}
	})
}

// A swap does not wait for a row that somebody has locked: it is refused, and joins.
func TestASwapWaitsForNoLockedRowAndJoins(t *testing.T) {
	atEachLevel(t, func(t *testing.T, b *backend, dsn string) {
		old := record.Record{}
		if out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Data: []byte{1}}); err != nil || !out.Done {
			t.Fatal(out, err)
		} else {
			old.Version = out.Now.Version
		}
		unlock := lockRow(t, dsn, b.records+" WHERE name='n'")
		defer unlock()
		ctx, cancel := context.WithTimeout(t.Context(), patience) // a server would wait for 50 s
		defer cancel()
		s := record.Swap{Name: "n", Old: old, Data: []byte{2}}
		if out, err := b.Swap(ctx, &s); err != nil || out.Done || out.Joined || out.Current {
			t.Errorf("a swap of a locked row: got %+v, %v, want it refused", out, err)
		}
		s.Join = &record.Join{Notes: []record.Note{{Key: "k", Data: []byte("d")}}}
		if out, err := b.Swap(ctx, &s); err != nil || out.Done || !out.Joined {
			t.Errorf("a swap of a locked row: got %+v, %v, want it refused and joined", out, err)
		}
		unlock()
		r, err := b.Load(t.Context(), "n")
		if err != nil || r.Version != old.Version || len(r.Inbox) != 1 || r.Inbox[0].Key != "k" {
			t.Errorf("got %+v, %v", r, err)
		}
		if out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Old: r, Data: []byte{2}}); err != nil || !out.Done || !out.Inbox {
			t.Errorf("the next swap: got %+v, %v", out, err)
		}
	})
}

// Two swaps may count the notes of a name at the same time, as a first write has no row to lock. Neither hides a note from the other.
func TestACountHidesNoNoteFromAnother(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		b := backendOn(t, dsn, apart())
		defer b.Close()
		join := &record.Join{Notes: []record.Note{{Key: "k", Data: []byte("d")}}}
		for _, joined := range []bool{false, true} {
			if out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Data: []byte{1}, Join: join}); err != nil || out.Joined != joined {
				t.Fatal(out, err)
			}
		}
		old, err := b.Load(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		tx, err := dbOn(t, dsn).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		rows, err := tx.QueryContext(t.Context(), "SELECT COUNT(*) FROM "+b.notes+" WHERE name='n' LOCK IN SHARE MODE")
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
		out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Old: record.Record{Version: old.Version}, Data: []byte{2}})
		if err != nil || !out.Done || out.Inbox {
			t.Errorf("a swap beside another count: got %+v, %v, want it done, and no report of the inbox", out, err)
		}
	})
}

// A release with nobody waiting behind it counts no notes, and does not report that there are none.
func TestAnIdleSwapCountsNoNotes(t *testing.T) {
	s := newShared(t)
	ctx, b := t.Context(), s.b
	if reported, err := b.Swap(ctx, &record.Swap{Name: "n", Data: []byte("d")}); err != nil || !reported.Done || !reported.Inbox {
		t.Fatalf("got %+v, %v, want it done and an inbox reported", reported, err)
	}
	r, err := b.Load(ctx, "n")
	if err != nil {
		t.Fatal(err)
	}
	idle := &record.Swap{Name: "n", Old: r, Data: []byte("i"), Idle: true}
	if q := b.swap(idle, parseVersion(r.Version), version{rev: 1}); strings.Contains(q, b.notes) {
		t.Errorf("an idle swap reads the notes: %s", q)
	}
	if reported, err := b.Swap(ctx, idle); err != nil || !reported.Done || !reported.Current || reported.Inbox {
		t.Errorf("got %+v, %v, want it done, and no report of the inbox", reported, err)
	}
}

// A swap that was refused before only joins.
func TestALostSwapOnlyJoins(t *testing.T) {
	b := backendOn(t, sharedDSN(t), apart())
	defer b.Close()
	join := &record.Join{Notes: []record.Note{{Key: "k", Data: []byte("d")}}}
	out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Data: []byte{1}, Join: join, Lost: true})
	if err != nil || out.Done || !out.Joined {
		t.Errorf("with a join: got %+v, %v", out, err)
	}
	if r, err := b.Load(t.Context(), "n"); err != nil || len(r.Data) > 0 || len(r.Inbox) != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Data: []byte{1}, Lost: true}); err != nil || !out.Done {
		t.Errorf("without a join: got %+v, %v", out, err)
	}
}

// What the server reports as not applied is a refusal and no error.
func TestADeadlockOrALockTimeoutIsARefusal(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string) {
		b := backendOn(t, with(dsn, "innodb_lock_wait_timeout=1"), apart())
		defer b.Close()
		if out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Data: []byte{1}}); err != nil || !out.Done {
			t.Fatal(out, err)
		}
		old, err := b.Load(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		unlock := lockRow(t, dsn, b.records+" WHERE name='n'")
		defer unlock()
		out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Old: old, Data: []byte{2}})
		if err != nil || out.Done || out.Joined || out.Current {
			t.Errorf("a swap that waits too long: got %+v, %v, want it refused", out, err)
		}
		unlock()
		if out, err = b.Swap(t.Context(), &record.Swap{Name: "n", Old: old, Data: []byte{2}}); err != nil || !out.Done || !out.Inbox {
			t.Errorf("the next swap: got %+v, %v", out, err)
		}
	})
	for _, number := range []uint16{deadlock, recordChanged} { // the test cannot provoke these on a server
		if !is(fmt.Errorf("so: %w", sqlError(number)), deadlock, lockWaitTimeout, recordChanged) {
			t.Errorf("%d is not recognized", number)
		}
	}
}

func sqlError(number uint16) error { return &mysql.MySQLError{Number: number} }
