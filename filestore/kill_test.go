//go:build linux || darwin

package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Two processes change one file as fast as they can and are killed at random
// instants. What a third process reads must be at least as new as what they know to
// be written, with all entries that they did not touch.
func TestAProcessKilledAtAnyInstantLeavesTheOldStateOrTheNew(t *testing.T) {
	kills := 200
	if testserver.Nightly() {
		kills = 2000
	}
	b := newBattered(t)
	for n := 0; n < kills; n += 2 {
		if err := b.round("change"); err != nil {
			t.Fatalf("after %d kills: %v", n+2, err)
		}
	}
	t.Logf("%d kills left %d torn slots; the state changed %d times", kills, b.torn, b.seq)
	if b.seq < uint64(kills) {
		t.Errorf("got %d changes under %d kills, want at least one a kill", b.seq, kills)
	}
}

// The same test fails for a file that is truncated and written again.
func TestKillingFindsAWriteThatIsNotSafe(t *testing.T) {
	b := newBattered(t)
	for n := 0; n < 2000; n += 2 {
		if err := b.round("change badly"); err != nil {
			t.Logf("after %d kills: %v", n+2, err)
			return
		}
	}
	t.Error("2000 kills did not show that a file loses its state if it is truncated and written again")
}

// A battered is a name with a holder and a long queue: its record spans pages.
type battered struct {
	t    *testing.T
	dir  string
	name string
	s    *Store
	ids  []store.ID
	seq  uint64
	torn int
}

func newBattered(t *testing.T) *battered {
	b := &battered{t: t, dir: t.TempDir(), name: "battered"}
	b.s = open(t, b.dir)
	t.Cleanup(func() { b.s.Close() })
	p := store.NewProcess()
	for range 80 {
		c := lockOf(p, b.name)
		c.Owner = strings.Repeat("x", store.MaxOwner)
		if _, err := b.s.Ask(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		b.ids = append(b.ids, c.ID)
	}
	return b
}

// round starts two helpers, kills them, and returns what is wrong after that.
func (b *battered) round(role string) error {
	b.t.Helper()
	var seen uint64
	pair := []*helper{start(b.t, role, b.dir, b.name), start(b.t, role, b.dir, b.name)}
	for _, h := range pair {
		h.out.Peek(1) // it has begun, or failed
	}
	for _, h := range pair {
		time.Sleep(rand.N(3 * time.Millisecond))
		h.cmd.Process.Kill()
	}
	for _, h := range pair {
		acks, err := io.ReadAll(h.out)
		if err != nil {
			b.t.Fatal(err)
		}
		if h.cmd.Wait(); h.cmd.ProcessState.Exited() {
			return fmt.Errorf("a helper failed: %v", h.cmd.ProcessState)
		}
		if n := len(acks) / 8; n > 0 {
			seen = max(seen, binary.LittleEndian.Uint64(acks[(n-1)*8:]))
		}
	}
	return b.check(seen)
}

func (b *battered) check(seen uint64) error {
	f, id, _, err := openState(b.s.path(b.name), false, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fl := &file{f: f, path: f.Name(), id: id}
	name, err := b.s.read(fl)
	if err != nil {
		return err
	}
	if name != b.name {
		return errors.New("the file looks unused")
	}
	if fl.seq < seen {
		return fmt.Errorf("the newest record is %d, but %d was written", fl.seq, seen)
	}
	var left []store.ID
	for _, e := range fl.q.Entries {
		if slices.Contains(b.ids, e.ID) {
			left = append(left, e.ID)
		}
	}
	if !slices.Equal(left, b.ids) || !fl.q.Entries[0].Granted {
		return fmt.Errorf("of %d entries only %d are left", len(b.ids), len(left))
	}
	if raw, err := os.ReadFile(f.Name()); err == nil {
		for i := range slots {
			if one := slotOf(raw, i); len(one) >= headSize {
				if _, ok := parseHead(one); ok && !whole(one) {
					b.torn++
				}
			}
		}
	}
	b.seq = fl.seq
	// The next ask finds the dead entries at the end of the queue and drops them.
	c := lockOf(b.s.anyProcess(), b.name)
	if _, err := b.s.Ask(b.t.Context(), c); err != nil {
		return err
	}
	if err := b.s.Release(b.t.Context(), store.Hold{Name: b.name, ID: c.ID}); err != nil {
		return err
	}
	q, err := b.s.peek(b.t.Context(), "read", b.name)
	if err != nil {
		return err
	}
	if len(q.Entries) != len(b.ids) {
		return fmt.Errorf("got %d entries, want %d: dead entries were not dropped", len(q.Entries), len(b.ids))
	}
	return nil
}

// whole reports whether the record is not torn.
func whole(b []byte) bool {
	_, _, err := parseRecord(b, new(queue.Queue))
	return err == nil
}

// anyProcess is one of the Store's own.
func (s *Store) anyProcess() store.Process {
	for p := range s.procs {
		return p
	}
	return store.NewProcess()
}
