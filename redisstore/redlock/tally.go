package redlock

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A tally collects the nodes' answers to one round of an ask.
type tally struct {
	nodes      int
	quorum     func(limit int64) int // how many votes a hold needs
	asked      time.Time
	clocks     int // how many nodes have returned their clock
	accepted   []*node
	low, high  int
	astray     []error  // nodes that accept no number of this client, because a clock is wrong
	lost       []string // reasons
	mismatches int
	have       int64 // their limit
	refused    []refusal
	errs       []error
}

// A refusal is the refusal of one node.
type refusal struct {
	now, last      int64
	left           time.Duration // until the first blocking entry ends
	holding, ahead int
	holders        []entry // the first granted entries
	places         []place // the first waiters ahead
}

// A place is the queue position of a claim.
type place struct {
	order int64
	id    store.ID
}

func (p place) before(cl *claim) bool { return p.less(place{cl.order, cl.ID}) }

func (p place) less(than place) bool {
	return cmp.Or(cmp.Compare(p.order, than.order), bytes.Compare(p.id[:], than.id[:])) < 0
}

// placeSize is the length of a place in a node's answer.
const placeSize = 8 + 2*len(store.ID{})

// add counts a reply to the claim's newest number.
func (t *tally) add(s *Store, cl *claim, r reply) {
	if r.err != nil {
		t.errs = append(t.errs, r.err)
		return
	}
	rest := r.answer[1:]
	switch kind := r.answer[0]; {
	case kind == 'O' && len(rest) == 8:
		t.accepted = append(t.accepted, r.n)
		t.learn(s, r.n, float(rest)) //mutant:redlock-clock-by-grant
	case kind == 'N' && len(rest) == 16:
		t.low++
		now, last := float(rest), float(rest[8:])
		t.learn(s, r.n, now)
		cl.newest = max(cl.newest, last)
		if !s.reaches(last) {
			t.astray = append(t.astray, r.n.ahead(s, now, last))
		}
	case kind == 'H' && len(rest) == 8:
		t.high++
		t.learn(s, r.n, float(rest))
		t.astray = append(t.astray, r.n.behind(s, float(rest)))
	case kind == 'R':
		f, ok := readRefusal(rest)
		if !ok {
			t.errs = append(t.errs, r.n.strange(r.answer))
			return
		}
		t.learn(s, r.n, f.now) //mutant:redlock-clock-by-refusal
		if s.reaches(f.last) {
			cl.newest = max(cl.newest, f.last)
		}
		t.refused = append(t.refused, f)
	case kind == 'L':
		t.lost = append(t.lost, rest)
	case kind == 'M':
		t.mismatches++
		t.have, _ = strconv.ParseInt(rest, 10, 64)
	case kind == 'Q' && len(rest) == 8:
		err := error(&quarantined{"it has been wiped, or was never used before", duration(float(rest))})
		r.n.lose(err, nil)
		t.errs = append(t.errs, r.n.failed(err))
	case kind == 'X' && len(rest) == 8:
		err := r.n.otherMaximum(duration(float(rest)))
		r.n.lose(err, nil)
		t.errs = append(t.errs, r.n.failed(err))
	case kind == 'D':
		t.errs = append(t.errs, r.n.corrupt(s.record()))
	default:
		t.errs = append(t.errs, r.n.common(s.key(cl.Name), r.answer))
	}
}

// common returns the error of an answer that any script may give.
func (n *node) common(key, answer string) error {
	switch {
	case answer == "C":
		return n.corrupt(key)
	case len(answer) == 2 && answer[0] == 'V':
		return n.newer(key, answer[1])
	}
	return n.strange(answer)
}

func readRefusal(text string) (f refusal, ok bool) {
	var head struct {
		Now, Last, Left float64
		Holding, Ahead  uint32
	}
	n, err := binary.Decode([]byte(text), le, &head)
	if err != nil {
		return f, false
	}
	f = refusal{
		now: int64(head.Now), last: int64(head.Last), left: duration(int64(head.Left)),
		holding: int(head.Holding), ahead: int(head.Ahead),
	}
	text = text[n:]
	granted := len(text) - min(f.ahead, 16)*placeSize
	if granted < 0 {
		return f, false
	}
	if f.holders, err = parseEntries(text[:granted]); err != nil {
		return f, false
	}
	for text = text[granted:]; len(text) > 0; text = text[placeSize:] {
		id, err := store.ParseID(text[8:placeSize])
		if err != nil {
			return f, false
		}
		f.places = append(f.places, place{float(text), id})
	}
	return f, true
}

// answered returns how many nodes have decided about the claim.
func (t *tally) answered() int {
	return len(t.accepted) + t.low + t.high + len(t.lost) + t.mismatches + len(t.refused)
}

