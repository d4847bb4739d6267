package prove

import "slices"

// A Fault is a kind of fault of a process, of its link, or of the store.
type Fault string

// Faults of a process.
const (
	stopShort Fault = "stop<ttl"  // SIGSTOP for less than the TTL
	stopLong  Fault = "stop>ttl"  // and for more
	kill      Fault = "kill"      // SIGKILL; another is started instead
	restart   Fault = "restart"   // it is ordered to end, and another is started
	offset    Fault = "offset"    // its wall clock is off, in tests, from its start to its end
	contained Fault = "container" // on files: it has a boot id and PIDs of its own, from its start to its end
)

// A fault of `holdfast run`, which only tests can do.
const stopBoth Fault = "run stopped" // SIGSTOP to both its processes, and not to its command, for more than the TTL

// Faults of the link between a process and the store.
const (
	cut     Fault = "cut"      // connections are closed and none is made
	halfCut Fault = "half-cut" // requests arrive, replies do not
	latency Fault = "latency"  // each direction takes longer
	jitter  Fault = "jitter"   // the same, by another amount each time
	reset   Fault = "reset"    // connections are reset in the middle of a reply
	slow    Fault = "slow"     // a few bytes at a time
	silence Fault = "silence"  // requests arrive, replies are lost; then the connections are reset
	late    Fault = "late"     // the connections are reset, and what was sent on them before arrives after that
)

// Faults of the server, which only tests can do.
const (
	frozen    Fault = "frozen"     // it stands still for a while
	restarted Fault = "restarted"  // it was killed, and has come back with what it had saved
	wiped     Fault = "wiped"      // all its data is deleted
	failover  Fault = "fail-over"  // another server has replaced it
	clockStep Fault = "clock step" // its clock was set
	full      Fault = "full"       // its memory was full, and it refused what needs more
)

var (
	processFaults = []Fault{stopShort, stopLong, kill, restart}
	serverFaults  = []Fault{frozen, restarted, wiped, failover, clockStep, full}
	linkFaults    = []Fault{cut, halfCut, latency, jitter, reset, slow, silence, late}
)

// A check is one of those that are made of a history.
type check int

const (
	exclusion check = iota + 1 // no two conflicting holders at the same time
	tokens                     // each new holder has a larger token
	linear                     // it is a lock with leases
	reported                   // a loss is reported by the deadline
	live                       // afterwards all names are freed
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

// voids has the checks that a right lock may fail because of a fault, if the
// store may forget by it. Everything else, whatever was done, is judged.
var voids = map[Fault][]check{
	restarted: {exclusion, linear, order},
	wiped:     {exclusion, linear, order},
	failover:  {exclusion, linear, order},
	clockStep: {exclusion, linear, order},
}

// voided reports whether the fault voids the check on the store of the run.
func (r *Run) voided(f Fault, c check) bool {
	if slices.Contains(r.Survives, f) && c != order { // no grant gives a position in the queue
		return false
	}
	return slices.Contains(r.Forgets, f) && slices.Contains(voids[f], c) //mutant:judge-everything-excused
}
