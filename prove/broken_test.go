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

// A broken lock is ours with a defect that other locks have had.
type brokenLock struct {
	name   string
	on     string // file, redis, etcd or couple8
	mode   string
	faults []Fault
	server Fault // a fault of the server, too
	wide   bool  // as in Options
	atEnd  bool  // only the end of the run shows the defect
	long   bool  // it takes a minute: for make nightly and make prove-all
	edits  []mutant.Edit
}

// couple8 is a primary of Redis 8 and its replica, which replaces it again and again.
const couple8 = "Redis 8 with a replica"

// brokenFile is added to package store of the broken build. One binary has all broken locks: the environment selects
// one of them.
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

// More files of the broken build. A session that is retired takes no new claims, and ends once it keeps nothing.
var brokenFiles = map[string]string{
	"store/broken.go": brokenFile,
	"store/embedded/broken.go": `package embedded

import "github.com/holdfast-go/holdfast/store"

func broken(name string) bool { return store.Broken(name) }
`,
	"store/session/broken.go": `package session

var retired = map[*Session]bool{}

func (s *Set) Retire(sess *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present[sess.TTL] == sess {
		delete(s.present, sess.TTL)
	}
	retired[sess] = true
	s.poke()
}
`,
}

// brokenRuns are broken locks that tests of their own find.
var brokenRuns []brokenLock

// is returns the condition of an edit.
func is(name string) string { return "store.Broken(\"" + name + "\")" }

const (
	noCompare         = "no compare on release"
	noExpiry          = "no expiry after a crash"
	ownClock          = "the clients' own clocks"
	recreates         = "a renewal that re-creates"
	releaseOther      = "a canceled wait releases another's lock"
	noWakeUp          = "wake-ups are lost, and nobody looks"
	sameToken         = "tokens that repeat after a wipe"
	afterReply        = "the deadline counts from the reply"
	leftBehind        = "a canceled wait leaves its queue position behind"
	noReaders         = "a writer does not see readers"
	upgradeBlind      = "an upgrade does not see readers"
	staleNotification = "a notification grants, however old it is"
	otherBoot         = "another boot id is a reboot"
	handedSame        = "handed over in the process with the same token"
	otherSession      = "a grant counts from another session"
	lateLeft          = "what came late is left"
	unconfirmed       = "an upgrade that no replica has"
)