// enough reports whether no more answers are needed: the claim is granted, cannot be granted,
// or cannot be granted with this number but perhaps with another.
func (t *tally) enough(need int) bool {
	curable := t.low + t.high
	against := t.answered() - len(t.accepted) - curable + len(t.errs)
	return len(t.accepted) >= need || against > t.nodes-need && (t.answered() >= need || len(t.errs) > t.nodes-need) ||
		len(t.accepted)+curable >= need && against+curable > t.nodes-need
}

// onlyClocks reports whether only wrong clocks prevent the grant: the claim fits on enough
// nodes, but too many of them accept no number.
func (t *tally) onlyClocks(need int) bool {
	room := len(t.accepted) + t.low + t.high
	return room >= need && room-len(t.astray) < need
}

// lossReason returns why the claim is lost.
func (t *tally) lossReason() error {
	slices.Sort(t.lost)
	if reason := t.lost[len(t.lost)-1]; reason != "" {
		return &store.LostError{Reason: reason}
	}
	return store.ErrLost
}

// A vote is a grant by some nodes, shown as the copy that blocks longest.
type vote struct {
	copied
	copies []copied
}

func (v *vote) count() int { return len(v.copies) }

// votes counts the accepted grants to other claims, most votes first.
func (t *tally) votes() (all []vote) {
	for _, f := range t.refused {
		for _, e := range f.holders {
			if !e.accepted {
				continue
			}
			i := slices.IndexFunc(all, func(v vote) bool { return v.id == e.id && v.p == e.p })
			if i < 0 {
				i = len(all)
				all = append(all, vote{copied: copied{entry: e, now: f.now}})
			}
			all[i].copies = append(all[i].copies, copied{entry: e, now: f.now})
		}
	}
	for i := range all {
		v := &all[i]
		v.copied = standing(v.copies, t.quorum(v.limit), t.nodes) //mutant:redlock-copy-in-the-way
	}
	slices.SortFunc(all, func(a, b vote) int {
		return cmp.Or(cmp.Compare(b.count(), a.count()), byOrder(&a.entry, &b.entry))
	})
	return all
}

// decided reports whether a try certainly fails: another claim has enough votes, or is earlier
// in the queue.
func (t *tally) decided(cl *claim) bool {
	if slices.ContainsFunc(t.votes(), func(v vote) bool { return v.count() >= t.quorum(v.limit) }) {
		return true
	}
	for _, f := range t.refused {
		for _, e := range f.holders {
			if (place{e.order, e.id}).before(cl) {
				return true
			}
		}
		if len(f.places) > 0 { // they are all ahead
			return true
		}
	}
	return false
}

// refusal combines the refusals of the nodes. Last is the largest number that a node has
// returned, even if no majority accepted it. Until is at most splitLook if the nodes are split.
func (t *tally) refusal(cl *claim) store.Answer {
	a := store.Answer{Last: cl.newest}
	all, sure := t.votes(), 0
	// An entry is a hold if it has enough votes, or can have them with the votes of nodes
	// that did not refuse, but no more holds than fit.
	for held, least := int64(0), int64(store.Full); sure < len(all); sure++ {
		v := &all[sure]
		held, least = held+v.weight, min(least, v.limit)
		if v.count()+t.nodes-len(t.refused) < t.quorum(v.limit) || held > least {
			break
		}
	}
	if sure > 0 {
		all = all[:sure]
	}
	slices.SortFunc(all, func(a, b vote) int { return byOrder(&a.entry, &b.entry) })
	inWay, places := 0, false
	others := map[store.ID]bool{}
	var untils []time.Duration
	for _, f := range t.refused {
		inWay = max(inWay, f.holding+f.ahead)
		for _, e := range f.holders {
			others[e.id] = true
		}
		for _, p := range f.places {
			others[p.id], places = true, true
		}
		a.Holding = max(a.Holding, f.holding)
		untils = append(untils, max(f.left, time.Microsecond))
	}
	for i := range all {
		if len(a.Holders) < store.MaxHolders {
			a.Holders = append(a.Holders, all[i].show(true))
		}
	}
	if len(a.Holders) < store.MaxHolders {
		a.Holding = len(a.Holders)
	}
	a.Waiting = max(max(inWay, len(others))-a.Holding, 0)
	if a.Holding+a.Waiting == 0 {
		a.Waiting = 1 // a claim that came and went on some of the nodes
	}
	// Do not wait for what holds only on a node that is behind.
	if sure > 0 && !places { //mutant:redlock-ends-with-first-hold
		untils = untils[:0]
		for i := range all {
			untils = append(untils, max(duration(all[i].ends()-all[i].now), time.Microsecond))
		}
	}
	if len(untils) > 0 {
		a.Until = slices.Min(untils)
	}
	if sure == 0 && (len(t.accepted)+t.low > 0 || len(untils) == 0) && (a.Until == 0 || a.Until > splitLook) {
		a.Until = splitLook
	}
	return a
}

func byOrder(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.order, b.order), bytes.Compare(a.id[:], b.id[:]))
}
