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
	firstLook  = 50 * time.Millisecond // the first pause; doubled up to nextLook
	nextLook   = time.Second           // the longest pause, and the time before the status line is shown
	tellsAgain = time.Minute
)

// A watch reads the queue that we wait in, and reports it: with -v and --json at the start, each
// minute, and when the store answers at last; on a terminal each second. It only reads; the
// library does the waiting.
type watch struct {
	j     *job
	in    store.Inspector // nil: the state of this store cannot be read
	owner holdfast.Owner  // as the store shows it
	start time.Time
	told  time.Time // zero: not yet
	known bool      // at that report the store had answered
}

// watch starts to watch, and returns a function that ends it.
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
		cancel() // and it reports nothing more: a store that hangs must not block us
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

// due reports whether to report the queue now: at the start, each minute, and as soon as a store
// answers that was reported not to.
func (w *watch) due(q *queue, now time.Time) bool {
	answers := q.known && !w.known && !w.told.IsZero()
	return q.waits() && (now.Sub(w.told) >= tellsAgain || answers) //mutant:cmd-answer-told
}

// A queue is the holders and waiters of a name, as seen from our queue position.
type queue struct {
	name    string
	known   bool // the store could be read
	placed  bool // we have a position in it
	holding []line
	ahead   int
}

// waits reports whether we certainly have to wait. If the queue cannot be read, that is so
// because we have not obtained the lock by now.
func (q *queue) waits() bool { return !q.known || q.placed }

// look reads the queue of the name that we wait for: of several, the one in which we have a
// position, or the first.
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
	// Our entry is the last of our owner: a dead process that had our pid may have left another.
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

// text returns the queue on one line. What changes comes first: a narrow terminal cuts the rest.
func (w *watch) text(q *queue, now time.Time) string {
	text := "waiting for " + fit(printable(q.name), 30)
	switch {
	case q.placed && q.ahead == 0:
		text += ", next in line"
	case q.placed:
		text += fmt.Sprintf(", %d ahead", q.ahead)
	}
	if w.j.waits {
		left := w.j.deadline().Sub(now) //mutant:cmd-time-left-is-of-the-limit
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
