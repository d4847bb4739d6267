//go:build linux || darwin

package filestore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/unix"
)

const crash = store.CrashAtOnce

var _ store.Watcher = (*Store)(nil)

// A process is one engine of this process, as others see it in the directory.
type process struct {
	alive   *os.File // the FIFO that shows it is alive: no writer means dead
	entries int      // entries asked for that are not known to have ended
	mailbox *os.File // the FIFO for notifications, once it watches
	sink    func(store.Notification)
}

// The suffixes of the FIFOs of a process.
const (
	liveFIFO = ".live"
	wakeFIFO = ".wake"
)

func (s *Store) fifo(p store.Process, kind string) string {
	return filepath.Join(s.dir, procsDir, p.String()+kind)
}

// live makes process p visible as alive. Its FIFO exists and is open before its id is
// in any queue.
func (s *Store) live(p store.Process) error {
	if p == (store.Process{}) {
		return nil // a detached hold belongs to no process, and no death ends it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.own(p)
	return err
}

// own returns process p of this Store, and creates it if needed. s.mu is held.
func (s *Store) own(p store.Process) (*process, error) {
	if pr := s.procs[p]; pr != nil {
		return pr, nil
	}
	f, err := s.makeFIFO(p, liveFIFO)
	if err != nil {
		return nil, err
	}
	pr := &process{alive: f}
	s.procs[p] = pr
	s.maybeClean(cleanPerProcesses)
	return pr, nil
}

// Presence returns an open file that shows other processes that p is alive. p is the first
// half of the ids of a Locker on this Store. While any process has the file open, p counts as
// alive, and its holds are freed only by a release or by their TTL. It is for a process that
// has to clean up after another before the name is granted again. Close the file when you are
// done; an exec closes it too.
//
// Errors: store.ErrInvalid if p has made no claim on this Store, store.ErrUnsupported on
// Windows, and store.ErrUnavailable if the file cannot be duplicated.
func (s *Store) Presence(p store.Process) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pr := s.procs[p]
	if pr == nil {
		return nil, fmt.Errorf("%w: the process %s has not asked in %s", store.ErrInvalid, p, s)
	}
	raw, err := pr.alive.SyscallConn()
	fd := -1
	if err == nil {
		ctl := raw.Control(func(alive uintptr) { fd, err = unix.FcntlInt(alive, unix.F_DUPFD_CLOEXEC, 0) })
		err = cmp.Or(err, ctl)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrUnavailable, s, err)
	}
	return os.NewFile(uintptr(fd), pr.alive.Name()), nil
}

func openFIFO(path string, mode int) (fd int, err error) {
	return openNoFollow(path, mode|unix.O_NONBLOCK)
}

