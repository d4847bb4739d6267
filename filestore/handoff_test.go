//go:build linux || darwin

package filestore

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

// Each of two processes waits only for the other's notification.
func TestTwoProcessesHandANameOverByNotificationsAlone(t *testing.T) {
	d := newDuet(t)
	last := int64(0)
	for range 200 {
		if d.hold.Token <= last {
			t.Fatalf("got token %d after %d, want a larger one", d.hold.Token, last)
		}
		last = d.hold.Token
		d.turn()
	}
}

func BenchmarkHandOff(b *testing.B) {
	d := newDuet(b)
	var took []time.Duration
	for b.Loop() {
		took = append(took, d.turn())
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "ns-p99")
}

// A duet is this process and a helper, which take turns.
type duet struct {
	testing.TB
	w    *waiter
	hold store.Hold
	h    *helper
	name string
}

// newDuet returns a duet in which this process holds and the helper waits.
func newDuet(t testing.TB) *duet {
	d := &duet{TB: t, name: "duet"}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	dir := t.TempDir()
	s := open(t, dir)
	t.Cleanup(func() { s.Close() })
	var err error
	if d.w, err = newWaiter(s); err != nil {
		t.Fatal(err)
	}
	if d.hold, err = d.w.lock(ctx, lockOf(d.w.p, d.name), nil); err != nil {
		t.Fatal(err)
	}
	d.h = start(t, "hand over", dir, d.name)
	if err := crowded(ctx, s, d.name); err != nil {
		t.Fatal(err)
	}
	return d
}

// turn gives the name to the helper and gets it back. It returns how long the
// hand-off took, from before the release to after the other's grant. Each turn
// has its own bound: a slow machine takes long for all of them.
func (d *duet) turn() time.Duration {
	d.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	defer time.AfterFunc(patience, func() { d.h.cmd.Process.Kill() }).Stop()
	from := monotonic()
	if err := d.w.s.Release(ctx, d.hold); err != nil {
		d.Fatal(err)
	}
	var b [8]byte
	if _, err := io.ReadFull(d.h.out, b[:]); err != nil {
		d.Fatal(err)
	}
	took := time.Duration(int64(binary.LittleEndian.Uint64(b[:])) - from)
	var err error
	if d.hold, err = d.w.lock(ctx, lockOf(d.w.p, d.name), nil); err != nil {
		d.Fatal(err)
	}
	if err := crowded(ctx, d.w.s, d.name); err != nil {
		d.Fatal(err)
	}
	return took
}

// handOver takes the name, prints when, and releases it once another waits.
func handOver(s *Store, name string) error {
	w, err := newWaiter(s)
	for ctx := context.Background(); err == nil; {
		var h store.Hold
		if h, err = w.lock(ctx, lockOf(w.p, name), nil); err != nil {
			return err
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(monotonic()))
		if _, err := os.Stdout.Write(b[:]); err != nil {
			return err
		}
		if err = crowded(ctx, s, name); err == nil {
			err = s.Release(ctx, h)
		}
	}
	return err
}

// crowded waits until a claim waits for the name.
func crowded(ctx context.Context, s *Store, name string) error {
	for {
		q, err := s.peek(ctx, "read", name)
		if err != nil || len(q.Entries) > 1 {
			return err
		}
		time.Sleep(100 * time.Microsecond)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func monotonic() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
