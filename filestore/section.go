package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

var (
	// errBusy means that another process is in the critical section of the name.
	errBusy = errors.New("locked by another")

	errNotRegular = errors.New("not a regular file")
	errOtherName  = errors.New("it holds another name")
)

// A file is the open state file of a name. Its lock belongs to the open file, not to a
// goroutine, so it also needs a mutex.
type file struct {
	mu     sync.Mutex
	f      *os.File // kept reachable: the garbage collector would close it and release its lock
	fd     uintptr
	name   string // empty if unknown
	path   string
	id     fileID
	closed bool // no longer in Store.files

	q     queue.Queue // as last read or written; its memory is reused
	fresh bool        // q is what record seq contains
	seq   uint64      // of the newest valid record
	next  int         // the slot to write
	size  int         // of that record
	room  int         // in each slot, known to be reserved
	short bool        // the file is known to have one page
	buf   []byte
}

// maxOpen is how many state files a Store keeps open. Opening a file costs more than
// the rest of an operation.
const maxOpen = 128

// A change is what an operation does in the section of a name.
type change func(queue.Time, *queue.Queue) queue.Change

// do locks the file of the name, runs f on its queue, writes what f changed, and wakes the
// waiters that were granted. It waits for the lock until ctx ends. A missing file is
// created only if create is set; otherwise f gets an empty queue.
func (s *Store) do(ctx context.Context, op, name string, create bool, f change) error {
	if ctx.Err() != nil {
		return s.late(ctx, op, name)
	}
	var before uint64
	for try := (backoff{}); ; {
		woken, err := s.try(name, create, f)
		if err == nil {
			s.wake(ctx, woken)
			return nil
		}
		if err != errBusy {
			return s.storeError(op, name, s.path(name), err)
		}
		if try.tries == triesAtOnce {
			before = newestIn(s.path(name))
		}
		if !try.wait(ctx) {
			if try.tries > triesAtOnce && newestIn(s.path(name)) != before { //mutant:file-crowd-is-no-outage
				return fmt.Errorf("%s %q in %s: %w (%w)", op, name, s, store.ErrContended, ctx.Err())
			}
			return s.stuck(op, name)
		}
	}
}

// try is do without waiting. It returns errBusy if another process is inside.
func (s *Store) try(name string, create bool, f change) ([]store.Notification, error) {
	fl, err := s.enter(name, create)
	if err != nil {
		if !create && errors.Is(err, fs.ErrNotExist) {
			f(s.now(), &queue.Queue{})
			return nil, nil
		}
		return nil, err
	}
	defer fl.leave()
	if inside != nil {
		inside()
	}
	if !fl.unchanged() {
		found, err := s.read(fl)
		if err == nil && found != "" && found != name {
			err = errOtherName
		}
		if err != nil {
			return nil, err
		}
	}
	change := f(s.now(), &fl.q)
	if change.Wrote {
		fl.fresh = false
		if err := s.write(fl, create); err != nil {
			return nil, err
		}
	}
	return change.Woken, nil
}

// inside is called in every section. Tests set it to stop a process there.
var inside func()

// enter returns the file of the name, locked and in place.
func (s *Store) enter(name string, create bool) (*file, error) {
	for range 1000 { // files are removed as fast as they appear: a later try may succeed
		fl, err := s.open(name, create)
		if err != nil {
			return nil, err
		}
		ok, err := tryLock(fl.fd)
		if ok && inPlace(fl.path, fl.id) {
			return fl, nil
		}
		if ok || err != nil {
			// The file was removed after open and before tryLock, by a clean-up or by hand.
			// Closing it unlocks it.
			s.forget(fl)
		}
		fl.done()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errBusy
		}
	}
	return nil, errBusy
}

// leave unlocks the file and calls done.
func (fl *file) leave() {
	unlock(fl.fd)
	fl.done()
}

// done ends the use of a file that open returned.
func (fl *file) done() {
	if fl.closed {
		fl.f.Close()
	}
	fl.mu.Unlock()
}

