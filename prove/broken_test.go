//go:build linux || darwin

package prove

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	noCompare         = "no compare on release"
	noExpiry          = "no expiry after a crash"
	ownClock          = "the clients' own clocks"
	recreates         = "a renewal that re-creates"
	releaseOther      = "a cancelled wait releases another's lock"
	noWakeUp          = "wake-ups are lost, and nobody looks"
	sameToken         = "tokens that repeat after a wipe"
	afterReply        = "the deadline counts from the reply"
	leftBehind        = "a cancelled wait leaves its place behind"
	noReaders         = "a writer does not see readers"
	upgradeBlind      = "an upgrade does not see readers"
	staleNotification = "a notification grants, however old it is"
	otherBoot         = "another boot id is a reboot"
	handedSame        = "handed over in the process with the same token"
)

var brokenLocks = []brokenLock{
	{noCompare, "file", "mutex", []Fault{stopLong}, "", 1, false, []mutant.Edit{
		mutant.At("compare-release", mutant.After("for j := range q.Entries {\nif "+is(noCompare)+" && q.Entries[j].Granted {\n\ti, err = j, nil\n}\n\t}")),
		mutant.At("release-sent-after-loss", mutant.Cond("WAS || "+is(noCompare))),
	}},
	{noExpiry, "file", "mutex", []Fault{kill}, "", 1, true, []mutant.Edit{
		mutant.At("expiry-after-crash", mutant.Cond("WAS || "+is(noExpiry)+" && q.Entries[i].Granted")),
	}},
	{ownClock, "file", "mutex", []Fault{stopShort, restart}, "", 1, false, []mutant.Edit{
		mutant.At("clients-own-clocks", mutant.Value("(clock() + store.BrokenClock()).Microseconds()")),
	}},
	{recreates, "file", "mutex", []Fault{stopLong}, "", 1, false, []mutant.Edit{
		mutant.At("renewal-re-creates", mutant.After("if err != nil && "+is(recreates)+" {\n\t\tif i < 0 {\n\t\t\tq.Entries, i = append(q.Entries, Entry{ID: id, Limit: store.Full, Weight: store.Full, Want: store.Full, N: 1, Granted: true, Token: h.Token}), len(q.Entries)\n\t\t}\n\t\terr = nil\n\t}")),
		mutant.At("renewal-re-creates-too", mutant.Cond("WAS && !"+is(recreates))),
		mutant.At("answer-after-deadline-revives", mutant.Cond("WAS && !"+is(recreates))),
		mutant.At("seen-over-revived", mutant.Cond(is(recreates)+" || WAS")),
	}},
	{releaseOther, "file", "mutex", []Fault{stopShort}, "", 1, false, []mutant.Edit{
		mutant.At("cancelled-waiter-stays", mutant.First("if "+is(releaseOther)+" {\n\ti = 0\n}")),
	}},
	{noWakeUp, "file", "mutex", []Fault{stopShort}, "", 1, true, []mutant.Edit{
		mutant.At("wake-ups-lost-nobody", mutant.Cond("WAS && !"+is(noWakeUp))),
		mutant.At("safety-look", mutant.Before("if "+is(noWakeUp)+" {\nreturn p.sent.Add(time.Hour)\n\t}")),
	}},
	{sameToken, "file", "mutex", []Fault{stopShort}, wiped, 1, false, []mutant.Edit{
		mutant.At("tokens-repeat-after-wipe", mutant.After("if "+is(sameToken)+" {\nfirst = q.Last + 1\n\t}")),
	}},
	{afterReply, "redis", "mutex", []Fault{latency, latency, latency, stopLong}, "", 1, false, []mutant.Edit{
		mutant.At("deadline-counts-reply", mutant.After("if "+is(afterReply)+" {\nsent = now\n\t}")),
		mutant.At("deadline-counts-reply-too", mutant.After("if "+is(afterReply)+" {\n\tout.sent = o.e.now()\n}")),
	}},
	{leftBehind, "file", "mutex", []Fault{stopShort}, "", 1, true, []mutant.Edit{
		mutant.At("cancelled-wait-leaves-place-behind", mutant.First("if "+is(leftBehind)+" {\n\t\treturn\n\t}")),
		mutant.At("cancelled-wait-leaves-place-behind-too", mutant.After("if "+is(leftBehind)+" {\nq.Entries[i].Expires = now.Clock + micros(time.Hour)\n\t}")),
	}},
	{noReaders, "file", "rw", []Fault{stopShort}, "", 1, false, []mutant.Edit{
		mutant.At("writer-see-readers", mutant.After("if e.Granted && e.Weight == 1 && "+is(noReaders)+" {\n\t\t\tcontinue\n\t\t}")),
	}},
	{upgradeBlind, "file", "rw", []Fault{stopShort}, "", 1, false, []mutant.Edit{
		mutant.At("upgrade-see-readers", mutant.Cond("WAS && !"+is(upgradeBlind))),
	}},
	{handedSame, "file", "mutex", []Fault{stopShort}, "", 1, false, []mutant.Edit{
		mutant.At("handed-over-same-token", mutant.Stmt("if !"+is(handedSame)+" {\n\tWAS\n}")),
	}},
	{otherBoot, "file", "mutex", []Fault{contained}, "", 1, false, []mutant.Edit{
		mutant.At("file-other-boot", mutant.Before("if string(found.boot) != s.boot && "+is(otherBoot)+" {\n\t\tfl.q.Entries = fl.q.Entries[:0]\n\t}")),
	}},
	{staleNotification, "file", "mutex", []Fault{stopLong}, "", 1, false, []mutant.Edit{
		mutant.At("hint-old-token-grants", mutant.After("if "+is(staleNotification)+" && h.ID == r.claim.ID && h.Token > 0 && !r.s.NoRenew {\n\t\treturn r.lease(h.Token, h.N, r.e.now(), r.s.TTL, r.s.TTL/3)\n\t}")),
	}},
}

