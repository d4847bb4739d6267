package holdfast

import (
	"context"
	"errors"
	"fmt"
	"github.com/holdfast-go/holdfast/internal/engine"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Each claim ends with one event, and each lease begins and ends with one, over
// a link that loses answers, with hand-over, waits that are cancelled, holds
// that an operator breaks, and Close in the middle of it.
func TestObserver_EventsAddUp(t *testing.T) {
	all := map[EventKind]int{}
	var log strings.Builder
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			for kind, n := range addUp(t, round, &log) {
				all[kind] += n
			}
		})
	}
	t.Log(all)
	if handed := strings.Count(log.String(), "handed over"); handed != all[EventHandedOver] {
		t.Errorf("the log has %d hand-overs, and %d were reported", handed, all[EventHandedOver])
	}
	if len(all) != engine.EventKinds || all[EventHandedOver] < 100 {
		t.Fatal("too few events of one kind to prove anything")
	}
}

func addUp(t *testing.T, round int, log io.Writer) map[EventKind]int {
	var mu sync.Mutex
	reported := map[EventKind]int{}
	open := map[int64]int{} // by token: granted, and not ended
	unreturned := 0         // leases whose release was not answered
	s := newLink(t)
	s.on(func(c *call) fate {
		f := fate{there: time.Duration(rand.IntN(20)) * time.Millisecond, back: time.Duration(rand.IntN(20)) * time.Millisecond}
		switch rand.IntN(20) {
		case 0:
			f.fail = errLink
		case 1:
			f.lose = errLink
		}
		return f
	})
	locks, err := New(withNotifications{s}, &Options{TTL: time.Second, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Observer: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		reported[e.Kind]++
		switch e.Kind {
		case EventGranted, EventHandedOver:
			open[e.Token]++
		case EventReleased, EventLost:
			open[e.Token]--
			if errors.Is(e.Err, ErrUnavailable) {
				unreturned++
			}
		}
	}})
	is(t, err, nil)
	claims := 0
	var closed atomic.Bool
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for !closed.Load() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(400))*time.Millisecond)
				by := locks
				if rand.IntN(4) == 0 {
					by = locks.With(&Options{AskToGiveUp: "please"})
				}
				l, err := by.Mutex(fmt.Sprint(rand.IntN(2))).Lock(ctx)
				cancel()
				if errors.Is(err, ErrClosed) {
					return
				}
				mu.Lock()
				claims++
				mu.Unlock()
				if err == nil {
					hold := 30
					if rand.IntN(8) == 0 {
						hold = 900
					}
					time.Sleep(time.Duration(rand.IntN(hold)) * time.Millisecond)
					_ = l.Release()
				}
			}
		})
	}
	for range 20 {
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		s.mem.Break(fmt.Sprint(rand.IntN(2)))
	}
	mu.Lock()
	before := unreturned
	mu.Unlock()
	err = locks.Close()
	closed.Store(true)
	all.Wait()
	// The link may lose all releases of a lease: then Close and the lease's event both say so.
	if unreturned == before {
		is(t, err, nil)
	} else if err != nil {
		is(t, err, ErrUnavailable)
	}
	// A grant whose answer came during Close has ended, and is reported.
	begun := reported[EventGranted] + reported[EventHandedOver]
	ended := begun + reported[EventRefused] + reported[EventFailed]
	if ended < claims || ended > claims+12 {
		t.Errorf("round %d: %d claims ended by %d events: %v", round, claims, ended, reported)
	}
	if over := reported[EventReleased] + reported[EventLost]; begun != over || begun == 0 {
		t.Errorf("round %d: %d leases began, but %d ended: %v", round, begun, over, reported)
	}
	for token, n := range open {
		if n != 0 {
			t.Errorf("round %d: the events of token %d do not add up: the difference is %d", round, token, n)
		}
	}
	return reported
}

// A lease is handed over, lost and released at the same moment: if its beginning
// is not reported, its end is not reported either.
func TestObserver_EventsAddUpWithLostReplies(t *testing.T) {
	for _, how := range []string{"lost", "lost and given up", "closed", "closed and given up"} {
		begun, ended := 0, 0
		for range 300 {
			synctest.Test(t, func(t *testing.T) {
				var handed, over atomic.Int32
				locks := locker(t, withNotifications{newLink(t)}, &Options{Observer: func(e Event) {
					switch e.Kind {
					case EventHandedOver:
						handed.Add(1)
					case EventReleased, EventLost:
						over.Add(1)
					}
				}})
				first := lock(t, locks, "a").engine().Probe()
				w := waits(t, locks.Mutex("a").Lock)
				// A release hands it over, and the rest happens before the other has
				// seen it.
				first.Leave()
				if !first.HandOn(func() {
					if strings.HasSuffix(how, "given up") {
						w.cancel()
					}
				}) {
					t.Fatal("the lease was not handed over")
				}
				if strings.HasPrefix(how, "lost") {
					first.Lose()
				}
				if err := locks.Close(); err != nil {
					t.Fatal(err)
				}
				w.wait()
				begun, ended = begun+int(handed.Load()), ended+int(over.Load())
				if handed.Load() != over.Load() {
					t.Fatalf("%s: handed over %d times, ended %d times", how, handed.Load(), over.Load())
				}
			})
		}
		t.Logf("%s: %d began, %d ended", how, begun, ended)
	}
}
