package filestore

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast/store"
)

// Windows has no FIFOs in directories, so nothing reports a grant or a death. Waiters poll,
// and only the TTL ends the hold of a dead process.

const crash = store.CrashTTL

type process struct{}

type watch struct{}

func (w *watch) close() {}

// Presence returns ErrUnsupported: on Windows deaths are not noticed.
func (s *Store) Presence(store.Process) (*os.File, error) {
	return nil, fmt.Errorf("%w: %s does not see deaths on Windows", store.ErrUnsupported, s)
}

func (s *Store) live(store.Process) error                   { return nil }
func (s *Store) count(store.Process, bool, int)             {}
func (s *Store) end(store.Process, *process)                {}
func (s *Store) dead(store.Process) bool                    { return false }
func (s *Store) living(store.Process) bool                  { return false } // not known
func (s *Store) wake(context.Context, []store.Notification) {}
func (s *Store) lookOut(store.Process, []store.Process)     {}
func isLink(error) bool                                     { return false }

func cleanProcess(string) bool        { return false }
func (s *Store) cleanProofs([]string) {}
