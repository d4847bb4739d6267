//go:build linux || darwin

package filestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

func init() {
	roles["fill the disk"] = func(s *Store, _ string) error {
		return onFullDisk(s, 12, func() error { return fill(filepath.Join(s.dir, "filler")) })
	}
}

// fill writes to the file until there is no room for even one byte.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<12); ; {
		n, err := f.Write(block)
		switch {
		case errors.Is(err, syscall.ENOSPC) && len(block) == 1:
			fmt.Println("full")
			return nil
		case errors.Is(err, syscall.ENOSPC):
			block = block[:1]
		case err != nil:
			return fmt.Errorf("%d bytes, %w", n, err)
		}
	}
}

// onFullDisk takes a name with so many holds, fills the disk, and returns the first
// operation that does not work as it must.
func onFullDisk(s *Store, holders int64, fill func() error) error {
	ctx := context.Background()
	p := store.NewProcess()
	slot := lockOf(p, "job")
	slot.Limit, slot.Weight, slot.Owner = holders, 1, "x"
	var holds []store.Hold
	for range slot.Limit {
		slot.ID = p.NewID()
		a, err := s.Ask(ctx, slot)
		if err != nil || !a.Granted {
			return fmt.Errorf("%+v, %w", a, err)
		}
		holds = append(holds, store.Hold{Name: slot.Name, ID: slot.ID, Token: a.Token, TTL: slot.TTL})
	}
	if err := fill(); err != nil {
		return err
	}
	noRoom := func(what string, c store.Claim) error {
		if a, err := s.Ask(ctx, c); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("%s: got %+v, %w, want ErrUnavailable because the disk is full", what, a, err)
		}
		return nil
	}
	if err := noRoom("another name", lockOf(p, "other")); err != nil {
		return err
	}
	// Some claims can wait in the reserved room. Further ones are refused, which affects no others.
	waiting := 0
	for slot.Owner = strings.Repeat("y", store.MaxOwner); ; waiting++ {
		slot.ID = p.NewID()
		if _, err := s.Ask(ctx, slot); err != nil {
			break
		}
	}
	if err := noRoom(fmt.Sprint("one more than ", waiting, " waiters"), slot); err != nil {
		return err
	}
	for range 3 {
		for i := range holds {
			holds[i].Owner = strings.Repeat("x", store.MaxOwner)
			if err := s.Renew(ctx, holds[i:i+1])[0].Err; err != nil {
				return fmt.Errorf("renewal of hold %d: %w", i, err)
			}
		}
	}
	for _, h := range holds {
		b := store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Reason: strings.Repeat("z", store.MaxReason)}
		if err := s.BreakHold(ctx, b); err != nil {
			return fmt.Errorf("break: %w", err)
		}
	}
	for i := range holds {
		if err := s.Release(ctx, holds[i]); err != nil {
			return fmt.Errorf("release of hold %d: %w", i, err)
		}
	}
	for st, err := range s.List(ctx, "job") {
		if err != nil || len(st.Entries) != waiting {
			return fmt.Errorf("after the releases: got %+v, %w, want the %d waiters", st.Entries, err, waiting)
		}
	}
	return nil
}

// fullable makes a disk that can be full, on which only blocks that have been
// written can be written again.
func fullable(t *testing.T) (full *bool) {
	full = new(bool)
	write := writeSlot
	written := map[string]map[int64]bool{}
	set(t, &writeSlot, func(f *os.File, b []byte, at int64) error {
		const size = 1 << 12
		info, err := f.Stat()
		if err != nil {
			return err
		}
		blocks := written[f.Name()]
		if blocks == nil {
			blocks = map[int64]bool{}
			written[f.Name()] = blocks
		}
		maps.DeleteFunc(blocks, func(block int64, _ bool) bool { return block*size >= info.Size() }) // the file was truncated
		for block := at / size; block <= (at+int64(len(b))-1)/size; block++ {
			if *full && !blocks[block] {
				return &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
			}
			blocks[block] = true
		}
		return write(f, b, at)
	})
	return full
}

