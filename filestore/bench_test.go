//go:build linux || darwin

package filestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

// lockOf is a claim of the whole name.
func lockOf(p store.Process, name string) store.Claim {
	return store.Claim{Name: name, ID: p.NewID(), Limit: store.Full, Weight: store.Full,
		TTL: time.Minute, Place: 10 * time.Second,
		Owner: store.Owner{Host: "web-3", PID: 4711, Program: "backup.sh"}.String()}
}

func BenchmarkPair(b *testing.B) {
	s := open(b, b.TempDir())
	defer s.Close()
	p := store.NewProcess()
	for b.Loop() {
		c := lockOf(p, "bench")
		a, err := s.Ask(b.Context(), c)
		if err != nil || !a.Granted {
			b.Fatal(a, err)
		}
		if err := s.Release(b.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBareFlockPair(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if unix.Flock(int(f.Fd()), unix.LOCK_EX) != nil || unix.Flock(int(f.Fd()), unix.LOCK_UN) != nil {
			b.Fatal("flock")
		}
	}
}
