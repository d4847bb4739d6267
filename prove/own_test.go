//go:build linux || darwin

package prove

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/store"
)

// ownFile is a store of a user: the file store, under a name that is in none of our tables.
var ownFile = &Own{Name: "a store of ours", Store: func(url string, _ Dial) (store.Store, error) {
	return open.URL("file:" + strings.TrimPrefix(url, "own:"))
}}

// A store that is in no table gets the whole workload and all checks.
func TestAStoreOfTheUsersOwnIsProved(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	o := &Options{URL: "own:" + t.TempDir(), For: 3 * time.Second, Processes: 4, Seed: 1, Own: ownFile}
	o.Progress = func(p Progress) { told.Add(1) }
	r := proved(t, o)
	if r.Run.Store != ownFile.Name || len(r.Verdict.NotJudged) > 0 {
		t.Errorf("got %q, not judged: %q", r.Run.Store, r.Verdict.NotJudged)
	}
	if told.Load() == 0 {
		t.Error("got no report of progress")
	}
}

func TestAnInvalidOwnIsRefused(t *testing.T) {
	t.Parallel()
	for says, own := range map[string]*Own{
		"has 0 of":    {Name: "a"},
		"has 2 of":    {Name: "a", Store: ownFile.Store, Lines: []string{"sh"}},
		"has no Name": {Lines: []string{"sh"}},
	} {
		_, err := Prove(t.Context(), &Options{For: time.Second, Own: own})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error that says %q", err, says)
		}
	}
	lines := &Own{Name: "a", Lines: []string{"sh"}}
	for says, o := range map[string]*Options{
		"one host and its port":       {URL: "redis://localhost", Own: lines},
		"a URL with one host and its": {URL: "redis://a:1,b:2", Own: lines},
		"cannot be dense or wide":     {Own: lines, Wide: true},
		`mode "rw"`:                   {Own: lines, Mode: "rw"},
		"at least 1ms":                {Own: lines, TTL: time.Microsecond},
		"only Locks can be":           {Own: &Own{Name: "a", Lines: []string{"sh"}, Silent: true}},
	} {
		o.For = time.Second
		if _, err := Prove(t.Context(), o); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an ErrInvalid that says %q", err, says)
		}
	}
	for url, network := range map[string]bool{"mongodb://a:1,b:2/": true, "redis://u:p@a:1": true, "file:///a": false, "own:/a": false, "": false} {
		if w := ownFile.way(url); w.network != network {
			t.Errorf("%s: got network %v", url, w.network)
		}
	}
}

// A program may have several locks, or may forget to be a worker. Then it must neither prove the wrong lock nor start
// workers without end.
func TestAWorkerIsOfTheLockThatWasMeant(t *testing.T) {
	none := func(string, time.Duration, Dial) (*Locks, error) { return nil, nil }
	mine, other := &Own{Name: "mine", Locks: none}, &Own{Name: "other", Locks: none}
	t.Setenv(workerVar, "mine")
	other.Worker() // returns
	if _, err := Prove(t.Context(), &Options{For: time.Second, Own: mine}); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "has not called its Own.Worker") {
		t.Errorf("Prove in a worker: %v", err)
	}
	for says, x := range map[string]struct {
		own *Own
		run Run
	}{
		`is for "other", and the run for "mine"`: {other, Run{Store: "mine", Peer: true}},
		`is for "mine", and the run for "a"`:     {mine, Run{Store: "a"}},
		"has returned no Lock":                   {mine, Run{Store: "mine", Peer: true}},
		"has returned no store":                  {&Own{Store: func(string, Dial) (store.Store, error) { return nil, nil }}, Run{Store: "a"}},
	} {
		line, err := json.Marshal(command{Job: &job{Run: x.run}})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.own.Child(strings.NewReader(string(line)+"\n"), io.Discard); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an ErrInvalid that says %q", err, says)
		}
	}
}

