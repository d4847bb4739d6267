package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/front"
)

// Signals that our caller ignores, such as nohup, are ignored by the command as well,
// and do not end us. The command ignores no other signals.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	const glibcOwn = 3 << 31 // signals 32 and 33: they are ignored below posix_spawn, as make uses it
	for ignored, want := range map[string]uint64{
		"none":                   0,
		"HUP INT TSTP TTIN TTOU": 0x380003,
	} {
		t.Run(ignored, func(t *testing.T) {
			t.Parallel()
			store := fileStore(t)
			script := "holdfast run x --store " + store + " -- sh -c 'grep SigIgn /proc/self/status >ignored; touch in; until [ -e out ]; do sleep 0.1; done; exit 6'"
			if ignored != "none" {
				script = "trap '' " + ignored + "; exec " + script
			}
			s := beginWith(t, store, func(cmd *exec.Cmd) {
				cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "exec " + script}
				if ignored != "none" {
					cmd.Args[2] = script
				}
			})
			soon(t, "the command runs", func() bool { return s.exists("in") })
			got, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(s.text("ignored"), "SigIgn:")), 16, 64)
			if err != nil || got&^glibcOwn != want {
				t.Errorf("the command ignores %#x (%v), want %#x", got, err, want)
			}
			if ignored != "none" {
				for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTSTP} {
					s.signal(s.front(), sig)
				}
				s.touch("out")
				s.exits(6)
			} else {
				s.signal(s.front(), syscall.SIGHUP)
				s.exits(129)
			}
		})
	}
}

func (s *underway) touch(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// A service manager sends signals to all processes of a service. Those that the
// engine gets itself neither end it nor count twice.
func TestASignalToTheEngineIsNotPassedOn(t *testing.T) {
	t.Parallel()
	s := begin(t, fileStore(t), "--", "sh", "-c", "trap 'touch termed' TERM; touch in; until [ -e out ]; do sleep 0.1; done; exit 6")
	soon(t, "the command runs", func() bool { return s.exists("in") })
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGTSTP} {
		s.signal(s.engine(), sig)
	}
	s.touch("out")
	s.exits(6)
	if s.exists("termed") {
		t.Error("the command got the engine's signal")
	}
}

func TestTheThirdInterruptKills(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := begin(t, fileStore(t), "--", "sh", "-c", `n=0; trap 'n=$((n+1)); touch got$n' INT TERM; touch in; while :; do sleep 0.1; done`)
			soon(t, "the command runs", func() bool { return s.exists("in") })
			// More than three if the test is too slow to send three within two seconds.
			for n, end := 1, time.Now().Add(patience); !s.over() && time.Now().Before(end); n++ {
				s.signal(s.front(), sig)
				soon(t, "the command got the signal, or was killed", func() bool { return s.exists(fmt.Sprint("got", n)) || s.over() })
			}
			s.exits(137)
			if !strings.Contains(s.text("stderr"), "killing the command") {
				t.Error("stderr does not say that the command was killed")
			}
			if !s.exists("got2") {
				t.Error("the command was killed before the third signal")
			}
		})
	}
}

// The command inherits the caller's descriptors above stderr, and none of holdfast's
// own.
func TestTheCommandHasTheCallersDescriptorsAndNoOthers(t *testing.T) {
	t.Parallel()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain := exec.Command("sh", "-c", "ls /proc/$$/fd")
	plain.ExtraFiles = []*os.File{file, file}
	want, err := plain.Output()
	if err != nil {
		t.Fatal(err)
	}
	s := beginWith(t, fileStore(t), func(cmd *exec.Cmd) { cmd.ExtraFiles = plain.ExtraFiles }, "--", "sh", "-c", "exec >fds; ls /proc/$$/fd")
	s.exits(0)
	if got := s.text("fds"); got != string(want) {
		t.Errorf("got descriptors %q, want those without holdfast, %q", got, want)
	}
}

func TestTheEngineIsCalledAsTheFrontIs(t *testing.T) {
	t.Parallel()
	s := begin(t, fileStore(t), "--", "sh", "-c", "touch in; until [ -e out ]; do sleep 0.1; done; env >env")
	soon(t, "the command runs", func() bool { return s.exists("in") })
	visible, err1 := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.front()))
	engine, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.engine()))
	if err1 != nil || err2 != nil || string(visible) != string(engine) {
		t.Errorf("got name %q of the front, %q of the engine; %v, %v", visible, engine, err1, err2)
	}
	s.touch("out")
	s.exits(0)
	if strings.Contains(s.text("env"), front.LinkEnv) {
		t.Errorf("the command's environment has %s", front.LinkEnv)
	}
}

// In a container holdfast may be the first process: then only it reaps processes
// that lose their parent.
func TestAsTheFirstProcessItReapsAndPassesSignalsOn(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("no PID namespace can be made here: %v", err)
	}
	store := fileStore(t)
	s := beginWith(t, store, func(cmd *exec.Cmd) {
		path := cmd.Path
		cmd.Path, _ = exec.LookPath("unshare")
		cmd.Args = append([]string{"unshare", "-pf", "--mount-proc", path}, cmd.Args[1:]...)
	}, "--", "sh", "-c", `trap 'exit 9' TERM
		for i in 1 2 3 4; do (sh -c 'sleep 0.01' & exit) & wait; done
		until ! pgrep -x sleep >/dev/null; do sleep 0.05 & wait; done
		ps -eo stat= >states; echo $PPID >parent; touch in
		while :; do sleep 0.1; done`)
	soon(t, "the command runs", func() bool { return s.exists("in") })
	if strings.Contains(s.text("states"), "Z") {
		t.Errorf("got zombies: %q", s.text("states"))
	}
	s.signal(childrenOf(s.front())[0], syscall.SIGTERM)
	s.exits(9)
}

// A process that we may not signal keeps the lock until it ends by itself.
func TestAProcessThatCannotBeKilledKeepsTheLock(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make a set-uid program")
	}
	dir, err := os.MkdirTemp("", "setuid")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Chmod(dir, 0o777|os.ModeSticky),
		// By cp: a program that the test binary writes itself may still be open in a process that another test starts, and then cannot be run.
		exec.Command("cp", self, filepath.Join(dir, "holdfast")).Run(),
		exec.Command("cp", self, filepath.Join(dir, "stubborn")).Run(),
		os.Chmod(filepath.Join(dir, "holdfast"), 0o755), os.Chmod(filepath.Join(dir, "stubborn"), os.ModeSetuid|0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	store := "file:" + dir + "/locks"
	s := beginWith(t, store, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Dir = filepath.Join(dir, "holdfast"), dir
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}, "--at-most-for", "10", "-k", "0.1", "--", filepath.Join(dir, "stubborn"), "out") // until it has its rights
	soon(t, "stderr reports the process that survives KILL", func() bool { return strings.Contains(s.text("stderr"), "KILL has not ended all processes") })
	if s.over() {
		t.Error("holdfast did not wait for the end of the command")
	}
	if err := os.WriteFile(filepath.Join(dir, "out"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.exits(exitTimeout)
}
