// Package store is the contract between the holdfast engine and the stores that keep
// locks.
//
// Application code does not call a store: it hands one to
// [github.com/holdfast-go/holdfast.New]. This package is for authors and readers of a
// store. docs/adding-a-store.md in the repository is the guide to that.
//
// # The rule
//
// A name is a queue of entries. An entry that is granted stays granted until it is
// released or expires. Waiters are granted in order: each that fits under the limit, up
// to the first that does not fit, which blocks those behind it. Package
// [github.com/holdfast-go/holdfast/store/queue] is that rule as a pure state machine; a
// store either runs it (memory, file) or implements it in its server's own language, and
// [github.com/holdfast-go/holdfast/store/storetest] tests every store against it.
//
// # What a store does
//
// A store asks once. It never waits for another claim, retries, sleeps, logs, or starts a
// goroutine per lock; the engine does the waiting, the retrying and the logging. There
// are two exceptions. If the server runs the rule, an operation that the server reports
// as not applied (a deadlock, a script that it has forgotten) may be sent three times in
// all, without a pause. If the client writes the record of a name, a write that the
// server refused is repeated on the current record, with a back-off, for as long as the
// context lasts: [github.com/holdfast-go/holdfast/store/record] does that.
//
// The context of a call is the engine's own, with a bound. If the call serves one claim
// it has the values of that claim's context. If it serves several it has no values, and
// [Claims] returns their contexts. A store sends requests for several callers at once on
// a context made by [Join].
//
// A call returns when its context ends, even if the server is frozen: it accepts
// connections and answers nothing. A store cannot promise that if its driver ignores
// contexts; its documentation then says how long a call can take.
//
// Every operation has one of three outcomes: granted; refused or lost; or indeterminate,
// when it may or may not have happened. Indeterminate is any error for which [Definite]
// is false; [ErrContended] is an indeterminate error of a server that answers. Every
// operation may be repeated with the same id after an indeterminate outcome.
//
// The store's clock judges expiry inside the store, the engine's clock judges
// the deadline outside; the two are never compared, so everything that crosses
// this contract is a duration, never a point in time of the server.
package store

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Limits of a name.
const (
	// Full is the limit of a lock, and the weight of a mutex or write lock.
	// A read lock weighs 1. A semaphore's limit is its number of slots.
	Full = 1 << 30
	// Upgradeable is the weight of an upgradeable read lock: two never fit
	// together, but one fits with readers.
	Upgradeable = Full/2 + 1
	// MaxSlots is the largest limit of a semaphore; Full itself would be a
	// read-write lock.
	MaxSlots = Full - 1
	// MaxName is the length of the longest name, in bytes.
	MaxName = 512
	// MaxPositionTTL is the longest time that a position in the queue is kept at a
	// time, so that a dead waiter leaves the queue sooner than a dead holder.
	MaxPositionTTL = 10 * time.Second
	// TokenRetention is how long the newest token of a name outlives the last
	// entry. A store may have an option for it. A store that seeds tokens by a
	// clock must keep them for longer than that clock can go back.
	TokenRetention = 24 * time.Hour
	// MaxBlock is the largest block of tokens that a grant draws.
	MaxBlock = 1024
)

