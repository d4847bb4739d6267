//go:build linux || darwin

package prove

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A broken lock is ours with something wrong that was wrong in others.
type brokenLock struct {
	name   string
	on     string // file or redis
	mode   string
	faults []Fault
	server Fault // that the store has, too
	seed   uint64
	atEnd  bool // only the end of the run shows it
	edits  []mutant.Edit
}

// brokenFile is added to package store of the broken build. All broken locks
// are in one binary: the environment says which of them it is.
const brokenFile = `package store

import (
	"os"
	"time"
)

var brokenLock = os.Getenv("HOLDFAST_TEST_BROKEN")

// Broken reports whether this is the broken lock of the name.
func Broken(name string) bool { return brokenLock == name }

// BrokenClock is how far the clock of this process is off.
func BrokenClock() time.Duration {
	if !Broken("the clients' own clocks") {
		return 0
	}
	return time.Duration(os.Getpid()%5-2) * 400 * time.Millisecond
}
`

// is is the condition of an edit.
func is(name string) string { return "store.Broken(\"" + name + "\")" }

const (
	noCompare    = "no compare on release"
	noExpiry     = "no expiry after a crash"
	ownClock     = "the clients' own clocks"
	recreates    = "a renewal that re-creates"
	releaseOther = "a cancelled wait releases another's lock"
	noWakeUp     = "wake-ups are lost, and nobody looks"
	sameToken    = "tokens that repeat after a wipe"
	afterReply   = "the deadline counts from the reply"
	leftBehind   = "a cancelled wait leaves its place behind"
	noReaders    = "a writer does not see readers"
	upgradeBlind = "an upgrade does not see readers"
	staleHint    = "a hint grants, however old it is"
	handedSame   = "handed over in the process with the same token"
)

