package holdfastcron_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastcron"
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

const name = "report"

func lockerOn(t testing.TB, s store.Store) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(s, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A journal is a cron.Logger that keeps what it receives.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) Info(msg string, kv ...any)             { j.add(msg) }
func (j *journal) Error(err error, msg string, kv ...any) { j.add(msg + ": " + err.Error()) }

func (j *journal) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.lines, func(line string) bool { return strings.Contains(line, text) })
}

func (j *journal) empty() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines) == 0
}

func TestATickRunsInOneOfManyProcesses(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var runs, together atomic.Int64
		for range 3 {
			once := holdfastcron.OneProcess(t.Context(), lockerOn(t, s), name, &holdfastcron.Options{
				AtLeast: 300 * time.Millisecond, Logger: new(journal),
			})
			c := cron.New(cron.WithSeconds())
			_, err := c.AddJob("* * * * * *", once(holdfastcron.Func(func(ctx context.Context) error {
				if together.Add(1) > 1 {
					t.Error("two processes run the job at once")
				}
				defer together.Add(-1)
				if l := holdfast.LeaseFrom(ctx); l == nil || !l.Valid() {
					t.Error("a running job has no lease")
				}
				time.Sleep(100 * time.Millisecond)
				runs.Add(1)
				return nil
			})))
			if err != nil {
				t.Fatal(err)
			}
			c.Start()
			defer func() { <-c.Stop().Done() }()
		}
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if n := runs.Load(); n != 10 {
			t.Errorf("the job ran %d times in ten seconds, want ten", n)
		}
	})
}

func TestALateClockDoesNotRunTheTickAgain(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		j := new(journal)
		wrapped := func() cron.Job {
			o := &holdfastcron.Options{AtLeast: 10 * time.Second, Logger: j}
			return holdfastcron.OneProcess(t.Context(), lockerOn(t, s), name, o)(cron.FuncJob(func() { runs++ }))
		}
		ahead, late := wrapped(), wrapped()
		ahead.Run()
		time.Sleep(10*time.Second - 50*time.Millisecond)
		if late.Run(); runs != 1 || !j.has("skip: it runs elsewhere") {
			t.Errorf("before AtLeast has ended: got %d runs, want 1; logged: %q", runs, j.lines)
		}
		time.Sleep(100 * time.Millisecond)
		if late.Run(); runs != 2 {
			t.Errorf("after AtLeast has ended: got %d runs, want 2", runs)
		}
	})
}

func TestAtMostEndsARunThatHangs(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		runs := 0
		o := &holdfastcron.Options{AtMost: time.Minute, Logger: j}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // otherwise a run that never ends would renew forever
		defer cancel()
		hangs := holdfastcron.OneProcess(ctx, lockerOn(t, s), name, o)(holdfastcron.Func(func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		next := holdfastcron.OneProcess(t.Context(), lockerOn(t, s), name, o)(cron.FuncJob(func() { runs++ }))
		began := time.Now()
		hangs.Run()
		if d := time.Since(began); d < 55*time.Second || d > 65*time.Second {
			t.Errorf("the run ended after %v, want about a minute", d)
		}
		if !j.has("the lock was lost during the run") {
			t.Errorf("logged: %q", j.lines)
		}
		synctest.Wait() // the engine releases the name
		if next.Run(); runs != 1 {
			t.Error("the next tick did not run")
		}
	})
}

func TestALossEndsTheContextAndIsLogged(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		began, cause := make(chan struct{}), make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		job := holdfastcron.OneProcess(ctx, lockerOn(t, s), name, &holdfastcron.Options{Logger: j})(
			holdfastcron.Func(func(ctx context.Context) error {
				close(began)
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return nil
			}))
		var done sync.WaitGroup
		done.Go(job.Run)
		<-began
		s.Fail(func(op, name string) error { return errors.New("away") })
		defer s.Fail(nil)
		if err := <-cause; !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the context ended with %v, want ErrLost", err)
		}
		if done.Wait(); !j.has("the lock was lost during the run") {
			t.Errorf("logged: %q", j.lines)
		}
	})
}

