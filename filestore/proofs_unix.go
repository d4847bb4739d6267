//go:build linux || darwin

package filestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// cleanProofs removes FIFOs that prove the deaths of their processes, unless such a process
// still has an entry: without the proof, the entry would block its name until the TTL. The
// FIFOs were found to be dead before this runs, and dead processes add no entries.
func (s *Store) cleanProofs(paths []string) {
	if len(paths) == 0 {
		return
	}
	files, err := os.ReadDir(filepath.Join(s.dir, namesDir))
	if err != nil {
		return
	}
	needed := map[string]bool{}
	for _, f := range files {
		select {
		case <-s.ended:
			return
		default:
		}
		if !isFileName(f.Name()) {
			continue
		}
		_, q, err := s.glanceAt(filepath.Join(s.dir, namesDir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { //mutant:file-proof-unread
			return // it may name any of the processes
		}
		for i := range q.Entries {
			if e := &q.Entries[i]; e.Expires > s.now().Clock { //mutant:file-proof-needed
				needed[e.ID.Process().String()+liveFIFO] = true
			}
		}
	}
	for _, path := range paths {
		if !needed[filepath.Base(path)] {
			os.Remove(path)
		}
	}
}
