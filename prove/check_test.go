package prove

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

func TestOnlyWhatAStoreLacksIsNotChecked(t *testing.T) {
	for _, h := range lackingHistories {
		t.Run(h.name, func(t *testing.T) {
			s := newScript()
			s.Run.Lacks = map[store.Promise]string{}
			for _, p := range h.lacks {
				s.Run.Lacks[p] = "so it is"
				for i := range s.Events {
					if e := &s.Events[i]; p == store.PromiseTokens {
						e.Token = 0
					}
				}
			}
			h.play(s)
			for i := range s.Events {
				if s.Run.lacks(store.PromiseDeadline) {
					s.Events[i].Until = 0
				}
			}
			v := s.judge()
			found := false
			for _, w := range v.Violations {
				if found = found || check(w.Check) == h.wrong; h.wrong == 0 {
					t.Errorf("check %d: %s: %s", w.Check, w.Name, w.Text)
				}
			}
			if h.wrong != 0 && !found {
				t.Errorf("check %d found nothing, want a violation", h.wrong)
			}
			for _, c := range v.Checks {
				if slices.Contains(h.not, check(c.Check)) != strings.Contains(c.Not, "so it is") {
					t.Errorf("check %d: judged %d, not checked: %q", c.Check, c.Judged, c.Not)
				}
			}
		})
	}
}

func TestEachCheckFindsWhatItIsFor(t *testing.T) {
	found := map[check]bool{}
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			s := newScript()
			h.play(s)
			v := s.judge()
			says := ""
			for _, w := range v.Violations {
				if check(w.Check) == h.wrong {
					says += w.Text + "\n"
				} else if h.wrong == 0 {
					t.Errorf("check %d: %s: %s", w.Check, w.Name, w.Text)
				}
			}
			if h.wrong != 0 && (says == "" || !strings.Contains(says, h.says)) {
				t.Errorf("check %d reports %q, want %q; all: %+v", h.wrong, says, h.says, v.Violations)
			}
			found[h.wrong] = true
		})
	}
	for _, c := range checks {
		if !found[c] {
			t.Errorf("no history fails check %d", c)
		}
	}
}

// A history without violations is no proof if it has too few events.
func TestTooFewEventsAreNoProof(t *testing.T) {
	whole := func() *script {
		s := newScript()
		s.Run.Floor = 4
		s.lock(1, 10).got(11, 1).release(100, 101)
		s.lock(2, 12).placed(12, 14).got(101, 2).add(502, Event{Do: over}).add(503, Event{Do: lost}).release(510, 511)
		return s
	}
	if v := whole().judge(); !v.Proved {
		t.Fatalf("not proved, want proved: %q %+v", v.TooLittle, v.Violations)
	}
	drop := func(s *script, do Kind) {
		kept := s.Events[:0]
		for _, e := range s.Events {
			if e.Do != do {
				kept = append(kept, e)
			}
		}
		s.Events = kept
	}
	for says, change := range map[string]func(*script){
		"check 4 had nothing to judge": func(s *script) { drop(s, over) },
		"no fault struck":              func(s *script) { drop(s, mended) },
		"nobody ever waited":           func(s *script) { drop(s, placed) },
		"fewer than 5":                 func(s *script) { s.Run.Floor = 5 },
		"did not come to its end":      func(s *script) { drop(s, calm) },
		"no claim ever blocked another": func(s *script) {
			s.Run.Peer = true
			drop(s, placed)
			for i := range s.Events { // the second claim comes after the first has ended
				if e := &s.Events[i]; e.Do == ask && e.Proc == 2 {
					e.At = ms(101)
				}
			}
		},
		"HOLDFAST_PROVE_URL": func(s *script) {
			s.Run.Peer, s.Run.Lines = true, true
			drop(s, mended)
			for i := range 5 {
				s.add(60+2*i, Event{Do: struck, Proc: 2, Fault: cut})
				s.add(61+2*i, Event{Do: mended, Proc: 2, Fault: cut})
			}
		},
		"past its own proxies":             func(s *script) { s.add(50, Event{Do: astray, Proc: 1}) },
		"the run could not go on: no disk": func(s *script) { s.add(50, Event{Do: failed, Text: "no disk"}) },
	} {
		s := whole()
		change(s)
		if v := s.judge(); v.Proved || !strings.Contains(strings.Join(v.TooLittle, "\n"), says) {
			t.Errorf("proved %v, too little: %q, want %q", v.Proved, v.TooLittle, says)
		}
	}
	s := whole() // a fault that met nothing does not count
	for i := range s.Events {
		s.Events[i].Hits = 0
	}
	if v := s.judge(); v.Proved {
		t.Error("proved by a fault that affected nothing")
	}
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	s := newScript()
	s.lock(1, 10).got(11, 1).release(100, 101)
	s.sort()
	var file bytes.Buffer
	if err := s.Write(&file); err != nil {
		t.Fatal(err)
	}
	text := file.String()
	for _, whole := range []string{text, text + `{"at":1,"do":"cut o`} {
		h, err := Read(strings.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := h.Write(&again); err != nil || again.String() != text {
			t.Errorf("%v: after reading and writing got:\n%s\nwant:\n%s", err, again.String(), text)
		}
	}
	for _, bad := range []string{"", "{}", "{}\n", "no\n", `{"holdfast_history":2}` + "\n", text + "no\n"} {
		if _, err := Read(strings.NewReader(bad)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%.30q: %v, want ErrInvalid", bad, err)
		}
	}
}

func TestTheWindowOfAViolationHasOnlyWhatMatters(t *testing.T) {
	s := newScript()
	fault := func(proc, from, to int, f Fault) {
		s.add(from, Event{Do: struck, Proc: proc, Fault: f})
		s.add(to, Event{Do: mended, Proc: proc, Fault: f, Hits: 1})
	}
	fault(1, 10, 20, stopLong)   // ended before
	fault(1, 80, 300, stopShort) // in effect
	fault(1, 400, 410, stopLong) // later
	fault(2, 90, 95, cut)        // ended before
	fault(3, 95, 250, halfCut)   // of another process
	s.lock(1, 100).got(101, 1).release(200, 201)
	s.lock(2, 102).got(110, 2).release(130, 131)
	s.rlock(3, 50).got(51, 0).release(60, 61)
	var faults []Fault
	for _, w := range s.judge().Violations {
		if check(w.Check) != exclusion {
			continue
		}
		for _, e := range w.Events {
			if e.Do == struck {
				faults = append(faults, e.Fault)
			}
			if e.Proc == 3 {
				t.Errorf("the window shows %s of process 3", e.line())
			}
		}
	}
	if !slices.Equal(faults, []Fault{stopShort}) {
		t.Errorf("got faults %v, want %v", faults, stopShort)
	}
}
