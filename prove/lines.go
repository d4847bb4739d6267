package prove

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A worker by lines gets one order at a time and answers it in one line, so that
// it can be written in any language, without threads. The lines are in
// docs/proof.md. A group of goroutines of the parent asks it, and reports what it
// sees to the judge.
//
// Its clock is not used. If it answers that it has the lock, it had it when the
// question was sent. A hold counts from the moment at which its grant was read
// until the last question with that answer was sent. It never counts for longer
// than it lasted, so no false overlap is found.

// Environment variables of a worker by lines.
const (
	urlVar = "HOLDFAST_PROVE_URL"
	ttlVar = "HOLDFAST_PROVE_TTL_MS"
)

const (
	// readyBy is how long a worker by lines may take until it says that it is ready.
	readyBy = startBy
	// endBy is how long a failed worker may take to end after its stdin was closed.
	endBy = 5 * time.Second
	// leaves is how long the processes that it left behind may keep its stderr open.
	leaves = time.Second
)

// A lineWorker is the group's end of the pipes to a worker by lines.
type lineWorker struct {
	turn sync.Mutex // held from a claim to its release
	in   io.WriteCloser
	out  *bufio.Reader
	hear io.Closer     // what out reads from
	died func() string // returns the end of what it wrote to its stderr
	err  error         // why it can no longer be used; guarded by turn
}

// errWrongLine is lineWorker.err after a wrong answer, which has been reported
// already.
var errWrongLine = errors.New("a wrong answer")

// startLines starts a worker by lines, and the group that talks to it.
func (p *process) startLines(stderr *tail) (*exec.Cmd, *group, error) {
	to, err := p.ownURL()
	if err != nil {
		return nil, nil, err
	}
	command := p.r.o.Own.Lines
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr, cmd.Stderr, cmd.WaitDelay = childAttr(), stderr, leaves
	cmd.Env = append(os.Environ(), urlVar+"="+to, fmt.Sprintf("%s=%d", ttlVar, p.r.o.TTL.Milliseconds()))
	w := &lineWorker{died: func() string {
		time.Sleep(100 * time.Millisecond) // its last output may still be on its way
		return stderr.String()
	}}
	if w.in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	w.out, w.hear = bufio.NewReader(out), out
	if err := p.r.start(cmd); err != nil {
		return nil, nil, fmt.Errorf("%w: the worker cannot be started: %w", store.ErrInvalid, err)
	}
	return cmd, startGroup(func(c *child) error {
		c.lines = w
		return w.ready(readyBy)
	}), nil
}

// waitLines waits until a worker by lines and the group that talks to it have ended.
// It then kills what the worker started and left running.
func waitLines(cmd *exec.Cmd, g *group, stderr *tail) error {
	err := <-g.err
	if err != nil {
		defer time.AfterFunc(endBy, func() { endAll(cmd.Process) }).Stop()
	}
	waited := cmd.Wait()
	endGroup(cmd.Process.Pid)
	if err != nil {
		err = fmt.Errorf("%w %s", err, stderr.String())
	}
	return errors.Join(err, waited)
}

// ownURL returns the URL with the address of the process's own proxy instead of the
// server's.
func (p *process) ownURL() (string, error) {
	if !p.r.way.network {
		return p.r.o.URL, nil
	}
	u, err := url.Parse(p.r.o.URL)
	if err != nil || u.Port() == "" || strings.Contains(u.Host, ",") {
		return "", fmt.Errorf("%w: prove: a worker needs a URL with one host and its port, as in redis://localhost:6379", store.ErrInvalid)
	}
	u.Host, err = p.via(target("tcp", net.JoinHostPort(u.Hostname(), u.Port())))
	return u.String(), err
}

// ready waits until the worker says that it is ready. If it does not, ready closes
// its stdin.
func (w *lineWorker) ready(by time.Duration) (err error) {
	defer func() {
		if err != nil {
			w.end()
		}
	}()
	late := time.AfterFunc(by, func() { w.hear.Close() })
	line, err := w.out.ReadString('\n')
	if !late.Stop() {
		return fmt.Errorf("%w: the worker has not said %q for %v; is its stdout flushed after each line? %s", store.ErrUnavailable, "ready", by, w.died())
	}
	if err != nil && strings.TrimSpace(line) == "" {
		return fmt.Errorf("%w: the worker did not start: it ended before it said %q: %s", store.ErrInvalid, "ready", w.died())
	}
	if err != nil || strings.TrimSpace(line) != "ready" {
		return fmt.Errorf("%w: the worker said %q, and its first line must be %q: %s", store.ErrInvalid, strings.TrimSpace(line), "ready", w.died())
	}
	return nil
}

