// Package filestore keeps locks in a directory of one host, for the processes of that
// host. It needs no server and no installation.
//
// # Stored form
//
// The directory n has one state file for each name. Its file name is the name in base32 (long names are cut and
// hashed). The file has two slots. A record is written over the older one under flock(2), so a process killed at
// any instant leaves either the old state or the new one. An idle name takes one page, 4 KiB; the records of long
// queues continue behind that page. A record has a magic, a version, a CRC-32C, a sequence number, the name, the
// boot id, and the queue. A file unused for a day is removed by the next clean-up that finds it.
//
// The directory p has two FIFOs for each process. The process has P.live open as long as it lives, and never
// writes to it. P.wake carries notifications. P.live of a dead process proves its death; it is removed when it is
// a day old and the process has no entry left. Do not delete these files yourself. You may delete a state file at
// any time: its holder then loses the lock and learns of it with its next renewal.
//
// # Guarantees
//
// All of package [github.com/holdfast-go/holdfast/store]: order, minimum hold, lock delay, slots, upgrades,
// strictly increasing tokens, also in blocks. TTLs are from 100 ms to 365 days. Expiry uses the host's clock since
// boot, which cannot be set. When a process is killed, its holds and queue positions are freed at once. The hold
// of a stopped process lasts until its TTL ends, as does a detached hold.
//
// A reboot drops all holds and queue positions. Containers of one host may have their own boot ids: that alone
// drops nothing, and an owner that is seen alive always keeps its entries. Tokens are never smaller than the wall
// clock, so they keep increasing even if the files are lost, unless the wall clock was set back as well.
//
// A full disk makes new claims fail but ends no hold: the space for all later states of an entry is reserved
// before the entry is added. Copy-on-write file systems (btrfs, ZFS, bcachefs, APFS) cannot promise that;
// [Store.Check] warns of the first three. A name can have about 1,400 holders and waiters.
//
// One thing outlives a TTL: a process that is stopped (SIGSTOP, a debugger, a frozen container) within the few
// microseconds in which it has a state file locked. Until the process continues or ends, every operation on that
// name is indeterminate, and its error names the process. Other names are not affected.
//
// # Requirements
//
// Linux, macOS, or Windows 10 or Windows Server 2016 and later (tested on Linux, and for Windows under Wine; the
// macOS version builds but has not been run), and a local file system. A file system that hosts may share (NFS,
// SMB, FUSE, 9p and the like) or an unknown one is refused unless Options.TrustFS is set. Containers share locks
// through a volume or a bind mount of one directory of the host, never through their own root file systems, which
// are private. Linux needs /proc.
//
// On macOS the death of a holder is noticed within 250 ms. Windows has no FIFOs: waiters poll, the hold of a
// killed process is freed when its TTL ends, and state files are never removed.
//
// # Rights
//
// The directory is created with mode 0700 if it is missing. Otherwise it must be a directory, not a link, that
// this user owns and no other user can write to. Nor may other users be able to replace it. So each directory on
// the path to it, through links too, must belong to root or this user; and if others can write to one by its mode
// or, on Linux, its ACL, it must be sticky, as /tmp is. Members of these groups do not count as others: root's
// group, the group that shares the directory, and this user's own group, of the same name and number. To share
// the directory between users, create it yourself with mode 2770 and the users' group, owned by root (or by the
// only user). Every member can then take, block and break every lock in it. On Windows the directory's access list
// decides who may use it, and none of this is checked.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Options of Open. Nil is the same as the zero Options.
type Options struct {
	// TrustFS accepts a directory on a file system that is unknown or that hosts may
	// share. Set it only if no other host uses the directory.
	TrustFS bool
}

// A Store keeps locks in a directory. All Stores of one directory on one host
// exclude each other. Its methods are safe for concurrent use.
type Store struct {
	dir      string
	trustFS  bool
	shared   bool              // a group shares the directory
	fileMode fs.FileMode       // of state files and FIFOs
	boot     string            // the id of this boot
	now      func() queue.Time // tests replace it

	mu       sync.Mutex
	files    map[string]*file
	procs    map[store.Process]*process
	watches  map[store.Process]*watch
	cleaning bool

	ended chan struct{} // closed by Close
	run   sync.WaitGroup
}

var _ interface {
	store.Store
	store.Poller
	store.Inspector
	store.Checker
} = (*Store)(nil)

