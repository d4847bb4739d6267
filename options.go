package holdfast

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Options of a [Locker]. A nil *Options is the same as an empty one. A zero field
// keeps the parent's value; for [New] that is the default. [Locker.With] can turn
// off what a parent has turned on: a [Switch] by Off, a HandOver by &HandOver{},
// AskToGiveUp by [AskNobody], and Wait, MaxWaiting, MinHold, MaxHold and
// LockDelay by [None]. The final combination is checked: nonsense is an
// ErrInvalid of New, or of the first call on what With returned.
type Options struct {
	// TTL is how long a hold lasts without renewal. Default 30 s, or the nearest value
	// that the store allows. The store sets the minimum and the maximum. On a store
	// without deadlines (see [Lease.Deadline]) it is ErrUnsupported, and so are NoRenew,
	// MinHold and LockDelay.
	TTL time.Duration
	// RenewEvery is how often a hold is renewed. Default a third of the TTL;
	// at most half of it, at least a hundredth of it and a millisecond. On a store
	// without deadlines it is how often the store is asked whether the hold is
	// still there, by default every 5 s; it also reports losses by itself.
	RenewEvery time.Duration
	// NoRenew turns automatic renewal off: a lease ends after its TTL, unless
	// [Lease.Renew] is called before.
	NoRenew Switch
	// Wait bounds the waiting where the context is to bound the work as well,
	// as in Do. A wait that it ends fails as at a deadline of the context: the error
	// matches context.DeadlineExceeded. A try does not wait. Default: no bound.
	Wait time.Duration
	// MaxWaiting bounds how many claims of this process wait for a name: there are never more,
	// even in a burst. If that many wait already, Lock fails at once, with a *HeldError that says
	// so, or as soon as the store has refused it. A claim that the store grants at once does not
	// count. A try is not affected, nor is an upgrade. Default: no bound.
	MaxWaiting int
	// MinHold is how long the name stays taken from the grant on, even if it
	// is released sooner, or its holder dies. [Lease.ReleaseUnused] ends it.
	// At most the store's greatest TTL, and MaxHold. ErrUnsupported where the store
	// cannot do it. Default 0.
	MinHold time.Duration
	// MaxHold is how long a lease may last: at its end it is lost, and given
	// back. Default: no bound.
	MaxHold time.Duration
	// LockDelay is how long the name stays closed after a hold *expired*
	// (never after a release), for resources that cannot check tokens. At most the
	// store's greatest TTL. ErrUnsupported where the store cannot do it. Default 0.
	LockDelay time.Duration
	// Reentrant lets a claim under a context of a lease (see [Lease.Context]) of the
	// same name enter again, at no cost, if that lease covers it: a write lock covers
	// writing and reading, a read lock reading, an upgradeable read lock both kinds of
	// reading, and writing while it is upgraded. Otherwise such a claim is ErrDeadlock,
	// as it is without Reentrant: it would wait for itself. Slots are never entered
	// again: a claim under a lease on slots asks for more slots, and is ErrDeadlock if
	// they are more than the total together.
	//
	// Any goroutine with the lease's context is the holder: goroutines that share it do
	// not exclude each other. The entered hold is the same hold, with the same token,
	// TTL, MinHold and MaxHold, whatever the claim's own options say; see
	// [Lease.Release] for when it is given back.
	Reentrant Switch
	// AskToGiveUp asks the holders to give up the name while a claim waits for it, and the other
	// readers while an [UpgradeableLease.Upgrade] waits. It is the reason, at most 200 bytes,
	// which each lease of the name then gets: see [Lease.AskedToGiveUp]. The holder decides
	// whether to give up; nothing is taken from it. A try asks no one. Characters that cannot be
	// printed on one line become blanks. ErrUnsupported if the store cannot pass it on. Default:
	// it does not ask.
	AskToGiveUp string
	// Owner describes the caller, for people to read. Default: [ThisProcess].
	Owner Owner
	// Note is a remark for people, at most 100 bytes. [Lease.SetNote] changes it.
	Note string
	// Logger receives what an operator should know: a lost lease as an error, an election
	// that the store does not answer and what is wrong with a server as warnings.
	// Default slog.Default().
	Logger *slog.Logger
	// Observer receives an [Event] for every claim that is granted, refused or fails, and
	// for every renewal, release and loss. For metrics, see package holdfastprom. It is
	// called by many goroutines at a time, synchronously: it must not block, nor call
	// this package. A panic in it is logged as an error and goes no further. No mutex of
	// this package is locked during the call. For a hold that the store has granted,
	// EventGranted comes first. The event of a renewal may come after EventLost or
	// EventReleased of the hold, and the event of a hand-over after the events of the
	// next lease. Default: none, which costs nothing.
	Observer func(Event)
	// PollMin and PollMax bound the pause between polls on a store without notifications.
	// The pause follows the pace of the queue; otherwise it grows by half each time, or
	// by a quarter for the next waiter. PollMax bounds it for that waiter. With n others
	// ahead the bound is n+1 times that, but at most a quarter of the time that a
	// position is kept (10 s, or the TTL if that is less). Default 2 ms and 800 ms; at
	// least 1 ms.
	PollMin, PollMax time.Duration
	// HandOver bounds how a name goes from one goroutine of this process to the
	// next that waits for it, without a round trip. Nil keeps the parent's; the
	// default is 64 times and 50 ms, whichever is first: then waiters of other
	// processes get their turn. With both bounds zero, &HandOver{}, it is off.
	HandOver *HandOver
}

