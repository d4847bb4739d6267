package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// silentPort is the address of a server that accepts connections and never answers.
func silentPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

// says runs holdfast, which must exit with the code and print one line, and returns that line. It must
// not sleep for longer than most: it is checked again and again, and each time that all threads of all its
// processes sleep counts as the pause between two checks. So other load of the machine adds nothing.
func says(t *testing.T, code int, most time.Duration, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "holdfast", args...)
	cmd.Env = append(os.Environ(), impatientEnv+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	const pause = 10 * time.Millisecond
	slept := time.Duration(0)
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(pause):
			if asleep(cmd.Process.Pid) {
				slept += pause
			}
		}
	}
	line := said.String()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%q: exit code %d, want %d: %s", args, got, code, line)
	}
	oneLineOfStderr(t, line)
	t.Logf("%v asleep: %s", slept, line)
	if slept > most {
		t.Errorf("%q slept for %v, want at most %v", args, slept, most)
	}
	return line
}

// asleep reports whether all threads of a process and of its descendants sleep.
func asleep(pid int) bool {
	return !slices.ContainsFunc(below(pid, []int{pid}), func(pid int) bool { return !testserver.AllThreads(pid, "S") })
}

func oneLineOfStderr(t *testing.T, said string) {
	t.Helper()
	line, rest, whole := strings.Cut(said, "\n")
	switch {
	case !whole || rest != "":
		t.Errorf("got more or less than one line: %q", said)
	case !strings.HasPrefix(line, "holdfast: "):
		t.Errorf("the prefix is missing: %q", line)
	case utf8.RuneCountInString(line) > 160:
		t.Errorf("got %d characters, want at most 160: %q", utf8.RuneCountInString(line), line)
	case strings.Count(line, "refused")+strings.Count(line, "no answer") != 1 && !strings.Contains(line, "nodes agreed"):
		t.Errorf("the cause is missing or repeated: %q", line)
	}
}

func TestAClosedPortIsReportedSoonInOneLine(t *testing.T) {
	for name, url := range testserver.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testserver.At(url, func() string { return testserver.ClosedPort(t) })
			line := says(t, exitUnavailable, time.Second, "run", "a", "-n", "--skip-ok", "--store", url, "--", "true")
			if !strings.HasPrefix(line, "holdfast: a: ") || !strings.Contains(line, "connection refused") || strings.Contains(line, "secret") {
				t.Errorf("the name or the cause is missing: %q", line)
			}
			if line := says(t, exitUnavailable, time.Second, "prove", "--store", url); !strings.Contains(line, "connection refused") {
				t.Errorf("prove does not report the cause: %q", line)
			}
			if name == "PostgreSQL session" { // of which there is no ls
				return
			}
			if line := says(t, exitUnavailable, time.Second, "ls", "--store", url); !strings.Contains(line, "connection refused") {
				t.Errorf("ls does not report the cause: %q", line)
			}
		})
	}
}

func TestASilentServerIsOneLineAndBounded(t *testing.T) {
	for name, url := range testserver.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testserver.At(url, func() string { return silentPort(t) })
			for _, c := range []struct {
				bound  time.Duration
				within string
				flags  []string
			}{
				{3 * time.Second, "2.5s", []string{"-n"}},
				{2200 * time.Millisecond, "2s", []string{"-w", "2"}},
				{1200 * time.Millisecond, "1s", []string{"-n", "-w", "1"}},
			} {
				args := slices.Concat([]string{"run", "a"}, c.flags, []string{"--store", url, "--", "true"})
				line := says(t, exitUnavailable, c.bound, args...)
				if of := "nodes agreed"; name == "Redlock" && strings.Contains(line, of) { // each node has its own timeout
					continue
				}
				if !strings.Contains(line, "no answer within "+c.within) {
					t.Errorf("%v: the line does not say that no answer came: %q", c.flags, line)
				}
			}
			says(t, exitUnavailable, 5*time.Second, "prove", "--store", url)
			if name == "PostgreSQL session" { // of which there is no ls
				return
			}
			says(t, exitUnavailable, 5*time.Second, "ls", "--store", url)
			if name != "PostgreSQL" { // other commands read in the same way
				return
			}
			for _, args := range [][]string{{"show", "a"}, {"wait", "a"}, {"check", "a", "--id", strings.Repeat("0", 32)}, {"break", "a", "--id", strings.Repeat("0", 32), "--token", "1", "--reason", "x"}} {
				says(t, exitUnavailable, 5*time.Second, append(args, "--store", url)...)
			}
			says(t, exitUnavailable, 2200*time.Millisecond, "wait", "a", "-w", "2", "--store", url)
		})
	}
}

