package guardtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/memstore"
)

// made is a lease that a test has made up.
type made struct {
	name  string
	token int64
	mode  holdfast.Mode
}

func (m made) Name() string        { return m.name }
func (m made) Token() int64        { return m.token }
func (m made) Mode() holdfast.Mode { return m.mode }

func writer(token int64) made { return made{"a", token, holdfast.ModeWrite} }
func reader(token int64) made { return made{"a", token, holdfast.ModeRead} }

// database is a new SQLite file with the fences and one account, both empty. wait is how long a connection waits for
// the lock of another.
func database(t testing.TB, wait time.Duration) *sql.DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)", file, wait.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, q := range []string{
		guard.SQLite.Schema(), guard.SQLite.Schema(), // the schema may exist already
		`CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, by TEXT NOT NULL)`,
		`INSERT INTO account VALUES (1, 0, 'nobody')`,
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

func commit(t testing.TB, tx *sql.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// check checks in a transaction of its own, and commits it.
func check(t testing.TB, db *sql.DB, l guard.Lease) error {
	t.Helper()
	tx := begin(t, db)
	if err := guard.SQLite.Check(t.Context(), tx, l); err != nil {
		tx.Rollback()
		return err
	}
	commit(t, tx)
	return nil
}

// stale checks that err refuses the token because of the fence.
func stale(t testing.TB, err error, token, fence int64) {
	t.Helper()
	var s *guard.StaleError
	if !errors.As(err, &s) || s.Token != token || s.Fence != fence || !errors.Is(err, holdfast.ErrLost) {
		t.Fatalf("got %v, want token %d to be stale, with the fence at %d", err, token, fence)
	}
}

func fine(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// busy checks that err is SQLite's: another connection has a lock.
func busy(t testing.TB, err error) {
	t.Helper()
	var s *sqlite.Error
	if !errors.As(err, &s) || s.Code()&0xff != 5 {
		t.Fatalf("got %v, want SQLITE_BUSY", err)
	}
}

// account returns the stored account.
func account(t testing.TB, db *sql.DB) (s string) {
	t.Helper()
	fine(t, db.QueryRowContext(t.Context(), `SELECT by || ' ' || balance FROM account`).Scan(&s))
	return s
}

// This is the purpose of the guard. A holder reads, is stopped for longer than its TTL, and writes a result of what it
// had read. Without the guard that overwrites what the next holder wrote; with the guard it never does.
func TestGuard_APausedHolderWritesLate(t *testing.T) {
	// deposit reads the balance, waits, and writes it back plus one.
	deposit := func(db *sql.DB, l *holdfast.Lease, by string, guarded bool, pause func()) error {
		step := func(do func(*sql.Tx) error) error {
			tx := begin(t, db)
			defer tx.Rollback()
			if guarded {
				if err := guard.SQLite.Check(t.Context(), tx, l); err != nil {
					return err
				}
			}
			if err := do(tx); err != nil {
				return err
			}
			return tx.Commit()
		}
		var balance int
		if err := step(func(tx *sql.Tx) error {
			return tx.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&balance)
		}); err != nil {
			return err
		}
		pause()
		return step(func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE account SET by = ?, balance = ?`, by, balance+1)
			return err
		})
	}
	for _, c := range []struct {
		guarded bool
		want    string
	}{{false, "the late one 1"}, {true, "the next one 1"}} {
		t.Run(fmt.Sprint("guarded ", c.guarded), func(t *testing.T) {
			db := database(t, time.Minute)
			mem := memstore.New()
			late, next := twoLockers(t, mem)
			l, err := late.Mutex("account").Lock(t.Context())
			fine(t, err)
			err = deposit(db, l, "the late one", c.guarded, func() {
				// Its renewals do not arrive, and it does not check its lease.
				mem.Fail(func(op, name string) error {
					if op == "renew" {
						return io.ErrUnexpectedEOF
					}
					return nil
				})
				n, err := next.Mutex("account").Lock(t.Context())
				fine(t, err)
				fine(t, deposit(db, n, "the next one", c.guarded, func() {}))
			})
			if l.Valid() {
				t.Fatal("two leases are valid")
			}
			if !c.guarded {
				fine(t, err)
			} else if !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got %v, want an error that matches ErrLost", err)
			}
			if have := account(t, db); have != c.want {
				t.Errorf("stored %q, want %q", have, c.want)
			}
		})
	}
}

// twoLockers are the lockers of two processes that use one store.
func twoLockers(t testing.TB, mem *memstore.Store) (a, b *holdfast.Locker) {
	t.Helper()
	var both [2]*holdfast.Locker
	for i := range both {
		var err error
		both[i], err = holdfast.New(mem, &holdfast.Options{TTL: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
		fine(t, err)
		t.Cleanup(func() { both[i].Close() })
	}
	return both[0], both[1]
}

// The next holder has only read so far. From then on no older holder can write.
func TestGuard_TheFenceIsRaisedBeforeTheHolderReads(t *testing.T) {
	db := database(t, time.Minute)
	fine(t, check(t, db, writer(10)))
	fine(t, check(t, db, writer(11))) // now the next holder reads
	stale(t, check(t, db, writer(10)), 10, 11)
	fine(t, check(t, db, writer(11))) // it may check as often as it likes
}

func TestGuard_AReadLeaseIsCheckedAndNeverRaises(t *testing.T) {
	db := database(t, time.Minute)
	fine(t, check(t, db, reader(9))) // there is no fence yet
	fine(t, check(t, db, writer(10)))
	fine(t, check(t, db, reader(12)))
	fine(t, check(t, db, reader(11))) // readers are not ordered among each other
	fine(t, check(t, db, writer(10)))
	stale(t, check(t, db, reader(9)), 9, 10)
}

// An upgrade draws a new token, which is larger than those of earlier readers. A downgrade keeps it.
func TestGuard_AnUpgradeShutsOutEarlierReaders(t *testing.T) {
	db := database(t, time.Minute)
	locks, err := holdfast.New(memstore.New(), nil)
	fine(t, err)
	defer locks.Close()
	rw := locks.RWMutex("a")
	u, err := rw.Upgradeable().Lock(t.Context())
	fine(t, err)
	before, err := rw.Read().Lock(t.Context())
	fine(t, err)
	fine(t, check(t, db, u))
	fine(t, check(t, db, before)) // a reader beside it, with a larger token
	fine(t, before.Release())     // the reader continues without knowing
	fine(t, check(t, db, before))
	fine(t, u.Upgrade(t.Context()))
	fine(t, check(t, db, u))
	stale(t, check(t, db, before), before.Token(), u.Token())
	fine(t, u.Downgrade())
	after, err := rw.Read().Lock(t.Context())
	fine(t, err)
	fine(t, check(t, db, u))
	fine(t, check(t, db, after))
	stale(t, check(t, db, before), before.Token(), u.Token())
}

// The store granted once, and does not learn of hand-overs since. The token of the next lease is larger all the same,
// so the lease before it is late.
func TestGuard_AHandOverShutsOutThePreviousLease(t *testing.T) {
	db := database(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		locks, err := holdfast.New(memstore.New(), nil)
		fine(t, err)
		defer locks.Close()
		last, err := locks.Mutex("a").Lock(t.Context())
		fine(t, err)
		for range 5 {
			fine(t, check(t, db, last))
			handed := make(chan *holdfast.Lease)
			go func() {
				l, err := locks.Mutex("a").Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				handed <- l
			}()
			synctest.Wait() // until it waits
			fine(t, last.Release())
			next := <-handed
			if next == nil || next.ID() != last.ID() {
				t.Fatal("the hold was not handed over")
			}
			fine(t, check(t, db, next))
			stale(t, check(t, db, last), last.Token(), next.Token())
			last = next
		}
	})
}

func TestGuard_LeasesSayWhatTheyAre(t *testing.T) {
	db := database(t, time.Minute)
	locks, err := holdfast.New(memstore.New(), nil)
	fine(t, err)
	defer locks.Close()
	fence := func() (f int64) {
		fine(t, db.QueryRowContext(t.Context(), `SELECT coalesce(max(fence), 0) FROM holdfast_fence`).Scan(&f))
		return f
	}
	rw := locks.RWMutex("a")
	r, err := rw.Read().Lock(t.Context())
	fine(t, err)
	fine(t, check(t, db, r))
	if f := fence(); f != 0 {
		t.Fatalf("a read lease raised the fence to %d", f)
	}
	fine(t, r.Release())
	w, err := rw.Write().Lock(t.Context())
	fine(t, err)
	fine(t, check(t, db, w))
	if f := fence(); f != w.Token() {
		t.Fatalf("a write lease with token %d left the fence at %d", w.Token(), f)
	}
	stale(t, check(t, db, r), r.Token(), w.Token())

	s, err := locks.Semaphore("slots", 3).Acquire(t.Context(), 3)
	fine(t, err)
	err = check(t, db, s)
	if !errors.Is(err, holdfast.ErrUnsupported) || !strings.Contains(err.Error(), "several hold at a time") {
		t.Fatalf("got %v, want an error that says why slots have no fence", err)
	}
}

func TestGuard_AnInvalidLeaseIsAnError(t *testing.T) {
	db := database(t, time.Minute)
	for _, l := range []made{{"a", 0, holdfast.ModeWrite}, {"a", -1, holdfast.ModeRead}, {"a", 1, 0}} {
		if err := check(t, db, l); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", l, err)
		}
	}
}

func TestGuard_ARefusalNamesTheNewerHolder(t *testing.T) {
	db := database(t, time.Minute)
	fine(t, check(t, db, writer(11)))
	err := check(t, db, writer(10))
	for _, want := range []string{`"a"`, "holdfast_fence", "token 10", "token 11"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
}

// Two names never share a fence, however alike a database finds them.
func TestGuard_NamesAreBytes(t *testing.T) {
	db := database(t, time.Minute)
	names := []string{"a", "A", "a ", "ä", "a\u0308", "a\x00", "a\x00b", "", strings.Repeat("n", 512)}
	for i, name := range names {
		fine(t, check(t, db, made{name, int64(100 - i), holdfast.ModeWrite}))
	}
	for i, name := range names {
		stale(t, check(t, db, made{name, 1, holdfast.ModeRead}), 1, int64(100-i))
	}
}

func TestGuard_TheLargestTokensAreReported(t *testing.T) {
	const most = 1<<63 - 1
	db := database(t, time.Minute)
	fine(t, check(t, db, writer(most-1)))
	fine(t, check(t, db, writer(most)))
	stale(t, check(t, db, writer(most-1)), most-1, most)
}

// No other writer gets in between the check and the commit, whichever is newer.
func TestGuard_CheckAndCommitAreAtomic(t *testing.T) {
	for _, c := range []struct{ first, second int64 }{{10, 11}, {11, 10}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			db := database(t, 0)
			one := begin(t, db)
			fine(t, guard.SQLite.Check(t.Context(), one, writer(c.first)))
			two := begin(t, db)
			busy(t, guard.SQLite.Check(t.Context(), two, writer(c.second)))
			two.Rollback()
			_, err := one.ExecContext(t.Context(), `UPDATE account SET balance = 1`)
			fine(t, err)
			commit(t, one)
			if err = check(t, db, writer(c.second)); c.second > c.first {
				fine(t, err)
			} else {
				stale(t, err, c.second, c.first)
			}
		})
	}
}

// A reader's transaction comes before that of a newer holder, or it fails. It never overwrites the newer one.
func TestGuard_AReadersWriteNeverFollowsANewer(t *testing.T) {
	db := database(t, 0)
	tx := begin(t, db)
	fine(t, guard.SQLite.Check(t.Context(), tx, reader(10)))
	newer := begin(t, db)
	fine(t, guard.SQLite.Check(t.Context(), newer, writer(11)))
	_, err := newer.ExecContext(t.Context(), `UPDATE account SET by = 'newer', balance = 5`)
	fine(t, err)
	commit(t, newer)

	var balance int
	fine(t, tx.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&balance))
	if balance != 0 {
		t.Fatalf("a reader that was checked before reads %d, which was written later", balance)
	}
	_, err = tx.ExecContext(t.Context(), `UPDATE account SET by = 'reader'`)
	busy(t, err)
	if have := account(t, db); have != "newer 5" {
		t.Fatalf("stored %q", have)
	}
}

func TestGuard_ARollBackLowersTheFence(t *testing.T) {
	db := database(t, time.Minute)
	tx := begin(t, db)
	fine(t, guard.SQLite.Check(t.Context(), tx, writer(11)))
	fine(t, tx.Rollback())
	fine(t, check(t, db, writer(10)))
}

// Many writers at a time, with tokens in any order: what is written is in the order of the tokens.
func TestGuard_WhatLandsIsInTheOrderOfTheTokens(t *testing.T) {
	db := database(t, time.Minute)
	_, err := db.ExecContext(t.Context(), `CREATE TABLE log (n INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER)`)
	fine(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range 6 {
		all.Go(func() {
			for range 40 {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				token := rand.Int64N(200) + 1
				if err = guard.SQLite.Check(t.Context(), tx, writer(token)); err == nil {
					_, err = tx.ExecContext(t.Context(), `INSERT INTO log (token) VALUES (?)`, token)
				}
				if s := (*guard.StaleError)(nil); errors.As(err, &s) {
					tx.Rollback()
					mu.Lock()
					refused++
					mu.Unlock()
					continue
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	rows, err := db.QueryContext(t.Context(), `SELECT token FROM log ORDER BY n`)
	fine(t, err)
	defer rows.Close()
	last, landed := int64(0), 0
	for rows.Next() {
		var token int64
		fine(t, rows.Scan(&token))
		if token < last {
			t.Fatalf("token %d was written after %d", token, last)
		}
		last = token
		landed++
	}
	fine(t, rows.Err())
	if landed == 0 || refused == 0 || landed+refused != 240 {
		t.Fatalf("%d were written and %d refused, want 240 in total", landed, refused)
	}
}

// The driver's error is passed on, with the place where it occurred.
func TestGuard_WithoutItsTableItSaysSo(t *testing.T) {
	db := database(t, time.Minute)
	_, err := db.ExecContext(t.Context(), `DROP TABLE holdfast_fence`)
	fine(t, err)
	err = check(t, db, writer(1))
	if s := (*sqlite.Error)(nil); !errors.As(err, &s) || !strings.Contains(err.Error(), "no such table: holdfast_fence") {
		t.Fatalf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	tx := begin(t, db)
	cancel()
	if err := guard.SQLite.Check(ended, tx, writer(1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the error of the context", err)
	}
}
