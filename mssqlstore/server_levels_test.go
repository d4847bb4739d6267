package mssqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// databases holds one database with READ_COMMITTED_SNAPSHOT and one without, for all tests of the binary.
var databases struct {
	sync.Mutex
	urls map[string]string
	err  error
}

// eachWay runs f in a database where a statement reads what it has locked, and in one where it reads row versions.
func eachWay(t *testing.T, f func(t *testing.T, url string)) {
	t.Parallel()
	at := testserver.SQLServer(t)
	databases.Lock()
	if databases.urls == nil && databases.err == nil {
		databases.urls, databases.err = makeDatabases(at)
	}
	urls, err := databases.urls, databases.err
	databases.Unlock()
	if err != nil {
		t.Skipf("this SQL Server does not let the tests create databases: %v", err)
	}
	for way, url := range urls {
		t.Run(way, func(t *testing.T) { f(t, url) })
	}
}

func makeDatabases(at string) (map[string]string, error) {
	db, err := sql.Open("sqlserver", at)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	urls := map[string]string{}
	for way, set := range map[string]string{"locks": "OFF", "versions": "ON"} {
		name := "holdfast_test_" + way
		for _, statement := range []string{
			"IF DB_ID(N'" + name + "') IS NULL CREATE DATABASE " + name,
			"ALTER DATABASE " + name + " SET READ_COMMITTED_SNAPSHOT " + set + " WITH ROLLBACK IMMEDIATE",
			"ALTER DATABASE " + name + " SET ALLOW_SNAPSHOT_ISOLATION ON",
		} {
			if _, err := db.Exec(statement); err != nil {
				return nil, fmt.Errorf("%s: %w", statement, err)
			}
		}
		u, err := url.Parse(at)
		if err != nil {
			return nil, err
		}
		query := u.Query()
		query.Set("database", name)
		u.RawQuery = query.Encode()
		urls[way] = u.String()
	}
	return urls, nil
}

// atEachLevel is eachWay on pools that have set each isolation level.
func atEachLevel(t *testing.T, f func(t *testing.T, b *backend, url string)) {
	eachWay(t, func(t *testing.T, url string) {
		for _, level := range []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SNAPSHOT"} {
			t.Run(level, func(t *testing.T) {
				b, err := newBackend(initialized(t, url, "SET TRANSACTION ISOLATION LEVEL "+level), apartOn(t, url))
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				f(t, b, url)
			})
		}
	})
}

// swapAsOne increments a counter in the record of a name, from many goroutines at once.
func swapAsOne(t *testing.T, b *backend, name string, times int) {
	t.Helper()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for done := 0; done < times; {
				r, err := b.Load(t.Context(), name)
				if err != nil && !is(err, deadlock) {
					t.Error(err)
					return
				}
				n := 0
				if len(r.Data) > 0 {
					if _, err := fmt.Sscan(string(r.Data), &n); err != nil {
						t.Errorf("got %.20q: %v", r.Data, err)
						return
					}
				}
				// The data is long, so that it is stored outside the row: a reader must not see half of a write.
				data := fmt.Sprintf("%d %s", n+1, strings.Repeat("x", 10_000))
				if len(r.Data) > 0 && len(r.Data) != len(fmt.Sprint(n))+10_001 {
					t.Errorf("got %d bytes with the count %d", len(r.Data), n)
				}
				out, err := b.Swap(t.Context(), &record.Swap{Name: name, Old: r, Data: []byte(data)})
				if err != nil {
					t.Error(err)
					return
				}
				if out.Done {
					done++
				}
			}
		})
	}
	all.Wait()
	r, err := b.Load(t.Context(), name)
	if n := 0; err != nil {
		t.Error(err)
	} else if fmt.Sscan(string(r.Data), &n); n != 8*times {
		t.Errorf("got a count of %d, want %d", n, 8*times)
	}
}

func TestSwapsAreSerializedAtAnySettingOfThePool(t *testing.T) {
	atEachLevel(t, func(t *testing.T, b *backend, _ string) { swapAsOne(t, b, "n", 10) })
}

// Uncommitted data may be rolled back, so it must not be used.
func TestNothingIsReadThatWasNotCommitted(t *testing.T) {
	atEachLevel(t, func(t *testing.T, b *backend, url string) {
		if out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Data: []byte("old")}); err != nil || !out.Done {
			t.Fatal(out, err)
		}
		tx, _ := begun(t, url)
		if _, err := tx.ExecContext(t.Context(), "UPDATE "+b.o.locks()+" SET data=0x6e6577"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if r, err := b.Load(ctx, "n"); err == nil && string(r.Data) != "old" {
			t.Errorf("got %q, want no uncommitted data", r.Data)
		}
	})
}

