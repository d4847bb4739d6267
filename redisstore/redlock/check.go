package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// Check implements [store.Checker]. A node that is down or too young is no failure while
// enough others are in use.
func (s *Store) Check(ctx context.Context) (all []store.Finding) {
	need := len(s.nodes)/2 + 1
	if err := s.ready(ctx, len(s.nodes)); err != nil {
		return []store.Finding{{About: "nodes", Err: s.ended("look at", "the nodes", err)}}
	}
	found := make([]checked, len(s.nodes))
	var errs []error
	var looking sync.WaitGroup
	for i, n := range s.nodes {
		n.mu.Lock()
		up, away := n.state == up, n.err
		n.mu.Unlock()
		if up {
			looking.Go(func() { found[i] = n.check(ctx) })
			continue
		}
		if away == nil {
			away = n.failed(errNotYet)
		}
		errs = append(errs, away)
		found[i].all = []store.Finding{{About: "node " + n.address, Warning: true, Found: "not in use: " + away.Error()}}
	}
	looking.Wait()
	clocks := judgeClocks(s.nodes, found)
	grant := 0
	for _, f := range found {
		if f.grants {
			grant++
		}
	}
	nodes := store.Finding{About: "nodes", Found: fmt.Sprintf("%d of %d are in use, %d are needed", len(s.nodes)-len(errs), len(s.nodes), need)}
	switch {
	case len(s.nodes)-len(errs) < need:
		nodes.Err = s.indeterminate("look at", "the nodes", len(s.nodes)-len(errs), need, errs)
	case grant < need:
		nodes.Err = fmt.Errorf("%w: %s: only %d of %d nodes can grant what is new, %d are needed: the others are away, full or read-only, or their clocks are too far from the others'", store.ErrUnavailable, s.address, grant, len(s.nodes), need)
	}
	all = append(all, nodes)
	if n := len(s.nodes); n%2 == 0 {
		all = append(all, store.Finding{About: "number of nodes", Warning: true, Found: fmt.Sprintf("%d nodes survive no more failures than %d: use one fewer, or one more", n, n-1)})
	}
	for _, f := range found {
		all = append(all, f.all...)
	}
	return append(all, clocks...)
}

// judgeClocks adds to each node's findings whether its clock lets the node grant, and
// returns the findings about all readable clocks together. The numbers of claims come
// from the median of the nodes' clocks.
func judgeClocks(nodes []*node, found []checked) (all []store.Finding) {
	var ahead, least, most []time.Duration // of each clock: how far it is ahead, the minimum and the maximum
	for _, f := range found {
		if f.clock {
			ahead, least, most = append(ahead, f.ahead), append(least, f.ahead-f.within), append(most, f.ahead+f.within)
		}
	}
	if len(ahead) == 0 {
		return nil
	}
	slices.Sort(ahead)
	median := ahead[len(ahead)/2]                                     //mutant:redlock-check-clock-median
	if other := ahead[(len(ahead)-1)/2]; other.Abs() < median.Abs() { // with two medians, the one nearer to the local clock
		median = other
	}
	for i := range found {
		f := &found[i]
		if !f.clock {
			continue
		}
		off, within := f.ahead-median, max(f.within, 100*time.Microsecond).Round(100*time.Microsecond)
		says := store.Finding{About: "clock of " + nodes[i].address, Found: fmt.Sprintf("%v ahead of this host's, to within %v", f.ahead.Round(100*time.Microsecond), within)}
		why := ""
		switch {
		case off > reach: //mutant:redlock-check-clock-ahead
			why = fmt.Sprintf("%v ahead of most nodes', so its tokens cannot be used", off.Round(100*time.Millisecond))
		case off < -tooFar: //mutant:redlock-check-clock-behind
			why = fmt.Sprintf("%v behind most nodes', so it accepts no token", -off.Round(100*time.Millisecond))
		}
		if why != "" {
			f.grants = false //mutant:redlock-check-clock-grants
			says.Warning, says.Found = true, says.Found+"; "+why+": it grants nothing new; set it by NTP"
		}
		f.all = append(f.all, says)
	}
	if ahead[0] > reach || ahead[len(ahead)-1] < -reach {
		all = append(all, store.Finding{About: "clock of this host", Warning: true,
			Found: fmt.Sprintf("%v away from the nodes' clocks, which are used instead: set it by NTP", median.Abs().Round(100*time.Millisecond))})
	}
	if apart := slices.Max(least) - slices.Min(most); apart > time.Second { //mutant:redlock-check-clocks-apart
		all = append(all, store.Finding{About: "clocks", Warning: true,
			Found: fmt.Sprintf("the nodes' clocks are %v apart or more: waiters are served in the order of these clocks; set them by NTP", apart.Round(100*time.Millisecond))})
	}
	return all
}

// A checked is what a check found about one node.
type checked struct {
	all    []store.Finding
	grants bool // it can make new grants
	clock  bool // its clock was read

	ahead, within time.Duration // how far its clock is ahead of the local one, and the uncertainty
}

// check checks a node that is in use.
func (n *node) check(ctx context.Context) (found checked) {
	found.grants = true // unless shown otherwise
	ctx, cancel := context.WithTimeout(ctx, n.s.timeout)
	defer cancel()
	of := " of " + n.address
	pipe := n.client.Pipeline()
	asked, clock := pipe.Info(ctx), pipe.Time(ctx)
	sent := time.Now()
	pipe.Exec(ctx) // each command has its own error
	took := time.Since(sent)
	theirs, noClock := clock.Result()
	found.clock, found.ahead, found.within = noClock == nil, theirs.Sub(sent.Add(took/2)), took/2
	info, err := asked.Result()
	if err = cmp.Or(err, noClock); err != nil {
		found.all = []store.Finding{{About: "node " + n.address, Warning: true, Found: n.failed(err).Error()}}
	}
	if info == "" {
		found.grants = noClock == nil //mutant:redlock-check-answers-nothing
		return found
	}
	version := store.Finding{About: "version" + of, Found: redisinfo.Version(info)}
	role := store.Finding{About: "role" + of, Found: redisinfo.Field(info, "role")}
	if replicas := redisinfo.Field(info, "connected_slaves"); role.Found == "slave" || replicas != "" && replicas != "0" {
		role.Warning = true
		role.Found = fmt.Sprintf("%s, with %s: a Redlock node should have none; a server that takes its place may lack its votes, and then two can hold a name", role.Found, redisinfo.Replicas(info))
	}
	saved := store.Finding{About: "persistence" + of, Found: fmt.Sprintf("whatever it saves, after a restart it grants nothing for %v", n.s.maxTTL)}
	policy := redisinfo.Eviction(info)
	policy.About += of
	memory := store.Finding{About: "memory" + of}
	var full bool
	if memory.Found, full = redisinfo.Memory(info); full {
		memory.Warning = true
		memory.Found += ": it is full, so the node grants nothing new until it has some again or maxmemory is raised; what is held there can be renewed and released"
	}
	readOnly := redisinfo.ReadOnly(info)
	if readOnly {
		role.Found += "; it is read-only, so it grants, renews and releases nothing"
	}
	found.grants = !full && !readOnly
	found.all = append(found.all, version, role, saved, policy, memory)
	return found
}