// A Store keeps locks. Its methods are safe for concurrent use; the engine
// never runs two of them for one claim at a time.
type Store interface {
	// Ask appends the claim to the queue of its name, or refreshes the entry that has its id,
	// and says whether it is granted. A claim with Try set is appended only if it is granted at
	// once. If Waits is set too and it is refused, the engine asks again at once, with neither
	// set: a store may leave it to that ask to check whether the holders are alive.
	//
	// A refusal is an Answer, not an error. Errors: ErrLost if an entry of this id is there but
	// has expired, or was broken or released (the engine takes a new id); ErrMismatch (as
	// *MismatchError) if the name is in use as a lock and asked for as a semaphore, or the
	// reverse; ErrInvalid, ErrDenied, ErrCorrupt and ErrUnsupported, with nothing written; any
	// other error is indeterminate.
	//
	// The limits of a semaphore may differ, as when a new version with another total is rolled
	// out. A claim is granted if it fits under its own limit and under those of all holders:
	// the weight held never exceeds the limit of any holder. Granted claims stay granted. On a
	// store that lacks PromiseTotals any other limit is ErrMismatch.
	Ask(ctx context.Context, c Claim) (Answer, error)

	// Renew pushes the expiry of holds forward, many at once and in as few round
	// trips as there are servers. The result has one Renewal for each hold, in the
	// same order. One hold's failure does not touch another's, and the holds of
	// one name are renewed in their order. It never creates an entry, and never
	// moves an expiry back. When ctx ends it returns at once: holds answered by
	// then have their answers, and all others are indeterminate, so that one
	// server or row that hangs costs no other hold.
	//
	// The same write stores what else the Hold carries: the newest token in use of
	// its block, another Owner, and another id, NewID, under which alone the hold
	// goes on. A later operation with the old id is answered ErrLost, except for a
	// repeat of the same renewal, whose reply may have been lost. This is how a
	// hold goes to another process: its owner gives it an id of the zero Process,
	// which belongs to no process, so that it outlives the owner's process on
	// every store; the other process renews it with an id of its own.
	Renew(ctx context.Context, holds []Hold) []Renewal

	// Change changes the weight of a hold that was granted as Upgradeable, to
	// Full (an upgrade) or to Upgradeable (the cancel of an upgrade, and a
	// downgrade: the same act). It matches the hold as Renew does and moves no
	// expiry.
	//
	// An upgrade is granted once no other hold blocks it. Until then it is
	// pending: the entry's Want is above its Weight, and neither a waiter nor a
	// new claim is granted; other readers keep their holds. A pending
	// upgrade ends with a grant, a cancel, the expiry of the hold, its release
	// or a break. When it is granted, by whatever operation, a new
	// token is drawn, the upgrade token; the token of the grant stays the identity of
	// the hold. The owner gets a Notification without a token then, and reads the result in the
	// answer to its next Renew or Change. A downgrade and the grants that it
	// allows are one write; the upgrade token stays.
	//
	// With Hold.GiveUp a pending upgrade asks the other holders to give up, as a waiter does
	// (Claim.GiveUp), and before all waiters.
	//
	// turn is the owner's count of its changes, from 1 on. A change whose turn is not above the
	// newest applied is answered, and not applied: so each may be repeated, and a late copy
	// undoes nothing.
	//
	// In the Answer Granted says that the hold has this weight; Token, N,
	// Weight, Want, UpgradeToken and Last are those of the hold, TTL is 0, and if an
	// upgrade is not granted the fields of a refusal say which other holds block it.
	// Errors: ErrLost as of a renewal; ErrInvalid if the hold was not granted
	// as Upgradeable, or by CheckChange; ErrDenied, ErrCorrupt and
	// ErrUnsupported, with nothing applied; any other is indeterminate.
	Change(ctx context.Context, h Hold, turn int32, weight int64) (Answer, error)

	// Release gives a hold back and notifies the waiters that this grants. It deletes only an
	// entry that matches id and token and has not expired; otherwise the error is ErrLost. The
	// tokens of its block above Hold.Used are given back, if none was drawn since. Token 0
	// means whatever this id has, waiting or granted, and it is no error if there is nothing:
	// it is the last operation of an owner that never received a token, or whose caller had
	// left by then. Nothing ran under the hold, so it keeps no minimum hold, even if the token
	// was shown.
	Release(ctx context.Context, h Hold) error

	// ReleaseAll is Release for many holds at once, in as few round trips as there
	// are servers: a process that ends releases all it has. The result has one
	// error for each hold, in the same order, and one hold's failure does not
	// touch another's. When ctx ends it returns at once: releases answered by then
	// have their answers, and all others are indeterminate.
	ReleaseAll(ctx context.Context, holds []Hold) []error

	// Describe says what this store promises. It does no I/O.
	Describe() Description

	// Close frees what the store itself opened, never the user's client. No
	// method is called after it.
	Close() error
}

// A Watcher is a store with notifications. Other stores are polled.
type Watcher interface {
	// Watch begins to deliver the notifications for the claims of process p to sink,
	// until Close, and returns once no later one can be missed. It is called once for a
	// process, when it first waits. sink does not block and is safe for concurrent use.
	// ctx bounds the call, not the watching. After a break in the connection the store
	// subscribes again by itself and then delivers the zero Notification, which tells all
	// waiters to poll. An error that matches ErrUnsupported says that this server has no
	// notifications; the engine retries every 10 minutes, and after any other error in 5
	// s. Waiters poll meanwhile.
	Watch(ctx context.Context, p Process, sink func(Notification)) error
}