var brokenLocks = []brokenLock{
	{noCompare, "file", "mutex", []Fault{stopLong}, "", 1, false, []mutant.Edit{
		{File: "store/queue/queue.go", Old: "i, err := q.hold(now, h.ID, h.Token)\n\tif err != nil {\n\t\treturn q.settle(now, h.Name, h.ID), err",
			New: "i, err := q.hold(now, h.ID, h.Token)\n\tfor j := range q.Entries {\n\t\tif " + is(noCompare) + " && q.Entries[j].Granted {\n\t\t\ti, err = j, nil\n\t\t}\n\t}\n\tif err != nil {\n\t\treturn q.settle(now, h.Name, h.ID), err"},
		{File: "hold.go", Old: "if broken := (*store.LostError)(nil); errors.As(why, &broken) {",
			New: "if broken := (*store.LostError)(nil); errors.As(why, &broken) || " + is(noCompare) + " {"},
	}},
	{noExpiry, "file", "mutex", []Fault{kill}, "", 1, true, []mutant.Edit{
		{File: "store/queue/queue.go", Old: "if q.Entries[i].end() > now.Clock {\n\t\t\tkept",
			New: "if q.Entries[i].end() > now.Clock || " + is(noExpiry) + " && q.Entries[i].Granted {\n\t\t\tkept"},
	}},
	{ownClock, "file", "mutex", []Fault{stopShort, restart}, "", 1, false, []mutant.Edit{
		{File: "filestore/filestore.go", Old: "queue.Time{Clock: clock().Microseconds(),", New: "queue.Time{Clock: (clock() + store.BrokenClock()).Microseconds(),"},
	}},
	{recreates, "file", "mutex", []Fault{stopLong}, "", 1, false, []mutant.Edit{
		{File: "store/queue/queue.go", Old: "i, err := q.held(now, id, h.Token)\n\tif err != nil {\n\t\treturn store.Renewal{Err: err}",
			New: "i, err := q.held(now, id, h.Token)\n\tif err != nil && " + is(recreates) + " {\n\t\tif i < 0 {\n\t\t\tq.Entries, i = append(q.Entries, Entry{ID: id, Weight: q.Limit, Want: q.Limit, N: 1, Granted: true, Token: h.Token}), len(q.Entries)\n\t\t}\n\t\terr = nil\n\t}\n\tif err != nil {\n\t\treturn store.Renewal{Err: err}"},
		{File: "renew.go", Old: "if h.over(now) {\n\t\t\ts.out(h)", New: "if h.over(now) && !" + is(recreates) + " {\n\t\t\ts.out(h)"},
		{File: "renew.go", Old: "case h.deadline <= now:", New: "case h.deadline <= now && !" + is(recreates) + ":"},
	}},
	{releaseOther, "file", "mutex", []Fault{stopShort}, "", 1, false, []mutant.Edit{
		{File: "store/queue/queue.go", Old: "if i := q.find(h.ID); i >= 0 && q.Entries[i].live(now) {\n\t\t\tq.leave(now, i)",
			New: "if i := q.find(h.ID); i >= 0 && q.Entries[i].live(now) {\n\t\t\tif " + is(releaseOther) + " {\n\t\t\t\ti = 0\n\t\t\t}\n\t\t\tq.leave(now, i)"},
	}},
	{noWakeUp, "file", "mutex", []Fault{stopShort}, "", 1, true, []mutant.Edit{
		{File: "hints.go", Old: "if ch := h.waiting[hint.ID]; ch != nil {", New: "if ch := h.waiting[hint.ID]; ch != nil && !" + is(noWakeUp) + " {"},
		{File: "pace.go", Old: "func (p *pace) nextAsk() clock.Instant {\n", New: "func (p *pace) nextAsk() clock.Instant {\n\tif " + is(noWakeUp) + " {\n\t\treturn p.sent.Add(time.Hour)\n\t}\n"},
	}},
	{sameToken, "file", "mutex", []Fault{stopShort}, wiped, 1, false, []mutant.Edit{
		{File: "store/queue/queue.go", Old: "first := max(q.Last+1, now.Wall)\n", New: "first := max(q.Last+1, now.Wall)\n\tif " + is(sameToken) + " {\n\t\tfirst = q.Last + 1\n\t}\n"},
	}},
	{afterReply, "redis", "mutex", []Fault{latency, latency, latency, stopLong}, "", 1, false, []mutant.Edit{
		{File: "renew.go", Old: "\tnow := s.e.now()\n\n\tvar tell []func()", New: "\tnow := s.e.now()\n\tif " + is(afterReply) + " {\n\t\tsent = now\n\t}\n\n\tvar tell []func()"},
		{File: "ask.go", Old: "out.answer, err = o.e.store.Ask(ctx, o.claim)\n", New: "out.answer, err = o.e.store.Ask(ctx, o.claim)\n\t\tif " + is(afterReply) + " {\n\t\t\tout.sent = o.e.now()\n\t\t}\n"},
	}},
	{leftBehind, "file", "mutex", []Fault{stopShort}, "", 1, true, []mutant.Edit{
		{File: "ask.go", Old: "func (e *engine) withdraw(c store.Claim, bound time.Duration) {\n", New: "func (e *engine) withdraw(c store.Claim, bound time.Duration) {\n\tif " + is(leftBehind) + " {\n\t\treturn\n\t}\n"},
		{File: "store/queue/queue.go", Old: "q.Entries[i].Expires = now.Clock + micros(c.Place)\n\treturn q.refused",
			New: "q.Entries[i].Expires = now.Clock + micros(c.Place)\n\tif " + is(leftBehind) + " {\n\t\tq.Entries[i].Expires = now.Clock + micros(time.Hour)\n\t}\n\treturn q.refused"},
	}},
	{noReaders, "file", "rw", []Fault{stopShort}, "", 1, false, []mutant.Edit{
		{File: "store/queue/queue.go", Old: "if e.Granted {\n\t\t\theld += int64(e.Weight)\n\t\t\tupgrading",
			New: "if e.Granted && e.Weight == 1 && " + is(noReaders) + " {\n\t\t\tcontinue\n\t\t}\n\t\tif e.Granted {\n\t\t\theld += int64(e.Weight)\n\t\t\tupgrading"},
	}},
	{upgradeBlind, "file", "rw", []Fault{stopShort}, "", 1, false, []mutant.Edit{
		{File: "store/queue/queue.go", Old: "if held-int64(e.Weight)+int64(e.Want) > int64(q.Limit) {\n", New: "if held-int64(e.Weight)+int64(e.Want) > int64(q.Limit) && !" + is(upgradeBlind) + " {\n"},
	}},
	{handedSame, "file", "mutex", []Fault{stopShort}, "", 1, false, []mutant.Edit{
		{File: "handover.go", Old: "\th.Used++\n", New: "\tif !" + is(handedSame) + " {\n\t\th.Used++\n\t}\n"},
	}},
	{staleHint, "file", "mutex", []Fault{stopLong}, "", 1, false, []mutant.Edit{
		{File: "acquire.go", Old: "if h.ID != r.claim.ID || !fresh", New: "if " + is(staleHint) + " && h.ID == r.claim.ID && h.Token > 0 && !r.s.NoRenew {\n\t\treturn r.lease(h.Token, h.N, r.e.now(), r.s.TTL, r.s.TTL/3)\n\t}\n\tif h.ID != r.claim.ID || !fresh"},
	}},
}

