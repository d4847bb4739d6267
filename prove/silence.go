package prove

import (
	"bytes"
	"net"
	"time"
)

// A pair is the two connections that a proxy joins. The proxy's mutex guards the
// fields other than the connections until the pair is reset. After that only the
// pump of the requests uses requests and delay.
type pair struct {
	client, server net.Conn

	reset    bool          // the client's end was reset; replies are lost
	requests [][]byte      // requests sent while late was on: they arrive after the reset
	delay    time.Duration // how long after the reset they arrive
}

const (
	// pieceGap is the time between two late pieces, if they are few. On a busy machine, a request
	// that arrives close to its cancellation would not be executed at all.
	pieceGap = 20 * time.Millisecond
	// piecesFor is the longest time that late pieces take to arrive.
	piecesFor = 2 * time.Second
	// lateFor is how long the server has to work on late requests.
	lateFor = 2 * time.Second
)

// keeps stores or drops a piece that must not pass now, and reports whether it did.
func (p *proxy) keeps(x *pair, piece []byte, reply bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case reply && x.reset:
		return true
	case p.fault == silence && reply, p.fault == late && reply:
	case p.fault == late:
		x.requests, x.delay = append(x.requests, bytes.Clone(piece)), p.delay
	default:
		return false
	}
	p.struck[x] = true
	p.hits++
	return true
}

// resetStruck resets the clients' ends of the pairs that silence or late has met. The caller
// holds p.mu.
func (p *proxy) resetStruck() {
	for x := range p.struck {
		x.reset = true
		abort(x.client)
	}
	clear(p.struck)
}

// arrivesBy records that late requests may arrive until at.
func (r *run) arrivesBy(at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lateBy = max(r.lateBy, at)
}

// arrived waits until all late requests have arrived: only then have the faults ended.
func (r *run) arrived() {
	r.mu.Lock()
	by := r.lateBy
	r.mu.Unlock()
	time.Sleep(by - r.now()) //mutant:prove-calm-after-late
}

// deliver sends the late requests of a pair whose client has closed, and gives the
// server time to work on them.
func (p *proxy) deliver(x *pair) {
	if len(x.requests) == 0 {
		return
	}
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-p.closed:
		}
	}
	wait(x.delay)
	gap := min(pieceGap, piecesFor/time.Duration(len(x.requests)))
	for _, piece := range x.requests {
		if _, err := x.server.Write(piece); err != nil {
			return
		}
		wait(gap)
	}
	wait(lateFor)
}

// noteLate records when requests of a process can arrive late.
func (v *view) noteLate(e *Event) {
	all := v.lates[e.Proc]
	switch {
	case e.Fault != late:
	case e.Do == struck:
		v.lates[e.Proc] = append(all, window{e.At, never})
	case e.Do == mended && len(all) > 0:
		all[len(all)-1].to = e.At
	}
}

// noteFault records when there was a fault of a process, of its links, or of the store.
func (v *view) noteFault(e *Event) {
	k := [2]any{e.Proc, e.Fault}
	switch i, on := v.begun[k]; {
	case e.Do == struck:
		v.begun[k] = len(v.faults[e.Proc])
		v.faults[e.Proc] = append(v.faults[e.Proc], window{e.At, never})
	case e.Do == mended && on:
		v.faults[e.Proc][i].to = e.At
	}
}

// ghost reports whether a request of the claim for a user's own lock may have been executed
// but not answered. Many clients then repeat the request by themselves, and the second is
// refused because of the first.
func (v *view) ghost(c *claim) bool {
	to := min(c.back, v.end) + 1
	return v.Run.Peer && (within(v.faults[c.proc], c.call, to) || within(v.faults[0], c.call, to))
}

// askedLate reports whether an Ask for the claim may arrive after the claim has ended: it
// was delayed on its way, and repeated meanwhile.
func (v *view) askedLate(c *claim) bool { return within(v.lates[c.proc], c.call, min(c.back, v.end)+1) } //mutant:judge-any-ask-may-arrive