// An Unwatcher is a Watcher that outlives its users, so that its Close cannot
// end their subscriptions: a memory store that several engines share.
type Unwatcher interface {
	Watcher
	// Unwatch ends what Watch began for process p. It does no I/O. The engine
	// calls it once, before Close; no method for a claim of p is called after
	// it.
	Unwatch(p Process)
}

// A NameWatcher is a store that can notify observers, which read a name and claim
// nothing, as an observer of an election does. Without it they poll.
type NameWatcher interface {
	// WatchName calls changed soon after each change of the holders of the name, or of the
	// Owner of a hold, that is made after it has returned, until stop is called or the
	// store is closed. It may skip changes by a claim or a hold without Announce; a
	// BreakHold is always announced. It may call changed without a change, and calls it
	// once the store can be reached again, as changes may have been missed. The expiry of a
	// hold is a change only once some operation has found it. changed does not block, does
	// not use the store, and is safe for concurrent use. ctx bounds the call, not the
	// watching. stop does no I/O that is waited for, and may be called after Close.
	//
	// An error that matches ErrUnsupported says that no name can be watched here; the
	// engine retries every 10 minutes, and after any other error in 5 s.
	WatchName(ctx context.Context, name string, changed func()) (stop func(), err error)
}

// A Poller is a store that can answer without writing. It makes polling
// cheaper.
type Poller interface {
	// Poll answers what Ask would answer, and writes nothing. Granted in the answer
	// means only that the claim fits, and an Ask has to follow, unless From is set:
	// then the waiting claim has been granted, as if an Ask had answered that. A
	// token that has not been drawn is 0, and Last is the newest drawn. From in a
	// refusal says that the position exists, and is kept as if an Ask had answered
	// that.
	Poll(ctx context.Context, c Claim) (Answer, error)
}

// An Inspector is a store whose entries an operator can list and break.
type Inspector interface {
	// List yields the names that have entries, one State each, in no promised
	// order; or only the given one if name is not empty. An error is yielded in
	// place of a state that could not be read, and the others follow if they can
	// be read.
	List(ctx context.Context, name string) iter.Seq2[State, error]

	// BreakHold marks a hold as broken: its owner's next ask, renewal or change is lost, with
	// the reason; its minimum hold is void; the next waiter is granted when it has expired and
	// its lock delay has passed. With Now set the next waiter is granted at once: then only the
	// token protects the resource. From then on the hold blocks no claim, no refusal names it,
	// and its limit no longer counts. List shows it as Freed until it is released, which is
	// ErrLost, or expires. A store that lacks PromiseReason drops it. b.Token may be any token
	// of the hold's block, or its newest upgrade token. If there is no such hold the error is
	// ErrLost. Once BreakHold has been answered, even with ErrLost after an indeterminate
	// outcome, the owner's next renewal is lost.
	BreakHold(ctx context.Context, b Break) error
}

// A LossTeller is a store whose holds have no deadline (it lacks
// PromiseDeadline): a hold lasts until it is released, or until the store finds
// that what the hold depends on has ended. Such a store has no TTLs: Claim.TTL,
// Hold.TTL and those of answers are 0. The engine ends no such lease by the
// clock, so all depends on the store: it notices a loss by itself, as soon as
// possible, and reports it. The engine calls Renew now and then to check that
// the holds still exist.
type LossTeller interface {
	// TellLosses registers a callback, which is called once for each lost hold, with the
	// reason: an error that matches ErrLost. TellLosses is called once, before the first Ask, and does no
	// I/O. The callback does not block, is safe for concurrent use, and is not called
	// while the store holds a mutex. A hold that was reported is lost also for Renew and
	// Release.
	TellLosses(report func(id ID, why error))
}

