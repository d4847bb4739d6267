package filestore

import (
	"errors"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// ends waits for the watched process to die and reports whether it did: false if the
// watch was closed or is no longer needed. The runtime's poller reports the end of the
// FIFO, so no thread is blocked.
func (s *Store) ends(p store.Process, w *watch) bool {
	var b [1]byte
	for {
		w.f.SetReadDeadline(time.Now().Add(watchIdle))
		_, err := w.f.Read(b[:])
		switch {
		case errors.Is(err, os.ErrClosed):
			return false
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !s.wanted(p, w) {
				return false
			}
		case err != nil:
			return true // EOF
		}
	}
}
