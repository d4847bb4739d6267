package store

import (
	"cmp"
	"fmt"
	"time"
)

// Bounds are the durations that a store accepts. A store calls the checks before any
// I/O; their errors match ErrInvalid.
type Bounds struct {
	Min, Max time.Duration // of a TTL; the other durations of a claim are from 0 to Max
	On       string        // the store, for errors: "Redis"
}

// CheckName returns an error that matches ErrInvalid if the name is empty or longer than
// [MaxName], else nil. Whether a name is UTF-8 is for the engine to check.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrInvalid)
	case len(name) > MaxName:
		return fmt.Errorf("%w: the name has %d bytes, at most %d are allowed: %.40q…", ErrInvalid, len(name), MaxName, name)
	}
	return nil
}

// CheckClaim returns an error that matches ErrInvalid if the claim is not valid for an
// Ask or a Poll: its name, limit and weight, lengths, or durations; otherwise nil.
func (b *Bounds) CheckClaim(c *Claim) error {
	if c.Limit < 1 || c.Limit > Full || c.Weight < 1 || c.Weight > c.Limit {
		return fmt.Errorf("%w: %q: weight %d under a limit of %d: want 1 <= weight <= limit <= %d", ErrInvalid, c.Name, c.Weight, c.Limit, int64(Full))
	}
	return cmp.Or(CheckName(c.Name), checkOwner(c.Name, c.Owner), checkGiveUp(c.Name, c.GiveUp),
		b.check(c.Name, "a TTL", c.TTL, b.Min), b.check(c.Name, "a position", c.PositionTTL, 0),
		b.check(c.Name, "a minimum hold", c.MinHold, 0), b.check(c.Name, "a lock delay", c.LockDelay, 0))
}

// CheckRenewal returns an error that matches ErrInvalid if the hold is not valid for a
// Renew: its name, the length of its owner, or its TTL; otherwise nil.
func (b *Bounds) CheckRenewal(h *Hold) error {
	return cmp.Or(CheckName(h.Name), checkOwner(h.Name, h.Owner), b.check(h.Name, "a TTL", h.TTL, b.Min))
}

// CheckChange returns an error that matches ErrInvalid if these arguments are not valid for
// any Change: a turn starts at 1, a weight is Full or Upgradeable, and a reason to give up
// has at most MaxReason bytes; otherwise nil.
func CheckChange(h *Hold, turn int32, weight int64) error {
	switch err := cmp.Or(CheckName(h.Name), checkGiveUp(h.Name, h.GiveUp)); {
	case err != nil:
		return err
	case turn < 1:
		return fmt.Errorf("%w: change %q: turn %d: changes are counted from 1", ErrInvalid, h.Name, turn)
	case weight != Full && weight != Upgradeable:
		return fmt.Errorf("%w: change %q: a weight of %d: want %d (upgrade) or %d (back)", ErrInvalid, h.Name, weight, int64(Full), int64(Upgradeable))
	}
	return nil
}

func (b *Bounds) check(name, what string, d, least time.Duration) error {
	if d < least || d > b.Max {
		return fmt.Errorf("%w: %s of %v for %q: from %v to %v are allowed on %s", ErrInvalid, what, d, name, least, b.Max, b.On)
	}
	return nil
}

func checkOwner(name, owner string) error {
	if len(owner) > MaxOwner {
		return fmt.Errorf("%w: %q: the owner has %d bytes, at most %d are allowed", ErrInvalid, name, len(owner), MaxOwner)
	}
	return nil
}

func checkGiveUp(name, reason string) error {
	if len(reason) > MaxReason {
		return fmt.Errorf("%w: %q: the reason to give up has %d bytes, at most %d are allowed", ErrInvalid, name, len(reason), MaxReason)
	}
	return nil
}
