package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

var watchedAt = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// entryOf is a hold, or a waiter if the token is 0.
func entryOf(id byte, token int64, host, note string) store.Entry {
	e := store.Entry{Owner: holdfast.Owner{Host: host, PID: 7, Program: "job", Note: note}, Weight: store.Full, Token: token, Granted: token > 0, N: 1}
	e.ID[0] = id
	e.Age, e.Expires, e.Ends = 10*time.Second, 30*time.Second, 30*time.Second
	return e
}

func stateWith(name string, entries ...store.Entry) store.State {
	return store.State{Name: name, Limit: store.Full, Entries: entries}
}

func readingOf(states ...store.State) *reading {
	return &reading{states: byName(states), where: "a store", at: watchedAt, took: time.Millisecond}
}

func readingAway() *reading {
	return &reading{where: "a store", err: &message{"a store: no answer", errSilent}, at: watchedAt, took: lookTime}
}

// In a pipe each change prints a block; renewals and passing time print none.
func TestWatchPrintsABlockPerChange(t *testing.T) {
	var out strings.Builder
	w := &watched{to: &out}
	shows := func(want int, r *reading) {
		t.Helper()
		if err := w.show(r); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), watchedAt.Format("2006-01-02")); n != want {
			t.Fatalf("got %d blocks, want %d:\n%s", n, want, out.String())
		}
	}
	held := entryOf(1, 5, "web-1", "")
	shows(1, readingOf())
	shows(1, readingOf())
	shows(2, readingOf(stateWith("a", held)))
	held.Expires, held.Age = 29*time.Second, 11*time.Second
	shows(2, readingOf(stateWith("a", held)))
	shows(3, readingOf(stateWith("a", held, entryOf(2, 0, "web-2", ""))))
	held.Broken = "why"
	shows(4, readingOf(stateWith("a", held, entryOf(2, 0, "web-2", ""))))
	shows(5, readingOf())
}

func TestWatchWithJSONIsALinePerChange(t *testing.T) {
	var out strings.Builder
	w := &watched{to: &out, json: true}
	for _, r := range []*reading{readingOf(), readingOf(), readingOf(stateWith("a", entryOf(1, 5, "web-1", "")))} {
		if err := w.show(r); err != nil {
			t.Fatal(err)
		}
	}
	var all []snapshot
	for text := range strings.Lines(out.String()) {
		var s snapshot
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, s)
	}
	if len(all) != 2 || all[0].Entries == nil || len(all[0].Entries) != 0 || len(all[1].Entries) != 1 || all[1].Entries[0].Name != "a" {
		t.Errorf("%+v", all)
	}
}

// One line while the store is away, and another when it is away again.
func TestWatchSaysOnceThatTheStoreIsAway(t *testing.T) {
	var said, out strings.Builder
	before := stderr
	stderr = &voice{to: &said}
	defer func() { stderr = before }()
	w := &watched{to: &out}
	for want, readings := range [][]*reading{{readingOf()}, {readingAway(), readingAway(), readingAway(), readingOf()}, {readingAway(), readingAway()}} {
		for _, r := range readings {
			if err := w.show(r); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(said.String(), "\n"); n != want {
			t.Errorf("got %d lines, want %d: %s", n, want, said.String())
		}
	}
	if n := strings.Count(out.String(), "no lock"); n != 1 {
		t.Errorf("got %d blocks, want 1, as nothing has changed", n)
	}
}

func TestWatchEndsOnlyIfRetryingIsUseless(t *testing.T) {
	for _, c := range []struct {
		where string
		err   error
		ends  bool
	}{
		{"a store", holdfast.ErrDenied, true},
		{"a store", holdfast.ErrCorrupt, false},
		{"a store", holdfast.ErrUnavailable, false},
		{"", holdfast.ErrUnavailable, false},
		{"", holdfast.ErrCorrupt, true},
		{"", holdfast.ErrInvalid, true},
	} {
		r := &reading{where: c.where, err: fmt.Errorf("x: %w", c.err), at: watchedAt}
		if r.hopeless() != c.ends {
			t.Errorf("%q, %v: got watch ends %v, want %v", c.where, c.err, !c.ends, c.ends)
		}
	}
}

// A store is read once a second at most, a slow one less often, and with growing pauses
// while it is away.
func TestAStoreIsNotReadTooOften(t *testing.T) {
	y := rhythm{every: time.Millisecond}
	if d := y.next(readingOf()); d != time.Second {
		t.Errorf("%v", d)
	}
	slow := readingOf()
	slow.took = 2 * time.Second
	if d := y.next(slow); d != 8*time.Second {
		t.Errorf("slow store: got a pause of %v, want 8s", d)
	}
	var last time.Duration
	for range 10 {
		d := y.next(readingAway())
		if d <= last && d != mostPause || d > mostPause {
			t.Errorf("store away: got a pause of %v after %v", d, last)
		}
		last = d
	}
	if d := y.next(readingOf()); last != mostPause || d != time.Second {
		t.Errorf("got a pause of %v, then of %v", last, d)
	}
}

// A partial is a store of which a part does not answer, such as a cluster.
type partial struct {
	store.Inspector
	states []store.State
	errs   []error
}

func (p *partial) List(context.Context, string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		for _, s := range p.states {
			if !yield(s, nil) {
				return
			}
		}
		for _, err := range p.errs {
			if !yield(store.State{}, err) {
				return
			}
		}
	}
}

