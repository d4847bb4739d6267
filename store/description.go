package store

import "time"

// A Description is what a store promises.
type Description struct {
	Store string // for people: kind and address, never a password

	MinTTL, MaxTTL time.Duration // the range of a claim's TTL; 0 if holds have no deadline
	Tick           time.Duration // TTLs are rounded up to a multiple of this; 0 if there are no TTLs
	MaxBlock       int           // the most tokens that a grant draws; 0: MaxBlock

	// Unsure says when a try may have to watch the holders of a name for up to their TTL before it knows that they live
	// (Answer.Unsure), because the store has no clock by which to tell; empty: never.
	Unsure string

	// Late is by how much a minimum hold and a lock delay may end later than was asked for, apart from the time of some
	// requests, as the server's time is not known more precisely. They never end early.
	Late time.Duration

	// InProcess says that the store lives in this process: its calls never
	// block, and its clock is the process's own, which stops while the machine
	// is suspended.
	InProcess bool

	// Tokens says when the tokens of a name can be smaller than one handed
	// out before; empty: never.
	Tokens string
	// Loses says what is lost by a wipe, a restart or a fail-over of the server.
	Loses string
	// Forgets lists the accidents after which the store can grant a name twice:
	// Loses, for programs.
	Forgets []Accident
	// Crash says when the hold of a crashed process is freed.
	Crash Crash

	// Lacks lists the promises that this store does not make, with the reasons.
	Lacks map[Promise]string
}

// An Accident is something that can happen to the server of a store.
type Accident string

// The kinds of Accident.
const (
	AccidentRestart   Accident = "restarted"  // it has come back with its saved data
	AccidentWipe      Accident = "wiped"      // all its data was deleted
	AccidentFailOver  Accident = "fail-over"  // another server has taken its place
	AccidentClockStep Accident = "clock step" // its clock was set
)

// Crash says when the holds of a crashed process are freed.
type Crash string

// The kinds of Crash.
const (
	CrashTTL    Crash = "after the TTL"
	CrashAtOnce Crash = "at once"
	CrashNever  Crash = "never: it ends with the process that keeps it"
)

// A Promise is a part of the rule that a store can lack. Its value is a sentence
// for people. [Description.Lacks] has the promises that a store lacks, and why.
type Promise string

// The promises that a store may lack. Every store must keep all rules that are
// not listed here.
const (
	// PromiseMinHold: [Claim.MinHold] keeps a name taken for that long, also after the
	// release. Without it such a claim is ErrUnsupported.
	PromiseMinHold Promise = "minimum hold"

	// PromiseLockDelay: [Claim.LockDelay] keeps a name taken for that long after a hold
	// has expired. Without it such a claim is ErrUnsupported.
	PromiseLockDelay Promise = "lock delay"

	// PromiseSlots: a name can be a semaphore, of any [Claim.Limit]. Without it there
	// are only locks, of which a reader takes one part and a writer all; any other
	// limit is ErrUnsupported.
	PromiseSlots Promise = "slots"

	// PromiseTotals: the claims of a semaphore may have different limits, and the weight
	// held never exceeds the smallest limit of the holders. Without it a claim with a
	// limit other than those in the queue is ErrMismatch.
	PromiseTotals Promise = "a semaphore with several totals"

	// PromiseMatch: a call that shows a token other than the hold's is ErrLost and changes
	// nothing. Without it the ID alone says which hold is meant.
	PromiseMatch Promise = "a hold is matched by its token"

	// PromiseOrder: a waiter has a position, and claims are granted in the order of
	// positions. Without it each ask is a try, and no claim has a position.
	PromiseOrder Promise = "claims are granted in the order of positions"

	// PromisePositionTTL: a waiter that no longer asks leaves the queue within
	// [Claim.PositionTTL]. Without it its position may last until the session of its
	// process ends.
	PromisePositionTTL Promise = "a dead waiter leaves the queue within its position's TTL"

	// PromiseInspect: the store is an [Inspector]. Without it holders and waiters
	// cannot be listed, and no hold can be broken.
	PromiseInspect Promise = "list and break"

	// PromiseHolders: a refusal names all holders of the name. Without it a refusal may
	// name no holder, and its times are 0.
	PromiseHolders Promise = "a refusal tells all of the holders"

	// PromiseUntil: [Answer.Until] of a refusal is no later than the first end of a
	// blocking entry, unless that is renewed. Without it Until is unknown, or later.
	PromiseUntil Promise = "a refusal tells the end of the obstacle"

	// PromiseUpgrade: a reader can become a writer, and a writer a reader again.
	// Without it Change is ErrUnsupported.
	PromiseUpgrade Promise = "upgrade and downgrade"

	// PromiseTokens: the tokens of a name only grow, so they can fence a resource.
	// Without it the token of a grant only distinguishes one hold from another.
	PromiseTokens Promise = "fencing tokens"

	// PromiseBlock: a grant draws as many tokens as [Claim.Block] says, so that
	// hand-overs within a process need no call each. Without it each grant draws one.
	PromiseBlock Promise = "a grant draws a block of tokens"

	// PromiseDrawn: a release draws the tokens of the waiters that it grants. Without it
	// such a waiter is still listed as a waiter, without a token, until it asks again.
	PromiseDrawn Promise = "a release draws the tokens of those it grants"

	// PromiseDetach: a hold can go to another process. Without it a renewal with NewID is
	// ErrUnsupported.
	PromiseDetach Promise = "a hold is handed to another process"

	// PromiseExpiry: each hold has an expiry of its own. Without it claims last as long as
	// a session of their process, which is renewed once for all of them.
	PromiseExpiry Promise = "a hold has an expiry of its own"

	// PromiseDeadline: a hold lasts until a deadline that its owner knows, and that a
	// renewal moves. Without it a hold ends with its session, and its owner learns of
	// that afterwards: the store is a [LossTeller].
	PromiseDeadline Promise = "a loss is foreseen"

	// PromiseNotificationToken: a notification says which token its claim was granted.
	// Without it a notification only causes a poll.
	PromiseNotificationToken Promise = "a notification carries the token"

	// PromiseGiveUp: a waiter's [Claim.GiveUp], and an upgrade's [Hold.GiveUp], reach the holders.
	// Without it these are ignored.
	PromiseGiveUp Promise = "a waiter asks the holders to give up"

	// PromiseReason: the owner of a hold that was broken with [Break.Now] gets the
	// reason. Without it the hold is dropped, and is lost without one.
	PromiseReason Promise = "a hold broken with now is told the reason"
)
