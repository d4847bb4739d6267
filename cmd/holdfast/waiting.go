package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// When the queue is reported.
const (
	firstLook  = 50 * time.Millisecond // doubled until our position is seen
	nextLook   = time.Second           // and until the status line is shown
	tellsAgain = time.Minute
)

// A watch reads the queue that we wait in, and reports what it sees: with -v
// and --json at the start, each minute and when the store answers at last, at a
// terminal each second, else nothing. It only reads; the engine does the waiting.
type watch struct {
	j     *job
	in    store.Inspector // nil: this store cannot be looked into
	owner holdfast.Owner  // as the store shows it
	start time.Time
	told  time.Time // zero: not yet
	known bool      // what was reported then: the store had answered
}

// watch begins to watch, and returns how to end that.
func (j *job) watch(s store.Store, owner holdfast.Owner) (end func()) {
	if j.try {
		return func() {}
	}
	if !j.json {
		stderr.screen = openScreen()
	}
	if stderr.screen == nil && !j.json && !j.verbose {
		return func() {}
	}
	w := &watch{j: j, owner: store.ParseOwner(owner.Stored()), start: time.Now()}
	w.in, _ = s.(store.Inspector)
	ctx, cancel := context.WithCancel(context.Background())
	go w.run(ctx)
	return func() {
		cancel() // and it tells nothing more: a store that hangs must not hold us up
		stderr.ends()
	}
}

func (w *watch) run(ctx context.Context) {
	pause := nextLook
	if w.j.json || w.j.verbose {
		pause = firstLook
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		q := w.look(ctx)
		now := time.Now()
		if (w.j.json || w.j.verbose) && w.due(q, now) {
			w.told, w.known = now, q.known
			stderr.waits(q.record(w.text(q, now)))
		}
		if stderr.screen != nil && now.Sub(w.start) >= nextLook {
			stderr.status("holdfast: " + w.text(q, now))
		}
		pause = min(2*pause, nextLook)
	}
}

// due says whether to report the queue now: at the start, each minute, and as
// soon as a store answers that was reported not to.
func (w *watch) due(q *queue, now time.Time) bool {
	answers := q.known && !w.known && !w.told.IsZero()
	return q.waits() && (now.Sub(w.told) >= tellsAgain || answers) //mutant:cmd-answer-told
}

// A queue is what others have of a name, seen from our position.
type queue struct {
	name    string
	known   bool // the store could be looked into
	placed  bool // we are in it
	holding []line
	ahead   int
}

// waits reports whether it is sure that we have to wait. Where one cannot look,
// it is what has not been obtained by now.
func (q *queue) waits() bool { return !q.known || q.placed }

// look looks into the queue of the name that we wait for: of several the one of
// which we have a position, or the first.
func (w *watch) look(ctx context.Context) *queue {
	ctx, cancel := context.WithTimeout(ctx, nextLook)
	defer cancel()
	var first *queue
	for _, name := range w.j.names {
		q := w.lookInto(ctx, name)
		if q.placed {
			return q
		}
		first = cmp.Or(first, q)
	}
	return first
}

func (w *watch) lookInto(ctx context.Context, name string) *queue {
	q := &queue{name: name}
	if w.in == nil {
		return q
	}
	s, err := look(ctx, w.in, name)
	if err != nil {
		return q
	}
	q.known = true
	q.holding = linesOf([]store.State{inTheWay(s)}, time.Now())
	// Our entry is the last of our owner: one that had our pid before and
	// died may have left one.
	for i, e := range s.Entries {
		if e.Owner == w.owner {
			q.placed = !e.Granted
			q.ahead = waiting(s.Entries[:i])
		}
	}
	return q
}

func waiting(entries []store.Entry) (n int) {
	for _, e := range entries {
		if !e.Granted {
			n++
		}
	}
	return n
}

// text is the queue on one line. What changes comes first: a narrow terminal
// cuts the rest.
func (w *watch) text(q *queue, now time.Time) string {
	text := "waiting for " + fit(printable(q.name), 30)
	switch {
	case q.placed && q.ahead == 0:
		text += ", next in line"
	case q.placed:
		text += fmt.Sprintf(", %d ahead", q.ahead)
	}
	if w.j.waits {
		left := w.start.Add(time.Duration(w.j.wait)).Sub(now)
		text += fmt.Sprintf(", %v left", max(left, 0).Round(time.Second))
	}
	switch {
	case !q.known && w.in != nil:
		text += ": the store does not answer"
	case len(q.holding) > 0 && q.holding[0].State == "expired":
		text += ": stays taken for " + q.holding[0].expiresText() + " by " + summary(q.holding)
	case len(q.holding) > 0:
		text += ": held by " + summary(q.holding)
	}
	return text
}

func (q *queue) record(message string) record {
	r := record{Event: eventWaiting, Name: q.name, Message: message}
	if !q.known {
		return r
	}
	n := len(q.holding)
	r.Holding, r.Ahead = &n, &q.ahead
	for _, l := range q.holding[:min(n, store.MaxHolders)] {
		r.Holders = append(r.Holders, holder{l.ID, l.Token, l.Owner, l.Since, l.Expires})
	}
	return r
}
