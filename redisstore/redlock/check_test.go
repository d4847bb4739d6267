package redlock

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// What a node that grants nothing new is like is found, and whether the others
// are enough.
func TestTheCheckFindsNodesThatGrantNothingNew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, about, says, on string }{
		{"full", "memory of ", "it is full", "CONFIG SET maxmemory 1"},
		{"read-only", "role of ", "it is read-only", "REPLICAOF 127.0.0.1 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers, s := nodes(t, 3, Options{})
			find := func(about string) store.Finding {
				t.Helper()
				all := s.Check(t.Context())
				for _, f := range all {
					if f.About == about {
						return f
					}
				}
				t.Fatalf("nothing about %q in %+v", about, all)
				return store.Finding{}
			}
			for _, server := range servers {
				if f := find(c.about + server.Addr); f.Level() != store.LevelOK {
					t.Errorf("of a node that grants: %s %q", f.Level(), f.Text())
				}
			}
			for away, server := range servers {
				if f := find("nodes"); (f.Err != nil) != (away > 1) || f.Err != nil && !errors.Is(f.Err, store.ErrUnavailable) {
					t.Errorf("%d of 3 grant nothing new: %s %q", away, f.Level(), f.Text())
				}
				tell(t, clientsOf(t, server.Addr)[0], c.on)
				if f := find(c.about + server.Addr); !f.Warning || !strings.Contains(f.Text(), c.says) {
					t.Errorf("%s %q, want a warning that %s", f.Level(), f.Text(), c.says)
				}
			}
		})
	}
}