var brokenLocks = []brokenLock{
	{name: noCompare, on: "file", mode: "mutex", faults: []Fault{stopLong}, edits: []mutant.Edit{
		mutant.At("compare-release", mutant.After("for j := range q.Entries {\nif "+is(noCompare)+" && q.Entries[j].Granted {\n\ti, err = j, nil\n}\n\t}")),
		mutant.At("release-sent-after-loss", mutant.Cond("WAS || "+is(noCompare))),
	}},
	{name: noExpiry, on: "file", mode: "mutex", faults: []Fault{kill}, atEnd: true, edits: []mutant.Edit{
		mutant.At("expiry-after-crash", mutant.Cond("WAS || "+is(noExpiry)+" && q.Entries[i].Granted")),
	}},
	{name: ownClock, on: "file", mode: "mutex", faults: []Fault{stopShort, restart}, edits: []mutant.Edit{
		mutant.At("clients-own-clocks", mutant.Value("(clock() + store.BrokenClock()).Microseconds()")),
	}},
	{name: recreates, on: "file", mode: "mutex", faults: []Fault{stopLong}, edits: []mutant.Edit{
		mutant.At("renewal-re-creates", mutant.After("if err != nil && "+is(recreates)+" {\n\t\tif i < 0 {\n\t\t\tq.Entries, i = append(q.Entries, Entry{ID: id, Limit: store.Full, Weight: store.Full, Want: store.Full, N: 1, Granted: true, Token: h.Token}), len(q.Entries)\n\t\t}\n\t\terr = nil\n\t}")),
		mutant.At("renewal-re-creates-too", mutant.Cond("WAS && !"+is(recreates))),
		mutant.At("answer-after-deadline-revives", mutant.Cond("WAS && !"+is(recreates))),
		mutant.At("seen-over-revived", mutant.Cond(is(recreates)+" || WAS")),
	}},
	{name: releaseOther, on: "file", mode: "mutex", faults: []Fault{stopShort}, edits: []mutant.Edit{
		mutant.At("cancelled-waiter-stays", mutant.First("if "+is(releaseOther)+" {\n\ti = 0\n}")),
	}},
	{name: noWakeUp, on: "file", mode: "mutex", faults: []Fault{stopShort}, atEnd: true, edits: []mutant.Edit{
		mutant.At("wake-ups-lost-nobody", mutant.Cond("WAS && !"+is(noWakeUp))),
		mutant.At("safety-look", mutant.Before("if "+is(noWakeUp)+" {\nreturn p.sent.Add(time.Hour)\n\t}")),
	}},
	{name: sameToken, on: "file", mode: "mutex", faults: []Fault{stopShort}, server: wiped, edits: []mutant.Edit{
		mutant.At("tokens-repeat-after-wipe", mutant.After("if "+is(sameToken)+" {\nfirst = q.Last + 1\n\t}")),
	}},
	{name: afterReply, on: "redis", mode: "mutex", faults: []Fault{latency, latency, latency, stopLong}, edits: []mutant.Edit{
		mutant.At("deadline-counts-reply", mutant.After("if "+is(afterReply)+" {\nsent = now\n\t}")),
		mutant.At("deadline-counts-reply-too", mutant.After("if "+is(afterReply)+" {\n\tout.sent = o.e.now()\n}")),
	}},
	{name: leftBehind, on: "file", mode: "mutex", faults: []Fault{stopShort}, atEnd: true, edits: []mutant.Edit{
		mutant.At("cancelled-wait-leaves-place-behind", mutant.First("if "+is(leftBehind)+" {\n\t\treturn\n\t}")),
		mutant.At("cancelled-wait-leaves-place-behind-too", mutant.After("if "+is(leftBehind)+" {\nq.Entries[i].Expires = now.Clock + micros(time.Hour)\n\t}")),
	}},
	{name: noReaders, on: "file", mode: "rw", faults: []Fault{stopShort}, edits: []mutant.Edit{
		mutant.At("writer-see-readers", mutant.After("if e.Granted && e.Weight == 1 && "+is(noReaders)+" {\n\t\t\tcontinue\n\t\t}")),
	}},
	{name: upgradeBlind, on: "file", mode: "rw", faults: []Fault{stopShort}, edits: []mutant.Edit{
		mutant.At("upgrade-see-readers", mutant.Cond("WAS && !"+is(upgradeBlind))),
	}},
	{name: handedSame, on: "file", mode: "mutex", faults: []Fault{stopShort}, edits: []mutant.Edit{
		mutant.At("handed-over-same-token", mutant.Stmt("if !"+is(handedSame)+" {\n\tWAS\n}")),
	}},
	{name: otherBoot, on: "file", mode: "mutex", faults: []Fault{contained}, edits: []mutant.Edit{
		mutant.At("file-other-boot", mutant.Before("if string(found.boot) != s.boot && "+is(otherBoot)+" {\n\t\tfl.q.Entries = fl.q.Entries[:0]\n\t}")),
	}},
	{name: otherSession, on: "etcd", mode: "mutex", faults: []Fault{silence}, wide: true, long: true, edits: []mutant.Edit{
		mutant.At("record-ask-unanswered", mutant.After("if m.sess != nil && "+is(otherSession)+" {\n\ts.sessions.Retire(m.sess)\n\tm.into(nil)\n}")),
		mutant.At("session-keeps-nothing", mutant.Value("WAS || sess.claims == 0 && retired[sess]")),
		mutant.At("record-grant-counts-from-another-session", mutant.After("if "+is(otherSession)+" {\n\tsess = s.sessions.Begun(c.TTL)\n}")),
	}},
	{name: lateLeft, on: "etcd", mode: "mutex", faults: []Fault{late}, wide: true, atEnd: true, long: true, edits: []mutant.Edit{
		mutant.At("record-late-swap-is-left", mutant.Value("WAS && !"+is(lateLeft))),
		mutant.At("record-late-join-is-void", mutant.Before("if "+is(lateLeft)+" {\n\tn.late = nil\n}")),
	}},
	{name: unconfirmed, on: couple8, mode: "upgrade", server: failover, long: true, edits: []mutant.Edit{
		mutant.At("redis-change-gives", mutant.Line("return done('G' .. told(e))").If("broken(\""+unconfirmed+"\")")),
		mutant.At("upgrade-forgotten", mutant.Cond("WAS || "+is(unconfirmed))), // otherwise the owner would soon notice
	}},
	{name: staleNotification, on: "file", mode: "mutex", faults: []Fault{stopLong}, edits: []mutant.Edit{
		mutant.At("hint-old-token-grants", mutant.After("if "+is(staleNotification)+" && h.ID == r.claim.ID && h.Token > 0 && !r.s.NoRenew {\n\t\treturn r.lease(h.Token, h.N, r.e.now(), r.s.TTL, r.s.TTL/3)\n\t}")),
	}},
}

// wallFile is added to the broken build as a package of its own. It shifts the wall clock by the offset in the
// environment. The times that it returns have the right monotonic clock, as in a process whose wall clock is wrong.
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