// open returns the open file of the name, with its mutex held.
func (s *Store) open(name string, create bool) (*file, error) {
	for {
		s.mu.Lock()
		fl := s.files[name]
		s.mu.Unlock()
		if fl == nil {
			break
		}
		fl.mu.Lock()
		if !fl.closed {
			return fl, nil
		}
		fl.mu.Unlock()
	}
	path := s.path(name)
	var f *os.File
	var id fileID
	var made bool
	opening := func() (err error) {
		f, id, made, err = openState(path, create, s.fileMode)
		return err
	}
	var err error
	if create {
		err = s.inDir(opening)
	} else {
		err = opening()
	}
	if err != nil {
		return nil, err
	}
	fl := &file{f: f, fd: f.Fd(), name: name, path: path, id: id}
	fl.mu.Lock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if made {
		s.maybeClean(cleanPerNames)
	}
	if s.files[name] != nil {
		fl.closed = true // another goroutine was faster: use this file only once
		return fl, nil
	}
	if len(s.files) >= maxOpen {
		s.closeOne()
	}
	s.files[name] = fl
	return fl, nil
}

// closeOne closes some unused file. s.mu is held.
func (s *Store) closeOne() {
	for name, fl := range s.files {
		if fl.mu.TryLock() {
			fl.closed = true
			fl.f.Close()
			delete(s.files, name)
			fl.mu.Unlock()
			return
		}
	}
}

// forget removes a file from s.files, so that done closes it. Its mutex is held.
func (s *Store) forget(fl *file) {
	s.mu.Lock()
	if s.files[fl.name] == fl {
		delete(s.files, fl.name)
	}
	s.mu.Unlock()
	fl.closed = true
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, namesDir, fileName(name)) }

// A backoff computes the pauses between tries to lock a file. A section takes microseconds,
// so the first tries have no pause and the next ones a short one with jitter. If many
// processes tried every millisecond they would take the CPU from those inside, so the pauses
// grow with the time waited so far.
type backoff struct {
	tries  int
	waited time.Duration
}

const (
	triesAtOnce = 20
	firstPause  = 50 * time.Microsecond
	shortPause  = 2 * time.Millisecond // the limit at first
	longPause   = 50 * time.Millisecond
	partOfWait  = 32
)

// wait pauses and reports whether to try again.
func (b *backoff) wait(ctx context.Context) bool {
	b.tries++
	if b.tries <= triesAtOnce {
		runtime.Gosched()
		return ctx.Err() == nil
	}
	pause := min(firstPause<<min(b.tries-triesAtOnce, 10), shortPause)
	pause = max(pause, min(b.waited/partOfWait, longPause))
	pause = pause/2 + rand.N(pause)
	b.waited += pause
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// storeError turns an error of the file system into one of package store.
func (s *Store) storeError(op, name, where string, err error) error {
	var newer versionError
	switch {
	case errors.As(err, &newer):
		return fmt.Errorf("%s %q: %w", op, name, store.NewerFormError(where, int(newer), version))
	case errors.Is(err, errBadRecord), errors.Is(err, errOtherName), errors.Is(err, errNotRegular), isLink(err):
		return fmt.Errorf("%w: %s %q: the state file %s: %w: it was not changed; delete it once nobody holds the name", store.ErrCorrupt, op, name, where, err)
	case denied(err):
		return fmt.Errorf("%w: %s %q in %s: %w", store.ErrDenied, op, name, s, err)
	}
	return fmt.Errorf("%w: %s %q in %s: %w", store.ErrUnavailable, op, name, s, err)
}

// late returns the error of an operation that was called with an ended context.
func (s *Store) late(ctx context.Context, op, name string) error {
	return fmt.Errorf("%w: %s %q in %s: not begun: %w", store.ErrUnavailable, op, name, s, ctx.Err())
}

// stuck returns the error of an operation that did not get the lock in time.
func (s *Store) stuck(op, name string) error {
	return fmt.Errorf("%w: %s %q in %s: gave up waiting for the lock of %s: %s is inside; "+
		"if it is stopped, let it go on or end it", store.ErrUnavailable, op, name, s, s.path(name), s.insider(name))
}
