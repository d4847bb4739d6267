package holdfastgoose_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastgoose"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		migrates(dir)
	}
	goleak.VerifyTestMain(m)
}

const name = "migrations"

// inSQL are migrations that fail if they run twice.
var inSQL = fstest.MapFS{
	"00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (x int);\n")},
	"00002_b.sql": {Data: []byte("-- +goose Up\nCREATE TABLE b (x int);\nINSERT INTO b VALUES (1);\n")},
	"00003_c.sql": {Data: []byte("-- +goose Up\nALTER TABLE a ADD COLUMN y int;\n")},
}

func locksOn(t testing.TB, s store.Store, o *holdfast.Options) *holdfast.Locker {
	t.Helper()
	locks, err := holdfast.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

// providerOn is the goose provider of one process on the SQLite database in the file.
func providerOn(file string, migrations fs.FS, o ...goose.ProviderOption) (*goose.Provider, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, migrations, o...)
}

func provider(t testing.TB, file string, migrations fs.FS, o ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	p, err := providerOn(file, migrations, o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// The same as goose's own test: of five providers at once, one does all the work.
func TestMigrationsRunInOneOfManyReplicas(t *testing.T) {
	for kind, option := range map[string]func(*holdfastgoose.Locker) goose.ProviderOption{
		"session locker": func(l *holdfastgoose.Locker) goose.ProviderOption { return goose.WithSessionLocker(l) },
		"locker":         func(l *holdfastgoose.Locker) goose.ProviderOption { return goose.WithLocker(l) },
	} {
		t.Run(kind, func(t *testing.T) {
			s, file := memstore.New(), filepath.Join(t.TempDir(), "db")
			locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
				return provider(t, file, inSQL, option(holdfastgoose.New(locksOn(t, s, nil), name)))
			})
		})
	}
}

// The same as goose's own test: of five lockers one holds the lock, and the waits of the others end with their
// contexts.
func TestAWaitEndsWithItsContext(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		locktesting.TestConcurrentLocking(t, nil, func(t *testing.T) lock.Locker {
			return holdfastgoose.New(locksOn(t, s, nil), name)
		}, time.Second)
	})
}

func TestAWaitThatEndedSaysThatTheLockIsHeld(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		a, b := holdfastgoose.New(locksOn(t, s, nil), name), holdfastgoose.New(locksOn(t, s, nil), name)
		if err := a.SessionLock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- b.SessionLock(ctx, nil) }()
		synctest.Wait() // until it waits
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("SessionLock: %v, want the context's error and ErrHeld", err)
		}
		if err := a.SessionUnlock(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

// Migrations in Go run in several replicas. Each replica has the lease while its migrations run.
func TestAMigrationThatRunsHasTheLease(t *testing.T) {
	s, file := memstore.New(), filepath.Join(t.TempDir(), "db")
	var runs, together atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		locker := holdfastgoose.New(locksOn(t, s, nil), name)
		up := &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error {
			if together.Add(1) > 1 {
				t.Error("two replicas migrate at once")
			}
			defer together.Add(-1)
			if l := locker.Lease(); l == nil || !l.Valid() {
				t.Error("a running migration has no lease")
			}
			runs.Add(1)
			return nil
		}}
		p := provider(t, file, nil, goose.WithSessionLocker(locker), goose.WithGoMigrations(goose.NewGoMigration(1, up, nil), goose.NewGoMigration(2, up, nil)))
		all.Go(func() {
			if _, err := p.Up(t.Context()); err != nil {
				t.Error(err)
			}
			if locker.Lease() != nil {
				t.Error("got a lease after all migrations have run, want none")
			}
		})
	}
	all.Wait()
	if n := runs.Load(); n != 2 {
		t.Errorf("got %d migrations run, want two", n)
	}
}

func TestUnlockOfWhatIsNotHeldIsAnError(t *testing.T) {
	s := memstore.New()
	a, b := holdfastgoose.New(locksOn(t, s, nil), name), holdfastgoose.New(locksOn(t, s, nil), name)
	if err := a.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(t.Context(), nil); !errors.Is(err, holdfast.ErrReleased) {
		t.Errorf("Unlock of another process's lock: %v, want ErrReleased", err)
	}
	if !a.Lease().Valid() {
		t.Error("the holder lost the lock to the failed Unlock of another process")
	}
	if err := a.Unlock(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// losing are two migrations. The first goes on until its lease is lost.
func losing(lease func(context.Context) *holdfast.Lease, second *atomic.Bool) goose.ProviderOption {
	return goose.WithGoMigrations(
		goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, _ *sql.Tx) error {
			<-lease(ctx).Lost()
			return nil
		}}, nil),
		goose.NewGoMigration(2, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error {
			second.Store(true)
			return nil
		}}, nil),
	)
}

func TestALossIsInTheErrorOfUp(t *testing.T) {
	locker := holdfastgoose.New(locksOn(t, memstore.New(), &holdfast.Options{MaxHold: time.Second}), name)
	var second atomic.Bool
	p := provider(t, filepath.Join(t.TempDir(), "db"), nil, goose.WithSessionLocker(locker),
		losing(func(context.Context) *holdfast.Lease { return locker.Lease() }, &second))
	if _, err := p.Up(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Up: %v, want ErrLost", err)
	}
	if !second.Load() {
		t.Error("the second migration did not run: goose noticed the loss before it unlocked, and the documentation says that it cannot")
	}
}

// As the documentation recommends: goose under the lock, not the lock under goose.
func TestUnderDoALossStopsGooseBeforeTheNextMigration(t *testing.T) {
	locks := locksOn(t, memstore.New(), &holdfast.Options{MaxHold: time.Second})
	var second atomic.Bool
	p := provider(t, filepath.Join(t.TempDir(), "db"), nil, losing(holdfast.LeaseFrom, &second))
	err := locks.Mutex(name).Do(t.Context(), func(ctx context.Context) error {
		_, err := p.Up(ctx)
		return err
	})
	if !errors.Is(err, holdfast.ErrLost) || second.Load() {
		t.Errorf("Do: %v, second migration ran: %v; want ErrLost and false", err, second.Load())
	}
}

// migrates is the other process: in the middle of a migration it says so, and goes on until it is killed.
func migrates(dir string) {
	s, err := filestore.Open(dir, nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	var p *goose.Provider
	if err == nil {
		p, err = providerOn(filepath.Join(dir, "db"), nil, goose.WithSessionLocker(holdfastgoose.New(locks, name)),
			goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "CREATE TABLE half (x int)"); err != nil {
					return err
				}
				os.Stdout.WriteString("migrates\n")
				select {}
			}}, nil)))
	}
	if err == nil {
		_, err = p.Up(context.Background())
	}
	println(err.Error())
	os.Exit(1)
}

// When a process is killed in a migration, another process migrates, and not before.
func TestMigrationsOfAKilledProcessRunElsewhere(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("migrates")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := provider(t, filepath.Join(dir, "db"), inSQL, goose.WithSessionLocker(holdfastgoose.New(locksOn(t, s, nil), name)))
	for wait := 10 * time.Millisecond; ; wait *= 2 { // until the store answers within it
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := p.Up(ctx)
		cancel()
		if errors.Is(err, holdfast.ErrHeld) {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Up while the other process migrates: %v, want its deadline exceeded", err)
		}
	}
	other.Kill()
	if results, err := p.Up(t.Context()); err != nil || len(results) != len(inSQL) {
		t.Errorf("Up after the other process was killed: got %v, %v, want %d migrations", results, err, len(inSQL))
	}
}
