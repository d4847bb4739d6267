//go:build linux || darwin

package filestore

import (
	"context"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"golang.org/x/sys/unix"
)

// A watch waits for the death of another process.
type watch struct {
	f    *os.File  // the reading end of its FIFO
	used time.Time // when a waiter last asked for it
}

// maxWatches is how many processes one Store watches at a time. A waiter finds other
// deaths when it polls.
const maxWatches = 256

// A waiter asks again within the time of its position, so a watch that was not requested
// for that long has no waiter. Tests shorten watchIdle.
var watchIdle = store.MaxPositionTTL

func (w *watch) close() { w.f.Close() }

// lookOut watches the processes in whom for the process waiter, if that can be notified.
func (s *Store) lookOut(waiter store.Process, whom []store.Process) {
	if len(whom) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if pr := s.procs[waiter]; pr == nil || pr.sink == nil {
		return
	}
	for _, p := range whom {
		if w := s.watches[p]; w != nil {
			w.used = time.Now()
			continue
		}
		if s.procs[p] != nil || len(s.watches) >= maxWatches {
			continue
		}
		fd, err := openFIFO(s.fifo(p, liveFIFO), unix.O_RDONLY)
		if err != nil {
			continue
		}
		w := &watch{f: os.NewFile(uintptr(fd), p.String()), used: time.Now()}
		s.watches[p] = w
		s.run.Go(func() { s.await(p, w) })
	}
}

// await waits until p has died, the watch is unused, or the Store is closed.
func (s *Store) await(p store.Process, w *watch) {
	died := s.ends(p, w)
	s.mu.Lock()
	if s.watches[p] == w {
		delete(s.watches, p) // before the notification: a notified process must find p dead
	}
	w.close()
	var sinks []func(store.Notification)
	for _, pr := range s.procs {
		if died && pr.sink != nil {
			sinks = append(sinks, pr.sink)
		}
	}
	s.mu.Unlock()
	for _, sink := range sinks {
		sink(store.Notification{})
	}
}

// wanted reports whether a waiter has requested the watch recently. If not, it removes the
// watch: a waiter that comes now starts another one.
func (s *Store) wanted(p store.Process, w *watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(w.used) < watchIdle {
		return true
	}
	delete(s.watches, p) //mutant:file-unwanted-watch-is-gone
	return false
}

// bury expires the entries of a dead process in the queue of the name, and wakes the
// waiters that are then granted.
func (s *Store) bury(ctx context.Context, name string, p store.Process) {
	s.do(ctx, "bury", name, false, func(now queue.Time, q *queue.Queue) queue.Change {
		return q.Expire(now, name, func(other store.Process) bool { return other == p })
	}) // if this fails, the next poll finds p dead
}
