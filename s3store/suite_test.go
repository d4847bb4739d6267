package s3store

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel() // it mostly waits
	addr, o := testserver.SharedS3(t), apart()
	storetest.Run(t, func(t *testing.T) store.Store { return patient{storeOn(t, addr, o)} })
}

// A patient store has no sessions that end while the machine stalls for a while.
type patient struct{ *Store }

func (p patient) Describe() store.Description {
	d := p.Store.Describe()
	d.MinTTL = 10 * time.Second
	return d
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	addr := testserver.SharedS3(t)
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			o := apart()
			return func() store.Store { return storeOn(t, addr, o) }
		},
		End: func(t *testing.T, s store.Store) { endSessions(t, s.(*Store)) },
	})
}

// endSessions does with sessions what who comes does with those whose time is over, and what then somebody does with the names.
func endSessions(t testing.TB, s *Store) {
	t.Helper()
	for _, id := range s.Sessions() {
		closeSession(t, s.b, id)
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// closeSession closes a session as if its time were over.
func closeSession(t testing.TB, b *backend, id session.ID) {
	t.Helper()
	key := b.Prefix + "s/" + id.String()
	for {
		o, err := b.server.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if o.Version == "" {
			return
		}
		_, what, err := b.server.Put(t.Context(), key, []byte(`{"v":1,"closed":true}`), o.Version)
		if err != nil {
			t.Fatal(err)
		}
		if what == object.Done {
			return
		}
	}
}

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedS3(t), apart()
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		link := testserver.NewLink(t, addr)
		return patient{storeOn(t, link.Addr(), o)}, link
	}})
}

// The process of a holder is killed: the name is free within its TTL and a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string { return testserver.SharedS3(t) + " " + apart().Prefix },
		Open: func(t *testing.T, at string) store.Store {
			addr, prefix, _ := strings.Cut(at, " ")
			return storeOn(t, addr, &Options{Prefix: prefix})
		},
	})
}
