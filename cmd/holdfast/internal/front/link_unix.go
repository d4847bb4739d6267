//go:build linux || darwin

package front

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// LinkEnv tells the engine the front's pid and the numbers of two descriptors: a socket for
// events, and a page of memory for the state. The numbers are not fixed: the caller may have
// passed the command descriptors of its own.
const LinkEnv = "HOLDFAST_FRONT"

// A board is that page. The engine writes it and the front reads it: it always has the newest
// state, however long either was stopped.
type board struct {
	// deadline is the instant of the boot clock, in nanoseconds, at which the front kills all its
	// descendants; 0 while there is nothing to kill.
	deadline atomic.Int64
	group    atomic.Int64 // the command's process group; 0: there is none
	end      atomic.Int64 // of the lock, on the same clock; 0: it has none
	guarded  atomic.Bool  // the kernel kills the engine and the group before the end, if the front cannot
}

func openBoard(fd int) (*board, error) {
	page, err := unix.Mmap(fd, 0, int(unsafe.Sizeof(board{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*board)(unsafe.Pointer(&page[0])), nil
}

// over reports whether the deadline has passed.
func (b *board) over() bool {
	d := b.deadline.Load()
	return d != 0 && int64(clock.Boot()) >= d
}

// left returns for how long the board need not be read.
func (b *board) left() time.Duration {
	if d := b.deadline.Load(); d != 0 {
		return max(0, min(time.Duration(d)-clock.Boot(), time.Second))
	}
	return time.Second
}

// A message goes from the engine to the front. The front sends the engine numbers of signals, a
// byte each.
type message struct{ what, code, signal byte }

const (
	holds   = iota + 1 // we hold the lease, and the board is valid. It may carry a descriptor to keep open
	started            // the command runs; code: the terminal bits below
	stopped            // the signal has stopped the command; code: Link.Conts before that
	ended              // nothing is left of the command, and the lock is released: exit with the code. The signal, if any, ended the command
)

// The terminal bits of the command, when it starts.
const (
	HasTerminal   = 1 << iota // the command is in the foreground
	WantsTerminal             // it should be there when the front is
)

// A Link is the engine's end of the connection.
type Link struct {
	Ignored map[syscall.Signal]bool // ignored when we were started, and so by the command
	Signals chan os.Signal          // what the front passes on; SIGKILL: the front has ended
	Killer  syscall.Signal          // what ended the command, if a signal did
	Conts   byte                    // CONTs of the front that the command has received, modulo 256

	front   int // its pid
	socket  int
	board   *board
	timer   *killTimer // nil: there is none
	killAt  time.Duration
	release func()   // releases the group, which dies with us; nil: it does not
	below   []func() // of other groups, see GuardBelow
	before  []func() // of the groups that the call before found
}

// Above is the link to our front; nil if we have none. Open sets it.
var Above *Link

// Open opens the link to our front, if we have one.
func Open() (err error) {
	Above, err = openLink()
	return err
}

func openLink() (*Link, error) {
	value, ok := os.LookupEnv(LinkEnv)
	if !ok {
		return nil, nil
	}
	os.Unsetenv(LinkEnv)
	var page int
	l := &Link{Signals: make(chan os.Signal, 16), Ignored: ignoredSignals()}
	if _, err := fmt.Sscanf(value, "%d:%d:%d", &l.front, &l.socket, &page); err != nil || l.front != os.Getppid() {
		return nil, fmt.Errorf("%s=%s is not of the process that started us", LinkEnv, value) // the front may have died
	}
	unix.CloseOnExec(l.socket)
	var err error
	if l.board, err = openBoard(page); err != nil {
		return nil, err
	}
	unix.Close(page)
	// Some programs signal all processes of a service or container. The front passes its own
	// signal on; ours would be a second one.
	for _, sig := range append([]os.Signal{syscall.SIGTSTP, syscall.SIGPIPE}, passedOn...) {
		if !l.Ignored[sig.(syscall.Signal)] { //mutant:front-ignored-stays
			signal.Notify(make(chan os.Signal, 1), sig) //mutant:front-engine-takes-no-signals
		}
	}
	if runtime.GOOS == "linux" { // elsewhere the command would ignore it as well
		signal.Ignore(syscall.SIGTTOU) // with `stty tostop` a line on stderr would stop us
	}
	go l.listen(os.NewFile(uintptr(l.socket), "front"))
	return l, nil
}

// listen delivers the signals that the front passes on, and SIGKILL when the front ends: if it
// was killed, everything below it must be killed.
func (l *Link) listen(f *os.File) {
	var b [16]byte
	for {
		n, err := f.Read(b[:])
		if err != nil {
			l.Signals <- syscall.SIGKILL //mutant:front-end-seen
			return
		}
		for _, sig := range b[:n] {
			l.Signals <- syscall.Signal(sig)
		}
	}
}

// tell sends a message, with the descriptor keep unless that is -1. It never blocks: the socket
// is full only if the front is stopped and has hundreds of messages unread.
func (l *Link) tell(m message, keep int) {
	var rights []byte
	if keep >= 0 {
		rights = unix.UnixRights(keep)
	}
	Retry(func() error {
		return unix.Sendmsg(l.socket, []byte{m.what, m.code, m.signal}, rights, nil, unix.MSG_DONTWAIT)
	})
}

// PID returns the front's pid: the one that others see, and signal.
func (l *Link) PID() int { return l.front }

// Group returns the front's process group: the shell's job.
func (l *Link) Group() int {
	group, err := unix.Getpgid(l.front)
	if err != nil {
		return -1
	}
	return group
}

// Holds reports that we hold the lease. The descriptor keep stays open as long as the front
// lives; -1: there is none.
func (l *Link) Holds(keep int) { l.tell(message{what: holds}, keep) }

// Started reports that the command runs as this process group, and its terminal bits.
func (l *Link) Started(group int, terminal byte) {
	l.board.group.Store(int64(group))
	l.tell(message{what: started, code: terminal}, -1)
}

// Stopped reports that the signal has stopped the command, after Conts. The front ignores a stop
// that came before a CONT it has sent.
func (l *Link) Stopped(sig syscall.Signal) { l.tell(message{stopped, l.Conts, byte(sig)}, -1) }

// Guard makes the kernel kill the command's group in time if front and engine are both stopped:
// it kills this process when the front should kill everything, and the group with it. An error
// means that it does not.
func (l *Link) Guard(group int) (err error) {
	var noTimer error
	l.timer, noTimer = newKillTimer()
	l.timer.set(l.killAt)
	l.release, err = killGroupWithUs(group)
	err = errors.Join(noTimer, err)
	l.board.guarded.Store(l.timer != nil && err == nil)
	return err
}

// Gone reports that nothing is left of the command's group: its number may be reused.
func (l *Link) Gone() {
	l.board.group.Store(0)
	if l.release != nil {
		l.release()
		l.release = nil
	}
}

// Ended reports that we end with the code.
func (l *Link) Ended(code int) { l.tell(message{ended, byte(code), byte(l.Killer)}, -1) }

// Arm makes the front kill everything in d unless it is armed again. If the front cannot, the
// kernel kills what it can (see Guard). The lock expires in end, unless it is endless.
func (l *Link) Arm(d, end time.Duration, endless bool) {
	now := clock.Boot()
	over := now + end
	if endless {
		over = 0
	}
	l.board.end.Store(int64(over))
	l.board.deadline.Store(int64(now + d))
	l.killAt = now + d //mutant:front-kill-at
	l.timer.set(l.killAt)
}

// Disarm undoes Arm when nothing is left to kill.
func (l *Link) Disarm() {
	l.timer.set(0)
	l.unguardBelow() //mutant:front-daemons-let-go
	l.board.deadline.Store(0)
}

// Retry repeats what a signal has interrupted.
func Retry(f func() error) (err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		err = f()
	}
	return err
}
