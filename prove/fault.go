package prove

import "slices"

// A Fault is a kind of fault of a process, of its link, or of the store.
type Fault string

// Faults of a process.
const (
	stopShort Fault = "stop<ttl"  // SIGSTOP for less than the TTL
	stopLong  Fault = "stop>ttl"  // SIGSTOP for more than the TTL
	kill      Fault = "kill"      // SIGKILL; a new one is started
	restart   Fault = "restart"   // it is ordered to end; a new one is started
	offset    Fault = "offset"    // in tests: its wall clock is wrong, from its start to its end
	contained Fault = "container" // for file stores: it has its own boot id and PIDs, from its start to its end
)

// A fault of `holdfast run`, which only tests can inject.
const stopBoth Fault = "run stopped" // SIGSTOP to both of its processes, but not to its command, for more than the TTL

// Faults of the link between a process and the store.
const (
	cut     Fault = "cut"      // connections are closed, and no new ones are made
	halfCut Fault = "half-cut" // requests arrive, replies do not
	latency Fault = "latency"  // each direction takes longer
	jitter  Fault = "jitter"   // as latency, by a different amount each time
	reset   Fault = "reset"    // connections are reset in the middle of a reply
	slow    Fault = "slow"     // a few bytes at a time
	silence Fault = "silence"  // requests arrive, replies are lost; then the connections are reset
	late    Fault = "late"     // the connections are reset, and requests sent on them before arrive after that
)

// Faults of the server, which only tests can inject.
const (
	frozen    Fault = "frozen"     // it is stopped for a while
	restarted Fault = "restarted"  // it is killed, and starts again with what it had saved
	wiped     Fault = "wiped"      // all its data is deleted
	failover  Fault = "fail-over"  // another server replaces it
	clockStep Fault = "clock step" // its clock is set
	full      Fault = "full"       // its memory is full, and it refuses what needs more
)

var (
	processFaults = []Fault{stopShort, stopLong, kill, restart}
	serverFaults  = []Fault{frozen, restarted, wiped, failover, clockStep, full}
	linkFaults    = []Fault{cut, halfCut, latency, jitter, reset, slow, silence, late}
)

// A check is the number of a check that is made of a history.
type check int

const (
	exclusion check = iota + 1 // no two conflicting holders at the same time
	tokens                     // each new holder has a larger token
	linear                     // the answers are those of a correct lock with leases
	reported                   // a loss is reported by the deadline
	live                       // after the faults every name comes free
	order                      // first come, first served
	bounded                    // no call takes longer than it may
)

var checks = []check{exclusion, tokens, linear, reported, live, order, bounded}

func (c check) String() string {
	return [...]string{
		"", "no two conflicting holders at the same time", "each new holder has a larger token",
		"the answers are those of a correct lock (linearizable)", "a loss is reported by the deadline", "every name comes free, and nothing is left",
		"first come, first served", "no call takes much longer than it may",
	}[c]
}

// voids has, for each fault, the checks that a correct lock may fail because of it,
// if it can make the store forget. All other checks are judged, whatever the fault.
var voids = map[Fault][]check{
	restarted: {exclusion, linear, order},
	wiped:     {exclusion, linear, order},
	failover:  {exclusion, linear, order},
	clockStep: {exclusion, linear, order},
}

// voided reports whether the fault voids the check on the store of the run.
func (r *Run) voided(f Fault, c check) bool {
	if slices.Contains(r.Survives, f) && c != order { // queue positions may be forgotten all the same
		return false
	}
	return slices.Contains(r.Forgets, f) && slices.Contains(voids[f], c) //mutant:judge-everything-excused
}
