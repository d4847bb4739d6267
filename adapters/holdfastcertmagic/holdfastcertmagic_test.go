package holdfastcertmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastcertmagic"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		holdsALock(dir)
	}
	goleak.VerifyTestMain(m)
}

const name = "issue_cert_example.com"

// These interfaces came with certmagic 0.25.
var (
	_ certmagic.Storage = (*holdfastcertmagic.Storage)(nil)
	_ tryLocker         = (*holdfastcertmagic.Storage)(nil)
	_ leaseRenewer      = (*holdfastcertmagic.Storage)(nil)
)

type tryLocker interface {
	TryLock(ctx context.Context, name string) (bool, error)
	Unlock(ctx context.Context, name string) error
}

type leaseRenewer interface {
	RenewLockLease(ctx context.Context, lockKey string, leaseDuration time.Duration) error
}

func storageOn(t testing.TB, s store.Store, o *holdfast.Options) *holdfastcertmagic.Storage {
	t.Helper()
	locks, err := holdfast.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return holdfastcertmagic.NewStorage(&certmagic.FileStorage{Path: t.TempDir()}, locks)
}

// issuer is the CA of one process. It also counts the certificates that all issue.
type issuer struct {
	issued, together *atomic.Int64
	t                testing.TB
}

func (issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if i.together.Add(1) > 1 {
		i.t.Error("two processes obtain the same certificate at once")
	}
	defer i.together.Add(-1)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1 + i.issued.Add(1)), DNSNames: csr.DNSNames, NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// configOn is the certmagic of one process.
func configOn(t testing.TB, s certmagic.Storage, i certmagic.Issuer) *certmagic.Config {
	t.Helper()
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil }})
	t.Cleanup(cache.Stop)
	config = certmagic.New(cache, certmagic.Config{Storage: s, Issuers: []certmagic.Issuer{i}})
	return config
}