// wallFile is added to the broken build as a package of its own, which has the
// wall clock be off by what the environment says. A time that it returns has the
// right monotonic clock, as one has in a process whose wall clock is wrong.
const wallFile = `package wall

import (
	"os"
	"strconv"
	"time"
	"unsafe"
)

var ahead = func() int64 {
	n, _ := strconv.ParseInt(os.Getenv("` + offsetVar + `"), 10, 64)
	return n
}()

// Now is time.Now. Of a Time with a monotonic clock, the seconds begin at bit 30.
func Now() time.Time {
	t := time.Now()
	*(*uint64)(unsafe.Pointer(&t)) += uint64(ahead) << 30
	return t
}

func init() {
	off := Now().Round(0).Sub(time.Now().Round(0)) - time.Duration(ahead)*time.Second
	if off.Abs() > time.Minute || time.Until(Now()).Abs() > time.Minute {
		panic("this process should have a wall clock that is off, and no other that is")
	}
}
`

// buildBroken builds this test with all broken locks in it, and with a wall
// clock for all code of ours but this that can be off. (To change package time
// would have all drivers be built again.)
func buildBroken(t *testing.T) string {
	brokenBin.Do(func() {
		var err error
		if brokenDir, err = os.MkdirTemp("", "holdfast-broken-"); err != nil {
			t.Fatal(err)
		}
		brokenBin.path = brokenIn(t, mutant.New(lasting{t}))
	})
	if brokenBin.path == "" {
		t.Fatal("it could not be built")
	}
	return brokenBin.path
}

// brokenBin is the broken build: the first test that needs it makes it, and it
// stays until all have ended.
var brokenBin struct {
	sync.Once
	path string
}

var brokenDir string // where it is

// lasting is a test whose directory outlives it.
type lasting struct{ testing.TB }

