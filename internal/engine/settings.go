package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Options are the options of a Locker, which package holdfast documents. Zero
// fields mean the default.
type Options struct {
	TTL, RenewEvery                   time.Duration
	NoRenew                           bool
	Wait, MinHold, MaxHold, LockDelay time.Duration
	Reentrant                         bool
	AskToGiveUp                       string
	Wrong                             string // what is wrong with the caller's options; empty: nothing
	MaxWaiting                        int
	Owner                             store.Owner
	Note                              string
	Logger                            *slog.Logger
	Observer                          func(Event)
	PollMin, PollMax                  time.Duration
	HandOver                          *HandOver
}

// MaxDuration is the largest value of any duration in Options.
const MaxDuration = 10 * 365 * 24 * time.Hour

const (
	defaultTTL     = 30 * time.Second
	defaultCheck   = 5 * time.Second
	defaultPollMin = 2 * time.Millisecond
	leastPoll      = time.Millisecond
	defaultPollMax = 800 * time.Millisecond
)

// settings are checked options, with values computed from them.
type settings struct {
	Options
	owner       string        // Owner and Note as stores keep them
	positionTTL time.Duration // the TTL of a queue position
}

// settle fills in the defaults and checks the result against the store.
func (o *Options) settle(d *store.Description) (*settings, error) {
	s := &settings{Options: *o}
	s.TTL = cmp.Or(s.TTL, min(max(defaultTTL, d.MinTTL), d.MaxTTL))
	if s.RenewEvery = cmp.Or(s.RenewEvery, s.TTL/3); endless(d) { //mutant:renewed-half-ttl
		s.RenewEvery = cmp.Or(s.RenewEvery, defaultCheck) //mutant:store-asked-once-hour
	}
	s.PollMin = cmp.Or(s.PollMin, min(defaultPollMin, cmp.Or(max(s.PollMax, 0), defaultPollMin)))
	s.PollMax = cmp.Or(s.PollMax, max(defaultPollMax, s.PollMin))
	handOver := *cmp.Or(s.HandOver, &defaultHandOver) // a copy, as the caller may change its own
	s.HandOver = &handOver
	s.Owner = cmp.Or(s.Owner, ThisProcess())
	s.Logger = cmp.Or(s.Logger, slog.Default())
	if s.Note != "" {
		s.Owner.Note = s.Note
	}
	s.owner = s.Owner.Stored()
	s.AskToGiveUp = store.OneLine(s.AskToGiveUp, len(s.AskToGiveUp)) //mutant:asks-on-one-line
	s.positionTTL = min(store.MaxPositionTTL, s.TTL)
	if endless(d) {
		s.positionTTL = store.MaxPositionTTL //mutant:place-lapses-once
	}
	return s, s.check(d)
}

// endless reports whether the store's holds have no deadline.
func endless(d *store.Description) bool {
	_, lacks := d.Lacks[store.PromiseDeadline]
	return lacks
}

// renewAfter returns how long after a grant for ttl to renew it; a ttl of 0 means no
// deadline. If the store granted less than the TTL, RenewEvery shrinks in proportion.
func (s *settings) renewAfter(ttl time.Duration) time.Duration {
	if ttl == 0 || ttl >= s.TTL { //mutant:granted-less-renewed-seldom
		return s.RenewEvery
	}
	return time.Duration(float64(s.RenewEvery) * float64(ttl) / float64(s.TTL))
}

// askFor is how long an indeterminate ask is repeated. An entry that it may have left in
// the store has expired after the TTL.
func (s *settings) askFor() time.Duration { return s.bound(s.TTL) }

// releaseFor is how long an indeterminate release is repeated.
func (s *settings) releaseFor() time.Duration { return s.bound(s.TTL / 3) }

// bound returns d, at most longestCall; without a TTL it is longestCall.
func (s *settings) bound(d time.Duration) time.Duration {
	if s.TTL == 0 {
		return longestCall
	}
	return min(d, longestCall)
}

// leastRenewEvery is the least RenewEvery, so that no lease is renewed without a pause.
func (s *settings) leastRenewEvery() time.Duration { return max(s.TTL/100, time.Millisecond) }

// noBound is the advice, by option, on how to set no bound.
var noBound = map[string]string{"Wait": ": 0 is no bound", "MaxHold": ": 0 is no bound"}

