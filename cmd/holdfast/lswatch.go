package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// How often ls --watch, top and ui read a store.
const (
	leastPause = time.Second      // between two reads; the shortest interval
	mostPause  = 30 * time.Second // between two reads of a store that is slow or does not answer
	slowFactor = 4                // the pause is this many times as long as the answer took
)

// A viewer reads all names of a store repeatedly, even if it cannot be opened yet.
type viewer struct {
	p  *program
	in *inspected // nil: not opened
}

// A reading is the result of one read of all names.
type reading struct {
	states []store.State // by name
	where  string        // the store, for people; "" if it was not opened
	err    error         // nil, or what could not be read
	part   bool          // a part of the store did not answer, and states is what the other parts have
	at     time.Time     // when the read ended
	took   time.Duration
}

// away reports whether the store did not answer, so that the state of no name is known.
func (r *reading) away() bool {
	return unanswered(r.err) && !r.part //mutant:cmd-part-is-not-away
}

func unanswered(err error) bool {
	return errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// hopeless reports whether reading again is useless.
func (r *reading) hopeless() bool {
	if r.err == nil || r.away() {
		return false
	}
	for _, last := range []error{holdfast.ErrDenied, holdfast.ErrUnsupported, holdfast.ErrInvalid} {
		if errors.Is(r.err, last) {
			return true
		}
	}
	return r.where == "" // it cannot be opened
}

// read reads once. Do not call it from two goroutines at once.
func (v *viewer) read(ctx context.Context) reading {
	begin := time.Now()
	var r reading
	if v.in == nil {
		v.in, r.err = v.p.inspector(choose(v.p.store))
	}
	if v.in != nil {
		var errs []error
		r.where = v.in.where
		r.states, errs = v.in.all(ctx, "", lookTime)
		// Missing answers come first: they decide what the reading is worth.
		slices.SortStableFunc(errs, func(a, b error) int { return rank(a) - rank(b) })
		r.states, r.err = byName(r.states), oneOf(errs)
		r.part = len(r.states) > 0 && len(errs) > 0 && rank(errs[0]) == refusedPart
	}
	r.at = time.Now()
	r.took = r.at.Sub(begin)
	return r
}

// rank orders the errors of one read: a timeout, after which names of any part of the store may
// be missing; a part that did not answer; all others, each of one name.
func rank(err error) int {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return outOfTime
	case unanswered(err):
		return refusedPart
	}
	return ofOneName
}

const (
	outOfTime = iota
	refusedPart
	ofOneName
)

func (v *viewer) close() {
	if v.in != nil {
		v.in.done()
	}
}

// A rhythm determines when to read next.
type rhythm struct {
	every time.Duration // as the user wants it, at least leastPause
	fails int           // consecutive reads without an answer
}

// next returns the pause after a read: longer after a slow answer, and doubled with each missing
// one.
func (y *rhythm) next(r *reading) time.Duration {
	pause := max(y.every, leastPause)
	if !r.away() {
		y.fails = 0
		return max(pause, min(slowFactor*r.took, mostPause)) //mutant:cmd-slow-store-rests
	}
	y.fails++
	for range y.fails {
		if pause < mostPause {
			pause = min(2*pause, mostPause) //mutant:cmd-store-away-rests
		}
	}
	return pause
}

// A watched prints the list of ls each time that something has changed.
type watched struct {
	to     io.Writer
	json   bool
	screen *screen // nil: no terminal, so each change is a block of its own
	last   string  // what was printed, as steady returns it
	any    bool    // something was printed
	away   bool    // we have reported that the store is away
	told   string  // the last error reported of a store that answers
}

// watchList is ls --watch. It ends on a signal, or if the store can never be read.
func (p *program) watchList(ctx context.Context, every time.Duration, asJSON bool) error {
	ends := ending(false, nil, nil)
	w := &watched{to: os.Stdout, json: asJSON}
	if !asJSON {
		w.screen = screenOn(os.Stdout)
	}
	v := &viewer{p: p}
	return v.follow(ctx, every, ends, func(r *reading, _ time.Duration) error { return w.show(r) })
}

