package filestore

import (
	"slices"

	"github.com/holdfast-go/holdfast/store/queue"
)

// A record with another boot id was written before a reboot, or by a container that
// has its own boot id. All containers of a host share one clock, which tells the two
// apart. A record of this boot is kept as it is, and dead owners are detected as usual.
// Of a record from before a reboot only the token is kept. If the wall clock was set,
// either answer may be wrong, so an owner that is seen alive always keeps its entries.

// rebooted reports whether the host has rebooted since the record in fl was written.
// The record has another boot id than this process.
func (s *Store) rebooted(fl *file) bool {
	now := s.now()
	return s.beforeBoot(fl) || slices.ContainsFunc(fl.q.Entries, func(e queue.Entry) bool { return e.Since > now.Clock }) //mutant:file-rebooted
}

// beforeBoot reports whether the file was last changed before this boot, by the
// wall clock.
func (s *Store) beforeBoot(fl *file) bool {
	info, err := fl.f.Stat()
	now := s.now()
	return err == nil && info.ModTime().UnixMicro() < now.Wall-now.Clock
}

// keepLiving drops all entries whose owners are not seen alive.
func (s *Store) keepLiving(q *queue.Queue) {
	q.Entries = slices.DeleteFunc(q.Entries, func(e queue.Entry) bool { return !s.living(e.ID.Process()) }) //mutant:file-reboot-spares-living
}
