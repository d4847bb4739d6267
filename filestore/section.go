package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	// errBusy says that another process is inside the section of the name.
	errBusy = errors.New("locked by another")

	errNotRegular = errors.New("not a regular file")
	errOtherName  = errors.New("it holds another name")
)

// A file is the open state file of a name. Its lock belongs to the open file
// and not to a goroutine, hence the mutex.
type file struct {
	mu     sync.Mutex
	f      *os.File // kept reachable: the collector would close it, and drop its lock
	fd     uintptr
	name   string // empty if it is not known
	path   string
	id     fileID
	closed bool // no longer in Store.files

	q     queue.Queue // as last read or written; its memory is used again
	fresh bool        // q is what the record seq says
	seq   uint64      // of the newest valid record
	next  int         // the slot to write
	size  int         // of the newest valid record
	room  int         // in each slot, known to be reserved
	short bool        // it is known to have one page
	buf   []byte
}

// maxOpen is how many state files a Store keeps open: opening costs more than
// the rest of an operation.
const maxOpen = 128

// A change is what an operation does inside the section of a name.
type change func(queue.Time, *queue.Queue) queue.Change

// do runs f on the queue of the name in its section, keeps what f changed, and
// wakes those it granted. It waits for the section until ctx ends. Only with
// create set is a missing file made; else f gets an empty queue.
func (s *Store) do(ctx context.Context, op, name string, create bool, f change) error {
	if ctx.Err() != nil {
		return s.late(ctx, op, name)
	}
	for try := (backoff{}); ; {
		woken, err := s.try(name, create, f)
		if err == nil {
			s.wake(ctx, woken)
			return nil
		}
		if err != errBusy {
			return s.storeError(op, name, s.path(name), err)
		}
		if !try.wait(ctx) {
			return s.stuck(op, name)
		}
	}
}

// try is do without waiting: errBusy if another is inside.
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

// inside is called in every section, so that a test can stop a process there.
var inside func()

