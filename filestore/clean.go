package filestore

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A clean-up checks cleanSample random files. One in cleanPerNames or cleanPerProcesses
// created files starts a clean-up, so more files are removed than created on average,
// and a large directory is rarely listed.
const (
	cleanSample       = 1024
	cleanPerNames     = 256
	cleanPerProcesses = 64
)

// maybeClean starts a clean-up with probability 1/per. s.mu is held.
func (s *Store) maybeClean(per int) {
	if s.cleaning || rand.IntN(per) != 0 {
		return
	}
	s.cleaning = true
	s.run.Go(func() {
		s.clean()
		s.mu.Lock()
		s.cleaning = false
		s.mu.Unlock()
	})
}

// clean removes the state files of names, and the FIFOs of dead processes, that have
// been unused for store.TokenRetention.
func (s *Store) clean() {
	before := time.Now().Add(-store.TokenRetention)
	var proofs []string
	for part, clean := range map[string]func(path string){
		namesDir: func(path string) {
			if isFileName(filepath.Base(path)) {
				s.cleanName(path, before)
			}
		},
		procsDir: func(path string) {
			if cleanProcess(path) {
				proofs = append(proofs, path)
			}
		},
		".": func(string) {},
	} {
		s.sample(part, func(path string) {
			switch {
			case !old(path, before):
			case strings.HasPrefix(filepath.Base(path), newPrefix):
				os.Remove(path) //mutant:file-temporary-cleaned
			default:
				clean(path)
			}
		})
	}
	s.cleanProofs(proofs)
}

// sample calls f with random files of one part of the directory, until Close.
func (s *Store) sample(part string, f func(path string)) {
	dir := filepath.Join(s.dir, part)
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:min(len(names), cleanSample)] {
		select {
		case <-s.ended:
			return
		default:
			f(filepath.Join(dir, name))
		}
	}
}

func old(path string, before time.Time) bool {
	info, err := os.Lstat(path)
	return err == nil && info.ModTime().Before(before)
}

// cleanName removes a state file that is unchanged since before and has only its newest
// token. It locks the file to remove it: a process that had opened the file notices the
// removal and creates a new one.
func (s *Store) cleanName(path string, before time.Time) (removed bool) {
	f, id, _, err := openState(path, false, s.fileMode)
	if err != nil {
		return false
	}
	defer f.Close() // unlocks
	if ok, err := tryLock(f.Fd()); !ok || err != nil {
		return false
	}
	if !inPlace(path, id) || !old(path, before) {
		return false
	}
	fl := &file{f: f, path: path, id: id}
	name, err := s.read(fl)
	if err != nil || name != "" && fileName(name) != filepath.Base(path) {
		return false // not a file of this name: leave it
	}
	if info, err := f.Stat(); name == "" && (err != nil || info.Size() > 0) {
		return false // unknown content
	}
	return len(fl.q.State(s.now(), name).Entries) == 0 && os.Remove(path) == nil
}
