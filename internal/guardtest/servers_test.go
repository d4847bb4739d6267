package guardtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/memstore"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main{M: m}.Run()) }

// A server is a database with the fences and one account, both empty.
type server struct {
	*guard.Dialect
	db      *sql.DB
	waiting func(t testing.TB, db *sql.DB) bool // reports whether a transaction of this database waits for a lock now
}

// onServers runs a test on each kind of server, under its default isolation level and under others.
func onServers(t *testing.T, test func(t *testing.T, s server)) {
	for name, open := range map[string]func(t *testing.T) server{
		"PostgreSQL":                 postgres(""),
		"PostgreSQL serializable":    postgres("&default_transaction_isolation=serializable"),
		"MariaDB":                    mariadb(""),
		"MariaDB read committed":     mariadb("&interpolateParams=true&tx_isolation=%27READ-COMMITTED%27"),
		"MariaDB of rows that match": mariadb("&clientFoundRows=true&parseTime=true&tx_isolation=%27SERIALIZABLE%27"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() { s.db.Close() })
			for _, q := range []string{
				s.Schema(), s.Schema(), // the schema may exist already
				`CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, who VARCHAR(20) NOT NULL)`,
				`INSERT INTO account VALUES (1, 0, 'nobody')`,
			} {
				if _, err := s.db.ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			test(t, s)
		})
	}
}

func fresh() string { return fmt.Sprintf("guard_%x", rand.Uint64()) }