// A Claim is a request for a name.
type Claim struct {
	Name   string // what is locked
	ID     ID     // used by no other claim
	Limit  int64  // 1 … Full; see Ask for names that are used with several
	Weight int64  // 1 … Limit
	Try    bool   // append only if granted at once
	Waits  bool   // of a Try: if it is refused, the engine asks again at once, to wait; see Ask

	TTL         time.Duration // how long a hold lasts without renewal; 0 where it has no deadline
	PositionTTL time.Duration // how long a position lasts without being asked for: at most MaxPositionTTL and TTL
	MinHold     time.Duration // minimum hold: counts from the grant, once the owner has shown the token, unless a Release with token 0 withdraws it; 0: no minimum
	LockDelay   time.Duration // lock delay: how long the name stays closed after an expiry; 0: no delay

	// Block is how many tokens the grant is to draw, so that the owner can hand
	// the name over inside its process, each time with a larger token. 0 means 1,
	// as does any value for a claim of less than the limit; the largest is
	// MaxBlock.
	Block int

	// GiveUp asks the holders to give up the name, and says why, in at most MaxReason
	// bytes; empty: it does not ask. It counts while the claim waits, with the value
	// of its newest ask; a granted claim, or a refused try, asks no one. Each hold
	// that has not ended is asked: its owner gets a Notification without a token, and
	// each renewal returns the reason. With several servers, renewals return a
	// withdrawn reason until the last server has learned of that. Nothing else
	// follows: the owner decides whether to give up. A store that lacks PromiseGiveUp
	// ignores it.
	GiveUp string

	// Announce says that others may watch the name (NameWatcher): changes of the holders by
	// this ask are announced to them. A store that notifies of each change ignores it, as does
	// a store that is no NameWatcher.
	Announce bool

	Owner string // Owner.Stored of the caller, opaque to the store
}

// Tokens is how many tokens a grant of the claim draws, from 1 to MaxBlock.
func (c *Claim) Tokens() int {
	if c.Weight < c.Limit {
		return 1 // others may hold the name too, with tokens in between
	}
	return min(max(c.Block, 1), MaxBlock)
}

// A Hold is a claim that was granted: its identity is the name, the id and the
// token of the grant, and every operation on it matches all three.
type Hold struct {
	Name  string        // what is held
	ID    ID            // of the claim
	Token int64         // of the grant: the first of its block
	TTL   time.Duration // Renew: what to push the expiry to, from now

	// Used is the newest token of the block that was handed out, or 0. Renew keeps
	// the largest that it was given, for List. Release gives back the tokens above
	// it; with 0 it gives back none.
	Used int64

	Owner string // Renew: the new owner; empty: unchanged
	NewID ID     // Renew: the new id of the hold, never used before; zero: unchanged

	// GiveUp is for a Change to Full: why it asks the other holders to give up, in at most
	// MaxReason bytes; empty: it does not ask. The value applied with its turn counts. See
	// Claim.GiveUp.
	GiveUp string

	// ByHand says that the hold is not renewed automatically: its owner calls for each
	// renewal. It is the same in all renewals of one hold. A store whose sessions keep
	// holds may give such a hold an expiry of its own, so that it expires at the reported
	// time even if its process lives on. A store may ignore it.
	ByHand bool

	// Announce is as in Claim, for changes by a renewal or a release: one that ends the hold
	// and grants another, or that gives the hold another Owner, Used or NewID. A renewal
	// that only moves the expiry is not announced.
	Announce bool
}

// An Answer is the outcome of an Ask or a Change.
type Answer struct {
	Granted bool // it holds the name; otherwise it waits, or was refused

	// Of a grant.
	Token int64         // the fencing token, drawn at the grant; the same for each repeated ask
	N     int           // how many tokens were drawn: the block is Token … Token+N−1, and belongs to the owner alone
	TTL   time.Duration // how long the hold lasts from From. For a waiting claim: how long its position lasts, if less than its PositionTTL; otherwise 0
	From  Instant       // when the TTL (for a waiting claim: its PositionTTL) began at the latest; zero: just before the call, as measured by the caller

	Weight       int64 // of the hold
	Want         int64 // above Weight while an upgrade is pending; else Weight
	UpgradeToken int64 // the token that the newest upgrade drew, larger than Token; 0: no upgrade was granted

	// Last is the newest token drawn for the name, by any claim. A notification
	// with a token not above it is stale. With several independent servers it is the
	// largest number that their answers to this claim have shown: it may never have become
	// a token, as too few servers accepted it, and a newer token may be missing.
	Last int64

	// Of a refusal. If eight or more hold or wait ahead, these may be up to a second old.
	Holders []Entry // the holds that block, at most MaxHolders of them
	Holding int     // how many block
	Waiting int     // how many wait ahead

	// Until is the time until the earliest end of what blocks: an expiry, a minimum hold, a
	// lock delay. 0: not known. With several independent servers it is shorter if some of
	// them would grant the claim and no other claim is known to hold the name: asking again
	// settles such a split.
	Until time.Duration

	// Unsure is above 0 in the refusal of a Try if some blocking holder may have died long ago: the store has only this
	// process's clock, so it must watch for at most that long until it knows. It watches only while it is asked: now
	// and then, and once more after that time. 0: as far as the store can know, the holders live. A Poll does not
	// return it.
	Unsure time.Duration
}

