package prove

import (
	"bytes"
	"net"
	"time"
)

// A pair is the two connections that a proxy joins. Its fields but the
// connections are guarded by the proxy's mutex until the pair is reset; after
// that its requests are the pump's alone.
type pair struct {
	client, server net.Conn

	reset    bool          // the client's end was reset; replies are lost
	requests [][]byte      // sent while late was on: they arrive after the reset
	delay    time.Duration // how long after it
}

const (
	// pieceGap is how long after one late piece the next arrives, if they are few. Requests that
	// arrive close to their cancellation would not be done at all, on a busy machine.
	pieceGap = 20 * time.Millisecond
	// piecesFor is how long late pieces take to arrive at most.
	piecesFor = 2 * time.Second
	// lateFor is how long the server can work on late requests.
	lateFor = 2 * time.Second
)

// keeps takes a piece that must not pass now, and reports whether it did.
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

// resetStruck resets the clients' ends of what silence or late has met. p.mu is held.
func (p *proxy) resetStruck() {
	for x := range p.struck {
		x.reset = true
		abort(x.client)
	}
	clear(p.struck)
}

// arrivesBy notes by when all that is late has arrived.
func (r *run) arrivesBy(at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lateBy = max(r.lateBy, at)
}

// arrived waits until all that is late has arrived: only then the faults have ended.
func (r *run) arrived() {
	r.mu.Lock()
	by := r.lateBy
	r.mu.Unlock()
	time.Sleep(by - r.now()) //mutant:prove-calm-after-late
}

// deliver sends the late requests of a pair whose client has closed, and leaves
// the server time to work on them.
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

// noteLate keeps when what a process asks for can arrive late.
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

// noteFault keeps when there was a fault of a process, of its link, or of the store.
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

// ghost reports whether what a user's lock was asked for by the claim may have been done
// and not answered, and asked for once more by the client, as many do by themselves: what
// the second is refused for is the first.
func (v *view) ghost(c *claim) bool {
	to := min(c.back, v.end) + 1
	return v.Run.Peer && (within(v.faults[c.proc], c.call, to) || within(v.faults[0], c.call, to))
}

// askedLate reports whether an ask for the claim may arrive when it has ended: it was
// held on its way, and asked for again meanwhile.
func (v *view) askedLate(c *claim) bool { return within(v.lates[c.proc], c.call, min(c.back, v.end)+1) } //mutant:judge-any-ask-may-arrive
