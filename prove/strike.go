package prove

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A stroke is one fault that is to strike one process.
type stroke struct {
	fault Fault
	last  time.Duration // how long the fault lasts
	delay time.Duration
	only  int // the link that it strikes, modulo their number; below 0: all
}

// draw draws the course of a fault; nil if the process, or its link, has a fault
// already. The random values are drawn in either case, so that later draws are the
// same.
func (p *process) draw(f Fault, rng *rand.Rand) *stroke {
	ttl := p.r.o.TTL
	s := &stroke{fault: f, delay: between(rng, ttl/500, ttl/4), only: rng.IntN(120) - 60}
	switch f {
	case stopShort:
		s.last = between(rng, ttl/10, ttl*8/10)
	case stopLong:
		s.last = between(rng, ttl*11/10, ttl*22/10)
	case kill, restart:
		s.last = between(rng, 0, ttl/2)
	case silence, late: // short: these faults are for callers that keep asking
		s.last = between(rng, ttl/20, ttl/4)
		s.delay *= 2 // of late requests: by then their caller has given up, and found nothing
	default:
		s.last = between(rng, ttl/10, ttl*18/10)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	busy := p.busyWith(f)
	if *busy {
		return nil
	}
	*busy = true
	return s
}

// busyWith points to whether the process, or its link, has a fault now: each has
// one at a time.
func (p *process) busyWith(f Fault) *bool {
	if slices.Contains(linkFaults, f) {
		return &p.linkBusy
	}
	return &p.busy
}

// strike carries out the fault from its beginning to its end.
func (p *process) strike(s *stroke) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		*p.busyWith(s.fault) = false
	}()
	p.r.add(Event{Do: struck, Proc: p.n, Fault: s.fault})
	hits, err := p.suffer(s)
	p.r.add(Event{Do: mended, Proc: p.n, Fault: s.fault, Hits: hits})
	if err != nil {
		p.r.add(Event{Do: failed, Proc: p.n, Text: fmt.Sprintf("%s of process %d: %v", s.fault, p.n, err)})
	}
}

func (p *process) suffer(s *stroke) (hits int, err error) {
	switch s.fault {
	case stopShort, stopLong:
		if err := p.signal(func() error { return freeze(p.cmd.Process) }); err != nil {
			return 0, err
		}
		from := p.r.now()
		time.Sleep(s.last)
		err := p.signal(func() error { return thaw(p.cmd.Process) })
		if p.r.run.Lines { // the group that talks to it was not stopped, and did not notice
			p.r.add(Event{Do: stall, Proc: p.n, Life: p.life - 1, By: p.r.now() - from})
		}
		return 1, err
	case kill:
		p.kill()
		time.Sleep(s.last)
		return 1, p.begin()
	case restart:
		if !p.end(nil, p.r.o.TTL+30*time.Second) {
			return 1, fmt.Errorf("it does not end")
		}
		time.Sleep(s.last)
		return 1, p.begin()
	}
	p.mu.Lock()
	for i, x := range p.links {
		if s.only < 0 || i == s.only%len(p.links) {
			x.strike(s.fault, s.delay)
		}
	}
	if s.only < 0 {
		p.onLinks = s // it strikes links that are made meanwhile, too
	}
	p.mu.Unlock()
	time.Sleep(s.last)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onLinks = nil
	for _, x := range p.links {
		hits += x.mend()
	}
	if s.fault == late {
		p.r.arrivesBy(p.r.now() + s.delay + piecesFor)
	}
	return hits, nil
}

func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(max(to-from, 1))))
}

func join(all []Fault) string {
	var s []string
	for _, f := range all {
		s = append(s, string(f))
	}
	return strings.Join(s, ", ")
}

// forgets returns the faults of the server after which the store may have granted
// a name twice.
func forgets(d *store.Description) []Fault {
	var all []Fault
	for _, f := range []Fault{restarted, wiped, failover, clockStep} {
		if slices.Contains(d.Forgets, store.Accident(f)) {
			all = append(all, f)
		}
	}
	return all
}

// unchecked says what is not tested on this store.
func (r *run) unchecked(d *store.Description) (all []string) {
	switch {
	case r.way.groups:
		all = append(all, "processes that are stopped or killed: this store is inside one process")
	case !r.way.network && r.o.Own != nil:
		all = append(all, "bad network: the URL names no host")
	case !r.way.network:
		all = append(all, "bad network: there is none between this store and its users")
	}
	if r.uncontained != nil {
		all = append(all, fmt.Sprintf("containers with boot ids of their own: none can be created here: %v", r.uncontained))
	}
	if !r.way.groups {
		var not []string
		for _, f := range serverFaults {
			if r.o.Server[f] == nil {
				not = append(not, string(f))
			}
		}
		if len(not) > 0 {
			all = append(all, "faults of the store itself ("+strings.Join(not, ", ")+"): prove does not stop your server")
		}
		if r.o.Offset == 0 {
			all = append(all, "processes whose wall clocks differ: all run on this host")
		}
	}
	all = append(all, "a machine that is suspended")
	if r.way.open == nil {
		all = append(all, "whether anything is left in the store")
	}
	for _, p := range slices.Sorted(maps.Keys(d.Lacks)) {
		all = append(all, fmt.Sprintf("%s: %s", p, d.Lacks[p]))
	}
	return all
}

func dialDirect(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
}
