package filestore

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// open opens one more Store of a directory, as another process would.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, trusting)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The tests do not check the file system of the temporary directory, except those
// of the check itself.
var trusting = &Options{TrustFS: true}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, dir) })
}

func TestDifferential(t *testing.T) {
	storetest.Differential(t, storetest.Clocked{
		TwoClocks: true,
		Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
			dir := t.TempDir()
			return func() store.Store {
				s := open(t, dir)
				s.now = clock
				return s
			}
		},
		Stored: func(t *testing.T, s store.Store, name string) queue.Queue {
			q, err := s.(*Store).peek(t.Context(), "read", name)
			if err != nil {
				t.Fatal(err)
			}
			return *q
		},
	})
}