// With -n the answer counts although stdin has ended before, also if it takes a while.
func TestHoldAnswersAfterStdinHasEnded(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "holdfast", "hold", "a", "--json", "-n", "-w", "1", "--store", "redis://"+silentPort(t))
	out, _ := cmd.Output()
	if cmd.ProcessState.ExitCode() != exitUnavailable || !strings.Contains(string(out), "no answer within 1s") {
		t.Errorf("got exit code %d, want %d and the cause: %s", cmd.ProcessState.ExitCode(), exitUnavailable, out)
	}
}

// The message has the server's refusal, however long it was tried.
func TestAServersRefusalIsReportedAndNotATimeout(t *testing.T) {
	t.Parallel()
	full, replica := testserver.Redis(t, "--maxmemory", "1"), testserver.RedisReplica(t, testserver.Redis(t))
	for says, url := range map[string]string{"OOM ": "redis://" + full.Addr, "READONLY ": "redis://" + replica.Addr} {
		for _, flags := range [][]string{{"-n"}, {"-w", "4"}} {
			args := slices.Concat([]string{"run", "a"}, flags, []string{"--store", url, "--", "true"})
			cmd := exec.CommandContext(t.Context(), "holdfast", args...)
			out, _ := cmd.CombinedOutput()
			if line := string(out); cmd.ProcessState.ExitCode() != exitUnavailable || !strings.Contains(line, says) || strings.Contains(line, "no answer") || strings.Contains(line, "…") {
				t.Errorf("%q: got exit code %d, want %d and the server's whole message: %q", args, cmd.ProcessState.ExitCode(), exitUnavailable, line)
			}
		}
	}
}

// For a user without the right to lock, prove says so like run.
func TestProveReportsAMissingRightInOneWholeLine(t *testing.T) {
	server := testserver.Redis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "reads", "on", ">x", "~*", "+get").Err(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "holdfast", "prove", "--store", "redis://reads:x@"+server.Addr)
	out, _ := cmd.CombinedOutput()
	line := string(out)
	if cmd.ProcessState.ExitCode() != exitDenied || !strings.HasPrefix(line, "holdfast: Redis at "+server.Addr+", database 0: not allowed: NOPERM ") || strings.Contains(line, "…") || strings.Count(line, "\n") != 1 {
		t.Errorf("got exit code %d, want %d and one whole line: %q", cmd.ProcessState.ExitCode(), exitDenied, line)
	}
}

// Control characters in names are not sent to the terminal.
func TestNoControlCharactersOfANameAreShown(t *testing.T) {
	store := fileStore(t)
	name := "a\x1b]0;owned\x07\nb\u009b2J\u202e"
	held := beginNamed(t, store, name, "--note", "x\x1b[2Jy", "--", "sh", "-c", "touch in; sleep 1000")
	soon(t, "the lock is held", func() bool { return held.exists("in") })
	for _, args := range [][]string{
		{"run", name, "-n", "--", "true"}, {"run", name, "-w", "0.2", "--", "true"}, {"wait", name, "-n"}, {"ls"}, {"show", name},
		{"check", name, "--id", strings.Repeat("0", 32)}, {"show", name + "\x1b"}, {"no\x1bcommand"}, {"run", "--no\x1bflag", "a", "--", "true"},
	} {
		cmd := exec.Command("holdfast", args...)
		cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+store)
		out, _ := cmd.CombinedOutput()
		if len(out) == 0 {
			t.Errorf("%q printed nothing", args)
		}
		showsNoControls(t, args, string(out))
	}
}