func postgres(more string) func(t *testing.T) server {
	return func(t *testing.T) server {
		url, name := testserver.PostgresURL(testserver.SharedPostgres(t)), fresh()
		root := openDB(t, "pgx", url)
		defer root.Close()
		_, err := root.ExecContext(t.Context(), "CREATE SCHEMA "+name)
		fine(t, err)
		waiting := func(t testing.TB, db *sql.DB) (yes bool) {
			fine(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = $1", name).Scan(&yes))
			return yes
		}
		return server{guard.PostgreSQL, openDB(t, "pgx", url+"&search_path="+name+"&application_name="+name+more), waiting}
	}
}

func mariadb(more string) func(t *testing.T) server {
	return func(t *testing.T) server {
		addr, name := testserver.SharedMariaDB(t), fresh()
		root := openDB(t, "mysql", testserver.MariaDBDSN(addr))
		defer root.Close()
		_, err := root.ExecContext(t.Context(), "CREATE DATABASE "+name)
		fine(t, err)
		// This does not read information_schema.INNODB_TRX. That is a copy which stays as it is while it is read every
		// 100 ms, as parallel tests do. Then it lists waits that have ended, or lacks those that have begun.
		waiting := func(t testing.TB, db *sql.DB) bool {
			var kind, of, status string
			fine(t, db.QueryRowContext(t.Context(), "SHOW ENGINE INNODB STATUS").Scan(&kind, &of, &status))
			return regexp.MustCompile("(?m)^(RECORD LOCKS|TABLE LOCK) .* table `" + name + "`\\..* waiting$").MatchString(status)
		}
		return server{guard.MySQL, openDB(t, "mysql", "root@tcp("+addr+")/"+name+"?timeout=30s"+more), waiting}
	}
}

func openDB(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	fine(t, err)
	return db
}

func (s server) check(t testing.TB, l guard.Lease) error {
	t.Helper()
	tx := begin(t, s.db)
	if err := s.Check(t.Context(), tx, l); err != nil {
		tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (s server) account(t testing.TB) string {
	t.Helper()
	var who string
	var balance int
	fine(t, s.db.QueryRowContext(t.Context(), `SELECT who, balance FROM account`).Scan(&who, &balance))
	return fmt.Sprint(who, " ", balance)
}

// waits waits until a transaction waits for a lock. It fails the test if the transaction ends without having waited.
func (s server) waits(t testing.TB, done <-chan error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if s.waiting(t, s.db) {
			return
		}
		if len(done) > 0 {
			t.Fatalf("the transaction did not wait: %v", <-done)
		}
		if time.Now().After(deadline) {
			t.Fatal("no transaction waits")
		}
	}
}

// again reports whether the server asks for the transaction to be restarted.
func again(err error) bool {
	var p *pgconn.PgError
	var m *mysql.MySQLError
	return errors.As(err, &p) && (p.Code == "40001" || p.Code == "40P01") || errors.As(err, &m) && m.Number == 1213
}

// The same as TestGuard_APausedHolderWritesLate.
func TestGuard_OnServersAPausedHolderWritesLate(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		deposit := func(l *holdfast.Lease, by string, guarded bool, pause func()) error {
			step := func(do func(*sql.Tx) error) error {
				tx := begin(t, s.db)
				defer tx.Rollback()
				if guarded {
					if err := s.Check(t.Context(), tx, l); err != nil {
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
				_, err := tx.ExecContext(t.Context(), fmt.Sprintf(`UPDATE account SET who = '%s', balance = %d`, by, balance+1))
				return err
			})
		}
		for _, c := range []struct {
			guarded bool
			want    string
		}{{false, "the late one 1"}, {true, "the next one 2"}} {
			mem := memstore.New()
			var both [2]*holdfast.Locker
			for i := range both {
				var err error
				both[i], err = holdfast.New(mem, &holdfast.Options{TTL: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
				fine(t, err)
				defer both[i].Close()
			}
			l, err := both[0].Mutex("account").Lock(t.Context())
			fine(t, err)
			err = deposit(l, "the late one", c.guarded, func() {
				mem.Fail(func(op, name string) error {
					if op == "renew" {
						return io.ErrUnexpectedEOF
					}
					return nil
				})
				n, err := both[1].Mutex("account").Lock(t.Context())
				fine(t, err)
				fine(t, deposit(n, "the next one", c.guarded, func() {}))
			})
			if l.Valid() {
				t.Fatal("two leases are valid")
			}
			if !c.guarded {
				fine(t, err) // and the next holder's write is lost
			} else if !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got %v, want an error that matches ErrLost", err)
			}
			if have := s.account(t); have != c.want {
				t.Errorf("guarded: %v: stored %q, want %q", c.guarded, have, c.want)
			}
		}
	})
}

func TestGuard_OnServersTheRuleIsKept(t *testing.T) {
	const most = 1<<63 - 1
	onServers(t, func(t *testing.T, s server) {
		fine(t, s.check(t, reader(9))) // there is no fence yet
		fine(t, s.check(t, writer(10)))
		fine(t, s.check(t, writer(11))) // now the next holder reads
		stale(t, s.check(t, writer(10)), 10, 11)
		fine(t, s.check(t, writer(11)))
		fine(t, s.check(t, reader(13)))
		fine(t, s.check(t, reader(12)))
		fine(t, s.check(t, writer(11)))
		stale(t, s.check(t, reader(10)), 10, 11)

		tx := begin(t, s.db)
		fine(t, s.Check(t.Context(), tx, writer(20)))
		fine(t, tx.Rollback())
		fine(t, s.check(t, writer(12))) // a roll-back lowers the fence

		fine(t, s.check(t, writer(most-1)))
		fine(t, s.check(t, writer(most)))
		stale(t, s.check(t, writer(most-1)), most-1, most)

		names := []string{"A", "a ", "ä", "a\u0308", "a\x00", "a\x00b", "", strings.Repeat("n", 512)}
		for i, name := range names {
			fine(t, s.check(t, made{name, int64(100 - i), holdfast.ModeWrite}))
		}
		for i, name := range names {
			stale(t, s.check(t, made{name, 1, holdfast.ModeRead}), 1, int64(100-i))
		}
		_, err := s.db.ExecContext(t.Context(), `DROP TABLE holdfast_fence`)
		fine(t, err)
		if err := s.check(t, writer(1)); err == nil || !strings.Contains(err.Error(), "holdfast_fence") {
			t.Errorf("without its table: got %v", err)
		}
	})
}

func TestGuard_OnServersCheckAndCommitAreAtomic(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		for i, c := range []struct{ first, second int64 }{{10, 11}, {21, 20}} {
			one := begin(t, s.db)
			fine(t, s.Check(t.Context(), one, writer(c.first)))
			done := make(chan error, 1)
			go func() { done <- s.check(t, writer(c.second)) }()
			s.waits(t, done)
			_, err := one.ExecContext(t.Context(), fmt.Sprint(`UPDATE account SET balance = `, i))
			fine(t, err)
			commit(t, one)
			err = <-done
			if again(err) {
				err = s.check(t, writer(c.second))
			}
			if c.second > c.first {
				fine(t, err)
			} else {
				stale(t, err, c.second, c.first)
			}
		}
	})
}

