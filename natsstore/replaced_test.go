package natsstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A forgetful server can be reset to an earlier state of its data.
type forgetful struct {
	*testserver.Server
	data, old string
}

func newForgetful(t *testing.T) *forgetful {
	t.Helper()
	s := &forgetful{data: t.TempDir(), old: filepath.Join(t.TempDir(), "old")}
	s.Server = testserver.NATS(t, fmt.Sprintf("jetstream { store_dir: %q }", s.data)) // this comes last, so it counts
	return s
}

// keeps saves what the server has now, as a disk does that is synced now and then.
func (s *forgetful) keeps(t *testing.T) {
	t.Helper()
	s.Stop()
	if err := os.CopyFS(s.old, os.DirFS(s.data)); err != nil {
		t.Fatal(err)
	}
	s.Restart()
}

// forgets simulates a power cut: what the server answered since keeps is lost.
func (s *forgetful) forgets(t *testing.T) {
	t.Helper()
	s.Kill()
	if err := os.RemoveAll(filepath.Join(s.data, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(s.data, os.DirFS(s.old)); err != nil {
		t.Fatal(err)
	}
	s.Restart()
}

// The server had synced neither a release nor a grant. The grant is lost for its holder; the hold that is still there
// is kept.
func TestAfterAPowerCutAProcessHasWhatTheServerHasAndNothingElse(t *testing.T) {
	t.Parallel()
	server := newForgetful(t)
	s := closing(t, storeOn(t, connect(t, server.Addr), nil))
	given, stays := storetest.MustHold(t, s, storetest.Mutex(me, "given back")), storetest.MustHold(t, s, storetest.Mutex(me, "stays"))
	server.keeps(t)
	until(t, "the hold is released", func() bool { // by the call, or, after one without an answer, by its process
		err := s.Release(t.Context(), given)
		return err == nil || errors.Is(err, store.ErrLost)
	})
	granted := storetest.MustHold(t, s, storetest.Mutex(me, "granted"))
	server.forgets(t)
	other := closing(t, storeOn(t, connect(t, server.Addr), nil))
	if e := storetest.MustList(t, other, "given back").Entries; len(e) != 1 || e[0].ID != given.ID {
		t.Fatalf("the server has %+v, want the released hold", e)
	}
	if e := storetest.MustList(t, other, "granted").Entries; len(e) != 0 {
		t.Fatalf("the server has %+v, want no entry", e)
	}
	var all []store.Renewal
	until(t, "the hold that the server has is renewed", func() bool {
		all = s.Renew(t.Context(), []store.Hold{stays, granted})
		return all[0].Err == nil && (all[1].Err == nil || store.Definite(all[1].Err)) // the connection may come back between the two
	})
	if err := all[1].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("the hold that the server lost: %v, want ErrLost", err)
	}
	if a := storetest.MustAsk(t, other, storetest.Mutex(me, "stays")); a.Granted {
		t.Errorf("got %+v: a held name was granted", a)
	}
}

// A renewal that was not answered is looked up. If what is found is older than a renewal that was answered, the server
// has forgotten the answered one.
func TestASessionHasEndedIfItsRenewalWasForgotten(t *testing.T) {
	t.Parallel()
	server := newForgetful(t)
	b := backendOn(t, server.Addr, nil)
	t.Cleanup(func() { b.Close() })
	id := session.NewID()
	if _, err := b.Begin(t.Context(), id, maxTTL); err != nil {
		t.Fatal(err)
	}
	server.keeps(t)
	renewed := func() (err error) {
		_, err = b.Renew(t.Context(), id)
		return err
	}
	until(t, "the session is renewed", func() bool { return renewed() == nil })
	server.forgets(t)
	b.own[id].indeterminate = true
	var err error
	until(t, "the server answers", func() bool {
		err = renewed()
		return err == nil || store.Definite(err)
	})
	if !errors.Is(err, store.ErrLost) {
		t.Errorf("its renewal: %v, want ErrLost", err)
	}
}

// A forgotten write had a number, and the server uses it again. The version known from before is no version of what was
// written since.
func TestAVersionFromBeforeAPowerCutIsInvalid(t *testing.T) {
	t.Parallel()
	until(t, "a revision number is used again", func() bool { return writesOnWhatWasForgotten(t) })
}

// writesOnWhatWasForgotten reports whether a number was used again, and fails the test if a write on the version that
// had it before is done. The number is not used again where the answer to a write was lost, as a repeated write finds
// another version there.
func writesOnWhatWasForgotten(t *testing.T) bool {
	server := newForgetful(t)
	a := backendOn(t, server.Addr, nil)
	t.Cleanup(func() { a.Close() })
	swap := func(b *backend, old string, data string) (out record.Outcome) {
		t.Helper()
		until(t, "the server answers", func() bool {
			var err error
			out, err = b.Swap(t.Context(), &record.Swap{Name: "n", Old: record.Record{Version: old}, Data: []byte(data)})
			return err == nil
		})
		return out
	}
	load := func(b *backend, want string) (r record.Record) {
		t.Helper()
		until(t, "the server answers", func() bool {
			var err error
			r, err = b.Load(t.Context(), "n")
			return err == nil
		})
		if string(r.Data) != want {
			t.Fatalf("got %q, want %q", r.Data, want)
		}
		return r
	}
	swap(a, "", "first")
	server.keeps(t)
	forgotten := swap(a, load(a, "first").Version, "forgotten")
	server.forgets(t)
	b := backendOn(t, server.Addr, nil)
	t.Cleanup(func() { b.Close() })
	since := swap(b, load(b, "first").Version, "since")
	if was, is := parseVersion(forgotten.Now.Version), parseVersion(since.Now.Version); !forgotten.Done || !since.Done || was.seq != is.seq {
		return false
	}
	if out := swap(a, forgotten.Now.Version, "wrong"); out.Done {
		t.Errorf("got %+v: a swap replaced a record that it had not read", out)
	}
	return true
}

// The identity of the server that answered stays the same while it runs, and differs after a restart.
func TestAServerThatWasStartedAgainIsAnother(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t, "")
	b := backendOn(t, server.Addr, nil)
	t.Cleanup(func() { b.Close() })
	id := begun(t, b)
	first := b.Server()
	renewed := func() bool {
		_, err := b.Renew(t.Context(), id)
		return err == nil
	}
	if !renewed() || first == 0 || b.Server() != first {
		t.Fatalf("got server %d after a renewal, want %d as before", b.Server(), first)
	}
	server.Stop()
	server.Restart()
	until(t, "the session is renewed", renewed)
	if b.Server() == first {
		t.Error("the restarted server has the same identity")
	}
}

