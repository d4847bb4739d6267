package holdfastterraform_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastterraform"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/otherprocess"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) {
	if dir := otherprocess.Dir(); dir != "" {
		serves(dir)
	}
	goleak.VerifyTestMain(m)
}

func lockerOn(t testing.TB, s store.Store, o *holdfast.Options) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func quiet() *holdfast.Options { return &holdfast.Options{Logger: slog.New(slog.DiscardHandler)} }

// A client speaks the protocol as its documentation says.
type client struct {
	t testing.TB
	b http.Handler
}

func (c client) ask(method, target, body string) (status int, text string) {
	c.t.Helper()
	w := httptest.NewRecorder()
	c.b.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func (c client) want(status int, method, target, body string) (text string) {
	c.t.Helper()
	code, text := c.ask(method, target, body)
	if code != status {
		c.t.Fatalf("%s %s: %d %q, want %d", method, target, code, text, status)
	}
	return text
}

const (
	alice = `{"ID":"0a-1","Operation":"OperationTypeApply","Info":"","Who":"alice@web-3","Version":"1.12.6","Created":"2026-01-02T03:04:05Z","Path":""}`
	bob   = `{"ID":"0b-2","Operation":"OperationTypePlan","Info":"","Who":"bob@web-4","Version":"1.12.6","Created":"2026-01-02T03:04:06Z","Path":""}`
)

func TestAStateIsWrittenByTheClientWithTheLock(t *testing.T) {
	c := client{t, holdfastterraform.New(lockerOn(t, memstore.New(), nil), holdfastterraform.Dir(t.TempDir()))}
	c.want(404, "GET", "/net", "")
	c.want(200, "LOCK", "/net", alice)
	c.want(200, "LOCK", "/net", alice) // the answer was lost, and the client asks again
	c.want(200, "POST", "/net?ID=0a-1", `{"serial":1}`)
	c.want(200, "POST", "/net?ID=0a-1", `{"serial":2}`)
	if text := c.want(200, "GET", "/net", ""); text != `{"serial":2}` {
		t.Errorf("got state %s, want serial 2", text)
	}
	c.want(200, "UNLOCK", "/net", alice)
	c.want(200, "LOCK", "/net", bob)
	c.want(200, "DELETE", "/net?ID=0b-2", "")
	c.want(200, "DELETE", "/net?ID=0b-2", "")
	c.want(404, "GET", "/net", "")
}

func TestARefusedLockIsAnsweredWithTheHoldersInfo(t *testing.T) {
	c := client{t, holdfastterraform.New(lockerOn(t, memstore.New(), nil), holdfastterraform.Dir(t.TempDir()))}
	c.want(200, "LOCK", "/net", alice)
	if text := c.want(423, "LOCK", "/net", bob); text != alice {
		t.Errorf("got lock info %s, want the holder's", text)
	}
	c.want(200, "LOCK", "/other/state", bob)
}

func TestAClientWithoutTheLockWritesNothing(t *testing.T) {
	c := client{t, holdfastterraform.New(lockerOn(t, memstore.New(), nil), holdfastterraform.Dir(t.TempDir()))}
	c.want(409, "POST", "/net", `{}`) // -lock=false
	c.want(409, "POST", "/net?ID=0b-2", `{}`)
	c.want(409, "DELETE", "/net", "")
	c.want(200, "LOCK", "/net", alice)
	for _, target := range []string{"/net", "/net?ID=0b-2"} {
		if text := c.want(423, "POST", target, `{}`); text != alice {
			t.Errorf("got lock info %s, want the holder's", text)
		}
		c.want(423, "DELETE", target, "")
	}
	c.want(404, "GET", "/net", "")
}

func TestForceUnlockGivesTheLockBack(t *testing.T) {
	c := client{t, holdfastterraform.New(lockerOn(t, memstore.New(), nil), holdfastterraform.Dir(t.TempDir()))}
	c.want(409, "UNLOCK", "/net", `{"ID":"0a-1"}`)
	c.want(200, "LOCK", "/net", alice)
	if text := c.want(423, "UNLOCK", "/net", `{"ID":"wrong"}`); text != alice {
		t.Errorf("got lock info %s, want the holder's", text)
	}
	c.want(200, "UNLOCK", "/net", `{"ID":"0a-1"}`)
	c.want(409, "POST", "/net?ID=0a-1", `{}`)
	c.want(200, "LOCK", "/net", bob)
	c.want(200, "UNLOCK", "/net", "") // a client that sends no ID
	c.want(200, "LOCK", "/net", alice)
}

func TestAnInvalidRequestIsRefused(t *testing.T) {
	dir := t.TempDir()
	c := client{t, holdfastterraform.New(lockerOn(t, memstore.New(), nil), holdfastterraform.Dir(dir+"/states"))}
	c.want(404, "GET", "/", "")
	c.want(405, "PUT", "/net", `{}`)
	c.want(400, "LOCK", "/net", "")
	c.want(400, "LOCK", "/net", "hello")
	c.want(400, "LOCK", "/net", `{"ID":"a b"}`)
	c.want(400, "LOCK", "/"+strings.Repeat("x", 512), alice)
	c.want(200, "LOCK", "/x/%2e%2e/%2e%2e/out", alice)
	c.want(500, "POST", "/x/%2e%2e/%2e%2e/out?ID=0a-1", `{}`)
	if _, err := os.Stat(dir + "/out.tfstate"); err == nil {
		t.Error("a name in the request wrote a file outside the directory")
	}
}

func TestAServerKnowsTheLocksOfAnother(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		one := client{t, holdfastterraform.New(lockerOn(t, s, quiet()), holdfastterraform.Dir(dir))}
		two := client{t, holdfastterraform.New(lockerOn(t, s, quiet()), holdfastterraform.Dir(dir))}
		one.want(200, "LOCK", "/net", alice)
		var info struct{ ID, Who, Info string }
		if err := json.Unmarshal([]byte(two.want(423, "LOCK", "/net", bob)), &info); err != nil {
			t.Fatal(err)
		}
		if info.ID != "0a-1" || info.Who != "alice@web-3" || !strings.Contains(info.Info, "held by") {
			t.Errorf("got lock info %+v, want that of alice@web-3", info)
		}
		two.want(409, "POST", "/net?ID=0a-1", `{}`) // it does not hold the lock
		two.want(409, "UNLOCK", "/net", bob)
		two.want(200, "UNLOCK", "/net", `{"ID":"0a-1"}`)
		time.Sleep(time.Minute) // it expires
		one.want(409, "POST", "/net?ID=0a-1", `{}`)
		two.want(200, "LOCK", "/net", bob)
	})
}

