package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

func TestBounds_WhatIsOutsideIsInvalidAndWhatIsInsideIsNot(t *testing.T) {
	b := &store.Bounds{Min: time.Second, Max: time.Hour, On: "here"}
	claim := store.Claim{Name: strings.Repeat("n", store.MaxName), Limit: store.Full, Weight: store.Full, TTL: time.Second, PositionTTL: time.Second,
		MinHold: time.Hour, LockDelay: time.Hour, Owner: strings.Repeat("o", store.MaxOwner), GiveUp: strings.Repeat("r", store.MaxReason)}
	hold := store.Hold{Name: claim.Name, TTL: time.Hour, Owner: claim.Owner, GiveUp: claim.GiveUp}
	if err := errors.Join(b.CheckClaim(&claim), b.CheckRenewal(&hold), store.CheckChange(&hold, 1, store.Full)); err != nil {
		t.Error(err)
	}
	for what, f := range map[string]func(c *store.Claim){
		"no name":                 func(c *store.Claim) { c.Name = "" },
		"a long name":             func(c *store.Claim) { c.Name += "n" },
		"a long owner":            func(c *store.Claim) { c.Owner += "o" },
		"a long reason":           func(c *store.Claim) { c.GiveUp += "r" },
		"no limit":                func(c *store.Claim) { c.Limit = 0 },
		"a limit above Full":      func(c *store.Claim) { c.Limit++ },
		"no weight":               func(c *store.Claim) { c.Weight = 0 },
		"more than the limit":     func(c *store.Claim) { c.Weight++ },
		"a short TTL":             func(c *store.Claim) { c.TTL-- },
		"a long TTL":              func(c *store.Claim) { c.TTL = time.Hour + 1 },
		"a negative position":     func(c *store.Claim) { c.PositionTTL = -1 },
		"a negative minimum hold": func(c *store.Claim) { c.MinHold = -1 },
		"a long minimum hold":     func(c *store.Claim) { c.MinHold++ },
		"a negative delay":        func(c *store.Claim) { c.LockDelay = -1 },
		"a long delay":            func(c *store.Claim) { c.LockDelay++ },
	} {
		c := claim
		if f(&c); !errors.Is(b.CheckClaim(&c), store.ErrInvalid) {
			t.Errorf("%s: %v", what, b.CheckClaim(&c))
		}
		h := store.Hold{Name: c.Name, TTL: c.TTL, Owner: c.Owner}
		if wrong := h != (store.Hold{Name: claim.Name, TTL: claim.TTL, Owner: claim.Owner}); wrong != errors.Is(b.CheckRenewal(&h), store.ErrInvalid) {
			t.Errorf("%s, CheckRenewal: got %v", what, b.CheckRenewal(&h))
		}
		h.GiveUp = c.GiveUp
		if wrong := c.Name != claim.Name || c.GiveUp != claim.GiveUp; wrong != errors.Is(store.CheckChange(&h, 1, store.Full), store.ErrInvalid) {
			t.Errorf("%s, CheckChange: got %v", what, store.CheckChange(&h, 1, store.Full))
		}
	}
}