// At a terminal the names of one part of the store are shown while another does not answer. A program that reads the lists
// gets no incomplete list, as it would take the missing names for free.
func TestWatchShowsThePartOfTheStoreThatAnswers(t *testing.T) {
	said := &strings.Builder{}
	before := stderr
	stderr = &voice{to: said}
	defer func() { stderr = before }()
	refused, corrupt := fmt.Errorf("list: %w", holdfast.ErrUnavailable), fmt.Errorf("x: %w", holdfast.ErrCorrupt)
	held := stateWith("a", entryOf(1, 5, "web-1", ""))
	for _, c := range []struct {
		states     []store.State
		errs       []error
		away, part bool
	}{
		{[]store.State{held}, nil, false, false},
		{[]store.State{held}, []error{refused}, false, true},
		{[]store.State{held}, []error{corrupt, refused}, false, true},
		{[]store.State{held}, []error{corrupt}, false, false},
		{[]store.State{held}, []error{refused, errSilent}, true, false}, // what follows is missing, too
		{nil, []error{refused}, true, false},
	} {
		v := &viewer{in: &inspected{Inspector: &partial{states: c.states, errs: c.errs}, where: "a cluster"}}
		r := v.read(t.Context())
		if r.away() != c.away || r.part != c.part {
			t.Errorf("%v: got away %v, part %v: %v", c.errs, r.away(), r.part, r.err)
		}
		for _, onTerminal := range []bool{false, true} {
			var out strings.Builder
			w := &watched{to: &out}
			if onTerminal {
				if w.screen = (&screen{}); w.screen.columns() == 0 {
					continue // no screens on this system
				}
			}
			said.Reset()
			for range 2 {
				if err := w.show(&r); err != nil {
					t.Fatal(err)
				}
			}
			all := out.String() + said.String()
			if shown, want := strings.Contains(out.String(), "web-1"), !c.away && (onTerminal || !c.part); shown != want {
				t.Errorf("%v, terminal %v: got shown %v, want %v:\n%s", c.errs, onTerminal, shown, want, all)
			}
			if told := strings.Contains(all, "a cluster: "); told != (r.err != nil) {
				t.Errorf("%v, terminal %v: got reported %v:\n%s", c.errs, onTerminal, told, all)
			}
			// The error stays where it is drawn, and is one line elsewhere.
			if r.err != nil && onTerminal && !c.away && !strings.HasSuffix(out.String(), plainText(r.err.Error())+"\x1b[K\n\x1b[J") {
				t.Errorf("%v: the error was drawn over: %q", c.errs, out.String())
			}
			if n := strings.Count(said.String(), "\n"); n > 1 {
				t.Errorf("%v: got %d lines, want at most 1: %s", c.errs, n, said.String())
			}
		}
	}
}

// A long name leaves room for the holder, in its row and in all others.
func TestWatchShowsAllColumnsOfALongName(t *testing.T) {
	w := &watched{screen: &screen{}}
	if w.screen.columns() == 0 {
		t.Skip("this system has no screens")
	}
	var out bytes.Buffer
	r := readingOf(stateWith(strings.Repeat("n", 200), entryOf(1, 5, "web-1", "")), stateWith("alpha", entryOf(2, 6, "web-2", "")))
	w.draw(&out, r, linesOf(r.states, r.at))
	for _, shown := range []string{"nnn…", "alpha", "web-1", "web-2", "PROGRAM"} {
		if !strings.Contains(out.String(), shown) {
			t.Errorf("%q is missing:\n%s", shown, out.String())
		}
	}
	out.Reset()
	w.screen = nil // a program that reads the list has the whole name
	if err := (&watched{to: &out}).show(r); err != nil || !strings.Contains(out.String(), strings.Repeat("n", 200)) {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
