package holdfastkube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastkube"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		leads(dir)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // the goroutines of klog
}

const name = "operator"

func lockerOn(t testing.TB, s store.Store) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(s, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func candidate(t testing.TB, s store.Store, identity string) *holdfastkube.Lock {
	t.Helper()
	l, err := holdfastkube.New(lockerOn(t, s), name, identity)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// elector is client-go's elector, with its default times.
func elector(lock resourcelock.Interface, started func(context.Context), stopped func()) *leaderelection.LeaderElector {
	return electorThat(true, lock, started, stopped)
}

func electorThat(releases bool, lock resourcelock.Interface, started func(context.Context), stopped func()) *leaderelection.LeaderElector {
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: releases,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: started, OnStoppedLeading: stopped},
	})
	if err != nil {
		panic(err)
	}
	return e
}

func TestOneOfManyElectorsLeadsAtATime(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var together, terms atomic.Int64
		var all sync.WaitGroup
		for i := range 4 {
			lock := candidate(t, s, fmt.Sprint("pod-", i))
			all.Go(func() {
				ctx, stop := context.WithCancel(t.Context())
				elector(lock, func(ctx context.Context) {
					if together.Add(1) > 1 {
						t.Error("two electors lead at once")
					}
					if l := lock.Lease(); l == nil || l.Token() == 0 {
						t.Error("the leader has no lease")
					}
					select {
					case <-time.After(5 * time.Minute):
					case <-ctx.Done():
						t.Error("the term ended without a cause")
					}
					terms.Add(1)
					together.Add(-1)
					stop()
				}, func() {}).Run(ctx)
				if lock.Lease() != nil {
					t.Error("got a lease after the elector has stopped, want none")
				}
			})
		}
		all.Wait()
		if n := terms.Load(); n != 4 {
			t.Errorf("got %d terms, want 4", n)
		}
	})
}

func TestOthersSeeTheLeader(t *testing.T) {
	s := memstore.New()
	lock, other := candidate(t, s, "pod-1"), candidate(t, s, "pod-2")
	if _, _, err := other.Get(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("Get without a leader: %v, want not found", err)
	}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "pod-1", LeaseDurationSeconds: 15}
	if err := lock.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	r, raw, err := other.Get(t.Context())
	if err != nil || r.HolderIdentity != "pod-1" || r.LeaseDurationSeconds < 10 || len(raw) == 0 {
		t.Errorf("Get: got %+v, %q, %v, want the record of pod-1", r, raw, err)
	}
	record.HolderIdentity = "pod-2"
	if err := other.Update(t.Context(), record); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("Update while another leads: %v, want ErrHeld", err)
	}
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil { // it resigns
		t.Fatal(err)
	}
	if err := other.Update(t.Context(), record); err != nil {
		t.Error(err)
	}
	if got := lock.Identity() + " " + lock.Describe(); got != "pod-1 holdfast/operator" {
		t.Error(got)
	}
}

// With its own times client-go stops before the lease ends. With ReleaseOnCancel it first releases and only then ends
// its context: then heed the context of the lease.
func TestAnElectorStopsBeforeItsLeaseEnds(t *testing.T) {
	s := memstore.New()
	for _, releases := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lock := candidate(t, s, "pod-1")
			ended := make(chan time.Duration, 1)
			electorThat(releases, lock, func(ctx context.Context) {
				lease := lock.Lease()
				deadline := lease.Deadline()
				if releases {
					ctx = lease.Context(ctx)
				}
				s.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
				<-ctx.Done()
				ended <- time.Until(deadline)
			}, func() {}).Run(t.Context())
			s.Fail(nil)
			if left := <-ended; left <= 0 {
				t.Errorf("ReleaseOnCancel %v: the elector stopped %v after its lease had ended", releases, -left)
			}
			time.Sleep(time.Minute) // the name is free again
		})
	}
}

// Another process may have led in between.
func TestAfterALossNoNewTermBeginsUnseen(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		lock := candidate(t, s, "pod-1")
		locks := lockerOn(t, s)
		began := time.Now()
		stoppedOnce := false
		e := elector(lock, func(ctx context.Context) {
			lease := lock.Lease()
			if err := locks.Break(ctx, holdfast.Break{Name: name, ID: lease.ID(), Token: lease.Token(), Reason: "test", Now: true}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			if err := context.Cause(lease.Context(context.Background())); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("the lease ended with %v, want ErrLost", err)
			}
		}, func() { stoppedOnce = true })
		bound, end := context.WithTimeout(t.Context(), time.Hour) // otherwise a term that does not end goes on forever
		defer end()
		e.Run(bound)
		if d := time.Since(began); !stoppedOnce || d > 20*time.Second {
			t.Errorf("stopped after %v: %v, want true within 20 s", d, stoppedOnce)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again := false
		elector(lock, func(context.Context) { again = true; cancel() }, func() {}).Run(ctx)
		synctest.Wait()
		if !again {
			t.Error("the elector cannot lead again")
		}
	})
}

// Like client-go's own lease, it does not outlive the elector for long.
func TestALeaseEndsWithoutItsElector(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		lock, next := candidate(t, s, "pod-1"), candidate(t, s, "pod-2")
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "pod-1", LeaseDurationSeconds: 15}
		if err := lock.Create(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		elector(next, func(context.Context) { stop() }, func() {}).Run(ctx)
		if d := time.Since(began); d < 14*time.Second || d > 25*time.Second {
			t.Errorf("the next elector leads after %v, want soon after 15 s", d)
		}
	})
}

func TestAnIdentityIsChosenOrBounded(t *testing.T) {
	a, b := candidate(t, memstore.New(), ""), candidate(t, memstore.New(), "")
	if a.Identity() == b.Identity() || len(a.Identity()) > 100 {
		t.Errorf("got identities %q and %q, want two different ones of at most 100 bytes", a.Identity(), b.Identity())
	}
	if _, err := holdfastkube.New(lockerOn(t, memstore.New()), name, strings.Repeat("x", 101)); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("New with a long identity: %v, want ErrInvalid", err)
	}
}

// leads is the other process: it leads, says so, and goes on until it is killed.
func leads(dir string) {
	s, err := filestore.Open(dir, nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	var lock *holdfastkube.Lock
	if err == nil {
		lock, err = holdfastkube.New(locks, name, "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	elector(lock, func(context.Context) { os.Stdout.WriteString("leads\n") }, func() { os.Exit(1) }).Run(context.Background())
}

func TestAfterALeaderIsKilledOneOfTheOthersLeads(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("leads")
	var killed atomic.Bool
	var terms atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked := make(chan struct{}, 2)
	var all sync.WaitGroup
	for i := range 2 {
		s, err := filestore.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		lock := candidate(t, s, fmt.Sprint("pod-", i))
		e := elector(reported{lock, asked}, func(context.Context) {
			if !killed.Load() {
				t.Error("this elector leads while the other process does")
			}
			terms.Add(1)
			stop()
		}, func() {})
		all.Go(func() { e.Run(ctx) })
	}
	<-asked
	<-asked
	killed.Store(true)
	other.Kill()
	if all.Wait(); terms.Load() == 0 {
		t.Error("no elector leads after the leader was killed")
	}
}

// reported says when its elector learned who leads.
type reported struct {
	*holdfastkube.Lock
	asked chan struct{}
}

func (l reported) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.Lock.Get(ctx)
	if err == nil {
		select {
		case l.asked <- struct{}{}:
		default:
		}
	}
	return r, raw, err
}
