package holdfasttusd_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tusfiles "github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfasttusd"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		holdsAnUpload(dir)
	}
	// tusd keeps a goroutine for each request until ten seconds after its end.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/tus/tusd/v2/pkg/handler.newDelayedContext.func1"))
}

const upload = "upload"

func lockerOn(t testing.TB, s store.Store, o *holdfast.Options) *holdfasttusd.Locker {
	t.Helper()
	locks, err := holdfast.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return holdfasttusd.New(locks, "tusd/")
}

func lockOf(t testing.TB, l *holdfasttusd.Locker, id string) handler.Lock {
	t.Helper()
	lock, err := l.NewLock(id)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// never is the requestUnlock of a lock that no other request asks for.
func never(t testing.TB) func() {
	return func() { t.Error("requestUnlock was called though no request waits") }
}

// These repeat tusd's own tests of its lockers, as it exports none.

func TestALockIsHeldUntilItsUnlock(t *testing.T) {
	a := lockerOn(t, memstore.New(), nil)
	lock := lockOf(t, a, upload)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // otherwise it waits forever for a lock that was not released
	defer cancel()
	for range 2 {
		if err := lock.Lock(ctx, never(t)); err != nil {
			t.Fatal(err)
		}
		if l := a.Lease(upload); l == nil || !l.Valid() {
			t.Error("a held upload has no lease")
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if a.Lease(upload) != nil {
			t.Error("a released upload has a lease")
		}
	}
}

func TestAWaitThatEndsIsALockTimeout(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		a, b := lockOf(t, lockerOn(t, s, nil), upload), lockOf(t, lockerOn(t, s, nil), upload)
		var asked atomic.Int64
		if err := a.Lock(t.Context(), func() { asked.Add(1) }); err != nil { // the holder goes on all the same
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Lock(ctx, never(t)); !errors.Is(err, handler.ErrLockTimeout) || !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Lock: %v, want ErrLockTimeout and ErrHeld", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- b.Lock(ctx, never(t)) }()
		synctest.Wait() // until it waits
		cancel()
		if err := <-result; !errors.Is(err, handler.ErrLockTimeout) {
			t.Errorf("Lock with a canceled context: %v, want ErrLockTimeout", err)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("requestUnlock was called %d times, want once", n)
		}
		if err := a.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheHolderIsAskedToUnlock(t *testing.T) {
	s := memstore.New()
	a, b := lockOf(t, lockerOn(t, s, nil), upload), lockOf(t, lockerOn(t, s, nil), upload)
	var asked atomic.Bool
	err := a.Lock(t.Context(), func() {
		asked.Store(true)
		if err := a.Unlock(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // otherwise it waits forever for a lock whose holder is not asked
	defer cancel()
	if err := b.Lock(ctx, never(t)); err != nil {
		t.Fatal(err)
	}
	if !asked.Load() {
		t.Error("the lock was granted before the holder was asked to unlock it")
	}
	if err := b.Unlock(); err != nil {
		t.Error(err)
	}
}

// Three servers with four requests each for the same upload.
func TestOneRequestOfManyHoldsAnUpload(t *testing.T) {
	s := memstore.New()
	var together atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		locker := lockerOn(t, s, nil)
		for range 4 {
			lock := lockOf(t, locker, upload)
			all.Go(func() {
				if err := lock.Lock(t.Context(), func() {}); err != nil {
					t.Error(err)
					return
				}
				if together.Add(1) > 1 {
					t.Error("two requests hold the upload at once")
				}
				if !locker.Lease(upload).Valid() {
					t.Error("the request that holds the upload has no lease")
				}
				together.Add(-1)
				if err := lock.Unlock(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
}

func TestUnlockOfWhatIsNotHeldIsAnError(t *testing.T) {
	s := memstore.New()
	locker := lockerOn(t, s, nil)
	a, b := lockOf(t, locker, upload), lockOf(t, locker, upload)
	if err := a.Lock(t.Context(), never(t)); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(); !errors.Is(err, holdfast.ErrReleased) {
		t.Errorf("Unlock of another server's lock: %v, want ErrReleased", err)
	}
	if !locker.Lease(upload).Valid() {
		t.Error("the holder lost the lock to the failed Unlock of another server")
	}
	if err := a.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestALossEndsTheRequest(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		a := lockOf(t, lockerOn(t, s, &holdfast.Options{MaxHold: time.Minute}), upload)
		ended := make(chan struct{})
		if err := a.Lock(t.Context(), func() { close(ended) }); err != nil {
			t.Fatal(err)
		}
		<-ended
		if err := a.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}

func TestMoreThanMayWaitAreRefused(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		locker := lockerOn(t, s, &holdfast.Options{MaxWaiting: 1})
		a, b, c := lockOf(t, locker, upload), lockOf(t, locker, upload), lockOf(t, locker, upload)
		if err := a.Lock(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() { result <- b.Lock(t.Context(), func() {}) }()
		synctest.Wait() // until it waits
		if err := c.Lock(t.Context(), never(t)); !errors.Is(err, handler.ErrFileLocked) {
			t.Errorf("Lock: %v, want ErrFileLocked", err)
		}
		for _, lock := range []handler.Lock{a, b} {
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			if lock == a {
				if err := <-result; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// A client may send anything as an ID. Different IDs have different locks, even if they are kept as hashes.
func TestTwoUploadsAreLockedAtOnce(t *testing.T) {
	long := strings.Repeat("x", 4096)
	for _, ids := range [][2]string{{"a", "b"}, {long + "a", long + "b"}} {
		locks := lockerOn(t, memstore.New(), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, id := range ids {
			lock := lockOf(t, locks, id)
			if err := lock.Lock(ctx, never(t)); err != nil {
				t.Fatal(err)
			}
			defer lock.Unlock()
		}
	}
}

func TestAnyIDCanBeLocked(t *testing.T) {
	s := memstore.New()
	for _, id := range []string{"", "a/b", strings.Repeat("x", 4096), "\xff\x00"} {
		a, b := lockOf(t, lockerOn(t, s, nil), id), lockOf(t, lockerOn(t, s, nil), id)
		if err := a.Lock(t.Context(), func() { a.Unlock() }); err != nil {
			t.Errorf("%q: Lock: %v", id, err)
			continue
		}
		if err := b.Lock(t.Context(), never(t)); err != nil {
			t.Errorf("%q: second Lock: %v", id, err)
		}
		if err := b.Unlock(); err != nil {
			t.Errorf("%q: Unlock: %v", id, err)
		}
		if err := a.Unlock(); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("%q: got the lock twice, want it released on request", id)
		}
	}
}

// serverOn is a tusd server.
func serverOn(t testing.TB, dir string, locker *holdfasttusd.Locker, wait time.Duration) *httptest.Server {
	t.Helper()
	composer := handler.NewStoreComposer()
	tusfiles.New(dir).UseIn(composer)
	locker.UseIn(composer)
	h, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer, AcquireLockTimeout: wait})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/files/", h))
	t.Cleanup(server.Close)
	return server
}

func request(t testing.TB, method, url string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response
}

// The connection to one server hangs in the middle of a chunk. The client goes on at another server: the first ends its
// request, and keeps what it has received.
func TestAnUploadGoesOnAtAnotherServer(t *testing.T) {
	s, dir := memstore.New(), t.TempDir()
	here, there := lockerOn(t, s, nil), lockerOn(t, s, nil)
	first, second := serverOn(t, dir, here, time.Minute), serverOn(t, dir, there, time.Minute)
	defer http.DefaultClient.CloseIdleConnections()
	created := request(t, "POST", first.URL+"/files/", nil, "Upload-Length", "10")
	id := created.Header.Get("Location")
	id = id[strings.LastIndexByte(id, '/')+1:]
	if created.StatusCode != http.StatusCreated || id == "" {
		t.Fatalf("POST: %s, got upload %q", created.Status, id)
	}

	body, hangs := io.Pipe()
	patch, err := http.NewRequestWithContext(t.Context(), "PATCH", first.URL+"/files/"+id, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"} {
		patch.Header.Set(name, value)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := http.DefaultClient.Do(patch); err == nil {
			response.Body.Close()
		}
	}()
	if _, err := hangs.Write([]byte("01234")); err != nil {
		t.Fatal(err)
	}
	// Wait until the first server has kept what it received. A request that is asked to end before it reads its body
	// does not notice (see the package's doc).
	for {
		kept, err := os.ReadFile(filepath.Join(dir, id))
		if err != nil {
			t.Fatal(err)
		}
		if len(kept) == 5 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if here.Lease(id) == nil {
		t.Error("the first server does not hold the upload")
	}

	head := request(t, "HEAD", second.URL+"/files/"+id, nil)
	offset := head.Header.Get("Upload-Offset")
	if head.StatusCode != http.StatusOK || offset != "5" {
		t.Fatalf("HEAD: %s, got offset %q, want 5", head.Status, offset)
	}
	if here.Lease(id) != nil {
		t.Error("the first server still holds the upload")
	}
	last := request(t, "PATCH", second.URL+"/files/"+id, strings.NewReader("56789"), "Upload-Offset", offset, "Content-Type", "application/offset+octet-stream")
	if last.StatusCode != http.StatusNoContent || last.Header.Get("Upload-Offset") != "10" {
		t.Errorf("PATCH: %s, got offset %q, want 10", last.Status, last.Header.Get("Upload-Offset"))
	}
	hangs.Close()
	<-done
}

// tusd sends its own text of an error, and not who holds the upload.
func TestAClientGetsTheErrorOfTusd(t *testing.T) {
	s := memstore.New()
	lock := lockOf(t, lockerOn(t, s, nil), upload)
	if err := lock.Lock(t.Context(), func() {}); err != nil { // the holder goes on all the same
		t.Fatal(err)
	}
	server := serverOn(t, t.TempDir(), lockerOn(t, s, nil), 100*time.Millisecond)
	defer http.DefaultClient.CloseIdleConnections()
	response, err := http.Get(server.URL + "/files/" + upload)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != handler.ErrLockTimeout.HTTPResponse.StatusCode || string(body) != handler.ErrLockTimeout.HTTPResponse.Body {
		t.Errorf("GET: got %s, %q, %v, want those of ErrLockTimeout", response.Status, body, err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}

// holdsAnUpload is the other process: it locks the upload, says so, and goes on until it is killed.
func holdsAnUpload(dir string) {
	s, err := filestore.Open(dir, nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	var lock handler.Lock
	if err == nil {
		lock, err = holdfasttusd.New(locks, "tusd/").NewLock(upload)
	}
	if err == nil {
		err = lock.Lock(context.Background(), func() { os.Stdout.WriteString("asked\n") })
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString("holds\n")
	select {}
}

// When a process is killed, its upload is granted to another, and not before. The process is asked to release it while
// it lives.
func TestTheUploadOfAKilledProcessIsGranted(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	other.Says("holds")
	s, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	lock := lockOf(t, lockerOn(t, s, nil), upload)
	var killed atomic.Bool
	result := make(chan error, 1)
	go func() {
		err := lock.Lock(t.Context(), never(t))
		if !killed.Load() {
			t.Error("Lock returned while the other process holds the lock")
		}
		result <- err
	}()
	other.Says("asked") // now the second request waits
	killed.Store(true)
	other.Kill()
	if err := <-result; err != nil {
		t.Errorf("Lock after the other process was killed: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}