// enter locks the file of the name, which is in place.
func (s *Store) enter(name string, create bool) (*file, error) {
	for range 1000 { // files that go as fast as they come; then another try may do better
		fl, err := s.open(name, create)
		if err != nil {
			return nil, err
		}
		ok, err := tryLock(fl.fd)
		if ok && inPlace(fl.path, fl.id) {
			return fl, nil
		}
		if ok || err != nil {
			// Removed between our opening and locking it, by a clean-up or by
			// hand; closing unlocks.
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

// leave ends the section.
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

// open returns the open file of the name with its mutex held.
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
		fl.closed = true // another goroutine was faster: this one is for once
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

// forget makes a file, whose mutex is held, one that is closed when it is done
// with.
func (s *Store) forget(fl *file) {
	s.mu.Lock()
	if s.files[fl.name] == fl {
		delete(s.files, fl.name)
	}
	s.mu.Unlock()
	fl.closed = true
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, namesDir, fileName(name)) }

// unchanged reports whether the file was not written since it was last read or
// written here, so that the queue need not be read again. The next writer
// writes the slot that this process would, with a larger sequence number.
func (fl *file) unchanged() bool {
	if !fl.fresh {
		return false
	}
	var b [headSize]byte
	at, _ := place(fl.next, 0)
	n, err := fl.f.ReadAt(b[:], at)
	h, ok := parseHead(b[:n])
	return err == nil && ok && h.seq < fl.seq
}

// read finds the state in a file, and the name that it is of: an empty one if
// it was never used, or not since a power cut.
func (s *Store) read(fl *file) (name string, err error) {
	fl.fresh, fl.short = false, false
	found, err := s.pick(fl)
	if err != nil || found == nil {
		fl.q = queue.Queue{Entries: fl.q.Entries[:0]}
		return "", err
	}
	if string(found.boot) != s.boot && s.rebooted(fl) { //mutant:file-other-boot
		s.keepLiving(&fl.q)
	}
	if string(found.name) == fl.name {
		fl.fresh = true
		return fl.name, nil
	}
	return string(found.name), nil
}

// A record is a valid one that was found in a slot; its queue is in the file.
type record struct{ name, boot []byte }

// pick reads both slots and leaves the state in fl: of the valid record with
// the higher sequence number. Without one the result is nil: a file never used,
// or one that a power cut left behind.
func (s *Store) pick(fl *file) (found *record, err error) {
	if cap(fl.buf) < page {
		fl.buf = make([]byte, page)
	}
	first := fl.buf[:page]
	n, err := fl.f.ReadAt(first, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	clear(first[n:])
	var parts [slots][]byte
	var heads [slots]head
	order := [slots]int{-1, -1} // the slots that look like records, the newest first
	used := false
	for i := range slots {
		parts[i] = first[i*near : (i+1)*near : (i+1)*near]
		h, ok := parseHead(parts[i])
		heads[i] = h
		switch {
		case !ok:
			used = used || len(bytes.Trim(parts[i], "\x00")) > 0
		case order[0] < 0:
			order[0] = i
		case h.seq > heads[order[0]].seq:
			order = [slots]int{i, order[0]}
		default:
			order[1] = i
		}
	}
	for _, i := range order {
		if i < 0 {
			continue
		}
		b := parts[i]
		if size := headSize + heads[i].length; size > near {
			b = append(make([]byte, 0, size), b...)[:size]
			at, _ := place(i, near)
			if n, err := fl.f.ReadAt(b[near:], at); err == io.EOF {
				b = b[:near+n]
			} else if err != nil {
				return nil, err
			}
		}
		name, boot, err := parseRecord(b, &fl.q)
		if err == nil {
			fl.seq, fl.next, fl.size = heads[i].seq, (i+1)%slots, headSize+heads[i].length
			return &record{name, boot}, nil
		}
		if err != errBadRecord {
			return nil, err
		}
		used = true
	}
	if used && !s.beforeBoot(fl) { // otherwise a power cut may have left it half on disk, and its holds have ended
		return nil, errBadRecord
	}
	fl.seq, fl.next, fl.size = 0, 0, 0
	return nil, nil
}

// write puts the queue over the older slot. It is not synced: the page cache
// outlives the process, and a reboot voids every entry anyway. A new claim is
// written only if there is space for all later states of the entries.
func (s *Store) write(fl *file, comes bool) error {
	fl.buf = appendRecord(fl.buf[:0], fl.seq+1, fl.name, s.boot, &fl.q)
	if len(fl.buf) > longest || comes && mostFor(fl.name, s.boot, len(fl.q.Entries)) > longest { //mutant:file-queue-full
		return fmt.Errorf("%w: the queue is full: %d entries are more than its file has room for", store.ErrUnavailable, len(fl.q.Entries))
	}
	if err := fl.reserve(roomFor(fl.name, s.boot, len(fl.q.Entries))); err != nil && comes { //mutant:file-room-needed-to-come
		return err
	}
	if err := fl.put(fl.next, 0, fl.buf); err != nil {
		return err
	}
	fl.fresh, fl.seq, fl.next, fl.size = true, fl.seq+1, (fl.next+1)%slots, len(fl.buf)
	if len(fl.q.Entries) == 0 && !fl.short { //mutant:file-page-at-rest
		fl.cut()
	}
	return nil
}

// cut gives back the unused space of a longer record. It need not succeed.
func (fl *file) cut() {
	info, err := fl.f.Stat()
	if err != nil || info.Size() > page && fl.f.Truncate(page) != nil {
		return
	}
	fl.short, fl.room = true, min(fl.room, near)
}

// reserve has the file system allocate both slots before the record in buf is
// written, so that if the disk is full later, each renewal and release can
// still be written. It writes zeros behind the two records, which works on
// every file system and which readers ignore.
func (fl *file) reserve(room int) error {
	if fl.room > near { // known by its length: it may have been cut since
		info, err := fl.f.Stat()
		if err != nil {
			return err
		}
		if end, _ := place(slots-1, fl.room); info.Size() < end { //mutant:file-room-cut
			fl.room = 0
		}
	}
	if room <= fl.room { //mutant:file-room-reserved
		return nil
	}
	zeros := make([]byte, room)
	newest := (fl.next + 1) % slots
	for slot, used := range map[int]int{newest: fl.size, fl.next: len(fl.buf)} { //mutant:file-room-of-slots
		if used < room {
			if err := fl.put(slot, used, zeros[used:]); err != nil {
				return err
			}
		}
	}
	fl.room, fl.short = room, false
	return nil
}

// put writes b into a slot, from its byte i on. The beginning is written last: it
// says what there is.
func (fl *file) put(slot, i int, b []byte) error {
	at, follow := place(slot, i)
	if len(b) > follow {
		if err := fl.put(slot, i+follow, b[follow:]); err != nil {
			return err
		}
		b = b[:follow]
	}
	return writeSlot(fl.f, b, at)
}

// writeSlot is a variable so that a test can show what a worse way loses.
var writeSlot = func(f *os.File, record []byte, at int64) error {
	_, err := f.WriteAt(record, at)
	return err
}

// A backoff is the pauses between tries to lock a file: a section takes
// microseconds, so at first there is no pause, and then one with jitter.
type backoff struct{ tries int }

const (
	triesAtOnce = 20
	firstPause  = 50 * time.Microsecond
	longPause   = 2 * time.Millisecond
)

// wait pauses and reports whether to go on.
func (b *backoff) wait(ctx context.Context) bool {
	b.tries++
	if b.tries <= triesAtOnce {
		runtime.Gosched()
		return ctx.Err() == nil
	}
	pause := min(firstPause<<min(b.tries-triesAtOnce, 10), longPause)
	t := time.NewTimer(pause/2 + rand.N(pause))
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

// late is the error of who came with an ended context.
func (s *Store) late(ctx context.Context, op, name string) error {
	return fmt.Errorf("%w: %s %q in %s: not begun: %w", store.ErrUnavailable, op, name, s, ctx.Err())
}

// stuck is the error of who could not get into the section in time.
func (s *Store) stuck(op, name string) error {
	return fmt.Errorf("%w: %s %q in %s: gave up waiting for the lock of %s: %s is inside; "+
		"if it is stopped, let it go on or end it", store.ErrUnavailable, op, name, s, s.path(name), s.insider(name))
}