// Progress counts what is found while the run goes on, and only what is certain by then.
func TestProgressCountsWhatIsFound(t *testing.T) {
	s := newScript()
	s.lock(1, 10).got(11, 1).release(20, 21)
	r := &run{o: &Options{For: time.Minute}, run: s.Run, events: s.Events}
	if p := r.soFar(); p.Found != 0 || p.Grants != 3 || p.Faults != 1 {
		t.Errorf("correct lock: got %v", p)
	}
	s.lock(2, 12).got(16, 2).release(30, 31)
	r.events = s.Events
	if p := r.soFar(); p.Found != 1 || !strings.HasSuffix(p.String(), "4 grants, 1 faults, 1 WRONG so far") {
		t.Errorf("two holders: got %v", p)
	}
	r.zero = clock.Boot() - ms(100) // a process that was stopped may not have reported its release yet
	if p := r.soFar(); p.Found != 0 || p.Grants != 4 {
		t.Errorf("just now: got %v, want nothing found", p)
	}
}

// Each cause, with the guilty operation, in histories that have only that one cause.
func TestTheCauseIsTheOperationThatBrokeIt(t *testing.T) {
	for name, c := range map[string]struct {
		check check
		cause string
		do    Kind
		proc  int
		play  func(s *script)
	}{
		"another's lock is released": {exclusion, "process 1, claim 3 (lock, token 1) released a lock that it had lost before", release, 1, func(s *script) {
			s.lock(1, 10).got(11, 1).add(501, Event{Do: over}).add(502, Event{Do: lost}).release(530, 531)
			s.lock(2, 12).got(515, 2).release(560, 561)
			s.lock(3, 520).got(532, 3).release(570, 571)
		}},
		"granted beside another, when a third had rightly released": {exclusion, "process 3, claim 1 (lock, token 3) was granted while another", got, 3, func(s *script) {
			s.Run.Lines, s.Run.Peer = true, true
			s.lock(1, 10).add(11, Event{Do: got, Token: 1, ID: "1", Until: ms(11)}).add(16, Event{Do: until, Until: ms(15)}).release(20, 21)
			s.lock(2, 12).add(22, Event{Do: got, Token: 2, ID: "2", Until: ms(22)}).add(40, Event{Do: until, Until: ms(39)}).release(60, 61)
			s.lock(3, 14).add(30, Event{Do: got, Token: 3, ID: "3", Until: ms(30)}).add(50, Event{Do: until, Until: ms(49)}).release(70, 71)
		}},
		"granted beside another": {exclusion, "process 2, claim 1 (lock, token 2) was granted while another", got, 2, func(s *script) {
			s.lock(1, 10).got(11, 1).release(20, 21)
			s.lock(2, 12).got(16, 2).release(30, 31)
		}},
		"it outlives its TTL": {exclusion, "process 1, claim 3 (lock, token 1) used the lock for 589ms after", until, 1, func(s *script) {
			s.Run.Lines, s.Run.Peer = true, true
			s.lock(1, 10).got(11, 1).add(700, Event{Do: until, Until: ms(690)}).release(710, 711)
			s.lock(2, 12).got(600, 2).release(650, 651)
		}},
		"killed, and its lock does not end": {live, "was killed, and its lock never expired", got, 1, func(s *script) {
			s.Events = slices.DeleteFunc(s.Events, func(e Event) bool { return e.Proc == 1 && e.At > ms(10_000) && e.At < ms(10_010) })
			s.lock(1, 8000).got(8001, 7)
			s.add(8010, Event{Do: died, Proc: 1})
		}},
	} {
		s := newScript()
		c.play(s)
		v := s.judge()
		i := slices.IndexFunc(v.Violations, func(w Violation) bool { return w.Check == int(c.check) })
		if i < 0 {
			t.Errorf("%s: no violation found: %v", name, v.Violations)
			continue
		}
		w := v.Violations[i]
		if !strings.Contains(w.Cause, c.cause) {
			t.Errorf("%s: got cause %q, want one with %q", name, w.Cause, c.cause)
		}
		if w.Guilty < 0 || w.Events[w.Guilty].Do != c.do || w.Events[w.Guilty].Proc != c.proc {
			t.Errorf("%s: got guilty event %d of %v, want a %s of process %d", name, w.Guilty, w.Events, c.do, c.proc)
		}
	}
}

