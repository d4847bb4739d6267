//go:build linux || darwin

package front

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// GivesUp are the signals that end the wait for the lock; SIGKILL stands for the end of the
// front. Once the command runs, it gets these and Forwarded.
var (
	GivesUp   = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL}
	Forwarded = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}
)

// passedOn are the signals that the front passes on to the engine.
var passedOn = slices.Concat(GivesUp, Forwarded)

type frontend struct {
	engine  int  // its pid
	reaped  bool // the engine has been reaped
	buried  bool // the command has been reaped, after the engine: its number may be another group's
	fd      int  // of the socket
	board   *board
	spared  []int // children that we have not started
	ignored map[syscall.Signal]bool
	slept   time.Duration // for how long the host had been suspended when we last read the board

	signals   chan os.Signal
	continued chan os.Signal // SIGCONT
	messages  chan message   // closed when the engine has ended

	tty   *Terminal // nil: there is none
	given bool      // the command has the terminal
	wants bool      // it gets the terminal when we are in the foreground
	conts byte      // CONTs that we have sent to the engine, modulo 256
}

// front runs the program again as the engine, supervises it, and returns its exit code.
func front() int {
	f := &frontend{
		tty:     OpenTerminal(),
		spared:  Children(), // a shell may have started some and then exec'ed us //mutant:front-spared
		signals: make(chan os.Signal, 16), continued: make(chan os.Signal, 1), messages: make(chan message, 16),
	}
	AdoptOrphans()
	f.catch() // before there is a command: a signal for it must not end us
	if err := f.start(); err != nil {
		tell("cannot start the engine: %v", err)
		return ExitInternal
	}
	signal.Ignore(syscall.SIGTTOU) // else taking the terminal back would stop us. Not before start: the engine would inherit it
	LetGo()
	go f.listen()
	return f.run()
}

// start starts the engine in its own process group, so that it does not get what the terminal
// sends to our group, or the shell's CONT.
func (f *frontend) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(pair[0])
	page, err := makePage()
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(page, int64(os.Getpagesize())); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	if f.board, err = openBoard(page); err != nil {
		return err
	}
	for _, fd := range pair {
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	env := append(os.Environ(), fmt.Sprintf("%s=%d:%d:%d", LinkEnv, os.Getpid(), pair[1], page)) // a process that has it is not a front
	f.engine, err = syscall.ForkExec(self, os.Args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return fmt.Errorf("%s: %w", self, err)
	}
	unix.Close(pair[1])
	unix.Close(page)
	f.fd = pair[0]
	return nil
}

// LetGo drops our stdin and stdout, which are the command's: the other end of a pipe must see it
// closed when the command closes it.
func LetGo() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the only harm is a pipe that is open for longer
	}
	duplicate(null, 0)
	duplicate(null, 1)
	unix.Close(null)
}

// catch starts to deliver signals, except those that were ignored when we were started. TSTP
// keeps its default effect until there is a command.
func (f *frontend) catch() {
	f.ignored = ignoredSignals()
	for _, sig := range append([]os.Signal{syscall.SIGCHLD, syscall.SIGPIPE}, passedOn...) {
		if !f.ignored[sig.(syscall.Signal)] {
			signal.Notify(f.signals, sig)
		}
	}
	signal.Notify(f.continued, syscall.SIGCONT)
}

// listen delivers the messages of the engine. A descriptor that comes with one is ours from then
// on, and stays open until we end.
func (f *frontend) listen() {
	defer close(f.messages)
	raw, err := os.NewFile(uintptr(f.fd), "engine").SyscallConn()
	if err != nil {
		return
	}
	for {
		var b [3]byte
		var rights [32]byte
		var n int
		var err error
		raw.Read(func(fd uintptr) bool {
			err = Retry(func() (err error) {
				n, _, _, _, err = unix.Recvmsg(int(fd), b[:], rights[:], receiveFlags)
				return err
			})
			return err != unix.EAGAIN
		})
		if err != nil || n < len(b) {
			return
		}
		f.messages <- message{b[0], b[1], b[2]}
	}
}

// run supervises the engine until it has ended.
func (f *frontend) run() int {
	due := time.NewTimer(0) // at least each second: no timer runs while the machine is suspended
	<-due.C                 //mutant:front-timer
	for {
		select {
		case m, ok := <-f.messages:
			switch {
			case !ok && f.board.over():
				return f.expired()
			case !ok:
				return f.orphaned()
			case m.what == holds:
				due.Reset(0)
			case m.what == started:
				f.started(m.code)
			case m.what == stopped:
				f.stopped(syscall.Signal(m.signal), m.code)
			case m.what == ended:
				return f.leave(m)
			}
		case sig := <-f.signals:
			switch sig {
			case syscall.SIGCHLD:
				f.reap()
			case syscall.SIGPIPE: // from our stderr
			default:
				f.pass(sig.(syscall.Signal))
			}
		case <-f.continued:
			f.resume()
		case <-due.C:
			if f.board.over() { //mutant:front-board-over
				return f.expired()
			}
			f.slept = clock.Slept()
			due.Reset(f.board.left()) //mutant:front-timer-set
		}
	}
}

// pass sends a signal to the engine. It never blocks: the socket is full only if the engine is
// stopped and has hundreds unread.
func (f *frontend) pass(sig syscall.Signal) error {
	return Retry(func() error { _, err := unix.Write(f.fd, []byte{byte(sig)}); return err })
}

// leave ends us like the command, and returns its exit code.
func (f *frontend) leave(m message) int {
	Retry(func() error { _, err := unix.Wait4(f.engine, nil, 0, nil); return err })
	sig := syscall.Signal(m.signal)
	given := f.given
	f.take(sig != 0) //mutant:front-terminal-mended
	if given && (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && m.code == 128+m.signal {
		interruptOurselves(sig)
	}
	return int(m.code)
}

// interruptOurselves sends our own group the Ctrl-C or Ctrl-\ that ended the command. The
// terminal would have sent it there if the command had not been in the foreground. So a script or
// a loop around us ends too.
func interruptOurselves(sig syscall.Signal) {
	signal.Reset(sig)
	unix.Kill(0, sig)
	time.Sleep(100 * time.Millisecond) // the signal is on its way; if it is ignored, we continue
}

// init makes us the front, and then does not return, if the arguments are those of `run` and we
// have no front. main would be too late: before it the packages of all stores are initialized,
// which the front does not need. See the package comment.
func init() {
	if _, below := os.LookupEnv(LinkEnv); !below && len(os.Args) > 0 && namesRun(os.Args[1:]) {
		Need()
	}
}

// Need makes us the front, and then does not return, unless we have one.
func Need() {
	if Above == nil {
		os.Exit(front())
	}
}

// namesRun reports whether the arguments are those of `run`. If it misses that, Need is called
// later.
func namesRun(args []string) bool {
	for i := 0; i < len(args); i++ {
		if args[i] == "--store" {
			i++
		} else if !strings.HasPrefix(args[i], "-") {
			return args[i] == "run"
		}
	}
	return false
}

// tell prints a line on stderr.
func tell(format string, args ...any) { fmt.Fprintf(os.Stderr, "holdfast: "+format+"\n", args...) }