func TestAPanicReleasesTheLockAndReachesRecover(t *testing.T) {
	j := new(journal)
	once := holdfastcron.OneProcess(t.Context(), lockerOn(t, memstore.New()), name, &holdfastcron.Options{Logger: j})
	chain := cron.NewChain(cron.Recover(j), once)
	chain.Then(holdfastcron.Func(func(context.Context) error { panic("oh") })).Run()
	if !j.has("panic: oh") {
		t.Errorf("logged: %q", j.lines)
	}
	ran := false
	if chain.Then(cron.FuncJob(func() { ran = true })).Run(); !ran {
		t.Error("the lock is still held")
	}
}

func TestTheErrorOfAJobIsLogged(t *testing.T) {
	j := new(journal)
	once := holdfastcron.OneProcess(t.Context(), lockerOn(t, memstore.New()), name, &holdfastcron.Options{Logger: j})
	once(holdfastcron.Func(func(context.Context) error { return errors.New("no paper") })).Run()
	if !j.has("the run failed: no paper") {
		t.Errorf("logged: %q", j.lines)
	}
}

func TestATickIsSkippedWhileTheStoreIsAway(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		s.Fail(func(op, name string) error { return errors.New("away") })
		holdfastcron.OneProcess(t.Context(), lockerOn(t, s), name, &holdfastcron.Options{Logger: j})(
			cron.FuncJob(func() { t.Error("the job ran without the lock") })).Run()
		s.Fail(nil)
		if !j.has("skip: the lock cannot be asked for") {
			t.Errorf("logged: %q", j.lines)
		}
	})
}

func TestATimeOutOfRangeSkipsEachTick(t *testing.T) {
	j := new(journal)
	o := &holdfastcron.Options{AtLeast: time.Hour, AtMost: time.Minute, Logger: j}
	holdfastcron.OneProcess(t.Context(), lockerOn(t, memstore.New()), name, o)(
		cron.FuncJob(func() { t.Error("the job ran, want it skipped") })).Run()
	if !j.has("skip: the lock cannot be asked for") {
		t.Errorf("logged: %q", j.lines)
	}
}

func TestTheEndOfItsContextEndsRunsAndStartsNone(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	j := new(journal)
	runs := 0
	job := holdfastcron.OneProcess(ctx, lockerOn(t, memstore.New()), name, &holdfastcron.Options{Logger: j})(
		holdfastcron.Func(func(ctx context.Context) error {
			runs++
			stop()
			<-ctx.Done()
			return nil
		}))
	job.Run()
	if job.Run(); runs != 1 || !j.empty() {
		t.Errorf("got %d runs, want 1; logged: %q, want nothing", runs, j.lines)
	}
}

// Another wrapper around ours hides that the job takes a context.
func TestAFuncDoesNotRunWithoutItsContext(t *testing.T) {
	j := new(journal)
	once := holdfastcron.OneProcess(t.Context(), lockerOn(t, memstore.New()), name, nil)
	cron.NewChain(cron.Recover(j), once, cron.SkipIfStillRunning(j)).Then(
		holdfastcron.Func(func(context.Context) error { t.Error("the job ran, want it skipped"); return nil })).Run()
	if !j.has("OneProcess must be the last wrapper") {
		t.Errorf("logged: %q", j.lines)
	}
}

// runsAJob is the other process: it runs the job, says so, and goes on until it is killed.
func runsAJob(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	s, err := filestore.Open(dir, nil)
	fail(err)
	locks, err := holdfast.New(s, nil)
	fail(err)
	c := cron.New(cron.WithSeconds())
	_, err = c.AddJob("* * * * * *", holdfastcron.OneProcess(context.Background(), locks, name, nil)(cron.FuncJob(func() {
		os.Stdout.WriteString("runs\n")
		select {}
	})))
	fail(err)
	c.Run()
}

func TestAJobOfAKilledProcessRunsElsewhere(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("runs")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	j := new(journal)
	runs := 0
	job := holdfastcron.OneProcess(t.Context(), lockerOn(t, s), name, &holdfastcron.Options{Logger: j})(cron.FuncJob(func() { runs++ }))
	if job.Run(); runs != 0 || !j.has("skip: it runs elsewhere") {
		t.Fatalf("while the other process runs the job: got %d runs, want none; logged: %q", runs, j.lines)
	}
	other.Kill()
	for deadline := time.Now().Add(time.Minute); runs == 0; job.Run() {
		if time.Now().After(deadline) {
			t.Fatalf("the job does not run after the other process was killed; logged: %q", j.lines)
		}
	}
}
