package prove

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// never is an instant after every history.
const never = time.Duration(math.MaxInt64)

// A claim is one that a process made, with what it saw of it.
type claim struct {
	key
	name, verb    string
	weight, limit int64
	call, back    time.Duration // when it was made, and answered; never
	bound         time.Duration // when its context ended, from the call; 0: never
	err           string        // class, if it was refused

	// Of a grant.
	granted bool
	id      string
	token   int64
	sent    time.Duration // when the store was first asked by this id; 0: not known
	until   time.Duration // the last deadline that was seen
	raced   bool          // it was to be released as it ended
	spans   []span        // what it held, and when
	inner   []int64       // the tokens of its re-entries
	changes []change      // upgrades and downgrades

	revived    bool          // it had ended, and was then valid again
	over, late time.Duration // when a bare timer for its deadline fired, and how late; never
	lost       time.Duration // when the loss was reported; never
	release    time.Duration // when the release was called, and returned; never
	released   time.Duration
	relErr     string
	died       time.Duration // when its process was killed; never
}

// A span is a hold of one weight, from one instant until before another. The
// holder certainly had it then: it may have lasted longer.
type span struct {
	c        *claim
	from, to time.Duration
	weight   int64
	token    int64
}

// A change is a call that changes the weight of a hold.
type change struct {
	what     string
	from, to time.Duration // never
	bound    time.Duration // of its context; below 0: as long as a release
}

// end is until when the owner could rely on the hold.
func (c *claim) end() time.Duration {
	return min(c.until, c.lost, c.release, c.died) //mutant:judge-deadline-ends-nothing
}

// sure reports whether the hold lasted until its end as its owner saw it. Where
// no loss is foreseen, one that was lost had ended some time before.
func (c *claim) sure() bool { return c.until != never || c.clean() && c.lost == never } //mutant:judge-hold-lost-lasted-until

// clean reports whether the store has said that it has let go.
func (c *claim) clean() bool { return c.released != never && c.relErr == "" }

// A life is one process from its start to its death.
type life struct {
	proc, life int
	from, to   time.Duration
	stalls     []window // in order, and none overlaps another
}

// stalled is for how long in all a bare timer of the process would have been
// late between two instants. That it was stopped shows in it too.
func (l *life) stalled(from, to time.Duration) (sum time.Duration) {
	i := sort.Search(len(l.stalls), func(i int) bool { return l.stalls[i].to > from })
	for ; i < len(l.stalls) && l.stalls[i].from < to; i++ {
		sum += min(l.stalls[i].to, to) - max(l.stalls[i].from, from)
	}
	return sum
}