// buildBroken builds this test with all broken locks in it, and with a wall clock that can be off for all of our code
// but this file. (A change of package time would rebuild all drivers.)
func buildBroken(t *testing.T) string {
	brokenBin.Do(func() {
		var err error
		if brokenDir, err = os.MkdirTemp("", "holdfast-broken-"); err != nil {
			t.Fatal(err)
		}
		brokenBin.path = brokenIn(t, mutant.New(lasting{t}))
	})
	if brokenBin.path == "" {
		t.Fatal("the broken lock could not be built")
	}
	return brokenBin.path
}

// brokenBin is the broken build. The first test that needs it makes it, and it stays until all tests have ended.
var brokenBin struct {
	sync.Once
	path string
}

var brokenDir string // the directory of the build

// lasting is a test whose directory outlives it.
type lasting struct{ testing.TB }

func (lasting) TempDir() string { return brokenDir }

func brokenIn(t *testing.T, o *mutant.Overlay) string {
	var edits []mutant.Edit
	for _, b := range brokenLocks {
		edits = append(edits, b.edits...)
	}
	o.Edit(edits...)
	for path, text := range brokenFiles {
		o.Add(path, text)
	}
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
		t.Fatal("no file of the library reads the clock")
	}
	return o.Build("prove")
}

// ownFiles are the files of the engine and the stores, by their paths in the module.
func ownFiles(t *testing.T) (paths []string) {
	root := os.DirFS("..")
	for _, pattern := range []string{"*.go", "internal/engine/*.go", "internal/clock/*.go", "store/*.go", "*store/*.go", "*store/*/*.go", "*store/internal/*/*.go"} {
		found, err := fs.Glob(root, pattern)
		if len(found) == 0 {
			t.Fatalf("no file matches %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), func(path string) bool { return strings.HasSuffix(path, "_test.go") })
}

func TestEachBrokenLockIsFound(t *testing.T) {
	t.Parallel()
	bin := buildBroken(t)
	// How much of a lock a run exercises is chance. A run that has not found the defect is repeated, with other faults
	// and for longer.
	controls := map[string]bool{}
	for _, b := range brokenLocks {
		if b.long && !testserver.Nightly() {
			continue
		}
		if right := b.right(); !controls[right.name] {
			controls[right.name] = true
			t.Run(right.name, func(t *testing.T) {
				t.Parallel()
				right.need(t)
				v := prove(t, right.options(t, bin, 1)).Verdict
				for times := time.Duration(2); v.Figures.Grants == 0 && times <= 16; times *= 2 { // the machine stood still
					o := right.options(t, bin, 1)
					o.For *= times
					v = prove(t, o).Verdict
				}
				if len(v.Violations) > 0 || v.Figures.Grants == 0 {
					t.Errorf("the correct lock has %d violations and %d grants, want 0 and some: without that, a violation under these faults does not prove the lock broken%s", len(v.Violations), v.Figures.Grants, wrongs(v))
				}
			})
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.need(t)
			for try := range uint64(5) {
				if c := b.find(t, bin, 1+try, 1<<try); c != 0 {
					t.Logf("found by check %d", c)
					return
				}
			}
			t.Error("no check found the broken lock")
		})
	}
}

// need skips the test where its faults cannot be injected.
func (b *brokenLock) need(t *testing.T) {
	if slices.Contains(b.faults, contained) {
		needContainers(t)
	}
}

// right is the control of a broken lock: the same run of the same program with no lock broken.
func (b *brokenLock) right() *brokenLock {
	r := *b
	r.name = fmt.Sprintf("nothing is wrong on %s, %s, %v %v", b.on, b.mode, b.faults, b.server)
	if b.wide {
		r.name += ", wide"
	}
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

// find runs the broken lock, for a multiple of the time that it takes on a quiet machine. It returns the check that
// found it, or 0.
func (b *brokenLock) find(t *testing.T, bin string, seed uint64, times time.Duration) check {
	o := b.options(t, bin, seed)
	o.For *= times
	if all := prove(t, o).Verdict.Violations; len(all) > 0 {
		return check(all[0].Check)
	}
	return 0
}

// options are those of a run that ends once the broken lock is found.
func (b *brokenLock) options(t *testing.T, bin string, seed uint64) *Options {
	var o *Options
	switch b.on {
	case "redis":
		o = options("redis://"+testserver.SharedRedis(t), seed)
	case "etcd":
		o = options("etcd://"+testserver.SharedEtcd(t), seed)
	case couple8:
		o = newCouple(t, testserver.Redis8).replaced(seed)
		o.Stop, o.Command = true, commandOf(bin, b.name)
		return o
	default:
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
	if b.wide {
		widen(o)
	} else if b.atEnd {
		o.For = 1500 * time.Millisecond
	}
	o.Command = commandOf(bin, b.name)
	return o
}