func TestGuard_OnServersAReadersWriteNeverFollowsANewer(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		for i, name := range []string{"never seen", "seen", "seen"} { // the last one has a fence
			l := made{name, int64(10 + 10*i), holdfast.ModeRead}
			tx, beside := begin(t, s.db), begin(t, s.db)
			if i == 2 {
				fine(t, s.Check(t.Context(), beside, l)) // readers do not block readers
			}
			fine(t, s.Check(t.Context(), tx, l))
			done := make(chan error, 1)
			go func() {
				newer := begin(t, s.db)
				err := s.Check(t.Context(), newer, made{name, l.token + 1, holdfast.ModeWrite})
				if err == nil {
					_, err = newer.ExecContext(t.Context(), `UPDATE account SET who = 'newer'`)
				}
				if err == nil {
					err = newer.Commit()
				}
				done <- err
			}()
			s.waits(t, done)
			_, err := tx.ExecContext(t.Context(), `UPDATE account SET who = 'reader'`)
			fine(t, err)
			commit(t, tx)
			beside.Rollback()
			if err := <-done; again(err) {
				continue // the newer transaction must be restarted
			} else {
				fine(t, err)
			}
			if have := s.account(t); have != "newer 0" {
				t.Fatalf("stored %q", have)
			}
		}
	})
}

func TestGuard_OnServersTheOrderIsThatOfTheTokens(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		_, err := s.db.ExecContext(t.Context(), `CREATE TABLE log (n INTEGER PRIMARY KEY, token BIGINT)`)
		fine(t, err)
		var all sync.WaitGroup
		var mu sync.Mutex
		refused, order := 0, []int64{}
		for range 4 {
			all.Go(func() {
				for range 25 {
					token := rand.Int64N(100) + 1
					landed, err := land(t.Context(), s, token)
					for again(err) {
						landed, err = land(t.Context(), s, token)
					}
					mu.Lock()
					switch {
					case err != nil:
						t.Error(err)
					case !landed:
						refused++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		rows, err := s.db.QueryContext(t.Context(), `SELECT token FROM log ORDER BY n`)
		fine(t, err)
		defer rows.Close()
		for rows.Next() {
			var token int64
			fine(t, rows.Scan(&token))
			order = append(order, token)
		}
		if !slices.IsSorted(order) || len(order) == 0 || refused == 0 || len(order)+refused != 100 {
			t.Fatalf("%d were refused, and written: %v", refused, order)
		}
	})
}

// land writes a line with the token, and reports whether the guard allowed it.
func land(ctx context.Context, s server, token int64) (landed bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if err := s.Check(ctx, tx, writer(token)); err != nil {
		if errors.As(err, new(*guard.StaleError)) {
			err = nil
		}
		return false, err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprint(`INSERT INTO log SELECT COALESCE(MAX(n), 0) + 1, `, token, ` FROM log`)); err != nil {
		return false, err
	}
	return true, tx.Commit()
}
