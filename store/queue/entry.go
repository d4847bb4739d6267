package queue

import (
	"cmp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// An Entry is a claim in the queue. Its index among the entries is its order.
// Instants are on Time.Clock, durations in microseconds. A granted entry is a
// hold; the others wait.
type Entry struct {
	ID           store.ID // of the claim
	Limit        int32    // of its claim: entries of a semaphore may have different ones
	Weight       int32    // that it holds or asks for, at most Limit
	Want         int32    // weight asked for by an upgrade; otherwise Weight
	Turn         int32    // number of the newest change of weight; with a block, how many of its tokens are used after the first
	N            uint16   // tokens drawn at the grant: Token … Token+N−1; while waiting, how many to draw
	Granted      bool     // it is a hold
	Shown        bool     // the owner has used the token, so MinHold counts
	Broken       *string  // why an operator broke it, as it is stored; nil: not broken. A pointer, as it is rare and entries should be small
	Token        int64    // of the grant: the identity of the hold
	UpgradeToken int64    // drawn by an upgrade, or 0
	Since        int64    // the instant of the grant
	Expires      int64    // the instant of its expiry
	MinHold      int64    // minimum hold
	LockDelay    int64    // lock delay
	Owner        string   // store.Owner.Stored
	GiveUp       *string  // of a waiter, or of a hold whose upgrade is pending: why it asks the other holders to give up; nil: it does not. A pointer like Broken
}

// freedMark begins the stored reason of a hold that was broken with now. A program that does not know
// the mark treats the hold as broken and blocking: it grants nothing too early.
const freedMark = "\x01"

// MaxBroken is the length of the longest Broken.
const MaxBroken = len(freedMark) + store.MaxReason

// Reason is why an operator broke the entry, or empty.
func (e *Entry) Reason() string { return strings.TrimPrefix(e.Stored(), freedMark) }

// Stored is Broken, or empty.
func (e *Entry) Stored() string {
	if e.Broken == nil {
		return ""
	}
	return *e.Broken
}

// Freed reports whether the hold was broken with now: it blocks no claim, and stays so
// that its owner gets the reason.
func (e *Entry) Freed() bool { return e.Broken != nil && strings.HasPrefix(*e.Broken, freedMark) }

// Asking reports whether the entry asks the other holders to give up: it waits, or its upgrade is pending.
func (e *Entry) Asking(now Time) bool {
	return e.GiveUp != nil && (!e.Granted || e.wants(now)) //mutant:void-upgrade-asks
}

// Asks returns why the entry asks the holders to give up, if it waits or its upgrade is pending; or
// empty.
func (e *Entry) Asks() string {
	if e.GiveUp == nil {
		return ""
	}
	return *e.GiveUp
}

func (e *Entry) ask(reason string) {
	if e.GiveUp = nil; reason != "" {
		e.GiveUp = &reason
	}
}

// StoredReason returns the reason of a break as it is stored.
func StoredReason(b *store.Break) string {
	reason := cmp.Or(strings.TrimLeft(b.Reason, freedMark), "no reason given") //mutant:break-forgets-reason
	if b.Now {
		reason = freedMark + reason
	}
	return reason
}

// LostFor returns ErrLost, with the reason if the hold was broken. stored is Broken, or empty.
func LostFor(stored string) error {
	if stored == "" {
		return store.ErrLost
	}
	return &store.LostError{Reason: strings.TrimPrefix(stored, freedMark)}
}

// live reports whether the entry has not expired.
func (e *Entry) live(now Time) bool { return e.Expires > now.Clock }

// end returns the instant at which the entry stops blocking, unless it is
// renewed: for a position its expiry; for a hold the later of its expiry with the
// lock delay, and of its minimum hold if the owner has shown the token.
func (e *Entry) end() int64 {
	if !e.Granted {
		return e.Expires //mutant:lock-delay-place
	}
	end := e.Expires + e.LockDelay //mutant:lock-delay-ignored
	if e.Shown {                   //mutant:minimum-hold-kept-expired
		end = max(end, e.Since+e.MinHold) //mutant:minimum-hold-is-kept
	}
	return end
}

// wants reports whether an upgrade of the entry is pending. It is void once the
// hold has expired.
func (e *Entry) wants(now Time) bool { return e.Granted && e.Want > e.Weight && e.live(now) } //mutant:upgrade-pending-outlives-hold

// fill copies the state of the hold into the answer.
func (e *Entry) fill(a *store.Answer) {
	a.Token, a.N, a.Weight, a.Want, a.UpgradeToken = e.Token, int(e.N), int64(e.Weight), int64(e.Want), e.UpgradeToken
}

// has reports whether e is a hold and the token is one of its tokens.
func (e *Entry) has(now Time, token int64) bool {
	s := e.show(now)
	return s.Has(token) //mutant:block-hold-broken
}

func (e *Entry) show(now Time) store.Entry {
	s := store.Entry{
		ID: e.ID, Weight: int64(e.Weight), Want: int64(e.Want), Granted: e.Granted, Token: e.Token, UpgradeToken: e.UpgradeToken,
		Expires: duration(e.Expires - now.Clock), Ends: duration(e.end() - now.Clock),
		Broken: e.Reason(), Freed: e.Freed(), GiveUp: e.Asks(), Owner: store.ParseOwner(e.Owner),
	}
	if !e.wants(now) { //mutant:list-shows-want-expired
		s.Want = s.Weight
	}
	if !e.Asking(now) {
		s.GiveUp = "" //mutant:list-shows-void-upgrade-asks
	}
	if e.Granted {
		s.Age = duration(now.Clock - e.Since)
		s.N, s.Used = int(e.N), e.Token
		if e.N > 1 {
			s.Used += int64(e.Turn)
		}
	}
	return s
}

// lost returns ErrLost, with the reason if an operator broke the entry.
func lost(e *Entry) error { return LostFor(e.Stored()) }

// micros rounds up, so that no hold is shorter than was asked for.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