func (s *settings) check(d *store.Description) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w options for %s: %s", store.ErrInvalid, d.Store, fmt.Sprintf(format, args...))
	}
	if s.Wrong != "" {
		return bad("%s", s.Wrong)
	}
	if endless(d) && s.TTL > 0 { //mutant:ttl-out-range
		return fmt.Errorf("%w: %s has no TTL: %s", store.ErrUnsupported, d.Store, d.Lacks[store.PromiseDeadline])
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"TTL", s.TTL}, {"RenewEvery", s.RenewEvery}, {"Wait", s.Wait}, {"MinHold", s.MinHold},
		{"MaxHold", s.MaxHold}, {"LockDelay", s.LockDelay}, {"PollMin", s.PollMin}, {"PollMax", s.PollMax},
		{"HandOver.For", s.HandOver.For},
	} {
		if f.d < 0 {
			return bad("%s is negative: %v", f.name, f.d)
		}
		if f.d > MaxDuration { //mutant:greatest-duration
			return bad("%s %v is over the greatest of any option, %v%s", f.name, f.d, MaxDuration, noBound[f.name])
		}
	}
	for p, asked := range map[store.Promise]bool{
		store.PromiseMinHold: s.MinHold > 0, store.PromiseLockDelay: s.LockDelay > 0, store.PromiseGiveUp: s.AskToGiveUp != "",
	} {
		if why, lacks := d.Lacks[p]; lacks && asked { //mutant:asked-in-vain
			return fmt.Errorf("%w: %s lacks %q: %s", store.ErrUnsupported, d.Store, p, why)
		}
	}
	switch {
	case endless(d) && s.NoRenew: //mutant:renewed-endless
		return fmt.Errorf("%w: %s ends no lease that is not renewed: %s", store.ErrUnsupported, d.Store, d.Lacks[store.PromiseDeadline])
	case s.TTL < d.MinTTL:
		return bad("TTL %v is under the store's least, %v", s.TTL, d.MinTTL)
	case s.TTL > d.MaxTTL:
		return bad("TTL %v is over the store's greatest, %v", s.TTL, d.MaxTTL)
	case s.RenewEvery > s.TTL/2 && !endless(d):
		return bad("RenewEvery %v is more than half of the TTL, %v: a single slow renewal would lose the lease", s.RenewEvery, s.TTL)
	case s.RenewEvery < s.leastRenewEvery(): //mutant:least-renew-every
		return bad("RenewEvery %v is under the least, %v: a hundredth of the TTL, and a millisecond", s.RenewEvery, s.leastRenewEvery())
	case s.MaxWaiting < 0:
		return bad("MaxWaiting %d is negative: 0 is no bound", s.MaxWaiting)
	case s.MaxHold > 0 && s.MinHold > s.MaxHold:
		return bad("MinHold %v is more than MaxHold %v", s.MinHold, s.MaxHold)
	case s.MinHold > d.MaxTTL:
		return bad("MinHold %v is over the store's greatest TTL, %v", s.MinHold, d.MaxTTL)
	case s.LockDelay > d.MaxTTL:
		return bad("LockDelay %v is over the store's greatest TTL, %v", s.LockDelay, d.MaxTTL)
	case s.PollMin < leastPoll:
		return bad("PollMin %v is under the least, %v: it would send without a pause", s.PollMin, leastPoll)
	case s.PollMin > s.PollMax:
		return bad("PollMin %v is more than PollMax %v", s.PollMin, s.PollMax)
	case s.HandOver.Times < 0 || s.HandOver.Times == 1 || s.HandOver.Times > maxHandOver:
		return bad("HandOver.Times %d is not 0 or 2 to %d", s.HandOver.Times, maxHandOver)
	case (s.HandOver.Times == 0) != (s.HandOver.For == 0):
		return bad("HandOver needs both bounds, or neither to turn it off; it has Times %d and For %v", s.HandOver.Times, s.HandOver.For)
	case len(s.Note) > store.MaxNote:
		return bad("the note has %d bytes, at most %d are kept", len(s.Note), store.MaxNote)
	case len(s.AskToGiveUp) > store.MaxReason:
		return bad("AskToGiveUp has %d bytes, at most %d are kept", len(s.AskToGiveUp), store.MaxReason)
	}
	return nil
}
