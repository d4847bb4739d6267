//go:build linux || darwin

package filestore

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

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

// A name that was never used: its file is created.
func BenchmarkFirstUse(b *testing.B) {
	s := open(b, b.TempDir())
	defer s.Close()
	p := store.NewProcess()
	for n := 0; b.Loop(); n++ {
		c := lockOf(p, strconv.Itoa(n))
		a, err := s.Ask(b.Context(), c)
		if err != nil || !a.Granted {
			b.Fatal(a, err)
		}
		if err := s.Release(b.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil {
			b.Fatal(err)
		}
	}
}