// Four processes share a storage and want the same certificate.
func TestOneOfManyObtainsACertificate(t *testing.T) {
	s, shared := memstore.New(), &certmagic.FileStorage{Path: t.TempDir()}
	var issued, together atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		locks, err := holdfast.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locks.Close() })
		config := configOn(t, holdfastcertmagic.NewStorage(shared, locks), issuer{&issued, &together, t})
		all.Go(func() {
			if err := config.ObtainCertSync(t.Context(), "example.com"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := issued.Load(); n != 1 {
		t.Errorf("got %d certificates issued, want one", n)
	}
}

// The same as certmagic's tests of the locks of its FileStorage, except that a context that has ended gets no lock, not
// even a free one.
func TestALockIsHeldUntilItsUnlock(t *testing.T) {
	s := memstore.New()
	a, b := storageOn(t, s, nil), storageOn(t, s, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // otherwise it waits forever for a lock that was not released
	defer cancel()
	for range 2 {
		if err := a.Lock(ctx, name); err != nil {
			t.Fatal(err)
		}
		for _, other := range []tryLocker{a, b} {
			if ok, err := other.TryLock(t.Context(), name); ok || err != nil {
				t.Errorf("TryLock of a held lock: got %v, %v, want false and no error", ok, err)
			}
		}
		if l := a.Lease(name); l == nil || !l.Valid() || b.Lease(name) != nil {
			t.Error("want a lease in the process that holds the lock, and none in the other")
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := a.Unlock(ended, name); err != nil {
			t.Errorf("Unlock with an ended context: %v", err)
		}
	}
	if ok, err := b.TryLock(t.Context(), name); !ok || err != nil {
		t.Fatalf("TryLock of a free lock: got %v, %v, want true and no error", ok, err)
	}
	if err := b.Unlock(t.Context(), name); err != nil {
		t.Error(err)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		a, b := storageOn(t, s, nil), storageOn(t, s, nil)
		if err := a.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- b.Lock(ctx, name) }()
		synctest.Wait() // until it waits
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Lock: %v, want the context's error and ErrHeld", err)
		}
		if err := a.Unlock(t.Context(), name); err != nil {
			t.Error(err)
		}
	})
}

func TestUnlockOfWhatIsNotHeldIsAnError(t *testing.T) {
	s := memstore.New()
	a, b := storageOn(t, s, nil), storageOn(t, s, nil)
	if err := a.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(t.Context(), name); !errors.Is(err, holdfast.ErrReleased) {
		t.Errorf("Unlock of another process's lock: %v, want ErrReleased", err)
	}
	if err := b.RenewLockLease(t.Context(), name, time.Minute); !errors.Is(err, holdfast.ErrReleased) {
		t.Errorf("RenewLockLease of another process's lock: %v, want ErrReleased", err)
	}
	if !a.Lease(name).Valid() {
		t.Error("the holder lost the lock to the failed calls of another process")
	}
	if err := a.Unlock(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// The work takes hours, and certmagic renews for only minutes: the lock is held all the same.
func TestALockIsHeldForLongerThanItWasRenewedFor(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		a, b := storageOn(t, s, nil), storageOn(t, s, nil)
		if err := a.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := a.RenewLockLease(t.Context(), name, time.Minute); err != nil {
			t.Errorf("RenewLockLease: %v", err)
		}
		time.Sleep(6 * time.Hour)
		if ok, err := b.TryLock(t.Context(), name); ok || err != nil {
			t.Errorf("TryLock after six hours: got %v, %v, want false and no error", ok, err)
		}
		if err := a.Unlock(t.Context(), name); err != nil {
			t.Error(err)
		}
	})
}

// A lease that was lost between two attempts is taken again before the next. The next attempt waits while another
// process has the lock.
func TestALostLockIsTakenAgainBeforeTheNextAttempt(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		a := storageOn(t, s, &holdfast.Options{TTL: time.Minute, MaxHold: time.Hour}) // MaxHold ends it after an hour
		b := storageOn(t, s, nil)
		if err := a.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		<-a.Lease(name).Lost()
		if err := b.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.RenewLockLease(short, name, time.Minute); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("RenewLockLease while another process holds the lock: %v, want ErrHeld", err)
		}
		result := make(chan error, 1)
		go func() { result <- a.RenewLockLease(t.Context(), name, time.Minute) }()
		synctest.Wait() // until it waits
		if err := b.Unlock(t.Context(), name); err != nil {
			t.Error(err)
		}
		if err := <-result; err != nil {
			t.Errorf("RenewLockLease: %v", err)
		}
		if l := a.Lease(name); l == nil || !l.Valid() {
			t.Error("got no lease after RenewLockLease took the lock again")
		}
		if err := a.Unlock(t.Context(), name); err != nil {
			t.Errorf("Unlock: %v", err)
		}
		if err := a.Unlock(t.Context(), name); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("second Unlock: %v, want ErrReleased, as the lost lease is gone", err)
		}
	})
}

func TestUnlockOfALostLockSaysSo(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		a := storageOn(t, s, &holdfast.Options{MaxHold: time.Hour})
		if err := a.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		<-a.Lease(name).Lost()
		if err := a.Unlock(t.Context(), name); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}

// holdsALock is the other process: it locks the name, says so, and goes on until it is killed.
func holdsALock(dir string) {
	s, err := filestore.Open(dir, nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	if err == nil {
		err = holdfastcertmagic.NewStorage(&certmagic.FileStorage{Path: dir}, locks).Lock(context.Background(), name)
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString("holds\n")
	select {}
}

// When a process is killed, its lock is granted to another, and not before.
func TestTheLockOfAKilledProcessIsGranted(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("holds")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	storage := storageOn(t, s, nil)
	if ok, err := storage.TryLock(t.Context(), name); ok || err != nil {
		t.Fatalf("TryLock while the other process holds the lock: got %v, %v, want false and no error", ok, err)
	}
	other.Kill()
	if err := storage.Lock(t.Context(), name); err != nil {
		t.Errorf("Lock after the other process was killed: %v", err)
	}
	if err := storage.Unlock(t.Context(), name); err != nil {
		t.Error(err)
	}
}
