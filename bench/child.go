package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sys/unix"
)

// childArg as the first argument makes the program a child: a separate process that locks as
// its parent says, line by line.
const childArg = "child"

// contenders returns all contenders of a store.
func contenders(suite string) ([]contender, error) {
	for _, s := range stores {
		if s.name == suite {
			return s.all, nil
		}
	}
	return nil, fmt.Errorf("unknown suite %q", suite)
}

// monotonic reads the clock that all processes of a machine share, in nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every kernel has this call
	}
	return ts.Nano()
}

// child is given suite, contender and target, and carries out these lines until the
// end of its input:
//
//	lock NAME         answers, when it has the name, with the time; with 0 if it stalled
//	unlock            answers with the times before and after the call
//	spin NAME MILLIS  locks and unlocks for that long; answers with how often, and with
//	                  1 if it stalled, else 0
//	crowd NAME N MILLIS  the same with N goroutines at once
//	clients N         opens N clients in place of its own; answers when it has them
//	come NAME INSTANT MILLIS  has each client lock once at the instant, within the
//	                  time; answers with how many did not, and when the last one did
func child(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("want suite, contender and target, got %q", args)
	}
	cs, err := contenders(args[0])
	if err != nil {
		return err
	}
	c, err := named(cs, args[1])
	if err != nil {
		return err
	}
	l, err := c.open(args[2])
	if err != nil {
		return err
	}
	clients := []locks{l}
	defer func() { closeAll(clients) }()
	var unlock func() error
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var name string
		var millis int64
		switch verb, rest, _ := strings.Cut(lines.Text(), " "); verb {
		case "lock":
			unlock, err = lockWithin(l, rest, patience)
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				fmt.Fprintln(out, 0)
			case err != nil:
				return err
			default:
				fmt.Fprintln(out, monotonic())
			}
		case "unlock":
			before := monotonic()
			if err := unlock(); err != nil {
				return err
			}
			fmt.Fprintln(out, before, monotonic())
		case "spin":
			if _, err := fmt.Sscan(rest, &name, &millis); err != nil {
				return err
			}
			n, stalled, err := spinFor(l, name, time.Duration(millis)*time.Millisecond)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, n, stalled)
		case "crowd":
			var goroutines int
			if _, err := fmt.Sscan(rest, &name, &goroutines, &millis); err != nil {
				return err
			}
			c, err := crowd(l, name, goroutines, time.Duration(millis)*time.Millisecond)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, c.n, c.stalled)
		case "clients":
			var n int
			if _, err := fmt.Sscan(rest, &n); err != nil {
				return err
			}
			closeAll(clients)
			slog.SetDefault(quiet) // it would log the same hundreds of times; errors are reported once
			logging.Disable()
			if clients, err = openMany(c, args[2], n); err != nil {
				return err
			}
			l = clients[0]
			fmt.Fprintln(out)
		case "come":
			var at int64
			if _, err := fmt.Sscan(rest, &name, &at, &millis); err != nil {
				return err
			}
			failed, last, why := come(clients, name, at, time.Duration(millis)*time.Millisecond)
			for _, w := range why {
				fmt.Fprintf(os.Stderr, "bench: %s on %s: %d of %d: %s\n", args[1], args[0], w.often, len(clients), w.first)
			}
			fmt.Fprintln(out, failed, last)
		default:
			return fmt.Errorf("unknown line %q", lines.Text())
		}
	}
	return nil
}

// patience is how long locking a free lock may take before we count its waiter as stalled: it
// was never woken.
const patience = 3 * time.Second

func lockWithin(l locks, name string, d time.Duration) (func() error, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	unlock, err := l.lock(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // whatever error the library returned
		}
		cancel()
		return nil, err
	}
	return func() error { // with some contenders the lock ends with its context
		defer cancel()
		return unlock()
	}, nil
}

// spinFor locks and unlocks for d, and then gives the last lock patience to finish.
func spinFor(l locks, name string, d time.Duration) (n, stalled int, err error) {
	for start := time.Now(); time.Since(start) < d; n++ {
		unlock, err := lockWithin(l, name, d-time.Since(start)+patience)
		if errors.Is(err, context.DeadlineExceeded) {
			return n, 1, nil
		}
		if err == nil {
			err = unlock()
		}
		if err != nil {
			return n, 0, err
		}
	}
	return n, 0, nil
}

// A process is a running child.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(ctx context.Context, suite string, c contender, target string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, childArg, suite, c.name, target)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd, in, bufio.NewReader(out)}, nil
}

// startChildren starts n children. stop ends them all at the same time.
func startChildren(ctx context.Context, suite string, c contender, target string, n int) (all []*process, stop func(), err error) {
	stop = func() {
		var wg sync.WaitGroup
		for _, p := range all {
			wg.Go(p.stop)
		}
		wg.Wait()
	}
	for range n {
		p, err := startChild(ctx, suite, c, target)
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, p)
	}
	return all, stop, nil
}

// tell sends a line.
func (p *process) tell(format string, args ...any) error {
	_, err := fmt.Fprintf(p.in, format+"\n", args...)
	return err
}

// hear waits for a line and parses the numbers in it.
func (p *process) hear(numbers ...any) error {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("child %d: %w", p.cmd.Process.Pid, err)
	}
	_, err = fmt.Sscan(line, numbers...)
	return err
}

// stop ends the child by closing its input. It kills the child if that does not help within 5
// s, or if the context has ended.
func (p *process) stop() {
	p.in.Close()
	kill := time.AfterFunc(5*time.Second, func() { p.cmd.Process.Kill() })
	p.cmd.Wait()
	kill.Stop()
}