// buildBroken builds this test with all broken locks in it.
func buildBroken(t *testing.T) string {
	o := mutant.New(t)
	var edits []mutant.Edit
	for _, b := range brokenLocks {
		edits = append(edits, b.edits...)
	}
	o.Edit(edits...)
	o.Add("store/broken.go", brokenFile)
	offsetTime(t, o)
	return o.Build("internal/prove")
}

// offsetTime has the wall clock of all code in the build be off by what the
// environment says.
func offsetTime(t *testing.T, o *mutant.Overlay) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	module, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(module, file)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	for _, e := range [][2]string{
		{"import (\n", "import (\n\t\"syscall\"\n"},
		{"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += wallOffset\n"},
	} {
		if strings.Count(changed, e[0]) != 1 {
			t.Fatalf("%q is in %s not once", e[0], file)
		}
		changed = strings.Replace(changed, e[0], e[1], 1)
	}
	o.Add(path, changed+`
// Package strconv imports this one.
var wallOffset = func() (n int64) {
	text, _ := syscall.Getenv("`+offsetVar+`")
	for _, c := range text {
		if '0' <= c && c <= '9' {
			n = 10*n + int64(c-'0')
		}
	}
	if text != "" && text[0] == '-' {
		n = -n
	}
	return n
}()
`)
}

// What needs the other build is one test, as that is what takes long.
func TestEachBrokenLockIsFoundAndARightOneIsProvedWhateverItsClocksSay(t *testing.T) {
	bin := buildBroken(t)
	for _, url := range []string{"file:" + t.TempDir(), "redis://" + testserver.SharedRedis(t)} {
		t.Run("right on "+schemeOf(url), func(t *testing.T) {
			o := options(url, 2)
			o.For, o.Offset, o.Command = 3*time.Second, time.Hour, commandOf(bin, "")
			r := proved(t, o)
			if r.Verdict.Figures.Faults[string(offset)] < o.Processes {
				t.Errorf("faults: %v", r.Verdict.Figures.Faults)
			}
		})
	}
	// A seed makes the same faults again, and a machine does not make the same
	// of them each time: a run that has not found it is tried again.
	for _, b := range brokenLocks {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for range 3 {
				if c := b.find(t, bin, b.seed); c != 0 {
					t.Logf("found by check %d", c)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// commandOf starts a process of the build, with the broken lock of that name.
func commandOf(bin, broken string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(bin, childArg)
		cmd.Env = append(os.Environ(), "HOLDFAST_TEST_BROKEN="+broken)
		return cmd
	}
}

// find runs the broken lock and returns the check that found it, or 0.
func (b *brokenLock) find(t *testing.T, bin string, seed uint64) check {
	if all := prove(t, b.options(t, bin, seed)).Verdict.Violations; len(all) > 0 {
		return check(all[0].Check)
	}
	return 0
}

// options are those of a run with the broken lock, until it is found.
func (b *brokenLock) options(t *testing.T, bin string, seed uint64) *Options {
	var o *Options
	if b.on == "redis" {
		o = options("redis://"+testserver.SharedRedis(t), seed)
	} else {
		dir := t.TempDir()
		o = options("file:"+dir, seed)
		if b.server == wiped {
			o.Server = map[Fault]func() func(){wiped: func() func() {
				names, _ := filepath.Glob(filepath.Join(dir, "n", "*"))
				for _, name := range names {
					os.Remove(name)
				}
				return func() {}
			}}
		}
	}
	o.Mode, o.Names, o.Faults, o.Stop = b.mode, 2, b.faults, true
	o.For = 9 * time.Second
	if b.atEnd {
		o.For = 1500 * time.Millisecond
	}
	o.Command = commandOf(bin, b.name)
	return o
}