// begun returns a transaction on a connection of its own, and the number of its session. The test rolls it back at its end.
func begun(t testing.TB, url string) (tx *sql.Tx, spid int) {
	t.Helper()
	tx, err := plainOn(t, url).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	if err := tx.QueryRowContext(t.Context(), "SELECT @@SPID").Scan(&spid); err != nil {
		t.Fatal(err)
	}
	return tx, spid
}

// waits polls until a statement waits for what the session has locked.
func waits(t *testing.T, url string, spid int) {
	t.Helper()
	db := plainOn(t, url)
	until(t, "a statement waits for the row", func() bool {
		var n int
		if err := db.QueryRowContext(t.Context(), fmt.Sprint("SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id=", spid)).Scan(&n); err != nil {
			t.Skipf("this SQL Server does not let the tests see what waits: %v", err)
		}
		return n > 0
	})
}

// One statement on the session's own row decides its end. The order does not matter: a renewal that was done while that statement waited
// counts.
func TestAnEndThatWaitsForARenewalDoesNotHappen(t *testing.T) {
	atEachLevel(t, func(t *testing.T, b *backend, url string) {
		id, now := session.NewID(), time.Now().UnixMicro()
		if _, err := b.Begin(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
		late := &backend{Base: b.Base, db: b.db, o: b.o, in: b.in, clock: func() int64 { return now + (90 * time.Second).Microseconds() }}
		tx, spid := begun(t, url)
		if _, err := tx.ExecContext(t.Context(), "UPDATE "+b.o.sessions()+" SET expires=expires+3600000000"); err != nil {
			t.Fatal(err)
		}
		var judging sync.WaitGroup
		var left []time.Duration
		judging.Go(func() {
			var err error
			if left, err = late.Left(t.Context(), []session.ID{id}); err != nil {
				t.Error(err)
			}
		})
		waits(t, url, spid) // it waits to read the row, or to end the session
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
	atEachLevel(t, func(t *testing.T, b *backend, url string) {
		id := session.NewID()
		if _, err := b.Begin(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
		tx, spid := begun(t, url)
		if _, err := tx.ExecContext(t.Context(), "UPDATE "+b.o.sessions()+" SET expires=0"); err != nil {
			t.Fatal(err)
		}
		var renewing sync.WaitGroup
		var renewed error
		renewing.Go(func() { _, renewed = b.Renew(t.Context(), id) })
		waits(t, url, spid)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if renewing.Wait(); !errors.Is(renewed, store.ErrLost) {
			t.Errorf("renewal: %v, want ErrLost", renewed)
		}
	})
}

// A swap that waited while another was done is refused, and joins; so is the first swap of a name.
func TestASwapThatWaitsForAnotherIsRefusedAndJoins(t *testing.T) {
	atEachLevel(t, func(t *testing.T, b *backend, url string) {
		for name, version := range map[string]string{"first": "", "next": "7-0"} {
			insert := "INSERT INTO " + b.o.locks() + " (name,form,rev,taken,idle,written,data,inbox) VALUES (0x" + fmt.Sprintf("%x01", name) + ",1,%d,0,0,0,0x01,'00')"
			tx, spid := begun(t, url)
			statement := fmt.Sprintf(insert, 8)
			if version != "" {
				mustExec(t, plainOn(t, url), fmt.Sprintf(insert, 7))
				statement = "UPDATE " + b.o.locks() + " SET rev=8 WHERE rev=7"
			}
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			var swapping sync.WaitGroup
			var out record.Outcome
			swapping.Go(func() {
				var err error
				if out, err = b.Swap(t.Context(), &record.Swap{
					Name: name, Old: record.Record{Version: version}, Data: []byte{3}, Join: &record.Join{Notes: []record.Note{{Key: "k", Data: []byte("d")}}},
				}); err != nil {
					t.Error(err)
				}
			})
			waits(t, url, spid)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			swapping.Wait()
			r, err := b.Load(t.Context(), name)
			if err != nil || out.Done || !out.Joined || string(r.Data) != "\x01" || len(r.Inbox) != 1 || r.Inbox[0].Key != "k" {
				t.Errorf("%s: got %+v, then %+v, %v", name, out, r, err)
			}
		}
	})
}

// What the server reports as not applied is a refusal and no error: here a lock timeout.
func TestALockTimeoutIsARefusal(t *testing.T) {
	eachWay(t, func(t *testing.T, url string) {
		b := openOn(t, url, apartOn(t, url))
		if out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Data: []byte{1}}); err != nil || !out.Done {
			t.Fatal(out, err)
		}
		old, err := b.Load(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		tx, _ := begun(t, url)
		if _, err := tx.ExecContext(t.Context(), "UPDATE "+b.o.locks()+" SET idle=idle"); err != nil {
			t.Fatal(err)
		}
		out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Old: old, Data: []byte{2}, Join: &record.Join{Notes: []record.Note{{Key: "k"}}}})
		if err != nil || out.Done || out.Joined || out.Current {
			t.Errorf("a swap that waits too long: got %+v, %v, want it refused", out, err)
		}
		tx.Rollback()
		if out, err = b.Swap(t.Context(), &record.Swap{Name: "n", Old: old, Data: []byte{2}}); err != nil || !out.Done || !out.Inbox {
			t.Errorf("the next swap: got %+v, %v", out, err)
		}
	})
}

// The settings of a connection are unchanged after our requests.
func TestAConnectionIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	b := openOn(t, testserver.SQLServer(t), apart(t))
	c, err := plainOn(t, testserver.SQLServer(t)).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const set = "SET IMPLICIT_TRANSACTIONS ON; SET XACT_ABORT OFF; SET NOCOUNT OFF; SET LOCK_TIMEOUT 1234; SET TEXTSIZE 5678; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"
	if _, err := c.ExecContext(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	settings := func() (all string) {
		t.Helper()
		var options, timeout, text, level int
		if err := c.QueryRowContext(t.Context(), "SELECT @@OPTIONS,@@LOCK_TIMEOUT,@@TEXTSIZE,(SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id=@@SPID)").Scan(&options, &timeout, &text, &level); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(options, timeout, text, level)
	}
	before := settings()
	if _, err := c.ExecContext(t.Context(), "IF @@TRANCOUNT>0 COMMIT"); err != nil {
		t.Fatal(err)
	}
	statement, args := b.text("load")
	rows, err := c.QueryContext(t.Context(), statement, append(args, key("n"))...)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	if after := settings(); after != before {
		t.Errorf("options, lock timeout, text size and level changed from %s to %s", before, after)
	}
}

// In a transaction that somebody has left open, others would not see what is written.
func TestAConnectionWithAnOpenTransactionIsRefused(t *testing.T) {
	t.Parallel()
	good := newStore(t)
	h := mustHold(t, good, mutex("held"))
	db := initialized(t, testserver.SQLServer(t), "BEGIN TRANSACTION")
	b, err := newBackend(db, &good.b.o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	id, before := session.NewID(), dump(t, good)
	for what, f := range map[string]func() error{
		"load":  func() error { _, err := b.Load(t.Context(), "held"); return err },
		"swap":  func() error { _, err := b.Swap(t.Context(), &record.Swap{Name: "new", Data: []byte("x")}); return err },
		"begin": func() error { _, err := b.Begin(t.Context(), id, time.Minute); return err },
		"renew": func() error { _, err := b.Renew(t.Context(), good.Sessions()[0]); return err },
		"call":  func() error { return b.Call(t.Context(), id) },
		"end":   func() error { return b.End(t.Context(), id) },
		"left":  func() error { _, err := b.Left(t.Context(), []session.ID{id}); return err },
	} {
		if err := f(); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "open transaction") {
			t.Errorf("%s: %v, want an error with what to do", what, err)
		}
	}
	if after := dump(t, good); after != before {
		t.Errorf("the table changed from\n%s\nto\n%s", before, after)
	}
	if err := good.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
}

// The settings that a user has made on the connections do not matter.
func TestItWorksHoweverTheConnectionsAreSet(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]string{
		"implicit transactions": "SET IMPLICIT_TRANSACTIONS ON", "a row count": "SET ROWCOUNT 1", "a text size": "SET TEXTSIZE 10", "no lock timeout": "SET LOCK_TIMEOUT -1",
		"ANSI off": "SET ANSI_DEFAULTS OFF", "another date format": "SET DATEFORMAT ydm; SET LANGUAGE French; SET DATEFIRST 3", "no abort": "SET XACT_ABORT OFF; SET NOCOUNT OFF",
		"arithmetic": "SET ARITHABORT OFF; SET ANSI_WARNINGS OFF; SET NUMERIC_ROUNDABORT ON; SET CONCAT_NULL_YIELDS_NULL OFF",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(initialized(t, testserver.SQLServer(t), set), apart(t))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			storetest.Everything(t, s)
		})
	}
	t.Run("a pool of one connection", func(t *testing.T) {
		db := plainOn(t, testserver.SQLServer(t))
		db.SetMaxOpenConns(1)
		s, err := New(db, apart(t))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		storetest.Everything(t, s)
	})
}
