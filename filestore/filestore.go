// Package filestore keeps locks in a directory of this host: for the processes
// of one machine, with nothing to install and no server.
//
// # Stored form
//
// The directory n has one state file for each name. Its file name is the name in base32 (long names are cut and
// hashed). The file has two slots; a record is written over the older one under flock(2), so that a process
// killed at any instant leaves the old state or the new one. An idle name takes one page, 4 KiB; the records of
// long queues continue behind it. A record has a magic, a version, a CRC-32C, a sequence number, the name, the
// id of the boot, and the queue. A file unused for a day is removed by the next process that finds it.
//
// In the directory p each process has two FIFOs: P.live, which it has open as long as it lives and which is
// never written, and P.wake, for notifications. P.live of a dead process proves its death: it is removed when it
// is a day old and the process has no entry left. Do not delete these files yourself. A state file may be
// deleted at any time: its holder then loses the lock, with its next renewal.
//
// # Guarantees
//
// The whole rule of package [github.com/holdfast-go/holdfast/store]: order, minimum hold, lock delay, slots,
// upgrades, strictly increasing tokens, in blocks too. A TTL is from 100 ms to 365 days. Expiries are by the
// host's clock since boot, which cannot be set. The hold of a killed process is freed at once, as is a killed
// waiter's position; the hold of a stopped process lasts until its TTL, and so does a detached hold.
//
// A reboot drops all holds and positions. Containers of one host may have boot ids of their own: that alone
// drops nothing, and an owner that is seen alive keeps its entries in any case. Tokens are never smaller than
// the wall clock, so they go on growing even if the files are lost, unless the clock was set back in the same
// accident.
//
// A full disk refuses new claims and ends no hold: the space for all later states of an entry is reserved before
// it is added. Copy-on-write file systems (btrfs, ZFS, bcachefs, APFS) cannot promise that; [Store.Check] warns
// of the first three. A name can have some 1,400 holders and waiters.
//
// One thing outlives a TTL: a process stopped (SIGSTOP, a debugger, a frozen container) within the few
// microseconds in which it has a state file locked. Then every operation on that name is indeterminate, and its
// error names the process, until that goes on or ends. Other names are not affected.
//
// # Requirements
//
// Linux, macOS, or Windows 10 or Windows Server 2016 and later (it is tested on Linux, and for Windows under
// Wine; for macOS it builds and has not been run), and a local file system: one that hosts may share (NFS, SMB,
// FUSE, 9p and the like) or an unknown one is refused, unless Options.TrustFS is set. Containers share locks
// through a volume or bind mount of one directory of the host, never through their own root file systems, of
// which each is private. Linux needs /proc.
//
// On macOS the death of a holder is noticed within a quarter of a second. On Windows there are no FIFOs: there
// waiters poll, the hold of a killed process is freed after its TTL, and state files are never removed.
//
// # Rights
//
// The directory is created with mode 0700 if it is missing. Otherwise it must be a directory, not a link, that
// this user owns and no other can write to. Nor may other users be able to replace it: each directory on the way
// to it, through links too, must belong to root or this user, and be sticky if others can write to it by its
// mode or, on Linux, its ACL, as /tmp is (root's group, the group that shares the directory and this user's own
// group, of the same name and number, do not count as others). To share it between users, create it yourself
// with mode 2770 and the users' group, owned by root (or by the only user): every member can then take, block
// and break every lock in it. On Windows the directory's access list decides who may use it, and none of this is
// checked.
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
	// TrustFS takes a directory on a file system that hosts may share, or that
	// is not known. Set it only where no other host uses the directory.
	TrustFS bool
}

// A Store keeps locks in a directory. All Stores of one directory on one host
// exclude each other. Its methods are safe for concurrent use.
type Store struct {
	dir      string
	trustFS  bool
	shared   bool              // by the members of a group
	fileMode fs.FileMode       // of state files and FIFOs
	boot     string            // the id of this boot
	now      func() queue.Time // a field so that tests can pass time

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

// Open returns the Store of a directory, which it makes if it is missing. The
// directory and its file system are checked as the package's documentation
// says: errors match store.ErrInvalid (not a directory, or a link),
// store.ErrDenied (of another owner, or open to others, or one on the way to it
// is), store.ErrUnsupported
// (a file system that hosts may share, or a system without a clock and an id of
// its boot) or store.ErrUnavailable, and say what to do.
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

// String is the store as errors name it.
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

// writesElsewhere are the copy-on-write file systems: an overwrite goes to a new
// place, so a reservation does not help there.
var writesElsewhere = []string{"btrfs", "zfs", "bcachefs"}

// Check implements [store.Checker]. That the directory will do was found out by
// Open.
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

// A name takes a block and a file, a process a few.
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

// Close implements [store.Store]. The remaining holds of this process are
// freed, as after its death.
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

// bounds are the limits of the stored form.
var bounds = store.Bounds{Max: math.MaxInt64, On: "files"}