func TestAFullDiskEndsNoHold(t *testing.T) {
	// So many writes that each slot is once the one in which room was reserved last.
	for _, holders := range []int64{12, 24} {
		t.Run(strconv.Itoa(int(holders)), func(t *testing.T) {
			s := open(t, t.TempDir())
			defer s.Close()
			full := fullable(t)
			if err := onFullDisk(s, holders, func() error { *full = true; return nil }); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The last release truncates the file of a name to its first page, even if another
// process has reserved more. That process then reserves it again.
func TestANameAtRestTakesOnePage(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer s.Close()
	defer other.Close()
	full := fullable(t)
	atRest := func(name, after string) {
		t.Helper()
		info, err := os.Stat(s.path(name))
		if err != nil {
			t.Fatal(err)
		}
		if took := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() > page || took > page {
			t.Fatalf("%s after %s: %d bytes long, and takes %d bytes on disk; want at most a page", name, after, info.Size(), took)
		}
	}
	h := lockSoon(t, s, "one")
	atRest("one", "a grant")
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	atRest("one", "a release")
	crowd := func() (holds []store.Hold) {
		c := lockOf(store.NewProcess(), "many")
		c.Limit, c.Weight, c.Owner = 17, 1, "x"
		for range c.Limit {
			c.ID = c.ID.Process().NewID()
			a, err := s.Ask(t.Context(), c)
			if err != nil || !a.Granted {
				t.Fatalf("%+v, %v", a, err)
			}
			holds = append(holds, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL})
		}
		return holds
	}
	for _, last := range []*Store{s, other, s} {
		holds := crowd()
		*full = true
		for i := range holds {
			holds[i].Owner = strings.Repeat("x", store.MaxOwner)
			if err := s.Renew(t.Context(), holds[i:i+1])[0].Err; err != nil {
				t.Fatalf("renewal %d: %v", i, err)
			}
		}
		for i, h := range holds {
			by := s
			if i == len(holds)-1 {
				by = last
			}
			if err := by.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
		*full = false
		atRest("many", "many waiters")
	}
}

// A file without reserved room can be from an older version.
func TestARenewalIsWrittenWithoutReservedSpace(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	h := lockSoon(t, s, "name")
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Fatal(err)
	}
	later := open(t, dir)
	defer later.Close()
	write := writeSlot
	set(t, &writeSlot, func(f *os.File, b []byte, at int64) error {
		if at%near > 0 {
			return syscall.ENOSPC
		}
		return write(f, b, at)
	})
	for range 3 {
		if err := later.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
			t.Fatal(err)
		}
	}
	if err := later.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// An entry that could not be removed from its file still belongs to its owner, and
// ends when the owner dies.
func TestAReleaseThatIsNotWrittenLeavesAnEntryWithAnOwner(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer other.Close()
	h := lockSoon(t, s, "name")
	write := writeSlot
	set(t, &writeSlot, func(*os.File, []byte, int64) error { return syscall.ENOSPC })
	if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	writeSlot = write
	s.Close()
	if !free(t, other, "name") {
		t.Fatal("the entry blocks the name, although its process has ended")
	}
}

// Only a claim is refused for want of room, not its later changes: each record that
// a claim was admitted to has room for longer owners and a reason.
func TestAnEntryOfALongQueueCanBeRenewedAndBroken(t *testing.T) {
	s := newStored(t)
	p, reason, owner := s.hold.ID.Process(), strings.Repeat("r", store.MaxReason), strings.Repeat("x", store.MaxOwner)
	q := queue.Queue{Last: 1 << 50}
	for mostFor("name", s.boot, len(q.Entries)+3) <= longest {
		q.Entries = append(q.Entries, queue.Entry{ID: p.NewID(), Limit: store.Full, Weight: 1, Want: 1, N: 1, Granted: true, Shown: true,
			Token: int64(len(q.Entries) + 1), Since: 1, Expires: 1 << 60, Owner: owner, Broken: &reason, GiveUp: &reason})
	}
	later := s.edit(func([]byte) []byte { return fileOf(appendRecord(nil, 1, "name", s.boot, &q)) })
	var holds []store.Hold
	var err error
	for err == nil && len(holds) < 100 {
		c := store.Claim{Name: "name", ID: p.NewID(), Limit: store.Full, Weight: 1, TTL: time.Hour, PositionTTL: time.Hour}
		var a store.Answer
		if a, err = later.Ask(t.Context(), c); err == nil {
			if !a.Granted {
				t.Fatalf("got %+v, want granted", a)
			}
			holds = append(holds, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL, Owner: owner})
		}
	}
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "full") || len(holds) == 0 {
		t.Fatalf("after %d more: got %v, want an error that the queue is full", len(holds), err)
	}
	for i, h := range holds {
		if err := later.Renew(t.Context(), holds[i:i+1])[0].Err; err != nil {
			t.Fatalf("renewal %d of %d with a longer owner: %v", i, len(holds), err)
		}
		if err := later.BreakHold(t.Context(), store.Break{Name: "name", ID: h.ID, Token: h.Token, Reason: reason}); err != nil {
			t.Fatalf("break %d of %d: %v", i, len(holds), err)
		}
	}
}
