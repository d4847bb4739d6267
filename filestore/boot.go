package filestore

import (
	"slices"

	"github.com/holdfast-go/holdfast/store/queue"
)

// A record with another boot id was written before a reboot, or by a container
// that has a boot id of its own. All containers of a host have one clock, so the
// clock says which: a record of this boot is kept as it is, and dead owners are found as
// always. Of a record from before a reboot only the token is kept. Both answers may be wrong where the wall clock was set, so an owner
// that can be seen to live keeps its entries whatever the clocks say.

// rebooted reports whether the host has been rebooted since the record in fl,
// which has a boot id other than this process's, was written.
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

// keepLiving drops the entries whose owners cannot be seen to live.
func (s *Store) keepLiving(q *queue.Queue) {
	q.Entries = slices.DeleteFunc(q.Entries, func(e queue.Entry) bool { return !s.living(e.ID.Process()) }) //mutant:file-reboot-spares-living
}