func openNoFollow(path string, mode int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, mode|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// count adds n to the number of entries that p has in the queues, if so is true. Callers
// count a new entry before it is written and a removed one afterwards, and entries dropped
// by others are not counted. So the number may be too high but never too low.
func (s *Store) count(p store.Process, so bool, n int) {
	if !so {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if pr := s.procs[p]; pr != nil {
		pr.entries += n
	}
}

// end closes and removes the FIFOs of p; a clean-up removes what is left. P.live stays if
// entries may be left, so that others find p dead. s.mu is held.
func (s *Store) end(p store.Process, pr *process) {
	if pr.mailbox != nil {
		os.Remove(pr.mailbox.Name())
		pr.mailbox.Close()
	}
	if pr.entries <= 0 {
		os.Remove(pr.alive.Name())
	}
	pr.alive.Close()
	delete(s.procs, p)
}

// dead reports whether the process has died: its FIFO exists and no process has it open for
// writing. If the FIFO is missing, nothing is known and the TTL decides, so that a clean-up
// of files cannot break a lock. The same is true for a detached hold.
func (s *Store) dead(p store.Process) bool {
	s.mu.Lock()
	known := s.procs[p] != nil || s.watches[p] != nil // this Store would notice its death
	s.mu.Unlock()
	return !known && p != (store.Process{}) && readFIFO(s.fifo(p, liveFIFO)) == ended
}

// living reports whether the process is known to be alive: it belongs to this Store, or its
// FIFO is open for writing. It is not the opposite of dead: without a FIFO, neither is known.
func (s *Store) living(p store.Process) bool {
	s.mu.Lock()
	ours := s.procs[p] != nil
	s.mu.Unlock()
	return ours || p != (store.Process{}) && readFIFO(s.fifo(p, liveFIFO)) == opened
}

// A life is what the FIFO of a process shows about it.
type life int

const (
	unknown life = iota // the FIFO does not exist or cannot be opened
	opened              // a process has it open for writing
	ended               // no process has it open for writing
)

// readFIFO never opens for writing, because that would make the process look alive.
func readFIFO(path string) life {
	fd, err := openFIFO(path, unix.O_RDONLY)
	if err != nil {
		return unknown
	}
	defer unix.Close(fd)
	var b [1]byte
	switch n, err := unix.Read(fd, b[:]); {
	case err == unix.EAGAIN:
		return opened
	case n == 0 && err == nil:
		return ended
	}
	return unknown
}

// A notification in a mailbox is its length in two bytes, the id, the token, the size of its
// block in two bytes unless that is 1, and the name, or the name of its state file if the
// name is too long. It is written in one call and is at most maxNotification long, so it is
// never cut or mixed with others.
const (
	maxNotification   = 512 // the atomic size that POSIX guarantees, and that macOS has
	notificationHead  = 2 + len(store.ID{}) + 8
	blockSize         = 2
	notificationFile  = 1 << 15 // flag in the length: the name is a state file's
	notificationBlock = 1 << 14 // flag in the length: the size of a block is present
)

// wake notifies waiters that were granted. Errors do not matter, because waiters also poll.
// But if a granted waiter is dead, its entry is removed.
func (s *Store) wake(ctx context.Context, woken []store.Notification) {
	for _, h := range woken {
		p := h.ID.Process()
		s.mu.Lock()
		pr := s.procs[p]
		var sink func(store.Notification)
		if pr != nil {
			sink = pr.sink
		}
		s.mu.Unlock()
		switch {
		case sink != nil:
			sink(h)
		case pr != nil: // in this process, without a listener
		case !s.post(p, h) && readFIFO(s.fifo(p, liveFIFO)) == ended:
			s.bury(ctx, h.Name, p)
		}
	}
}

// post writes the notification to the mailbox of p, and reports whether a process reads
// the mailbox.
func (s *Store) post(p store.Process, h store.Notification) bool {
	fd, err := openFIFO(s.fifo(p, wakeFIFO), unix.O_WRONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var buf [maxNotification]byte
	unix.Write(fd, appendNotification(buf[:0], h)) // if the FIFO is full, the reader polls (see nearlyFull)
	return true
}

func appendNotification(b []byte, h store.Notification) []byte {
	flag, size := 0, notificationHead
	if h.N > 1 {
		flag, size = notificationBlock, notificationHead+blockSize
	}
	if size+len(h.Name) > maxNotification {
		h.Name, flag = fileName(h.Name), flag|notificationFile
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(size+len(h.Name)|flag))
	b = append(b, h.ID[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Token))
	if h.N > 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(h.N))
	}
	return append(b, h.Name...)
}

// parseNotifications calls sink for each complete notification in b and returns the rest.
// If one cannot be read, it makes all waiters poll.
func (s *Store) parseNotifications(b []byte, sink func(store.Notification)) (left []byte) {
	for len(b) >= 2 {
		n := int(binary.LittleEndian.Uint16(b))
		isFile, isBlock, start := n&notificationFile != 0, n&notificationBlock != 0, notificationHead
		if isBlock {
			start += blockSize
		}
		n &^= notificationFile | notificationBlock
		if n < start || n > maxNotification {
			sink(store.Notification{})
			return nil
		}
		if n > len(b) {
			break
		}
		var h store.Notification
		h.ID = store.ID(b[2:])
		h.Token = int64(binary.LittleEndian.Uint64(b[2+len(h.ID):]))
		if isBlock {
			h.N = int(binary.LittleEndian.Uint16(b[notificationHead:]))
		} else if h.Token != 0 {
			h.N = 1
		}
		h.Name = string(b[start:n])
		if isFile {
			name := ""
			if isFileName(h.Name) {
				name, _ = s.nameOf(filepath.Join(s.dir, namesDir, h.Name))
			}
			if h.Name = name; name == "" {
				h = store.Notification{}
			}
		}
		sink(h)
		b = b[n:]
	}
	return b
}

// Watch implements [store.Watcher].
func (s *Store) Watch(_ context.Context, p store.Process, sink func(store.Notification)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pr, err := s.own(p)
	if err == nil && pr.mailbox == nil {
		if pr.mailbox, err = s.makeFIFO(p, wakeFIFO); err == nil {
			s.run.Go(func() { s.receive(pr, pr.mailbox) })
		}
	}
	if err != nil {
		kind := store.ErrUnavailable
		if denied(err) {
			kind = store.ErrDenied
		}
		return fmt.Errorf("%w: watching in %s: %w", kind, s, err)
	}
	pr.sink = sink
	return nil
}

const (
	mailboxSize = 64 << 10 // the capacity of a FIFO; on macOS usually 16 KiB
	// After a read of this size the FIFO may have been full and notifications lost.
	nearlyFull = 12 << 10
)

// receive passes the notifications of a mailbox to the sink until the mailbox is closed.
func (s *Store) receive(pr *process, mailbox *os.File) {
	buf := make([]byte, mailboxSize)
	kept := 0
	for {
		n, err := mailbox.Read(buf[kept:])
		if err != nil {
			return
		}
		s.mu.Lock()
		sink := pr.sink
		s.mu.Unlock()
		left := s.parseNotifications(buf[:kept+n], sink)
		kept = copy(buf, left)
		if n >= nearlyFull {
			sink(store.Notification{})
		}
	}
}

// cleanProcess removes a mailbox without a reader, and reports whether path is a FIFO
// that proves a death.
func cleanProcess(path string) (proof bool) {
	switch {
	case strings.HasSuffix(path, liveFIFO):
		return readFIFO(path) == ended
	case strings.HasSuffix(path, wakeFIFO):
		fd, err := openFIFO(path, unix.O_WRONLY)
		if err == unix.ENXIO { // no reader
			os.Remove(path)
		} else if err == nil {
			unix.Close(fd)
		}
	}
	return false
}

func isLink(err error) bool { return errors.Is(err, unix.ELOOP) }