func (lasting) TempDir() string { return brokenDir }

func brokenIn(t *testing.T, o *mutant.Overlay) string {
	var edits []mutant.Edit
	for _, b := range brokenLocks {
		edits = append(edits, b.edits...)
	}
	o.Edit(edits...)
	o.Add("store/broken.go", brokenFile)
	o.Add("internal/wall/wall.go", wallFile)
	clocks := 0
	for _, path := range ownFiles(t) {
		text := o.Text(path)
		if !strings.Contains(text, "time.Now()") {
			continue
		}
		clocks++
		text = strings.ReplaceAll(text, "time.Now()", "wall.Now()") + "\nvar _ time.Time\n"
		clause := regexp.MustCompile(`(?m)^package \w+$`).FindString(text)
		o.Add(path, strings.Replace(text, clause, clause+"\n\nimport \"github.com/holdfast-go/holdfast/internal/wall\"", 1))
	}
	if clocks == 0 {
		t.Fatal("nothing of ours looks at the clock")
	}
	return o.Build("prove")
}

// ownFiles are the files of the engine and the stores, by their paths in the
// module.
func ownFiles(t *testing.T) (paths []string) {
	root := os.DirFS("..")
	for _, pattern := range []string{"*.go", "internal/engine/*.go", "internal/clock/*.go", "store/*.go", "*store/*.go", "*store/*/*.go", "*store/internal/*/*.go"} {
		found, err := fs.Glob(root, pattern)
		if len(found) == 0 {
			t.Fatalf("no file is like %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), func(path string) bool { return strings.HasSuffix(path, "_test.go") })
}

func TestEachBrokenLockIsFound(t *testing.T) {
	t.Parallel()
	bin := buildBroken(t)
	// How much of a lock a run shows is chance: one that has not found it is made
	// again, with other faults and for longer.
	controls := map[string]bool{}
	for _, b := range brokenLocks {
		if right := b.right(); !controls[right.name] {
			controls[right.name] = true
			t.Run(right.name, func(t *testing.T) {
				t.Parallel()
				right.need(t)
				v := prove(t, right.options(t, bin, right.seed)).Verdict
				for times := time.Duration(2); v.Figures.Grants == 0 && times <= 16; times *= 2 { // the machine stood still
					o := right.options(t, bin, right.seed)
					o.For *= times
					v = prove(t, o).Verdict
				}
				if len(v.Violations) > 0 || v.Figures.Grants == 0 {
					t.Errorf("with nothing wrong there are %d violations and %d grants: what is found under these faults is none of the broken lock's", len(v.Violations), v.Figures.Grants)
				}
			})
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.need(t)
			for try := range uint64(5) {
				if c := b.find(t, bin, b.seed+try, 1<<try); c != 0 {
					t.Logf("found by check %d", c)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// need skips the test where its faults cannot be done.
func (b *brokenLock) need(t *testing.T) {
	if slices.Contains(b.faults, contained) {
		needContainers(t)
	}
}

// right is the control of a broken lock: the same run of the same program in
// which none is broken.
func (b *brokenLock) right() *brokenLock {
	r := *b
	r.name = fmt.Sprintf("nothing is wrong on %s, %s, %v %v", b.on, b.mode, b.faults, b.server)
	if b.atEnd {
		r.name += ", to its end"
	}
	return &r
}

// commandOf starts a process of the build, with the broken lock of that name.
func commandOf(bin, broken string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(bin, childArg)
		cmd.Env = append(os.Environ(), "HOLDFAST_TEST_BROKEN="+broken)
		return cmd
	}
}

// find runs the broken lock, so many times as long as it takes on a quiet machine,
// and returns the check that found it, or 0.
func (b *brokenLock) find(t *testing.T, bin string, seed uint64, times time.Duration) check {
	o := b.options(t, bin, seed)
	o.For *= times
	if all := prove(t, o).Verdict.Violations; len(all) > 0 {
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
