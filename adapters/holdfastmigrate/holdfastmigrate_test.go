package holdfastmigrate_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	databasetesting "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastmigrate"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		migrates(dir)
	}
	// golang-migrate leaves a goroutine behind for each migration that it has read and does not run.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang-migrate/migrate/v4.(*Migration).Buffer"))
}

const (
	name = "migrations"
	wait = 10 * time.Second
)

var files = fstest.MapFS{
	"1_a.up.sql": {Data: []byte("a")},
	"2_b.up.sql": {Data: []byte("b")},
	"3_c.up.sql": {Data: []byte("c")},
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

// A shared is a database that several processes use, each through a driver of its own.
type shared struct {
	mu      sync.Mutex
	version int
	dirty   bool
	ran     []string
	runs    func(migration string) // called while a migration runs
	running bool
}

func (s *shared) Open(string) (database.Driver, error) { return s, nil }
func (s *shared) Close() error                         { return nil }
func (s *shared) Lock() error                          { return errors.New("the driver's own lock is not used") }
func (s *shared) Unlock() error                        { return errors.New("the driver's own lock is not used") }
func (s *shared) Drop() error                          { return errors.New("Drop is not used") }

func (s *shared) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	s.mu.Lock()
	if s.running {
		err = errors.New("two migrations run at once")
	}
	s.running = true
	s.ran = append(s.ran, string(text))
	s.mu.Unlock()
	if s.runs != nil {
		s.runs(string(text))
	}
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
	return err
}

func (s *shared) SetVersion(version int, dirty bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.dirty = version, dirty
	return nil
}

func (s *shared) Version() (version int, dirty bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.dirty, nil
}

// migrateOn is the golang-migrate of one process.
func migrateOn(d database.Driver) (*migrate.Migrate, error) {
	source, err := iofs.New(files, ".")
	if err != nil {
		return nil, err
	}
	return migrate.NewWithInstance("iofs", source, "test", d)
}

func migrated(t testing.TB, d database.Driver) *migrate.Migrate {
	t.Helper()
	m, err := migrateOn(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a, b := m.Close(); a != nil || b != nil {
			t.Errorf("Close: %v, %v", a, b)
		}
	})
	return m
}

func stubbed(t testing.TB, locks *holdfast.Locker, wait time.Duration) *holdfastmigrate.Driver {
	t.Helper()
	d, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return holdfastmigrate.New(d, locks, name, wait)
}

// These are golang-migrate's own tests of a driver.
func TestItIsADriverAsMigrateTestsThem(t *testing.T) {
	s := memstore.New()
	for _, wait := range []time.Duration{0, wait} {
		databasetesting.Test(t, stubbed(t, locksOn(t, s, nil), wait), []byte("a migration"))
		d, err := stubbed(t, locksOn(t, s, nil), wait).Open("stub://")
		if err != nil {
			t.Fatal(err)
		}
		databasetesting.Test(t, d, []byte("a migration"))
		databasetesting.TestMigrate(t, migrated(t, stubbed(t, locksOn(t, s, nil), wait)))
	}
}

// Four processes migrate at once.
func TestMigrationsRunInOneOfManyReplicas(t *testing.T) {
	s, db := memstore.New(), &shared{version: database.NilVersion}
	var all sync.WaitGroup
	for range 4 {
		d := holdfastmigrate.New(db, locksOn(t, s, nil), name, wait)
		m := migrated(t, d)
		all.Go(func() {
			if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
				t.Error(err)
			}
			if d.Lease() != nil {
				t.Error("got a lease after all migrations have run, want none")
			}
		})
	}
	all.Wait()
	if !slices.Equal(db.ran, []string{"a", "b", "c"}) || db.version != 3 || db.dirty {
		t.Errorf("got %v run, version %d, dirty %v; want a, b and c, and version 3", db.ran, db.version, db.dirty)
	}
}

// golang-migrate gets the error of Lock before its own timeout, and may try again.
func TestAWaitEndsBeforeMigrateGivesUp(t *testing.T) {
	s, db := memstore.New(), &shared{version: database.NilVersion}
	synctest.Test(t, func(t *testing.T) {
		other := stubbed(t, locksOn(t, s, nil), 0)
		if err := other.Lock(); err != nil {
			t.Fatal(err)
		}
		m := migrated(t, holdfastmigrate.New(db, locksOn(t, s, nil), name, wait))
		began := time.Now()
		if err := m.Up(); !errors.Is(err, database.ErrLocked) || !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Up while another migrates: %v, want ErrLocked and ErrHeld", err)
		}
		if took := time.Since(began); took < wait || took >= m.LockTimeout {
			t.Errorf("Up took %v, want %v", took, wait)
		}
		if err := other.Unlock(); err != nil {
			t.Error(err)
		}
		if err := m.Up(); err != nil {
			t.Errorf("Up after the other process released the lock: %v", err)
		}
	})
}

