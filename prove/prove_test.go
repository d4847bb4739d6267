//go:build linux || darwin

package prove

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/store"
)

// childArg makes the test binary one of the processes of a run.
const childArg = "prove-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		if err := Child(os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	ownFile.Worker()
	reachWithin = testwait.Patience
	flag.Set("test.parallel", "4") // most of them wait most of the time
	code := testserver.Main{M: m}.Run()
	os.RemoveAll(brokenDir)
	os.Exit(code)
}

// options are those of a run of a few seconds with processes of this binary.
func options(url string, seed uint64) *Options {
	return &Options{
		URL: url, For: 3 * time.Second, Processes: 4, Names: 3, Mode: "mixed", Seed: seed,
		Command: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0], childArg)
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
			return cmd
		},
	}
}

// prove runs and prints the report.
func prove(t *testing.T, o *Options) *Report {
	t.Helper()
	r, err := Prove(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	r.Print(&text)
	t.Log("\n" + text.String())
	return r
}

// wrongs says what a verdict found, in few lines: of a long log only its ends are shown.
func wrongs(v *Verdict) (text string) {
	for i := range v.Violations {
		w := &v.Violations[i]
		text += fmt.Sprintf("\ncheck %d of %q at %v: %s; cause: %s", w.Check, w.Name, w.From, w.Text, w.Cause)
	}
	for _, why := range v.TooLittle {
		text += "\ntoo little happened: " + why
	}
	return text
}

// longest is the longest TTL that all stores allow: that of Redlock.
const longest = 3 * time.Second

// proved is a run that must prove the store. If too little happened on a busy machine, the run is repeated, for longer
// and with longer leases. Each run begins with the calls of begin.
func proved(t *testing.T, o *Options, begin ...func()) *Report {
	t.Helper()
	for range 6 {
		for _, f := range begin {
			f()
		}
		r := prove(t, o)
		if r.Verdict.Proved {
			return r
		}
		if len(r.Verdict.Violations) > 0 || slices.ContainsFunc(r.Verdict.TooLittle, func(why string) bool { return !tooFew(why) }) {
			t.Fatalf("not proved:%s", wrongs(r.Verdict))
		}
		o.For, o.TTL = 2*o.For, max(r.Run.TTL, min(2*r.Run.TTL, longest))
	}
	t.Fatal("even long runs have too few events")
	return nil
}

// tooFew reports whether a run was no proof only because it was too short.
func tooFew(why string) bool {
	return why == "no fault struck" || why == "nobody ever waited" || why == "no claim ever blocked another" || strings.HasSuffix(why, "are no proof") || strings.HasSuffix(why, "had nothing to judge")
}

func TestTheFileStoreIsProved(t *testing.T) {
	t.Parallel()
	o := options("file:"+t.TempDir(), 1)
	o.Out = t.TempDir()
	r := proved(t, o)
	// The written history can be judged again, with the same verdict.
	f, err := os.Open(filepath.Join(o.Out, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if v := Check(h); !v.Proved || v.Figures.Grants != r.Verdict.Figures.Grants {
		t.Errorf("judged again: got proved %v, %d grants, want %d", v.Proved, v.Figures.Grants, r.Verdict.Figures.Grants)
	}
}

// sessions is the URL of the sessions of a PostgreSQL server.
func sessions(addr string) string {
	return strings.Replace(testserver.PostgresURL(addr, "tokens=1"), "postgres://", "postgres+session://", 1)
}

// A Redis that restarts after a kill, or is wiped, has lost everything. Two may hold a name then, and nothing else is
// excused.
func TestAServerThatIsFrozenKilledAndWipedVoidsOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	struckServer(t, "redis://"+s.Addr, map[Fault]func() func(){
		frozen:    func() func() { s.Freeze(); return s.Thaw },
		restarted: func() func() { s.Kill(); return s.Restart },
		wiped: func() func() {
			if err := rdb.FlushAll(context.Background()).Err(); err != nil {
				t.Error(err)
			}
			return func() {}
		},
	})
}

// struckServer proves a store whose server has faults too. Each of them strikes at least once.
func struckServer(t *testing.T, url string, faults map[Fault]func() func()) {
	t.Helper()
	missing := maps.Clone(faults)
	for seed := uint64(1); len(missing) > 0 && !t.Failed(); seed++ {
		if seed == 9 {
			t.Fatalf("these faults never struck the server: %v", slices.Collect(maps.Keys(missing)))
		}
		o := options(url, seed)
		o.Server = missing
		met := proved(t, o).Verdict.Figures.Faults
		missing = maps.Clone(missing)
		maps.DeleteFunc(missing, func(f Fault, _ func() func()) bool { return met[string(f)] > 0 })
	}
}

// lessFile is the file store, but it declares fewer promises.
type lessFile struct{ store.Store }

func (s lessFile) Describe() store.Description {
	d := s.Store.Describe()
	d.Lacks = map[store.Promise]string{store.PromiseSlots: "so it is", store.PromiseUpgrade: "so it is", store.PromiseOrder: "so it is"}
	return d
}

func init() {
	ways["less"] = way{open: func(rawURL string, _ Dial) (store.Store, error) {
		s, err := open.URL("file:" + strings.TrimPrefix(rawURL, "less:"))
		return lessFile{s}, err
	}}
	past := ways["redis"]
	past.open = func(rawURL string, _ Dial) (store.Store, error) {
		return open.URL("redis" + strings.TrimPrefix(rawURL, "past"))
	}
	ways["past"] = past
}

func TestTheWorkloadUsesOnlyWhatAStoreHas(t *testing.T) {
	t.Parallel()
	o := options("less:"+t.TempDir(), 1)
	o.For, o.Out = time.Second, t.TempDir()
	r := proved(t, o)
	if len(r.Run.Names) != 3 {
		t.Errorf("got %d names, want 3", len(r.Run.Names))
	}
	for _, n := range r.Run.Names {
		if n.Mode == "slots" {
			t.Errorf("name %s uses slots, which the store lacks", n.Name)
		}
	}
	f, err := os.Open(filepath.Join(o.Out, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range h.Events {
		if e.Verb == "upgradeable" {
			t.Fatal("got upgradeable claims, which the store lacks")
		}
	}
	if text := strings.Join(r.Verdict.Unchecked, "\n"); !strings.Contains(text, "slots: so it is") {
		t.Errorf("got not tested: %q, want slots in it", r.Verdict.Unchecked)
	}
	o = options("less:"+t.TempDir(), 1)
	o.Mode = "slots"
	if _, err := Prove(t.Context(), o); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("slots on a store without slots: %v, want ErrInvalid", err)
	}
}

func TestAConnectionPastTheProxiesFailsTheRun(t *testing.T) {
	t.Parallel()
	o := options("past://"+testserver.SharedRedis(t), 1)
	o.For = time.Second
	v := prove(t, o).Verdict
	if v.Proved || !strings.Contains(strings.Join(v.TooLittle, "\n"), "past its own prox") {
		t.Errorf("got proved %v, too little: %q", v.Proved, v.TooLittle)
	}
}

func TestARunWithoutFaultsIsNoProof(t *testing.T) {
	t.Parallel()
	o := options("file:"+t.TempDir(), 1)
	o.For, o.Faults = time.Second, []Fault{}
	v := prove(t, o).Verdict
	if v.Proved || len(v.Violations) > 0 || !strings.Contains(strings.Join(v.TooLittle, "\n"), "no fault struck") {
		t.Errorf("got proved %v, too little: %q", v.Proved, v.TooLittle)
	}
}

func TestAnImpossibleRunIsRefusedBeforeItBegins(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*Options){
		"cannot be proved":  func(o *Options) { o.URL = "secret:x" },
		"at least 2":        func(o *Options) { o.Processes = 1 },
		"at least 1":        func(o *Options) { o.Names = -1 },
		"some time":         func(o *Options) { o.For = 0 },
		"mutex, rw, slots":  func(o *Options) { o.Mode = "reader" },
		"there is no fault": func(o *Options) { o.Faults = []Fault{latency} },
		"store's least":     func(o *Options) { o.TTL = time.Millisecond },
	} {
		o := options("file:"+t.TempDir(), 1)
		change(o)
		if _, err := Prove(context.Background(), o); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want ErrInvalid with %q", err, says)
		}
	}
	if _, err := Prove(context.Background(), options("redis://127.0.0.1:1", 1)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a server: %v, want ErrUnavailable", err)
	}
}

// A server that is killed voids no more of its sessions than that.
func TestSessionsOfAServerThatIsFrozenAndKilled(t *testing.T) {
	t.Parallel()
	s := testserver.Postgres(t)
	struckServer(t, sessions(s.Addr), map[Fault]func() func(){
		frozen:    func() func() { s.Freeze(); return s.Thaw },
		restarted: func() func() { s.Kill(); return s.Restart },
	})
}

// The least TTL of etcd is that of its server, which says so when it is asked for less.
func TestTheTTLIsOneThatTheServerGrants(t *testing.T) {
	t.Parallel()
	o := options("etcd://"+testserver.Etcd(t, "--heartbeat-interval", "100", "--election-timeout", "1000").Addr, 1)
	r := &run{o: o}
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.close()
	if want := 2 * time.Second; r.run.TTL != want || o.TTL != want || r.run.PositionTTL != want {
		t.Errorf("got TTL %v and %v, position %v, want %v", r.run.TTL, o.TTL, r.run.PositionTTL, want)
	}
	o.TTL = time.Second
	r = &run{o: o}
	if err := r.prepare(t.Context()); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a TTL that is too short: %v, want ErrInvalid", err)
		r.close()
	}
}

// A choosy store grants the first claim, which shows that it works, and then refuses each TTL as too short.
type choosy struct {
	store.Store
	asks  int
	tried []time.Duration
}

func (s *choosy) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if s.asks++; s.asks > 1 {
		s.tried = append(s.tried, c.TTL)
		return store.Answer{}, store.ErrInvalid
	}
	return s.Store.Ask(ctx, c)
}

func TestNoTTLAboveTenSecondsIsTried(t *testing.T) {
	t.Parallel()
	s := &choosy{Store: memstore.New()}
	o := options("choosy:", 1)
	o.Own = &Own{Name: "a choosy store", Store: func(string, Dial) (store.Store, error) { return s, nil }}
	r := &run{o: o}
	if err := r.prepare(t.Context()); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("no TTL is granted: %v, want an ErrInvalid", err)
	}
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second}
	if !slices.Equal(s.tried, want) || o.TTL != longestOwn {
		t.Errorf("tried %v, and left %v; want %v", s.tried, o.TTL, want)
	}
}
