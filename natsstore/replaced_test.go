package natsstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A forgetful server can be put back to what it had before.
type forgetful struct {
	*testserver.Server
	data, old string
}

func newForgetful(t *testing.T) *forgetful {
	t.Helper()
	s := &forgetful{data: t.TempDir(), old: filepath.Join(t.TempDir(), "old")}
	s.Server = testserver.NATS(t, fmt.Sprintf("jetstream { store_dir: %q }", s.data)) // that comes last, so it counts
	return s
}

// keeps keeps what the server has now, as a disk does that is synced now and then.
func (s *forgetful) keeps(t *testing.T) {
	t.Helper()
	s.Stop()
	if err := os.CopyFS(s.old, os.DirFS(s.data)); err != nil {
		t.Fatal(err)
	}
	s.Restart()
}

// forgets is a power cut: what was answered since is gone.
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

// The server had synced neither a release nor a grant: what was granted is lost for who had it, and what is still there is kept.
func TestAfterAPowerCutAProcessHasWhatTheServerHasAndNothingElse(t *testing.T) {
	t.Parallel()
	server := newForgetful(t)
	s := closing(t, storeOn(t, connect(t, server.Addr), nil))
	given, stays := storetest.MustHold(t, s, storetest.Mutex(me, "given back")), storetest.MustHold(t, s, storetest.Mutex(me, "stays"))
	server.keeps(t)
	until(t, "it is given back", func() bool { return s.Release(t.Context(), given) == nil })
	granted := storetest.MustHold(t, s, storetest.Mutex(me, "granted"))
	server.forgets(t)
	other := closing(t, storeOn(t, connect(t, server.Addr), nil))
	if e := storetest.MustList(t, other, "given back").Entries; len(e) != 1 || e[0].ID != given.ID {
		t.Fatalf("the server has %+v", e)
	}
	if e := storetest.MustList(t, other, "granted").Entries; len(e) != 0 {
		t.Fatalf("the server has %+v", e)
	}
	var all []store.Renewal
	until(t, "what the server has is renewed", func() bool {
		all = s.Renew(t.Context(), []store.Hold{stays, granted})
		return all[0].Err == nil
	})
	if err := all[1].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("what the server has not: %v, want that it is lost", err)
	}
	if a := storetest.MustAsk(t, other, storetest.Mutex(me, "stays")); a.Granted {
		t.Errorf("%+v: what is held was granted", a)
	}
}

// A renewal that was not answered is looked for. What is found then is older than one that was answered: the server has forgotten that one.
func TestASessionWhoseRenewalWasForgottenIsOver(t *testing.T) {
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
	until(t, "it is renewed", func() bool { return renewed() == nil })
	server.forgets(t)
	b.own[id].indeterminate = true
	var err error
	until(t, "the server answers", func() bool {
		err = renewed()
		return err == nil || store.Definite(err)
	})
	if !errors.Is(err, store.ErrLost) {
		t.Errorf("its renewal: %v, want lost", err)
	}
}