func TestWithoutAWaitLockTriesOnce(t *testing.T) {
	s := memstore.New()
	a, b := stubbed(t, locksOn(t, s, nil), 0), stubbed(t, locksOn(t, s, nil), 0)
	if err := a.Lock(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*holdfastmigrate.Driver{a, b} {
		if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
			t.Errorf("Lock of a held lock: %v, want ErrLocked", err)
		}
	}
	if err := a.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsAWait(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		a, b := stubbed(t, locksOn(t, s, nil), 0), stubbed(t, locksOn(t, s, nil), time.Hour)
		if err := a.Lock(); err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() { result <- b.Lock() }()
		synctest.Wait() // until it waits
		if err := b.Lock(); !errors.Is(err, database.ErrLocked) {
			t.Errorf("second Lock while the first waits: %v, want ErrLocked", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-result; !errors.Is(err, context.Canceled) || !errors.Is(err, database.ErrLocked) {
			t.Errorf("Lock: %v, want Canceled and ErrLocked", err)
		}
		if err := a.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseReleasesTheLock(t *testing.T) {
	s := memstore.New()
	a, b := stubbed(t, locksOn(t, s, nil), 0), stubbed(t, locksOn(t, s, nil), 0)
	for _, d := range []*holdfastmigrate.Driver{a, b} {
		if err := d.Lock(); err != nil {
			t.Errorf("Lock: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := a.Lock(); err == nil || a.Lease() != nil {
		t.Errorf("Lock of a closed driver: %v, want an error", err)
	}
}

func TestUnlockOfWhatIsNotHeldIsAnError(t *testing.T) {
	s := memstore.New()
	a, b := stubbed(t, locksOn(t, s, nil), 0), stubbed(t, locksOn(t, s, nil), 0)
	if err := a.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(); !errors.Is(err, database.ErrNotLocked) {
		t.Errorf("Unlock of another process's lock: %v, want ErrNotLocked", err)
	}
	if !a.Lease().Valid() {
		t.Error("the holder lost the lock to the failed Unlock of another process")
	}
	if err := a.Unlock(); err != nil {
		t.Error(err)
	}
}

// The migration that runs when the lease is lost finishes and is marked as clean, and no other begins.
func TestNoMigrationBeginsOnceTheLeaseIsLost(t *testing.T) {
	db := &shared{version: database.NilVersion}
	locks := locksOn(t, memstore.New(), &holdfast.Options{RenewEvery: 300 * time.Millisecond})
	d := holdfastmigrate.New(db, locks, name, wait)
	lose := func() {
		l := d.Lease()
		if err := locks.Break(context.Background(), holdfast.Break{Name: name, ID: l.ID(), Token: l.Token(), Reason: "a test", Now: true}); err != nil {
			t.Error(err)
			return
		}
		<-l.Lost()
	}
	db.runs = func(migration string) {
		if migration == "b" {
			lose()
		}
	}
	if err := migrated(t, d).Up(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Up: %v, want ErrLost", err)
	}
	if !slices.Equal(db.ran, []string{"a", "b"}) || db.version != 2 || db.dirty {
		t.Errorf("got %v run, version %d, dirty %v; want a and b, and version 2", db.ran, db.version, db.dirty)
	}
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	lose()
	if err := d.Run(nil); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Run: %v, want ErrLost", err)
	}
	if err := d.Drop(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Drop: %v, want ErrLost", err)
	}
	if err := d.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
}

// migrates is the other process: in the middle of a migration it says so, and goes on until it is killed.
func migrates(dir string) {
	s, err := filestore.Open(dir, nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	var m *migrate.Migrate
	if err == nil {
		m, err = migrateOn(holdfastmigrate.New(&shared{version: database.NilVersion, runs: func(string) {
			os.Stdout.WriteString("migrates\n")
			select {}
		}}, locks, name, wait))
	}
	if err == nil {
		err = m.Up()
	}
	println(err.Error())
	os.Exit(1)
}

// When a process is killed, its lock is granted to another, and not before.
func TestTheLockOfAKilledProcessIsGranted(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("migrates")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	locks := locksOn(t, s, nil)
	if err := stubbed(t, locks, 0).Lock(); !errors.Is(err, database.ErrLocked) {
		t.Fatalf("Lock while the other process migrates: %v, want ErrLocked", err)
	}
	other.Kill()
	db := &shared{version: database.NilVersion}
	m := migrated(t, holdfastmigrate.New(db, locks, name, time.Minute))
	m.LockTimeout = 2 * time.Minute
	if err := m.Up(); err != nil || len(db.ran) != len(files) {
		t.Errorf("Up after the other process was killed: %v; ran %v", err, db.ran)
	}
}
