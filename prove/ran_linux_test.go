package prove

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/store"
)

// beatArg makes the test binary a command that writes the times at which it runs, until its input ends.
const beatArg = "prove-beat"

func init() {
	if len(os.Args) != 2 || os.Args[1] != beatArg {
		return
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(os.Getenv("HOLDFAST_TOKEN"), os.Getenv("HOLDFAST_ID"))
	for {
		fmt.Println(int64(clock.Boot()))
		time.Sleep(time.Millisecond)
	}
}

// nobodyActs is `holdfast run` whose kernel timer is never set.
const nobodyActs = "nobody acts for two that are stopped"

func init() {
	brokenRuns = append(brokenRuns, brokenLock{name: nobodyActs, on: ranOn, faults: []Fault{stopBoth}})
}

// ranOn is the store of these runs.
const ranOn = "`holdfast run` on file"

// buildRun builds the right `holdfast run` and the broken one.
func buildRun(t *testing.T) *mutant.Set {
	return mutant.Build(t, "cmd/holdfast", []mutant.Broken{{Name: nobodyActs, Edits: []mutant.Edit{
		mutant.At("front-killtimer-set", mutant.Cond("true")),
	}}})
}

// ranTTL leaves the kernel half a second: a process takes a while to die on a busy machine.
const ranTTL = 12 * time.Second

// A ran is a run whose holders are the commands of `holdfast run`. A hold is known by when its command ran: from its
// first beat to its last.
type ran struct {
	*run
	t     *testing.T
	set   *mutant.Set
	alive int // the mutant, or mutant.None

	mu      sync.Mutex
	holders map[string]*ranHolder // by name: the newest whose command has begun
	ending  chan struct{}         // closed when no more claims are made
}

// A ranHolder is a `holdfast run` whose command has begun.
type ranHolder struct {
	proc, front int
	in          io.Closer     // the command runs until this is closed
	closed      bool          // it is closed, or is about to be; guarded by ran.mu
	struck      bool          // it must not be closed now; guarded by ran.mu
	done        chan struct{} // closed when the command has ended
}

// stopped lets three contenders compete for each of three names, each with one `holdfast run` after the other. For that
// long it stops both processes of each holder in turn.
func stopped(t *testing.T, set *mutant.Set, alive int, seed uint64, d time.Duration) *Report {
	t.Helper()
	url := "file:" + t.TempDir()
	s, err := open.URL(url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const names, each = 3, 3
	r := &ran{
		run: &run{o: &Options{URL: url, TTL: ranTTL, For: d, Seed: seed}, zero: clock.Boot(), holds: map[int]int{}, store: s, over: make(chan struct{})},
		t:   t, set: set, alive: alive, holders: map[string]*ranHolder{}, ending: make(chan struct{}),
	}
	r.run.run = Run{
		Format: format, Store: s.Describe().Store, Scheme: "file", Seed: seed, For: d, TTL: ranTTL, Processes: names * each, Mode: "mutex",
		Peer:   true, // nothing outside sees which process waited
		Faults: []Fault{stopBoth}, Floor: 3 * names,
	}
	for i := range names {
		r.run.run.Names = append(r.run.run.Names, Name{fmt.Sprintf("name/%d", i), "mutex", store.Full})
	}
	r.starter()
	defer close(r.starts)
	r.beside.Go(func() { measure(r.now, r.over, r.add) })
	r.beside.Go(logStalls(t, r.zero, r.over))
	defer r.endAll()
	var work, faults sync.WaitGroup
	for i, n := range r.run.run.Names {
		for j := range each {
			work.Go(func() { r.contend(i*each+j+1, n.Name) })
		}
		faults.Go(func() { r.stopHolders(n.Name, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	faults.Wait()
	r.add(Event{Do: calm})
	close(r.ending)
	for i, n := range r.run.run.Names {
		work.Go(func() { r.claim(names*each+i+1, 1, n.Name, probe, 0) })
	}
	work.Wait()
	r.empties(t.Context())
	h := r.history()
	report := &Report{Run: r.run.run, Verdict: Check(h), history: h}
	var text strings.Builder
	report.Print(&text)
	t.Log("\n" + text.String())
	return report
}

// contend claims the name again and again.
func (r *ran) contend(proc int, name string) {
	rng := rand.New(rand.NewPCG(r.o.Seed, uint64(proc)<<32))
	r.add(Event{Do: started, Proc: proc})
	defer func() { r.add(Event{Do: finished, Proc: proc}) }()
	for op := 1; ; op++ {
		select {
		case <-r.ending:
			return
		case <-time.After(between(rng, 0, 20*time.Millisecond)):
		}
		if !r.claim(proc, op, name, "lock", between(rng, 0, 300*time.Millisecond)) {
			return
		}
	}
}

// claim runs a command under the name for so long, or for as long as a fault needs it. It reports false if it failed.
func (r *ran) claim(proc, op int, name, verb string, d time.Duration) bool {
	self, err := os.Executable()
	if err != nil {
		r.t.Error(err)
		return false
	}
	cmd := r.set.Command(r.t, r.alive, "run", name, "--ttl", ranTTL.String(), "-k", "0.1", "-w", "5m", "--", self, beatArg)
	cmd.Args[0] = "holdfast" // the binary tells by its name that it is holdfast
	cmd.Env = append(cmd.Env, "HOLDFAST_STORE="+r.o.URL)
	cmd.SysProcAttr = childAttr()
	stderr := &tail{}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Error(err)
		return false
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Error(err)
		return false
	}
	tell := func(e Event) {
		e.Proc, e.Op = proc, op
		r.add(e)
	}
	tell(Event{Do: ask, Name: name, Verb: verb, Weight: store.Full, Limit: store.Full})
	if err := r.start(cmd); err != nil {
		r.t.Error(err)
		return false
	}
	h := &ranHolder{proc: proc, front: cmd.Process.Pid, in: in, done: make(chan struct{})}
	var token int64
	var id string
	var last time.Duration // the last time at which it ran
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if id == "" {
			fmt.Sscan(lines.Text(), &token, &id)
			continue
		}
		boot, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			break // it was killed while it wrote
		}
		if first := last == 0; first {
			tell(Event{Do: got, At: time.Duration(boot) - r.zero, Token: token, ID: id})
			r.mu.Lock()
			r.holders[name] = h
			r.mu.Unlock()
			time.AfterFunc(d, func() { r.end(h) })
		}
		last = time.Duration(boot) - r.zero
	}
	close(h.done)
	switch err := cmd.Wait(); {
	case last == 0:
		tell(Event{Do: not, Err: "unavailable", Text: stderr.String()})
		r.t.Errorf("holdfast run: %v: %s", err, stderr.String())
		return false
	case err == nil:
		tell(Event{Do: release, At: last})
		tell(Event{Do: released, At: last})
	default:
		tell(Event{Do: lost, At: last, Text: stderr.String()})
	}
	return true
}

// end lets the command end, unless a fault needs it.
func (r *ran) end(h *ranHolder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !h.struck && !h.closed {
		h.closed = true
		h.in.Close()
	}
}

// stopHolders strikes holder after holder of the name.
func (r *ran) stopHolders(name string, rng *rand.Rand) {
	for r.now() < r.o.For && !r.t.Failed() {
		time.Sleep(between(rng, 0, time.Second))
		last := between(rng, r.o.TTL*23/20, r.o.TTL*3/2)
		for struck := false; !struck && !r.t.Failed(); time.Sleep(2 * time.Millisecond) {
			r.mu.Lock()
			h := r.holders[name]
			if struck = h != nil && !h.closed && !h.struck; struck {
				h.struck = true
			}
			r.mu.Unlock()
			if !struck {
				continue
			}
			if struck = r.stopBoth(h, name, last); struck {
				break
			}
		}
	}
}

// stopBoth stops both processes of `holdfast run`, at least for that long and until the next command of the name has
// begun. Then it lets the command end. It reports false if the command had ended before.
func (r *ran) stopBoth(h *ranHolder, name string, last time.Duration) bool {
	defer func() {
		r.mu.Lock()
		h.struck = false
		r.mu.Unlock()
		r.end(h)
	}()
	engine := r.inHand(h)
	if engine == 0 {
		return false
	}
	both := []int{h.front, engine}
	for _, pid := range both {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	for _, pid := range both {
		for !testserver.AllThreads(pid, "TZ") {
			time.Sleep(time.Millisecond)
		}
	}
	r.add(Event{Do: struck, Proc: h.proc, Fault: stopBoth})
	r.watchDeath(engine, last)
	for !r.followed(h, name) && !r.t.Failed() {
		time.Sleep(time.Millisecond)
	}
	for _, pid := range both[1:] {
		syscall.Kill(pid, syscall.SIGCONT) // it may be dead
	}
	syscall.Kill(h.front, syscall.SIGCONT)
	r.add(Event{Do: mended, Proc: h.proc, Fault: stopBoth, Hits: 1})
	return true
}

// followed reports whether a later command than that of h has begun under the name.
func (r *ran) followed(h *ranHolder, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holders[name] != h
}

// watchDeath waits for so long, and logs when a stopped process began to die and when it was dead.
func (r *ran) watchDeath(pid int, last time.Duration) {
	stat := fmt.Sprintf("/proc/%d/stat", pid)
	var dying, dead time.Duration
	for until := r.now() + last; r.now() < until; time.Sleep(time.Millisecond) {
		switch state := testserver.State(stat); {
		case dead == 0 && (state == "" || state == "Z" || state == "X"):
			dead = r.now()
		case dying == 0 && state != "T":
			dying = r.now()
		}
	}
	r.t.Logf("process %d: stopped until %v, dead at %v", pid, dying, dead)
}

// inHand waits until the engine has finished the start of the command, and returns its pid. The last step of the start
// is that the engine closes its output. 0: the command has ended.
func (r *ran) inHand(h *ranHolder) (engine int) {
	for {
		select {
		case <-h.done:
			return 0
		case <-time.After(time.Millisecond):
		}
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", h.front))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, pid := range strings.Fields(string(text)) {
				if out, err := os.Readlink("/proc/" + pid + "/fd/1"); err == nil && out == os.DevNull {
					engine, _ = strconv.Atoi(pid)
					return engine
				}
			}
		}
	}
}

// If both processes of `holdfast run` are stopped, its command is gone before the next is granted the lock.
func TestTheCommandOfAStoppedRunEndsBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	set := buildRun(t)
	t.Run("right", func(t *testing.T) {
		t.Parallel()
		if v := stopped(t, set, mutant.None, 1, time.Second).Verdict; !v.Proved {
			t.Error("not proved")
		}
	})
	t.Run(nobodyActs, func(t *testing.T) {
		t.Parallel()
		if !foundStopped(stopped(t, set, 0, 1, time.Second)) {
			t.Error("check 1 did not find the broken run")
		}
	})
}

// foundStopped reports whether a command was seen to run beside the next one.
func foundStopped(r *Report) bool {
	return slices.ContainsFunc(r.Verdict.Violations, func(v Violation) bool { return check(v.Check) == exclusion })
}