// join merges overlapping stalls: several goroutines of a process report the
// same one.
func (l *life) join() {
	slices.SortFunc(l.stalls, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	kept := l.stalls[:0]
	for _, s := range l.stalls {
		if n := len(kept); n > 0 && s.from <= kept[n-1].to { //mutant:judge-stall-counts-each-tells
			kept[n-1].to = max(kept[n-1].to, s.to)
		} else {
			kept = append(kept, s)
		}
	}
	l.stalls = kept
}

// A window is a time in which a right lock may fail a check.
type window struct{ from, to time.Duration }

func (w window) meets(from, to time.Duration) bool { return w.from < to && from < w.to }

// A view is a history, taken apart for the checks.
type view struct {
	*History
	names  map[string]Name
	claims []*claim // in the order of their calls
	byName map[string][]*claim
	lives  map[[2]int]*life
	parent []window         // in which it stood still, and with it all links
	lates  map[int][]window // of each process: what it asks for can arrive after it was asked for again
	faults map[int][]window // of each process and its link
	begun  map[[2]any]int   // which of them the newest of a process and a kind is
	placed map[string]Event // the newest of each id
	calm   time.Duration    // never
	end    time.Duration    // of the history

	tokenless bool // no grant has a token
	tells     bool // of losses, by a deadline
	broke     bool // the run could not go on
}

func newView(h *History) *view {
	v := &view{
		History: h, names: map[string]Name{}, byName: map[string][]*claim{}, lives: map[[2]int]*life{},
		placed: map[string]Event{}, calm: never, lates: map[int][]window{}, faults: map[int][]window{}, begun: map[[2]any]int{}, tokenless: true,
	}
	for _, n := range h.Run.Names {
		v.names[n.Name] = n
	}
	at, killed := map[key]*claim{}, map[[2]int]time.Duration{}
	for i := range h.Events {
		e := &h.Events[i]
		v.end = max(v.end, e.At)
		v.process(e)
		v.noteLate(e)
		v.noteFault(e)
		v.tokenless = v.tokenless && e.Token == 0
		v.broke = v.broke || e.Do == failed
		v.tells = v.tells || e.Tells || e.Do == over
		switch e.Do {
		case ask:
			c := &claim{
				key: e.key(), name: e.Name, verb: e.Verb, weight: e.Weight, limit: e.Limit, call: e.At, bound: e.Bound,
				back: never, over: never, lost: never, release: never, released: never, died: never,
			}
			at[c.key] = c
			if _, ok := v.names[e.Name]; !ok { // a lasting hold: it has no competitors
				v.names[e.Name] = Name{Name: e.Name, Limit: e.Limit}
			}
			v.claims = append(v.claims, c)
			v.byName[c.name] = append(v.byName[c.name], c)
		case placed:
			v.placed[e.ID] = *e
		case calm:
			v.calm = e.At
		case died:
			killed[[2]int{e.Proc, e.Life}] = e.At
		default:
			if c := at[e.key()]; c != nil {
				c.note(e)
			}
		}
	}
	for _, l := range v.lives {
		l.stalls = append(l.stalls, v.parent...) //mutant:judge-parent-stood-still-stall
		l.join()
	}
	for _, c := range v.claims {
		if at, ok := killed[[2]int{c.proc, c.life}]; ok {
			c.died = at
		}
		if h.Run.Silent {
			c.until, c.revived = never, false
		}
		c.finish()
	}
	return v
}

// process keeps the lives of the processes.
func (v *view) process(e *Event) {
	k := [2]int{e.Proc, e.Life}
	switch l := v.lives[k]; {
	case e.Do == stall && e.Proc == 0:
		v.parent = append(v.parent, window{e.At - e.By, e.At})
	case e.Do == started && l == nil:
		v.lives[k] = &life{proc: e.Proc, life: e.Life, from: e.At, to: never}
	case l == nil:
	case e.Do == died || e.Do == finished:
		l.to = min(l.to, e.At)
	case e.Do == stall:
		l.stalls = append(l.stalls, window{e.At - e.By, e.At})
	}
}

// life is that of the claim's process.
func (v *view) life(c *claim) *life {
	if l := v.lives[[2]int{c.proc, c.life}]; l != nil {
		return l
	}
	return &life{to: never}
}

// note takes in an event of the claim.
func (c *claim) note(e *Event) {
	switch e.Do {
	case got:
		c.granted, c.back, c.id, c.token, c.sent = true, e.At, e.ID, e.Token, e.Sent
		if c.until, c.raced = e.Until, e.Raced; c.until == 0 { //mutant:judge-deadline-start
			c.until = never // its loss is noticed, not foreseen
		}
		c.spans = []span{{c, e.At, never, c.weight, e.Token}}
	case not:
		c.back, c.err = e.At, e.Err
	case until:
		c.until = max(c.until, e.Until)
		c.revived = c.revived || c.over != never
	case weight:
		last := &c.spans[len(c.spans)-1]
		if c.changed(e.At); e.Weight < last.weight { //mutant:judge-downgrade-may-take-ever
			c.changes = append(c.changes, change{"the downgrade", e.At, never, -1})
		}
		last.to = e.At
		c.spans = append(c.spans, span{c, e.At, never, e.Weight, max(last.token, e.Token)})
	case upgrade:
		c.changes = append(c.changes, change{"the upgrade", e.At, never, e.Bound}) //mutant:judge-upgrade-may-take-ever
	case stayed, lowered:
		c.changed(e.At)
	case nested:
		c.inner = append(c.inner, e.Token)
	case over:
		c.over, c.late = e.At, e.By
	case lost:
		c.lost = e.At
	case release:
		c.release = e.At
	case released:
		c.released, c.relErr = e.At, e.Err
	}
}

// changed ends the change that is under way.
func (c *claim) changed(at time.Duration) {
	if n := len(c.changes); n > 0 && c.changes[n-1].to == never {
		c.changes[n-1].to = at //mutant:judge-change-never-returns
	}
}

// finish cuts the spans at the end of the hold.
func (c *claim) finish() {
	kept := c.spans[:0]
	for _, s := range c.spans {
		if s.to = min(s.to, c.end()); s.from < s.to {
			kept = append(kept, s)
		}
	}
	c.spans = kept
}

// spansOf are what was held of a name, in the order in which it began.
func (v *view) spansOf(name string) (all []span) {
	for _, c := range v.byName[name] {
		all = append(all, c.spans...)
	}
	slices.SortStableFunc(all, func(a, b span) int { return int(min(max(a.from-b.from, -1), 1)) })
	return all
}

// voids are the windows in which faults void the check: from the fault until a
// TTL after it, when all that was forgotten has expired for its owner too.
func (v *view) voids(c check) (all []window) {
	open := map[Fault]int{}
	for i := range v.Events {
		switch e := &v.Events[i]; {
		case e.Do == struck && v.Run.voided(e.Fault, c): //mutant:judge-nothing-excused
			open[e.Fault] = len(all)
			all = append(all, window{e.At, never})
		case e.Do == mended && v.Run.voided(e.Fault, c):
			if i, ok := open[e.Fault]; ok {
				all[i].to = e.At + v.Run.TTL //mutant:judge-excused-end
			}
		}
	}
	return all
}

func within(all []window, from, to time.Duration) bool {
	return slices.ContainsFunc(all, func(w window) bool { return w.meets(from, to) })
}

// who describes the claim for people.
func (c *claim) who(token int64) string {
	life := ""
	if c.life > 0 {
		life = fmt.Sprintf(", life %d", c.life+1)
	}
	if token == 0 {
		return fmt.Sprintf("process %d%s, claim %d (%s)", c.proc, life, c.op, c.verb)
	}
	return fmt.Sprintf("process %d%s, claim %d (%s, token %d)", c.proc, life, c.op, c.verb, token)
}