// MaxHolders is how many holders an Answer names at most.
const MaxHolders = 8

// A Renewal is the outcome of the renewal of one hold.
type Renewal struct {
	Err  error         // nil, ErrLost (as *LostError if a reason is known), or indeterminate
	TTL  time.Duration // as in Answer
	From Instant       // as in Answer

	Weight, Want, UpgradeToken int64 // as in Answer

	GiveUp string // the reason of the first request to give up, by a pending upgrade or a waiter, not counting the hold itself; empty: no request
}

// A Notification wakes a waiter, or the owner of a hold. It may be false, late,
// doubled or missing, and moves no expiry. With a Token it says that this id was
// granted with that token. For an upgrade, and for a hold that is asked to give
// up, it has no token. The zero Notification is for all.
type Notification struct {
	Name  string // what is locked
	ID    ID     // of the claim that it is for
	Token int64  // 0: poll, or renew the hold; the answer has the news
	N     int    // of the block, as in Answer; 0 without a Token
}

// Break is the argument of Inspector.BreakHold.
type Break struct {
	Name   string // what is held
	ID     ID     // of the hold
	Token  int64  // of the hold, see Entry.Has
	Reason string // the owner receives it; at most MaxReason bytes
	Now    bool   // grant the next waiter at once; otherwise when the hold has expired
}

// MaxReason is the length of the longest reason of a Break, in bytes.
const MaxReason = 200

// A State is one name as List shows it.
type State struct {
	Name    string  // what is locked
	Limit   int64   // of the entries; the smallest, if a semaphore is in use with several limits
	Last    int64   // the newest token drawn
	Entries []Entry // in order: holds, including ended ones that still block, and waiters
}

// An Entry is one claim in a queue, as others see it. The durations are
// relative to the moment the store answered, by the store's clock. In a refusal
// Expires and Ends may both be 0: unknown.
type Entry struct {
	ID           ID            // of the zero Process: detached, on its way to another process
	Weight       int64         // the part of the limit that it holds or asks for
	Want         int64         // above Weight while an upgrade is pending; else Weight
	Granted      bool          // it holds the name; otherwise it waits
	Token        int64         // 0 while waiting
	N            int           // of the block; 0 while waiting
	Used         int64         // the newest token of the block that its owner has reported as handed out; 0 while waiting
	UpgradeToken int64         // as in Answer
	Age          time.Duration // since the grant; 0 while waiting
	Expires      time.Duration // until it expires unless renewed; not above 0: it has expired, and still blocks
	Ends         time.Duration // until it stops blocking unless renewed: its expiry, minimum hold or lock delay, whichever is latest
	Broken       string        // the reason of a BreakHold, or empty
	Freed        bool          // broken with Break.Now: it blocks no claim, and is listed until its owner has released it, or it expires
	GiveUp       string        // why this waiter, or a hold whose upgrade is pending, asks the other holders to give up; or empty
	Owner        Owner         // the owner, for people
}

// Has reports whether the token identifies the hold: whether it is one of its
// block, or its newest upgrade token.
func (e *Entry) Has(token int64) bool {
	return e.Granted && token > 0 && (token == e.UpgradeToken || e.Token <= token && token < e.Token+int64(e.N))
}

// An Instant is a moment on this process's clock, which counts the time that
// the machine was suspended. Only differences mean anything.
type Instant = clock.Instant

// Now is the current Instant. A store whose holds count from something other
// than the call (such as a session's last answered renewal) notes the Instant
// before sending that, and returns it in Answer.From and Renewal.From.
func Now() Instant { return clock.Now() }