// A Switch is an option that is on or off. The zero Switch keeps the parent's, as
// each option does; the default of New is Off.
type Switch int8

// On turns an option that is a Switch on, and Off turns it off, whatever the parent has.
const (
	On  Switch = 1
	Off Switch = -1
)

// wrong says what is wrong with an option that is a Switch; empty: nothing.
func (s Switch) wrong(option string) string {
	if s == On || s == Off || s == 0 { //mutant:switch-of-any-value
		return ""
	}
	return fmt.Sprintf("%s is %d: want On, Off, or nothing", option, s)
}

// None as Wait, MaxWaiting or MaxHold means no bound, and as MinHold or LockDelay
// no time at all, whatever the parent has. Any other negative value is an
// ErrInvalid.
const None = -1

// AskNobody as AskToGiveUp asks no one to give up, whatever the parent's
// options are.
const AskNobody = "\x00nobody"

// MaxDuration, ten years, is the greatest of any duration in Options. The greatest
// TTL, MinHold and LockDelay are the store's, and less than that.
const MaxDuration = engine.MaxDuration

// over returns o, with the fields that it leaves open taken from p.
func (o *Options) over(p *Options) *Options {
	if o == nil {
		return p
	}
	m := *o
	m.TTL = cmp.Or(o.TTL, p.TTL)
	m.RenewEvery = cmp.Or(o.RenewEvery, p.RenewEvery)
	m.Wait = cmp.Or(o.Wait, p.Wait)
	m.MinHold = cmp.Or(o.MinHold, p.MinHold)
	m.MaxHold = cmp.Or(o.MaxHold, p.MaxHold)
	m.LockDelay = cmp.Or(o.LockDelay, p.LockDelay)
	m.NoRenew = cmp.Or(o.NoRenew, p.NoRenew)
	m.Reentrant = cmp.Or(o.Reentrant, p.Reentrant)
	m.MaxWaiting = cmp.Or(o.MaxWaiting, p.MaxWaiting)
	m.AskToGiveUp = cmp.Or(o.AskToGiveUp, p.AskToGiveUp)
	m.Owner = cmp.Or(o.Owner, p.Owner)
	m.Note = cmp.Or(o.Note, p.Note)
	m.Logger = cmp.Or(o.Logger, p.Logger)
	if o.Observer == nil {
		m.Observer = p.Observer
	}
	m.PollMin = cmp.Or(o.PollMin, p.PollMin)
	m.PollMax = cmp.Or(o.PollMax, p.PollMax)
	m.HandOver = cmp.Or(o.HandOver, p.HandOver)
	return &m
}

// unless returns v, or zero if v is off, the value that turns the option off.
func unless[T comparable](v, off T) (zero T) {
	if v == off { //mutant:turned-off
		return zero
	}
	return v
}

// engine returns o as the engine's Options, where zero means off.
func (o *Options) engine() engine.Options {
	return engine.Options{
		TTL: o.TTL, RenewEvery: o.RenewEvery, NoRenew: o.NoRenew == On, Wait: unless(o.Wait, None), MinHold: unless(o.MinHold, None), MaxHold: unless(o.MaxHold, None),
		LockDelay: unless(o.LockDelay, None), Reentrant: o.Reentrant == On, AskToGiveUp: unless(o.AskToGiveUp, AskNobody), MaxWaiting: unless(o.MaxWaiting, None),
		Owner: o.Owner, Note: o.Note, Logger: o.Logger,
		Wrong:    cmp.Or(o.NoRenew.wrong("NoRenew"), o.Reentrant.wrong("Reentrant")),
		Observer: observing(o.Observer), PollMin: o.PollMin, PollMax: o.PollMax, HandOver: (*engine.HandOver)(o.HandOver),
	}
}

// HandOver bounds the hand-over of a name inside the process: when a lease is
// released while other goroutines of this process wait for the name on lockers of the
// same store, the first of them gets it without a call to the store. It has a token
// of its own, larger than those before it, and the deadline of the hold. When either
// bound is reached, the name is given back and the next asks the store, behind the
// waiters of other processes. Set both bounds, or neither to turn it off: one alone
// is an ErrInvalid.
//
// The name is handed over only to a claim of the same kind: for the whole of it (a write
// lock, or all slots of a semaphore of the same size), with the same TTL and
// LockDelay, without MinHold or NoRenew, and with HandOver on. Any other claim, a
// reader, and a candidate of an [Election] ask the store themselves as soon as they
// are first in the local queue. Owner and Note may differ: the store learns with the
// next renewal who has the name. MaxHold is each lease's own. There is no hand-over
// after a loss, after an explicit [Lease.Renew], or when half of the time that the
// store last granted has passed; and none on a store that draws no blocks of tokens.
type HandOver struct {
	// Times is how many leases may have the name one after another under one
	// grant of the store, 2 to 64.
	Times int
	// For is how long after that grant the name may still be handed on, above 0. It does
	// not bound how long a lease is held.
	For time.Duration
}