func TestAfterALossNothingIsWritten(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		c := client{t, holdfastterraform.New(lockerOn(t, s, quiet()), holdfastterraform.Dir(t.TempDir()))}
		c.want(200, "LOCK", "/net", alice)
		s.Fail(func(op, name string) error { return io.ErrUnexpectedEOF })
		c.want(503, "LOCK", "/other", bob)
		time.Sleep(time.Minute)
		s.Fail(nil)
		c.want(409, "POST", "/net?ID=0a-1", `{}`)
		c.want(409, "UNLOCK", "/net", alice)
		c.want(200, "LOCK", "/net", bob)
		c.want(423, "POST", "/net?ID=0a-1", `{}`)
	})
}

// slow is a States whose Put waits.
type slow struct {
	holdfastterraform.States
	began, proceed chan struct{}
}

func (s slow) Put(ctx context.Context, name string, state []byte) error {
	if l := holdfast.LeaseFrom(ctx); l == nil || l.Token() == 0 {
		return errors.New("got no lease")
	}
	close(s.began)
	<-s.proceed
	return s.States.Put(ctx, name, state)
}

// An UNLOCK that arrives while the state is written waits.
func TestTheLockIsNotGrantedWhileAStateIsWritten(t *testing.T) {
	s := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		states := slow{holdfastterraform.Dir(t.TempDir()), make(chan struct{}), make(chan struct{})}
		c := client{t, holdfastterraform.New(lockerOn(t, s, quiet()), states)}
		c.want(200, "LOCK", "/net", alice)
		written, unlocked := make(chan int, 1), make(chan int, 1)
		go func() { code, _ := c.ask("POST", "/net?ID=0a-1", `{}`); written <- code }()
		<-states.began
		go func() { code, _ := c.ask("UNLOCK", "/net", alice); unlocked <- code }()
		synctest.Wait()
		c.want(423, "LOCK", "/net", bob)
		close(states.proceed)
		if a, b := <-written, <-unlocked; a != 200 || b != 200 {
			t.Errorf("POST %d, UNLOCK %d, want 200 and 200", a, b)
		}
		c.want(200, "LOCK", "/net", bob)
	})
}

// serves is the other process: a server, which prints its address.
func serves(dir string) {
	s, err := filestore.Open(dir+"/locks", nil)
	var locks *holdfast.Locker
	if err == nil {
		locks, err = holdfast.New(s, nil)
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	http.Serve(l, holdfastterraform.New(locks, holdfastterraform.Dir(dir+"/states")))
}

// The client of a killed server does not know that its lock is gone.
func TestAKilledServersClientWritesNothing(t *testing.T) {
	dir := t.TempDir()
	other := otherprocess.Start(t, dir)
	addr := other.Line()
	request := func(method, path, body string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if a, b := request("LOCK", "/net", alice), request("POST", "/net?ID=0a-1", `{"serial":1}`); a != 200 || b != 200 {
		t.Fatalf("LOCK %d, POST %d, want 200 and 200", a, b)
	}
	s, err := filestore.Open(dir+"/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	next := client{t, holdfastterraform.New(lockerOn(t, s, nil), holdfastterraform.Dir(dir+"/states"))}
	next.want(423, "LOCK", "/net", bob)
	other.Kill()
	for deadline := time.Now().Add(time.Minute); ; { // the lock of the file store ends with its process
		code, text := next.ask("LOCK", "/net", bob)
		if code == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("LOCK: %d %s", code, text)
		}
	}
	next.want(423, "POST", "/net?ID=0a-1", `{"serial":2}`)
	next.want(200, "UNLOCK", "/net", bob)
	next.want(409, "POST", "/net?ID=0a-1", `{"serial":2}`)
	if text := next.want(200, "GET", "/net", ""); text != `{"serial":1}` {
		t.Errorf("got state %s, want serial 1", text)
	}
}