// ask sends the worker one order and returns its answer, a word and the rest. The
// caller holds w.turn.
func (w *lineWorker) ask(format string, args ...any) (word, rest string) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.in, format+"\n", args...)
	}
	var line string
	if w.err == nil {
		line, w.err = w.out.ReadString('\n')
	}
	if w.err != nil {
		return "error", w.err.Error()
	}
	word, rest, _ = strings.Cut(strings.TrimSpace(line), " ")
	return word, rest
}

// end closes the worker's stdin. The worker must then end.
func (w *lineWorker) end() { w.in.Close() }

// workByLines claims until it is ordered to finish.
func (w *worker) workByLines() {
	ttl := w.Run.TTL
	for going := true; going && !w.finishing(); {
		name, verb, bound := w.names[w.rng.IntN(len(w.names))], "lock", waitFor(ttl)
		switch n := w.rng.IntN(100); {
		case n < 30:
			verb = "try"
		case n < 45: // a wait that is given up
			bound = w.upTo(ttl / 2)
		}
		d := w.upTo(ttl / 25)
		switch n := w.rng.IntN(100); {
		case n < 15: // released early
			d = 0
		case n < 30:
			d = w.upTo(ttl / 2)
		case n < 35: // past a renewal, if the lock has renewals
			d = ttl/2 + w.upTo(ttl)
		}
		going = w.byLines(verb, name, bound, d)
		w.sleep(w.upTo(ttl/50), w.finish)
	}
}

// byLines makes a claim and holds it for d. It reports whether the worker can take
// more orders.
func (w *worker) byLines(verb string, name Name, bound, d time.Duration) bool {
	w.lines.turn.Lock()
	defer w.lines.turn.Unlock()
	w.claimByLines(verb, name, bound, d)
	if err := w.lines.err; err != nil && err != errWrongLine { // the parent drops this if the worker was killed
		w.send(Event{Do: failed, Text: fmt.Sprintf("the worker of process %d ended by itself: %v %s", w.Proc, err, w.lines.died())})
	}
	return w.lines.err == nil
}

func (w *worker) claimByLines(verb string, name Name, bound, d time.Duration) {
	op := int(w.ops.Add(1))
	w.send(Event{Do: ask, Op: op, Name: name.Name, Verb: verb, Weight: name.Limit, Limit: name.Limit, Bound: bound})
	wait := bound
	if verb == "try" {
		wait = 0
	}
	word, rest := w.lines.ask("lock %s %d", name.Name, wait.Milliseconds())
	at := w.now()
	switch word {
	case "granted":
		token, err := strconv.ParseInt(rest, 10, 64)
		if err != nil && rest != "" {
			w.wrongLine("granted", word+" "+rest)
		}
		w.send(Event{Do: got, At: at, Op: op, Token: token, ID: fmt.Sprintf("%d-%d-%d", w.Proc, w.Life, op), Until: at})
		w.holdByLines(op, name.Name, token, d)
	case "refused":
		e := Event{Do: not, At: at, Op: op, Err: "held"}
		if verb != "try" {
			e.Err = "cancelled"
		}
		w.send(e)
	case "error":
		w.send(Event{Do: not, At: at, Op: op, Err: "unavailable", Text: rest})
	default:
		w.send(Event{Do: not, At: at, Op: op, Err: "other", Text: rest})
		w.wrongLine("granted, refused or error", word+" "+rest)
	}
}

// wrongLine reports a wrong answer, after which the run cannot go on.
func (w *worker) wrongLine(want, said string) {
	w.send(Event{Do: failed, Text: fmt.Sprintf("the worker answered %q where %s was expected", strings.TrimSpace(said), want)})
	w.lines.end()
	w.lines.err = errWrongLine
}

// holdByLines asks again and again whether the worker has the lock, uses what it
// guards, and releases it.
func (w *worker) holdByLines(op int, name string, token int64, d time.Duration) {
	value, read := int64(0), false
	for end := w.now() + d; ; {
		sent := w.now()
		word, rest := w.lines.ask("check %s", name)
		if word == "held" {
			w.send(Event{Do: until, Op: op, Until: sent})
		} else {
			if word == "lost" {
				w.send(Event{Do: lost, Op: op})
			} else if word != "error" {
				w.wrongLine("held, lost or error", word+" "+rest)
			}
			break
		}
		if !read {
			a, ok := w.use(op, name, token, 0, true, false)
			value, read = a.Value, ok
		}
		if w.now() >= end || w.finishing() {
			if read && d > 0 {
				w.use(op, name, token, value+1, true, true)
			}
			break
		}
		w.sleep(min(w.Run.TTL/25, end-w.now()), w.finish)
	}
	w.send(Event{Do: release, Op: op})
	word, rest := w.lines.ask("release %s", name)
	e := Event{Do: released, Op: op}
	switch word {
	case "released":
	case "lost":
		e.Err = "lost"
	case "error":
		e.Err, e.Text = "unavailable", rest
	default:
		e.Err, e.Text = "other", rest
		w.wrongLine("released, lost or error", word+" "+rest)
	}
	w.send(e)
}
