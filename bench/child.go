package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// childArg as the first argument makes the program a child: a process of its
// own that locks as its parent says, line by line.
const childArg = "child"

// contenders has all that a child can be, by suite.
func contenders(suite string) ([]contender, error) {
	switch suite {
	case "redis":
		return onRedis, nil
	case "file":
		return onFiles, nil
	}
	return nil, fmt.Errorf("no contenders for %q", suite)
}

// monotonic is the clock that processes of one machine share, in nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // no such kernel
	}
	return ts.Nano()
}

// child is given suite, contender and target, and obeys these lines until the
// end of its input:
//
//	lock NAME         answered, once it has the name, by the instant
//	unlock            answered by the instants before and after the call
//	spin NAME MILLIS  locks and unlocks that long; answered by how often
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
	defer l.close()
	ctx := context.Background()
	var unlock func() error
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var name string
		var millis int64
		switch verb, rest, _ := strings.Cut(lines.Text(), " "); verb {
		case "lock":
			if unlock, err = l.lock(ctx, rest); err != nil {
				return err
			}
			fmt.Fprintln(out, monotonic())
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
			n := 0
			for start := time.Now(); time.Since(start) < time.Duration(millis)*time.Millisecond; n++ {
				unlock, err := l.lock(ctx, name)
				if err == nil {
					err = unlock()
				}
				if err != nil {
					return err
				}
			}
			fmt.Fprintln(out, n)
		default:
			return fmt.Errorf("what is %q?", lines.Text())
		}
	}
	return nil
}

// A process is a running child.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(suite string, c contender, target string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, childArg, suite, c.name, target)
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

// tell sends a line.
func (p *process) tell(format string, args ...any) error {
	_, err := fmt.Fprintf(p.in, format+"\n", args...)
	return err
}

// hear waits for a line and reads the numbers in it.
func (p *process) hear(numbers ...any) error {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("child %d: %w", p.cmd.Process.Pid, err)
	}
	_, err = fmt.Sscan(line, numbers...)
	return err
}

// stop ends the child: it sees the end of its input, and is killed if that
// does not help.
func (p *process) stop() {
	p.in.Close()
	kill := time.AfterFunc(5*time.Second, func() { p.cmd.Process.Kill() })
	p.cmd.Wait()
	kill.Stop()
}
