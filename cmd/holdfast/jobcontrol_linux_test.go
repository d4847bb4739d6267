package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// Until the job continues, the shell has the terminal, and the lease is renewed.
func TestCtrlZStopsTheJobAndFgLetsItGoOn(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x --ttl 24 -k 0.1 -- " + untilOut + "\n")
	s.expect("running")
	s.stops()
	front, engine, command := s.job()
	if f, e, c := runState(front), runState(engine), runState(command); f != "T" || e == "T" || c != "T" {
		t.Errorf("got state %s of the front, %s of the engine, %s of the command; want T, not T, T", f, e, c)
	}
	s.types("echo our''s\n")
	s.expect("ours")
	s.touch("out")
	s.types("holdfast run x -w 25 -- true; echo c''ode $?\n") // longer than the TTL
	s.expect("code 75")
	s.types("fg\n")
	s.expect("done")
	s.expect("READY> ")
	s.ended(0)
}

func init() { programs["reacts"] = reacts }

// reacts is a program that prints when it is continued, and ends by a Ctrl-C. A shell does not work here: bash takes
// a Ctrl-C for its child's if the child ends by itself just then.
func reacts() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCONT, syscall.SIGINT)
	fmt.Println("running")
	for sig := range signals {
		if sig == syscall.SIGINT {
			os.Exit(42)
		}
		fmt.Println("going")
	}
}

func TestCtrlCWorksAfterFg(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- reacts\n")
	s.expect("running")
	s.stops()
	s.types("fg\n")
	s.expect("going")
	s.types(ctrlC)
	s.expect("READY> ")
	s.ended(42)
}

func TestBgLetsAStoppedJobRunToItsEnd(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- " + untilOut + "\n")
	s.expect("running")
	s.stops()
	s.types("bg\n")
	s.expect("READY> ")
	s.touch("out")
	s.expect("done")
	s.types("echo our''s; read line; echo g''ot $line\n") // the end of the job does not take the terminal from another
	s.expect("ours")
	s.types("abc\n")
	s.expect("got abc")
	s.types("wait; holdfast run x -n -- echo fr''ee\n") // the command has ended, and the job soon ends
	s.expect("free")
}

func TestAStoppedJobCanBeEnded(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- bash -c 'trap \"exit 3\" TERM; echo run''ning; while :; do sleep 0.1; done'\n")
	s.expect("running")
	s.stops()
	s.types("set -b; kill %1\n") // the shell itself prints what it has seen: wait may still take the job for stopped
	s.expect("Exit 3")
}

func TestCtrlZStopsAPipeline(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- " + untilOut + " | cat\n")
	s.expect("running")
	s.stops()
	s.touch("out")
	s.types("fg\n")
	s.expect("done")
	s.expect("READY> ")
}

// A command in the background that reads is stopped, and with it the job, until
// it is in the foreground.
func TestABackgroundCommandThatReadsWaitsForFg(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("set -b\n") // the shell prints at once what it has seen
	s.types("holdfast run x -- bash -c 'echo run''ning; read line; echo g''ot $line' &\n")
	s.expect("running")
	s.expect("Stopped")
	if front := childrenOf(s.pid)[0]; runState(front) != "T" {
		t.Errorf("got state %s of the front, want T", runState(front))
	}
	s.types("fg\n")
	s.expect("holdfast run x")
	s.types("abc\n")
	s.expect("got abc")
}

// A running job needs no CONT to come to the foreground, and gets none.
func TestARunningJobReadsAfterFg(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("holdfast run x -- bash -c 'echo run''ning; until [ -e out ]; do sleep 0.1; done; read line; echo g''ot $line' &\n")
	s.expect("running")
	s.types("fg\n")
	front, _, _ := s.job()
	soon(t, "the job has the terminal", func() bool { return s.foreground() == front }) // bash names the job before that
	s.touch("out")
	s.types("abc\n")
	s.expect("got abc")
}

// After a Ctrl-Z during the wait the user has the shell back, and keeps it when the
// command starts.
func TestACommandThatStartsLaterDoesNotTakeTheTerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	release := s.holds("x")
	s.types("holdfast run x -- bash -c 'touch in; until [ -e out ]; do sleep 0.1; done; read line; echo g''ot $line'\n")
	s.queued(1)
	s.stops()
	release()
	soon(t, "the command runs", func() bool { _, err := os.Stat(s.dir + "/in"); return err == nil })
	if group := s.foreground(); group != s.pid {
		t.Errorf("the terminal belongs to group %d, want the shell's, %d", group, s.pid)
	}
	s.types("read line; echo our''s $line\n")
	s.types("abc\n")
	s.expect("ours abc")
	s.types("fg\n")
	s.expect("holdfast run x")
	s.touch("out")
	s.types("def\n")
	s.expect("got def")
}

