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

// GivesUp are the signals that end the waiting for the lock; SIGKILL stands for
// the end of the front. The command gets these and Forwarded, once it runs.
var (
	GivesUp   = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL}
	Forwarded = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}
)

// passedOn are the signals that the front passes on to the engine.
var passedOn = slices.Concat(GivesUp, Forwarded)

type frontend struct {
	engine  int  // its pid
	reaped  bool // the engine has been
	buried  bool // the command has been, after the engine: its number may be another group's
	fd      int  // of the socket
	board   *board
	spared  []int // children that are not of our making
	ignored map[syscall.Signal]bool
	slept   time.Duration // for how long the host was suspended, when we last looked at the board

	signals   chan os.Signal
	continued chan os.Signal // SIGCONT
	messages  chan message   // closed when the engine has ended

	tty   *Terminal // nil: there is none
	given bool      // the command has the terminal
	wants bool      // it is to have it when we are in the foreground
	conts byte      // CONTs that we have sent to the engine, modulo 256
}

// front runs the program again as an engine, looks after it, and returns its
// exit code.
func front() int {
	f := &frontend{
		tty:     OpenTerminal(),
		spared:  Children(), // of a shell that has started some and then put us in its place //mutant:front-spared
		signals: make(chan os.Signal, 16), continued: make(chan os.Signal, 1), messages: make(chan message, 16),
	}
	AdoptOrphans()
	f.catch() // before there is a command: a signal for it must not end us
	if err := f.start(); err != nil {
		tell("cannot start the engine: %v", err)
		return ExitInternal
	}
	signal.Ignore(syscall.SIGTTOU) // or to take the terminal back would stop us; the engine would have ignored it as well
	LetGo()
	go f.listen()
	return f.run()
}

// start starts the engine, in a process group of its own: what the terminal
// sends to our group, and the shell's CONT, are not for it.
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
	env := append(os.Environ(), fmt.Sprintf("%s=%d:%d:%d", LinkEnv, os.Getpid(), pair[1], page)) // whoever has it is no front
	f.engine, err = syscall.ForkExec(self, os.Args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return fmt.Errorf("%s: %w", self, err)
	}
	unix.Close(pair[1])
	unix.Close(page)
	f.fd = pair[0]
	return nil
}

// LetGo drops our stdin and stdout, which are the command's: who is at the
// other end of a pipe shall see it closed when the command closes it.
func LetGo() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // no harm but a pipe that is open for longer
	}
	duplicate(null, 0)
	duplicate(null, 1)
	unix.Close(null)
}

// catch begins to deliver signals, less those that whoever started us ignores.
// TSTP has its default effect as long as there is no command.
func (f *frontend) catch() {
	f.ignored = ignoredSignals()
	for _, sig := range append([]os.Signal{syscall.SIGCHLD, syscall.SIGPIPE}, passedOn...) {
		if !f.ignored[sig.(syscall.Signal)] {
			signal.Notify(f.signals, sig)
		}
	}
	signal.Notify(f.continued, syscall.SIGCONT)
}

// listen delivers what the engine tells. A descriptor that comes with it is
// ours from then on, and stays open until we end.
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

// run looks after the engine until it has ended.
func (f *frontend) run() int {
	due := time.NewTimer(0) // each second: no timer runs while the machine is suspended
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
			case syscall.SIGPIPE: // of our stderr
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

// pass gives a signal to the engine. It never waits: one that is stopped has
// hundreds of them unread when there is no room.
func (f *frontend) pass(sig syscall.Signal) error {
	return Retry(func() error { _, err := unix.Write(f.fd, []byte{byte(sig)}); return err })
}

// leave ends us as the command has ended.
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

// interruptOurselves gives a Ctrl-C or Ctrl-\ that the command died of to our
// own group, which would have had it from the terminal if the command had not
// been in the foreground: so a script or a loop around us ends as well.
func interruptOurselves(sig syscall.Signal) {
	signal.Reset(sig)
	unix.Kill(0, sig)
	time.Sleep(100 * time.Millisecond) // it is on its way; where it was ignored we go on
}

// init makes us the front, if the arguments are those of `run` and nobody is
// above us, and does not return. It is not for main to do, as what is done before
// main, by the packages of all stores, is nothing to the front. See the comment of
// the package.
func init() {
	if _, below := os.LookupEnv(LinkEnv); !below && len(os.Args) > 0 && namesRun(os.Args[1:]) {
		Need()
	}
}

// Need makes us the front, and does not return, unless we have one.
func Need() {
	if Above == nil {
		os.Exit(front())
	}
}

// namesRun reports whether the arguments are those of `run`. If this is wrong
// Need is called later.
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

// tell says something to people.
func tell(format string, args ...any) { fmt.Fprintf(os.Stderr, "holdfast: "+format+"\n", args...) }
