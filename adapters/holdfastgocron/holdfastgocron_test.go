package holdfastgocron_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastgocron"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		runsAJob(dir)
	}
	goleak.VerifyTestMain(m)
}

const job = "report"

func lockerOn(t testing.TB, s store.Store, o *holdfast.Options) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// scheduled starts a scheduler that runs the job each second, and stops it with the test.
func scheduled(t testing.TB, fn func(), o ...gocron.SchedulerOption) {
	t.Helper()
	s, err := gocron.NewScheduler(o...)
	if err == nil {
		_, err = s.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(fn), gocron.WithName(job))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// Three schedulers have the same job at the same second: it runs once a second, in one of them.
func TestAJobRunsInOneOfManySchedulers(t *testing.T) {
	s := memstore.New()
	var runs, together atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		for range 3 {
			locker := holdfastgocron.NewLocker(lockerOn(t, s, nil), 300*time.Millisecond)
			scheduled(t, func() {
				if together.Add(1) > 1 {
					t.Error("two schedulers run the job at once")
				}
				defer together.Add(-1)
				if l := locker.Lease(job); l == nil || !l.Valid() {
					t.Error("a running job has no lease")
				}
				time.Sleep(100 * time.Millisecond)
				runs.Add(1)
			}, gocron.WithDistributedLocker(locker))
		}
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if n := runs.Load(); n != 10 {
			t.Errorf("the job ran %d times in ten seconds, want ten", n)
		}
	})
}

// A process whose clock is behind asks for the lock after the run has ended.
func TestAJobIsNotRunAgainWithinTheSplay(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		ahead := holdfastgocron.NewLocker(lockerOn(t, s, nil), time.Second)
		behind := holdfastgocron.NewLocker(lockerOn(t, s, nil), time.Second)
		lock, err := ahead.Lock(t.Context(), job)
		if err == nil {
			err = lock.Unlock(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second - 50*time.Millisecond)
		if _, err := behind.Lock(t.Context(), job); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Lock before the splay has ended: %v, want ErrHeld", err)
		}
		time.Sleep(100 * time.Millisecond)
		lock, err = behind.Lock(t.Context(), job)
		if err == nil {
			err = lock.Unlock(t.Context())
		}
		if err != nil {
			t.Errorf("Lock after the splay has ended: %v", err)
		}
	})
}

func TestASplayOutOfRangeIsRefused(t *testing.T) {
	l := holdfastgocron.NewLocker(lockerOn(t, memstore.New(), nil), -time.Second)
	if _, err := l.Lock(t.Context(), job); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("Lock: %v, want ErrInvalid", err)
	}
}

// runsAJob is the other process: it runs the job, says so, and goes on until it is killed.
func runsAJob(dir string) {
	fail := func(err error) {
		if err != nil {
			println(err.Error())
			os.Exit(1)
		}
	}
	s, err := filestore.Open(dir, nil)
	fail(err)
	locks, err := holdfast.New(s, nil)
	fail(err)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(holdfastgocron.NewLocker(locks, 0)))
	fail(err)
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
		os.Stdout.WriteString("runs\n")
		select {}
	}), gocron.WithName(job))
	fail(err)
	scheduler.Start()
	select {}
}

// When a process is killed, its job runs elsewhere, and not before.
func TestAJobOfAKilledProcessRunsElsewhere(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("runs")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	locks := lockerOn(t, s, nil)
	var killed atomic.Bool
	ran := make(chan struct{}, 1)
	locker := holdfastgocron.NewLocker(locks, 0)
	tried := make(chan struct{}, 1)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(reported{locker, tried}))
	if err == nil {
		_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
			if !killed.Load() {
				t.Error("the job ran while the other process holds its lock")
			}
			select {
			case ran <- struct{}{}:
			default:
			}
		}), gocron.WithName(job))
	}
	if err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	defer scheduler.Shutdown()
	for range 3 { // each try is refused
		<-tried
	}
	killed.Store(true)
	other.Kill()
	<-ran
}

// reported says when a lock was asked for.
type reported struct {
	*holdfastgocron.Locker
	tried chan struct{}
}

func (l reported) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := l.Locker.Lock(ctx, job)
	select {
	case l.tried <- struct{}{}:
	default:
	}
	return lock, err
}

// One of two processes leads and runs all jobs. The other does so once the first is closed.
func TestJobsRunInTheProcessThatLeads(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var runs [2]atomic.Int64
		var electors [2]*holdfastgocron.Elector
		for i := range electors {
			electors[i] = holdfastgocron.NewElector(lockerOn(t, s, nil).Election("scheduler"))
			scheduled(t, func() { runs[i].Add(1) }, gocron.WithDistributedElector(electors[i]))
			synctest.Wait()
		}
		time.Sleep(5*time.Second + 500*time.Millisecond)
		if a, b := runs[0].Load(), runs[1].Load(); a != 5 || b != 0 {
			t.Errorf("the schedulers ran the job %d and %d times, want 5 and 0", a, b)
		}
		if err := electors[1].IsLeader(t.Context()); !errors.Is(err, holdfastgocron.ErrNotLeader) {
			t.Errorf("IsLeader: %v, want ErrNotLeader", err)
		}
		if electors[0].Lease() == nil || electors[1].Lease() != nil {
			t.Error("want a lease in the leader and none in the other process")
		}
		if err := electors[0].Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		time.Sleep(5 * time.Second)
		if a, b := runs[0].Load(), runs[1].Load(); a != 5 || b != 5 {
			t.Errorf("the schedulers ran the job %d and %d times, want 5 and 5", a, b)
		}
		if err := electors[1].Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// A campaign that cannot run returns an error.
func TestACampaignThatEndedSaysWhy(t *testing.T) {
	e := holdfastgocron.NewElector(lockerOn(t, memstore.New(), nil).Election("")) // no name
	for !errors.Is(e.IsLeader(t.Context()), holdfast.ErrInvalid) {
		time.Sleep(time.Millisecond)
	}
	if err := e.Close(); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("Close: %v, want ErrInvalid", err)
	}
}