// follow reads repeatedly, and gives take each reading and the pause after it. It ends on a
// signal, on an error of take, or with ctx.
func (v *viewer) follow(ctx context.Context, every time.Duration, ends <-chan os.Signal, take func(*reading, time.Duration) error) error {
	pace := rhythm{every: every}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		read := make(chan reading, 1)
		go func() { read <- v.read(ctx) }()
		var r reading
		select { // two of the three abandon the read: a store that hangs must not block us
		case sig := <-ends:
			return endedBy(sig)
		case <-ctx.Done():
			return context.Cause(ctx)
		case r = <-read:
		}
		pause := pace.next(&r)
		err := take(&r, pause)
		if err == nil {
			select {
			case sig := <-ends:
				err = endedBy(sig)
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-time.After(pause):
				continue
			}
		}
		v.close()
		return err
	}
}

// endedBy returns the error of a command that runs until a signal.
func endedBy(sig os.Signal) error { return &exitError{code: codeOfSignal(sig)} }

// show prints the reading if it is new; an error ends the watch.
func (w *watched) show(r *reading) error {
	switch {
	case r.away(), r.part && w.screen == nil: // a list that lacks names would say that they are free
		if !w.away { //mutant:cmd-watch-says-away-once
			tell("%v; asking again until it answers", r.err)
		}
		w.away = true
		return nil
	case r.hopeless():
		return r.err
	case r.err == nil:
		w.told = ""
	case w.screen != nil: // draw shows the error
	case w.told != r.err.Error():
		w.told = r.err.Error()
		tell("%v", r.err)
	}
	w.away = false
	lines := linesOf(r.states, r.at)
	now := steady(lines)
	if w.any && now == w.last && w.screen == nil { //mutant:cmd-watch-prints-changes
		return nil
	}
	w.last = now
	var b bytes.Buffer
	switch {
	case w.json:
		if err := writeSnapshot(&b, r.at, lines); err != nil {
			return err
		}
	case w.screen != nil:
		w.draw(&b, r, lines)
	default:
		fmt.Fprintf(&b, "%s  %s\n", r.at.Format(time.DateTime), r.where)
		writeLocks(&b, lines, 0)
		fmt.Fprintln(&b)
	}
	w.any = true
	_, err := w.to.Write(b.Bytes())
	return err
}

// draw redraws the screen, with as many lines as fit.
func (w *watched) draw(b *bytes.Buffer, r *reading, lines []line) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s  %s\n\n", r.at.Format(time.DateTime), r.where)
	writeLocks(&text, lines, nameColumn)
	columns, rows := w.screen.columns(), w.screen.rows()
	all := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if r.err != nil {
		rows-- // a row for the error
	}
	if len(all) > rows-1 && rows > 2 {
		left := len(all) - (rows - 2)
		all = append(all[:rows-2], fmt.Sprintf("and %d more lines", left))
	}
	if r.err != nil {
		all = append(all, r.err.Error()) //mutant:cmd-watch-draws-its-errors
	}
	if !w.any {
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H")
	for _, l := range all {
		b.WriteString(fit(plainText(l), columns-1) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
}

func writeLocks(w io.Writer, lines []line, columns int) {
	if len(lines) == 0 {
		fmt.Fprintln(w, "no lock is in use")
		return
	}
	_ = printTable(w, lines, columns) // into memory
}

// A snapshot is one line of ls --watch --json. docs/stability.md promises it.
type snapshot struct {
	Time    string `json:"time"` // RFC 3339
	Entries []line `json:"entries"`
}

func writeSnapshot(w io.Writer, at time.Time, lines []line) error {
	return writeJSON(w, snapshot{at.Format(time.RFC3339Nano), append([]line{}, lines...)})
}

// steady returns the lines without what changes by itself: renewals and passing time are no
// change.
func steady(lines []line) string {
	still := slices.Clone(lines)
	for i := range still {
		still[i].Expires, still[i].Since = 0, ""
	}
	text, _ := json.Marshal(still)
	return string(text)
}