// A version is compared on one connection. If that was reopened meanwhile, or is being reopened, nothing is sent on the
// next one: there the number may belong to something that was written since.
func TestNothingIsSentOnAnotherConnectionThanItDependsOn(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t, "")
	b := backendOn(t, server.Addr, nil)
	t.Cleanup(func() { b.Close() })
	k, m := mustPrepare(t, b), message{key: keyOf("n"), data: []byte("first")}
	seq, ok, err := b.put(t.Context(), k, m, 0, 0)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	sends := func(k *bucket, done bool) {
		t.Helper()
		m.data = []byte("next")
		if _, ok, err := b.put(t.Context(), k, m, seq, 0); ok != done || (err == nil) != done {
			t.Errorf("got done %v, %v, want %v", ok, err, done)
		}
	}
	server.Stop()
	until(t, "the connection is lost", func() bool { return !b.nc.IsConnected() })
	sends(k, false)
	server.Restart()
	until(t, "the connection is restored", func() bool { return b.nc.IsConnected() })
	sends(k, false)
	sends(mustPrepare(t, b), true) // the number is still the newest
}

// The number of a renewal works the same way: it is looked up on the server that follows.
func TestARenewalDependsOnNoNumberOfAnotherServer(t *testing.T) {
	t.Parallel()
	server := testserver.NATS(t, "")
	a, b := backendOn(t, server.Addr, nil), backendOn(t, server.Addr, nil)
	t.Cleanup(func() { a.Close(); b.Close() })
	id := begun(t, a)
	seq := a.ofOwn(id).seq
	if ok, err := b.closeKey(t.Context(), mustPrepare(t, b), id, seq); err != nil || !ok {
		t.Fatal(ok, err)
	}
	// This is the state after the server forgot the begin, and the end got its number.
	a.ofOwn(id).seq = seq + 1
	_, m, err := b.stored(t.Context(), mustPrepare(t, b), sessionKey(id))
	if err != nil || m.seq != seq+1 {
		t.Fatalf("the end has the number %d, want %d: %v", m.seq, seq+1, err)
	}
	server.Stop()
	until(t, "the connection is lost", func() bool { return !a.nc.IsConnected() })
	server.Restart()
	until(t, "the connection is restored", func() bool { return a.nc.IsConnected() })
	if _, err = a.Renew(t.Context(), id); !errors.Is(err, store.ErrLost) {
		t.Errorf("renewal: %v, want ErrLost", err)
	}
}