// The same for a reason, and a reason is one line: it cannot look like a message of holdfast.
func TestNoControlCharactersOfAReasonAreShown(t *testing.T) {
	const reason = "\x1b[2J\u009b2J\n  broken:  by nobody"
	url := fileStore(t)
	asked := beginNamed(t, url, "a", "--give-up", "USR1", "--ttl", lastingTTL, "--", "sh", "-c", "trap 'touch asked' USR1; touch in; while :; do sleep 0.1; done")
	soon(t, "the lock is held", func() bool { return asked.exists("in") })
	waiter := beginCommand(t, url, nil, "ask", "a", "--reason", reason)
	soon(t, "the holder is asked", func() bool { return asked.exists("asked") })

	// The holder does not renew this hold, so it stays as long as the test reads it.
	s, err := filestore.Open(strings.TrimPrefix(url, "file:"), nil)
	if err != nil {
		t.Fatal(err)
	}
	locks, err := holdfast.New(s, &holdfast.Options{TTL: time.Hour, NoRenew: holdfast.On})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, err := locks.Mutex("b").TryLock(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := locks.List(t.Context(), "")
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	ids := map[string]string{}
	for _, status := range all {
		name, h := status.Name, status.Holders[0]
		ids[name] = h.ID
		id, err := store.ParseID(h.ID)
		if err != nil {
			t.Fatal(err)
		}
		// Directly on the store, as another program could: a Locker rejects such a reason.
		if err := s.BreakHold(t.Context(), store.Break{Name: name, ID: id, Token: h.Token, Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	asked.exits(exitLost)
	waiter.exits(0)
	for _, args := range [][]string{{"show", "b"}, {"check", "b", "--id", ids["b"]}, {"ls"}} {
		cmd := exec.Command("holdfast", args...)
		cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+url)
		out, _ := cmd.CombinedOutput()
		showsNoControls(t, args, string(out))
		if n := strings.Count(string(out), "by nobody"); n != 1 && args[0] != "ls" || strings.Contains(string(out), "\n  broken:  by") {
			t.Errorf("%q shows the reason %d times, or as a line of its own: %q", args, n, out)
		}
	}
	said := asked.text("stderr")
	showsNoControls(t, nil, said)
	if n := strings.Count(said, "by nobody"); n != 2 || strings.Contains(said, "\n  broken:  by") {
		t.Errorf("run shows the reason %d times, want once for the request and once for the break, or shows it as a line of its own: %q", n, said)
	}
}

func showsNoControls(t *testing.T, args []string, out string) {
	t.Helper()
	for _, r := range out {
		if r != '\n' && r != '…' && (r < ' ' || r > '~') {
			t.Errorf("%q shows %U: %q", args, r, out)
			return
		}
	}
}

// Name, store and cause appear once, however errors are wrapped.
func TestAnErrorHasItsCauseOnce(t *testing.T) {
	const where = "Redis at h:6379, database 0"
	wrapped := func(sentinel error, cause string) error {
		return fmt.Errorf("lock %q on %s: %w: ask for %q on %s: %w", "x", where, sentinel, "x", where, errors.New(cause))
	}
	const redlock = "Redlock on a:1, b:1, c:1"
	refused := func(count string, failed ...error) error {
		return fmt.Errorf("lock \"x\" on %s: %w", redlock, &fewNodes{holdfast.ErrUnavailable, count, failed})
	}
	away := func(node string) error { return fmt.Errorf("dial tcp %s: connect: %w", node, syscall.ECONNREFUSED) }
	full := errors.New("OOM command not allowed when used memory > 'maxmemory', " + strings.Repeat("it is full, ", 20) + "so nothing new can be locked")
	for _, c := range []struct {
		err    error
		name   string
		where  string
		waited time.Duration
		want   string
	}{
		{wrapped(holdfast.ErrUnavailable, "READONLY You can't write against a read only replica."), "x", where, 0, "x: " + where + ": READONLY You can't write against a read only replica."},
		{wrapped(holdfast.ErrUnavailable, "dial tcp h:6379: i/o timeout"), "x", where, 2 * time.Second, "x: " + where + ": no answer within 2s"},
		{wrapped(holdfast.ErrDenied, "WRONGPASS invalid username-password pair"), "x", where, 0, "x: " + where + ": not allowed: WRONGPASS invalid username-password pair; see 'holdfast doctor'"},
		{wrapped(holdfast.ErrDenied, "NOPERM no rights."), "x", where, 0, "x: " + where + ": not allowed: NOPERM no rights; see 'holdfast doctor'"},
		{wrapped(holdfast.ErrDenied, strings.Repeat("n", 90)), "x", where, 0, "x: " + where + ": not allowed: " + strings.Repeat("n", 90)},
		{wrapped(holdfast.ErrInvalid, "TTL 2m0s is over the store's greatest, 1m0s"), "x", where, 0, "x: " + where + ": TTL 2m0s is over the store's greatest, 1m0s"},
		{fmt.Errorf("lock: %w", &store.MismatchError{Have: store.Full, Want: 3}), "x", where, 0, "x: in use as a lock, you asked for --slots K/3: all who use a name must ask for the same kind"},
		{refused("1 of 3 nodes agreed", away("a:1"), errors.New("i/o timeout")), "x", redlock, 0, "x: Redlock: 1 of 3 nodes agreed: a:1: connection refused; b:1: no answer"},
		{refused("0 of 3 nodes agreed", away("a:1"), errors.New("i/o timeout"), away("c:1")), "x", redlock, 0, "x: Redlock: 0 of 3 nodes agreed: a:1, c:1: connection refused; b:1: no answer"},
		{refused("1 of 3 nodes agreed", errors.New("it was restarted: it grants nothing for another 58s")), "x", redlock, 0, "x: Redlock: 1 of 3 nodes agreed: a:1: it was restarted: it grants nothing for another 58s"},
		{refused("1 of 3 nodes agreed; enough nodes may grant again in 58 s"), "x", redlock, 0, "x: Redlock: 1 of 3 nodes agreed; enough nodes may grant again in 58 s"},
		// If the line is too long, all nodes but one of each cause are left out, then the middle of the causes.
		{
			refused("0 of 7 nodes agreed", away("a:1"), errors.New(strings.Repeat("w", 70)), away("c:1"), away("d:1"), away("e:1"), away("f:1"), away("g:1")), "x", redlock, 0,
			"x: Redlock: 0 of 7 nodes agreed: a:1, c:1 and 4 more: connection refused; b:1: " + strings.Repeat("w", 70),
		},
		{
			refused("1 of 3 nodes agreed", away("a:1"), full), "x", redlock, 0,
			"x: Redlock: 1 of 3 nodes agreed: a:1: connection refused; b:1: OOM command not allowed when used …t is full, it is full, so nothing new can be locked",
		},
		// If the line is too long, the words that a store adds to its server's are left out first.
		{wrapped(holdfast.ErrUnavailable, "OOM it is full ("+strings.Repeat("n", 70)+")"), "x", where, 0, "x: " + where + ": OOM it is full (" + strings.Repeat("n", 70) + ")"},
		{wrapped(holdfast.ErrUnavailable, "OOM it is full ("+strings.Repeat("n", 170)+")"), "x", where, 0, "x: " + where + ": OOM it is full"},
		{fmt.Errorf("%w: there is no connection at the moment: outbound buffer limit exceeded", holdfast.ErrUnavailable), "x", where, 3 * time.Second, "x: " + where + ": no answer within 3s"},
		{ // as the engine ends a wait: the cause is the store's answer, not that our time had passed
			fmt.Errorf("%w; gave up waiting: %w", wrapped(holdfast.ErrUnavailable, "OOM command not allowed when used memory > 'maxmemory'."), context.DeadlineExceeded), "x", where, 3 * time.Second,
			"x: " + where + ": OOM command not allowed when used memory > 'maxmemory'.",
		},
		{fmt.Errorf("%w; gave up waiting: %w", wrapped(holdfast.ErrUnavailable, "context deadline exceeded"), context.DeadlineExceeded), "x", where, 3 * time.Second, "x: " + where + ": no answer within 3s"},
		{errSilent, "", where, 4 * time.Second, where + ": no answer within 4s"},
	} {
		if got := say(c.err, c.name, c.where, c.waited).Error(); got != c.want {
			t.Errorf("%v: got\n%s, want\n%s", c.err, got, c.want)
		}
	}
}

// A fewNodes is an error like those of redlock.
type fewNodes struct {
	kind   error
	count  string
	failed []error // of the nodes a:1, b:1 and so on
}

func (e *fewNodes) Error() string { return e.kind.Error() + ": " + e.count }
func (e *fewNodes) Unwrap() error { return e.kind }

func (e *fewNodes) ByNode() (string, iter.Seq2[string, error]) {
	return e.count, func(yield func(string, error) bool) {
		for i, err := range e.failed {
			if !yield(string(rune('a'+i))+":1", err) {
				return
			}
		}
	}
}

// If a text is longer than a line, the store and then the name are cut, but not what happened.
func TestTheCauseIsNotCutForTheStore(t *testing.T) {
	long := strings.Repeat("n", 100)
	for _, c := range []struct{ name, where, why, want string }{
		{"x", "a store", "why", "x: a store: why"},
		{"", long, strings.Repeat("w", 100), strings.Repeat("n", 19) + "…" + strings.Repeat("n", 28) + ": " + strings.Repeat("w", 100)},
		{long, "a store", strings.Repeat("w", 114), strings.Repeat("n", 10) + "…" + strings.Repeat("n", 14) + ": a store: " + strings.Repeat("w", 114)},
		{"x", long, strings.Repeat("w", 140), "x: " + strings.Repeat("n", 9) + "…" + strings.Repeat("n", 14) + ": " + strings.Repeat("w", 140)},
	} {
		if got := about(c.name, c.where, c.why); got != c.want {
			t.Errorf("%q, %q, %q: got\n%s, want\n%s", c.name, c.where, c.why, got, c.want)
		}
	}
}

func TestALineIsCutInItsMiddle(t *testing.T) {
	for text, want := range map[string]string{
		"short":                           "holdfast: short",
		"two\nlines\t\tof  text\n":        "holdfast: two lines of  text",
		"bell\a, escape\x1b[31m, cut\xff": `holdfast: bell\a, escape\x1b[31m, cut?`,
		strings.Repeat("a", 150):          "holdfast: " + strings.Repeat("a", 150),
		strings.Repeat("a", 100) + strings.Repeat("z", 100): "holdfast: " + strings.Repeat("a", 60) + "…" + strings.Repeat("z", 89),
	} {
		if got := asLine(text); got != want || utf8.RuneCountInString(got) > lineLength {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
