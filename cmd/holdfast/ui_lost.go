//go:build !holdfast_lean

package main

import (
	"slices"
	"time"
)

// mostLost is how many losses are kept.
const mostLost = 50

// A loss is a hold that an operator broke, or that was not renewed in time.
type loss struct {
	line line
	how  string // broken, or expired
	why  string
	at   time.Time // when it was seen
}

// losses finds what was lost by comparing readings. A store does not list what has ended, so not
// all losses can be seen: a hold that is gone counts as released. It counts as lost if its
// renewal was late before, or if the store did not answer for longer than the hold could last.
type losses struct {
	list []loss               // the newest first
	seen map[string]*seenHold // by id, the holds that are not known to be gone
	told map[string]time.Time // by id, the holds that were judged, and when
}

// A seenHold is a hold as it was read last.
type seenHold struct {
	line  line
	at    time.Time // when it was read
	most  int64     // milliseconds that a renewal gives it, as far as was seen
	quiet bool      // the store did not answer a read since
}

// The bounds of what is remembered.
const (
	mostUnread = 10_000      // holds that the newest reading lacks, because it has an error
	toldTime   = time.Minute // of a judged hold that is gone: longer than a read, which may have started before
)

// see takes the next reading. If it has an error, what it lacks may still exist.
func (x *losses) see(r *reading) {
	now := map[string]*seenHold{}
	lines := linesOf(r.states, r.at)
	for i := range lines {
		l := lines[i]
		if l.State == "waiting" {
			continue
		}
		h := &seenHold{line: l, at: r.at, most: l.Expires}
		before := x.seen[l.ID]
		if before != nil {
			h.most = max(h.most, before.most)
		}
		switch l.State {
		case "broken", "freed":
			x.add(&l, "broken", l.Broken, r.at)
		case "expired":
			if before != nil {
				x.ended(before, r.at)
			}
			x.judged(l.ID, r.at) // lost or not
		}
		now[l.ID] = h
	}
	unread := 0
	for id, h := range x.seen {
		switch {
		case now[id] != nil:
		case r.err == nil: //mutant:cmd-ui-lacking-is-not-gone
			x.ended(h, r.at)
		case unread < mostUnread:
			h.quiet = h.quiet || unanswered(r.err)
			now[id] = h
			unread++
		}
	}
	x.seen = now
	for id, at := range x.told {
		if now[id] == nil && r.at.Sub(at) > toldTime {
			delete(x.told, id)
		}
	}
}

const backBefore = "; it may have been given back just before"

// ended judges a hold that is gone, or that only keeps its name taken.
func (x *losses) ended(h *seenHold, at time.Time) {
	gap := at.Sub(h.at).Milliseconds()
	switch {
	case gap < h.line.Expires:
	case h.line.Expires < h.most/2: //mutant:cmd-ui-late-with-a-renewal
		why := "it was not renewed in time"
		if gap > 3*leastPause.Milliseconds() { // long enough for a late renewal, or for a lease that nobody renews
			why += backBefore
		}
		x.add(&h.line, "expired", why, at)
	case h.quiet && gap > h.most:
		x.add(&h.line, "expired", "the store did not answer for longer than the TTL"+backBefore, at)
	}
}

// add lists a hold as lost, once.
func (x *losses) add(l *line, how, why string, at time.Time) {
	if !x.judged(l.ID, at) {
		x.list = slices.Insert(x.list, 0, loss{*l, how, why, at})
		x.list = x.list[:min(len(x.list), mostLost)]
	}
}

// judged marks a hold as judged, and reports whether it was already.
func (x *losses) judged(id string, at time.Time) bool {
	_, was := x.told[id]
	if !was {
		if x.told == nil {
			x.told = map[string]time.Time{}
		}
		x.told[id] = at
	}
	return was
}
