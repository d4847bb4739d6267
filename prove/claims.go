package prove

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// never is an instant after every history: the time of what did not happen.
const never = time.Duration(math.MaxInt64)

// A claim is a claim that a process made, with all that the process reported about it.
type claim struct {
	key
	name, verb    string
	weight, limit int64
	call, back    time.Duration // when it was made, and answered, or never
	bound         time.Duration // from the call to the end of its context; 0: the context does not end
	err           string        // the class of the error, if it was not granted

	// Of a grant.
	granted bool
	id      string
	token   int64
	sent    time.Duration // when the store was first asked with this id; 0: unknown
	until   time.Duration // the latest deadline that was reported; never: it has none
	raced   bool          // it was to be released at about its deadline
	spans   []span        // what it held, and when
	inner   []int64       // the tokens of its re-entries
	changes []change      // upgrades and downgrades

	revived    bool          // it had expired, and was then valid again
	over, late time.Duration // when a bare timer for its deadline fired, or never; and how late it was
	lost       time.Duration // when the loss was reported, or never
	release    time.Duration // when the release was called, or never
	released   time.Duration // when the release returned, or never
	relErr     string
	died       time.Duration // when its process was killed, or never
}

// A span is a time in which a claim certainly had a hold of one weight: from
// inclusive, to exclusive. The hold may have lasted longer.
type span struct {
	c        *claim
	from, to time.Duration
	weight   int64
	token    int64
}

// A change is a call that changes the weight of a hold.
type change struct {
	what     string
	from, to time.Duration // from its call to its return, or never
	bound    time.Duration // from the call to the end of its context; below 0: as long as a release may take
}

// end returns the time until which the owner could rely on the hold.
func (c *claim) end() time.Duration {
	return min(c.until, c.lost, c.release, c.died) //mutant:judge-deadline-ends-nothing
}

// sure reports whether the hold certainly lasted until end. Without a deadline it
// did only if it was released without an error or a loss: a lost hold had ended at
// an unknown time before.
func (c *claim) sure() bool { return c.until != never || c.clean() && c.lost == never } //mutant:judge-hold-lost-lasted-until

// clean reports whether the release succeeded.
func (c *claim) clean() bool { return c.released != never && c.relErr == "" }

// A life is one process from its start to its death.
type life struct {
	proc, life int
	from, to   time.Duration
	stalls     []window // in order, without overlaps
}

// stalled returns the total delay that a bare timer of the process would have had
// between two instants. It includes times in which the process was stopped.
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

// A window is the time between two instants.
type window struct{ from, to time.Duration }

func (w window) meets(from, to time.Duration) bool { return w.from < to && from < w.to }

// A view is a history, indexed for the checks.
type view struct {
	*History
	names  map[string]Name
	claims []*claim // in the order of their calls
	byName map[string][]*claim
	lives  map[[2]int]*life
	parent []window         // when it stalled, and with it all links
	lates  map[int][]window // of each process: when a request can arrive later than its repetition
	faults map[int][]window // of each process and its links; 0: of the store
	begun  map[[2]any]int   // by process and fault: the index of the newest in faults
	placed map[string]Event // the newest placed event of each id
	calm   time.Duration    // when all faults had ended, or never
	end    time.Duration    // of the history

	tokenless bool // no grant has a token
	tells     bool // losses are reported by a deadline
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
			if _, ok := v.names[e.Name]; !ok { // the lasting hold of a wide run: no other process claims it
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

// process records the lives of the processes, and the parent's stalls.
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

// life returns the life of the process that made the claim.
func (v *view) life(c *claim) *life {
	if l := v.lives[[2]int{c.proc, c.life}]; l != nil {
		return l
	}
	return &life{to: never}
}

// note records an event of the claim.
func (c *claim) note(e *Event) {
	switch e.Do {
	case got:
		c.granted, c.back, c.id, c.token, c.sent = true, e.At, e.ID, e.Token, e.Sent
		if c.until, c.raced = e.Until, e.Raced; c.until == 0 { //mutant:judge-deadline-start
			c.until = never // without a deadline a loss is noticed, not foreseen
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

// changed ends the change that is in progress.
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

// spansOf returns the spans of a name in the order in which they began.
func (v *view) spansOf(name string) (all []span) {
	for _, c := range v.byName[name] {
		all = append(all, c.spans...)
	}
	slices.SortStableFunc(all, func(a, b span) int { return int(min(max(a.from-b.from, -1), 1)) })
	return all
}

// voids returns the windows in which faults void the check: from the start of the
// fault until a TTL after its end, when all that the store forgot has expired for
// its owner too.
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

// who describes the claim in words.
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