// Open returns the Store of a directory, and creates the directory if it is missing.
// It checks the directory and its file system as the package comment says. Errors match
// store.ErrInvalid (not a directory, or a link), store.ErrDenied (the directory has
// another owner or is open to others, or one on the path to it is),
// store.ErrUnsupported (a file system that hosts may share, or a system without a
// clock and an id of its boot) or store.ErrUnavailable, and say what to do.
func Open(dir string, o *Options) (*Store, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory to keep locks in: name one", store.ErrInvalid)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: the directory %q: %w", store.ErrInvalid, dir, err)
	}
	boot, clock, err := openClock()
	if err != nil {
		return nil, err
	}
	s := &Store{
		dir: abs, boot: boot,
		now: func() queue.Time {
			return queue.Time{Clock: clock().Microseconds(), Wall: time.Now().UnixMicro()} //mutant:clients-own-clocks
		},
		files: map[string]*file{}, procs: map[store.Process]*process{}, watches: map[store.Process]*watch{},
		ended: make(chan struct{}),
	}
	if o != nil {
		s.trustFS = o.TrustFS
	}
	if err := s.inDir(func() error {
		shared, err := s.prepare()
		s.shared = err == nil && shared
		return err
	}); err != nil {
		return nil, err
	}
	s.fileMode = 0o600
	if s.shared {
		s.fileMode = 0o660
	}
	return s, nil
}

// String returns the store as errors name it.
func (s *Store) String() string { return "file:" + s.dir }

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	return store.Description{
		Store:  s.String(),
		MinTTL: 100 * time.Millisecond, MaxTTL: 365 * 24 * time.Hour, Tick: clockTick,
		Tokens:  "when the state file was lost or deleted, or unused for a day, and the wall clock was set back since",
		Loses:   "a reboot of the host drops every hold and queue position",
		Forgets: []store.Accident{store.AccidentWipe},
		Crash:   crash,
	}
}

// writesElsewhere are the copy-on-write file systems. An overwrite there needs new
// blocks, so reserved space does not help.
var writesElsewhere = []string{"btrfs", "zfs", "bcachefs"}

// Check implements [store.Checker]. Open has already checked that the directory is
// suitable.
func (s *Store) Check(context.Context) []store.Finding {
	dir := store.Finding{About: "directory", Found: s.dir + ": " + whoWrites}
	if s.shared {
		dir.Warning = true
		dir.Found = fmt.Sprintf("%s is shared by a group: every member can take, block and break every lock in it", s)
	}
	fs := store.Finding{About: "file system"}
	switch err := checkFS(s.dir); {
	case err == nil:
		kind, _, _ := statfs(s.dir)
		fs.Found = kind + ", of this host alone"
		if slices.Contains(writesElsewhere, kind) { //mutant:file-writes-elsewhere
			fs.Warning = true
			fs.Found += "; it writes nothing in place, so a renewal needs free space too: when the disk is full, leases are lost; use a directory on another kind of file system (/run is a tmpfs), or keep space free"
		}
	case errors.Is(err, store.ErrUnsupported): // Open would have refused it
		fs.Warning, fs.Found = true, "trusted, as ?trust-fs=1 says, although "+err.Error()
	default:
		fs.Err = err
	}
	return []store.Finding{dir, fs, s.checkRoom()}
}

// The least free space without a warning. A name takes a block and a file, a process a few.
const (
	enoughBytes = 16 << 20
	enoughFiles = 1000
)

// checkRoom reports whether the disk is full, or nearly.
func (s *Store) checkRoom() store.Finding {
	f := store.Finding{About: "disk"}
	bytes, files, err := roomOnFS(s.dir)
	switch {
	case err != nil:
		f.Warning, f.Found = true, fmt.Sprintf("its free space is unknown: %v", err)
	case bytes == 0 || files == 0: //mutant:file-full-disk
		f.Err = fmt.Errorf("%w: the disk of %s is full (%d bytes and %d files free): nothing new can be locked there; free some space, or use a directory on another disk", store.ErrUnavailable, s.dir, bytes, files)
	case bytes < enoughBytes || files < enoughFiles:
		f.Warning = true
		f.Found = fmt.Sprintf("it is nearly full (%d KiB and %d files free): when it is, nothing new can be locked; free some space, or use a directory on another disk", bytes>>10, files)
	default:
		f.Found = "it has free space"
	}
	return f
}

// Close implements [store.Store]. It frees the remaining holds of this process, as its
// death would.
func (s *Store) Close() error {
	close(s.ended)
	s.mu.Lock()
	for p, pr := range s.procs {
		s.end(p, pr)
	}
	for _, w := range s.watches {
		w.close()
	}
	s.mu.Unlock()
	s.run.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, fl := range s.files {
		fl.f.Close()
		delete(s.files, name)
	}
	return nil
}

// bounds are the limits of the stored format.
var bounds = store.Bounds{Max: math.MaxInt64, On: "files"}
