package pgadvisory

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
)

// sessionLocker is another process with locks in a session.
func sessionLocker(t testing.TB, pool *pgxpool.Pool) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(mustSession(t, pool, nil), &holdfast.Options{Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return l
}

func leaseOf(t testing.TB, l *holdfast.Locker, name string) *holdfast.Lease {
	t.Helper()
	lease, err := l.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestSessionLease_IsLostWithItsSessionAndTheNextGranted(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	here, there, name := sessionLocker(t, pool), sessionLocker(t, pool), fresh()
	lease := leaseOf(t, here, name)
	if !lease.Deadline().IsZero() || lease.Token() != 0 || !lease.Valid() {
		t.Fatalf("got deadline %v, token %d, valid %v", lease.Deadline(), lease.Token(), lease.Valid())
	}
	in := make(chan *holdfast.Lease)
	go func() {
		next, err := there.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		in <- next
	}()
	terminate(t, pool, sessionOf(t, pool, name))
	select {
	case <-lease.Lost():
	case <-time.After(patience):
		t.Fatal("the loss was not reported")
	}
	if err := lease.Release(); lease.Valid() || !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("got valid %v, release: %v", lease.Valid(), err)
	}
	if next := <-in; next == nil || next.Release() != nil {
		t.Error("the next claim was not granted")
	}
	leaseOf(t, here, name).Release()
}

func TestSessionLease_AWaiterGoesOnWhenItsSessionIsKilled(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	here, there, name, other := sessionLocker(t, pool), sessionLocker(t, pool), fresh(), fresh()
	lease, tells := leaseOf(t, here, name), leaseOf(t, there, other)
	in := make(chan error)
	go func() { in <- there.Mutex(name).Do(t.Context(), nothing) }()
	for range 3 {
		terminate(t, pool, sessionOf(t, pool, other))
		<-tells.Lost()
		tells = leaseOf(t, there, other) // a new session
	}
	select {
	case err := <-in:
		t.Fatalf("the wait has ended: %v", err)
	default:
	}
	if err := errors.Join(lease.Release(), tells.Release()); err != nil {
		t.Fatal(err)
	}
	if err := <-in; err != nil {
		t.Fatal(err)
	}
}

func TestSessionLease_AWriterIsAloneAndNoCountIsLost(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	name := fresh()
	var wg sync.WaitGroup
	count := 0 // guarded by the lock under test alone
	for range 3 {
		l := sessionLocker(t, pool).With(&holdfast.Options{PollMin: time.Millisecond, PollMax: 5 * time.Millisecond})
		for range 4 {
			wg.Go(func() {
				for range 15 {
					lease, err := l.RWMutex(name).Write().Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					count++
					if err := lease.Release(); err != nil {
						t.Error(err)
					}
					if err := l.RWMutex(name).Read().Do(t.Context(), nothing); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if count != 3*4*15 {
		t.Errorf("got a count of %d, want %d", count, 3*4*15)
	}
}

func nothing(context.Context) error { return nil }