// The verdict says PROVED alone only if each check had something to judge. Otherwise it names the checks that had not.
func TestTheVerdictSaysWhatWasNotJudged(t *testing.T) {
	for name, c := range map[string]struct {
		proved bool
		says   string
		play   func(s *script)
	}{
		"all is judged": {true, "PROVED, for the faults above", func(s *script) {
			s.lock(1, 100).got(101, 21).add(592, Event{Do: over}).add(593, Event{Do: lost})
		}},
		"no lease ends": {false, "NOT PROVED: too little happened to be proof; not judged: check 4 (a loss is reported by the deadline): no such case happened", func(*script) {}},
		"a lock that would report its loss, and lost none": {false, "NOT PROVED: too little happened to be proof; not judged, as explained above: checks 2, 4, 6", func(s *script) {
			s.Run.Peer = true
			for i := range s.Events {
				s.Events[i].Token, s.Events[i].Tells = 0, s.Events[i].Do == got
			}
		}},
		"a lock without tokens": {true, "PROVED in part, for the faults above; not judged, as explained above: checks 2, 4, 6", func(s *script) {
			s.Run.Peer = true
			for i := range s.Events {
				s.Events[i].Token = 0
			}
		}},
	} {
		s := newScript()
		for p := 1; p <= 2; p++ { // each waits for the name
			s.lock(2, 30+20*p).placed(30+20*p, 31+20*p).got(35+20*p, 10+p).release(36+20*p, 37+20*p)
		}
		s.lock(3, 36).not(40, "cancelled")
		for i := range s.Events { // each call has a bound
			if s.Events[i].Do == ask {
				s.Events[i].Bound = ms(5000)
			}
		}
		c.play(s)
		v := s.judge()
		text := (&Report{Run: s.Run, Verdict: v}).verdict()
		if v.Proved != c.proved || !strings.HasPrefix(text, c.says) || len(text) > 160 {
			t.Errorf("%s: proved %v, %q, want %v and %q; too little: %q, %v", name, v.Proved, text, c.proved, c.says, v.TooLittle, v.Violations)
		}
	}
}

// A lock of the user may be slow, if each command starts a shell and a client. It can be proved all the same, by a
// longer run.
func TestAnOwnLockMayBeSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode string
		own  bool
		runs time.Duration
		want int
	}{
		{"mixed", false, time.Minute, 300}, {"upgrade", false, time.Minute, 60},
		{"mixed", true, time.Minute, 60}, {"mixed", true, time.Second, 20},
	} {
		if got := floor(&Options{Mode: c.mode, For: c.runs}, c.own); got != c.want {
			t.Errorf("%s for %v, own lock %v: got %d grants as floor, want %d", c.mode, c.runs, c.own, got, c.want)
		}
	}
	if got := floor(&Options{For: time.Minute, Server: map[Fault]func() func(){frozen: nil}}, false); got != 60 {
		t.Errorf("with a server that is away at times: got %d grants as floor, want 60", got)
	}
}

// A broken run may leave a name stuck. That does not make a token wrong.
func TestTheHeadlineSaysWhatIsOfTheLock(t *testing.T) {
	for want, play := range map[string]func(s *script){
		"It says nothing about the lock": func(s *script) {
			s.Events = slices.DeleteFunc(s.Events, func(e Event) bool { return e.Do == got && e.At > ms(10_000) })
		},
		"this lock broke a promise": func(s *script) {
			s.lock(1, 10).got(11, 2).release(20, 21)
			s.lock(2, 30).got(31, 1).release(40, 41)
		},
	} {
		s := newScript()
		s.add(50, Event{Do: failed, Proc: 3, Text: "it is gone"})
		play(s)
		r := &Report{Run: s.Run, Verdict: s.judge()}
		if got := r.headline(); !strings.Contains(got, want) || len(r.Verdict.Violations) == 0 {
			t.Errorf("got %q, want %q; %v", got, want, r.Verdict.Violations)
		}
	}
}

// The report says what was done, and nothing else.
func TestTheWordsSayWhatWasDone(t *testing.T) {
	for want, faults := range map[string]map[string]int{
		"no harm": {},
		"harm 5 times: it stopped programs for a while, killed programs": {string(stopLong): 3, string(kill): 2},
		"harm 1 time: it cut and slowed connections":                     {string(cut): 1},
	} {
		if got := (&Figures{Faults: faults}).harm(); got != want {
			t.Errorf("%v: got %q, want %q", faults, got, want)
		}
	}
}