// The command reads before the job is in the foreground, so it is stopped. The front
// learns of that together with the shell's CONT.
func TestFgGivesTheTerminalToACommandThatWaitsForIt(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	release := s.holds("x")
	s.types("holdfast run x -- bash -c 'read line; echo g''ot $line'\n")
	s.queued(1)
	s.stops()
	release()
	_, _, command := s.job()
	soon(t, "the command is stopped", func() bool { return runState(command) == "T" })
	s.types("fg\n")
	s.expect("holdfast run x")
	s.types("abc\n")
	s.expect("got abc")
	s.expect("READY> ")
	s.ended(0)
}

// While the front is stopped the command is continued and stopped again: the engine
// reports stops that the front reads only after it has continued the command.
func TestAStopFromBeforeFgDoesNotStopTheJobAgain(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"TSTP": syscall.SIGTSTP, "TTIN": syscall.SIGTTIN} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.types("holdfast run x -- " + untilOut + "\n")
			s.expect("running")
			s.stops()
			_, _, command := s.job()
			for range 5 { // the engine misses a stop that does not last, but not five of them
				for _, to := range []syscall.Signal{syscall.SIGCONT, sig} {
					if err := syscall.Kill(-command, to); err != nil {
						t.Fatal(err)
					}
					soon(t, "the command received "+to.String(), func() bool { return (runState(command) == "T") == (to == sig) })
				}
			}
			s.types("fg\n")
			s.expect("holdfast run x")
			s.touch("out")
			s.expect("done\r\n")
			s.expect("READY> ")
			s.ended(0)
		})
	}
}

// The kernel, or a shell, finds that the command is in the background, and sends the
// signal when the command has the terminal already.
func TestALateTerminalSignalDoesNotStopAForegroundJob(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTTIN, syscall.SIGTTOU} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.types("holdfast run x -- " + untilOut + "\n")
			s.expect("running")
			_, _, command := s.job()
			if err := syscall.Kill(-command, sig); err != nil {
				t.Fatal(err)
			}
			s.touch("out")
			s.expect("done\r\n")
			s.expect("READY> ")
			s.ended(0)
		})
	}
}

func TestAnInteractiveShellBelowHasItsOwnJobs(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.types("PS1='INNER> ' holdfast run x -- bash --norc -i\n")
	s.expect("INNER> ")
	s.types(untilOut + "\n")
	s.expect("running")
	s.types(ctrlZ)
	s.expect("Stopped")
	s.expect("INNER> ")
	s.types("fg\n")
	s.expect("bash -c")
	s.touch("out")
	s.expect("done")
	s.expect("INNER> ")
	s.types("suspend\n")
	s.expect("Stopped")
	s.expect("READY> ")
	s.types("fg\n")
	s.expect("INNER> ")
	s.types("exit 7\n")
	s.expect("READY> ")
	s.ended(7)
}

func TestWhenTheTerminalIsClosedNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"in the foreground", "stopped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.types("holdfast run x -- bash -c 'echo run''ning; while :; do sleep 0.1; done'\n")
			s.expect("running")
			if how == "stopped" {
				s.stops()
			}
			s.master.Close()
			soon(t, "no process is left", func() bool { return len(marked("HOLDFAST_STORE="+storeIn(s.dir))) == 0 })
		})
	}
}

// Without a shell for job control the kernel ignores Ctrl-Z, and holdfast does not
// stop its command either: nothing could continue it.
func TestCtrlZStopsNothingWithoutAShell(t *testing.T) {
	t.Parallel()
	s := newTerminal(t, "holdfast", "run", "x", "--", "bash", "-c", "echo running; until [ -e out ]; do sleep 0.1; done; echo done")
	s.expect("running")
	for range 3 {
		s.types(ctrlZ)
		s.expect("^Z")
	}
	s.touch("out")
	s.expect("done")
	if strings.Contains(s.output.String(), "holdfast:") {
		t.Error("holdfast printed a message, want none")
	}
}
