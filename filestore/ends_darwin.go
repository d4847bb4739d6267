package filestore

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

// ends waits for the watched process to die and reports whether it did: false if the
// store was closed or the watch is no longer needed. kqueue does not report that the
// last writer of a FIFO has closed it, so ends polls.
func (s *Store) ends(p store.Process, w *watch) bool {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	raw, err := w.f.SyscallConn()
	if err != nil {
		return false
	}
	for s.wanted(p, w) {
		var n int
		var readErr error
		if raw.Control(func(fd uintptr) {
			var b [1]byte
			n, readErr = unix.Read(int(fd), b[:])
		}) != nil {
			return false // closed
		}
		if n == 0 && readErr == nil {
			return true
		}
		select {
		case <-tick.C:
		case <-s.ended:
			return false
		}
	}
	return false
}
