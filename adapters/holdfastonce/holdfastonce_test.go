package holdfastonce_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastonce"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		computes(dir)
	}
	goleak.VerifyTestMain(m)
}

const key = "report"

func lockerOn(t testing.TB, s store.Store) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(s, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A shared is the cache of all processes.
type shared struct {
	values         sync.Map
	getErr, setErr error
}

func (s *shared) cache() holdfastonce.Cache[int] {
	return holdfastonce.Cache[int]{
		Get: func(_ context.Context, key string) (int, bool, error) {
			v, ok := s.values.Load(key)
			if !ok {
				return 0, false, s.getErr
			}
			return v.(int), true, s.getErr
		},
		Set: func(ctx context.Context, key string, value int) error {
			if s.setErr == nil {
				s.values.Store(key, value)
			}
			return s.setErr
		},
	}
}

func TestAValueIsComputedOnceForAllProcesses(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var cache shared
		var computed atomic.Int64
		var all sync.WaitGroup
		for range 4 { // processes
			once := holdfastonce.New(lockerOn(t, s), cache.cache())
			for range 5 { // callers in each
				all.Go(func() {
					v, err := once.Do(t.Context(), key, func(ctx context.Context) (int, error) {
						if l := holdfast.LeaseFrom(ctx); l == nil || !l.Valid() {
							t.Error("a running computation has no lease")
						}
						time.Sleep(time.Minute)
						computed.Add(1)
						return 42, nil
					})
					if v != 42 || err != nil {
						t.Errorf("Do: got %d, %v, want 42", v, err)
					}
				})
			}
		}
		all.Wait()
		if n := computed.Load(); n != 1 {
			t.Errorf("computed %d times, want once", n)
		}
	})
}

func TestACachedValueNeedsNoLock(t *testing.T) {
	s := memstore.New()
	s.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
	defer s.Fail(nil)
	var cache shared
	cache.values.Store(key, 7)
	once := holdfastonce.New(lockerOn(t, s), cache.cache())
	if v, err := once.Do(t.Context(), key, nil); v != 7 || err != nil {
		t.Errorf("Do: got %d, %v, want 7", v, err)
	}
}

func TestAnErrorIsNotCachedAndTheNextComputes(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var cache shared
		broken := errors.New("no paper")
		first := holdfastonce.New(lockerOn(t, s), cache.cache())
		next := holdfastonce.New(lockerOn(t, s), cache.cache())
		began := make(chan struct{})
		failed := make(chan error, 1)
		go func() {
			_, err := first.Do(t.Context(), key, func(context.Context) (int, error) {
				close(began)
				time.Sleep(time.Second)
				return 1, broken
			})
			failed <- err
		}()
		<-began
		v, err := next.Do(t.Context(), key, func(context.Context) (int, error) { return 2, nil })
		if v != 2 || err != nil {
			t.Errorf("the next Do: got %d, %v, want 2", v, err)
		}
		if err := <-failed; !errors.Is(err, broken) {
			t.Errorf("the first Do: %v, want the error of its function", err)
		}
	})
}

func TestAPanicGivesTheKeyToTheNext(t *testing.T) {
	var cache shared
	once := holdfastonce.New(lockerOn(t, memstore.New()), cache.cache())
	func() {
		defer func() { recover() }()
		once.Do(t.Context(), key, func(context.Context) (int, error) { panic("oh") })
	}()
	if v, err := once.Do(t.Context(), key, func(context.Context) (int, error) { return 2, nil }); v != 2 || err != nil {
		t.Errorf("Do after the panic: got %d, %v, want 2", v, err)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var cache shared
		lease, err := lockerOn(t, s).Mutex(holdfastonce.LockPrefix + key).TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = holdfastonce.New(lockerOn(t, s), cache.cache()).Do(ctx, key, func(context.Context) (int, error) {
			t.Error("computed while another process computes")
			return 0, nil
		})
		if !errors.Is(err, holdfast.ErrNotRun) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do: %v, want ErrNotRun and the context's error", err)
		}
	})
}

func TestAfterALossNothingIsCached(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var cache shared
		once := holdfastonce.New(lockerOn(t, s), cache.cache())
		v, err := once.Do(t.Context(), key, func(ctx context.Context) (int, error) {
			s.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
			<-ctx.Done()
			return 1, nil // it ignores the loss
		})
		s.Fail(nil)
		if v != 0 || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Do: got %d, %v; want 0 and ErrLost", v, err)
		}
		if v, ok := cache.values.Load(key); ok {
			t.Errorf("cached %v after the loss, want nothing", v)
		}
	})
}

// The release gets no answer, but the computed value is cached.
func TestAReleaseWithoutAnAnswerCostsNoValue(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		var cache shared
		v, err := holdfastonce.New(lockerOn(t, s), cache.cache()).Do(t.Context(), key, func(ctx context.Context) (int, error) {
			s.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
			return 1, nil
		})
		s.Fail(nil)
		if v != 1 || err != nil {
			t.Errorf("Do: got %d, %v, want 1", v, err)
		}
	})
}

func TestErrorsOfTheCacheAreReturned(t *testing.T) {
	away := errors.New("the cache is away")
	get := shared{getErr: away}
	locks := lockerOn(t, memstore.New())
	if _, err := holdfastonce.New(locks, get.cache()).Do(t.Context(), key, func(context.Context) (int, error) {
		t.Error("computed though Get failed")
		return 0, nil
	}); !errors.Is(err, away) {
		t.Errorf("Do: %v, want the error of Get", err)
	}
	set := shared{setErr: away}
	v, err := holdfastonce.New(locks, set.cache()).Do(t.Context(), key, func(context.Context) (int, error) { return 3, nil })
	unset := (*holdfastonce.SetError)(nil)
	if v != 3 || !errors.As(err, &unset) || !errors.Is(err, away) {
		t.Errorf("Do: got %d, %v; want the value and a SetError", v, err)
	}
}

// computes is the other process: it says that it computes, and goes on until it is killed.
func computes(dir string) {
	s, err := filestore.Open(dir, nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	if err == nil {
		_, err = holdfastonce.New(locks, new(shared).cache()).Do(context.Background(), key, func(context.Context) (int, error) {
			os.Stdout.WriteString("computes\n")
			select {}
		})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestAValueOfAKilledProcessIsComputedByTheNext(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("computes")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	var tell sync.Once
	locks := lockerOn(t, s).With(&holdfast.Options{Observer: func(e holdfast.Event) {
		if e.Kind == holdfast.EventWaiting {
			tell.Do(func() { close(waits) })
		}
	}})
	var killed atomic.Bool
	go func() {
		<-waits
		killed.Store(true)
		other.Kill()
	}()
	v, err := holdfastonce.New(locks, new(shared).cache()).Do(t.Context(), key, func(context.Context) (int, error) {
		if !killed.Load() {
			t.Error("computed while the other process does")
		}
		return 5, nil
	})
	if v != 5 || err != nil {
		t.Errorf("Do after the other process was killed: got %d, %v, want 5", v, err)
	}
}
