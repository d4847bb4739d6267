//go:build !holdfast_lean

package main

import (
	"slices"
	"time"
)

// mostLost is how many losses are remembered.
const mostLost = 50

// A loss is a hold that an operator broke, or that was not renewed in time.
type loss struct {
	line line
	how  string // broken, or expired
	why  string
	at   time.Time // when it was seen
}

// losses finds in one reading after the other what was lost. A store does not list what has ended, so that not all
// losses can be seen: a hold that is simply gone has been given back, for all we know. It was lost if it was late
// with a renewal before, or if the store did not answer for longer than the hold could last.
type losses struct {
	list  []loss // the newest first
	last  map[string]*seenHold
	at    time.Time // of last
	quiet bool      // the store did not answer since
}

// A seenHold is one of the last whole reading.
type seenHold struct {
	line line
	most int64 // milliseconds that it had left after a renewal, as far as was seen
	told bool  // it is in the list
}

// see takes the next reading. One that lacks names says nothing of what has gone.
func (x *losses) see(r *reading) {
	if unanswered(r.err) {
		x.quiet = true
	}
	if r.err != nil {
		return
	}
	now := map[string]*seenHold{}
	lines := linesOf(r.states, r.at)
	for i := range lines {
		l := lines[i]
		if l.State == "waiting" {
			continue
		}
		h := &seenHold{line: l, most: l.Expires}
		before := x.last[l.ID]
		if before != nil {
			h.most, h.told = max(h.most, before.most), before.told
		}
		switch {
		case (l.State == "broken" || l.State == "freed") && !h.told:
			h.told = true
			x.add(loss{l, "broken", l.Broken, r.at})
		case l.State == "expired":
			if before != nil && !h.told {
				x.ended(before, r.at)
			}
			h.told = true // whatever it was
		}
		now[l.ID] = h
	}
	for id, h := range x.last {
		if now[id] == nil && !h.told {
			x.ended(h, r.at)
		}
	}
	x.last, x.at, x.quiet = now, r.at, false
}

// ended judges a hold that is no more, or that keeps its name taken only.
func (x *losses) ended(h *seenHold, at time.Time) {
	gap := at.Sub(x.at).Milliseconds()
	switch {
	case gap < h.line.Expires:
	case h.line.Expires < h.most/2: //mutant:cmd-ui-late-with-a-renewal
		x.add(loss{h.line, "expired", "it was not renewed in time", at})
	case x.quiet && gap > h.most:
		x.add(loss{h.line, "expired", "the store did not answer for so long; it may have been given back just before", at})
	}
}

func (x *losses) add(l loss) {
	x.list = slices.Insert(x.list, 0, l)
	x.list = x.list[:min(len(x.list), mostLost)]
}
