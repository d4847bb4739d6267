package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The following helpers are for a store's own tests of single operations, in
// addition to Run. Each ends the test if it fails.

// Mutex returns a claim of process p for all of a name, which waits and has a
// fresh id.
func Mutex(p store.Process, name string) store.Claim {
	return store.Claim{
		Name: name, ID: p.NewID(), Limit: store.Full, Weight: store.Full,
		TTL: time.Minute, PositionTTL: 10 * time.Second, Owner: store.Owner{Host: "h", PID: 1, Program: "p"}.Stored(),
	}
}

// MustAsk returns the answer to a claim.
func MustAsk(t testing.TB, s store.Store, c store.Claim) store.Answer {
	t.Helper()
	a, err := AskUntilAnswered(t, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// AskUntilAnswered asks, and again if the store gave up waiting for its server, as can happen on a busy machine.
func AskUntilAnswered(t testing.TB, s store.Store, c store.Claim) (a store.Answer, err error) {
	_, err = UntilAnswered(func() (err error) { a, err = s.Ask(t.Context(), c); return err })
	return a, err
}

// UntilAnswered calls f, an operation of a store, and again if the store gave up waiting for its server. It returns how
// often it called f, and the newest error: an operation that was called again may have been done before.
func UntilAnswered(f func() error) (calls int, err error) {
	for deadline := time.Now().Add(patience); ; {
		before := store.Now()
		calls, err = calls+1, f()
		if !unanswered(before, err) || time.Now().After(deadline) {
			return calls, err
		}
	}
}

// MustHold returns the hold of a claim that must be granted at once.
func MustHold(t testing.TB, s store.Store, c store.Claim) store.Hold {
	t.Helper()
	a := MustAsk(t, s, c)
	if !a.Granted {
		t.Fatalf("%q is not granted: %+v", c.Name, a)
	}
	return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL, Announce: c.Announce}
}

// IsLostFor fails the test unless the error says that an operator broke the hold for the reason.
func IsLostFor(t testing.TB, reason string, err error, what string) {
	t.Helper()
	var lost *store.LostError
	if !errors.As(err, &lost) || lost.Reason != reason {
		t.Fatalf("%s of a broken hold: got %v, want a LostError with the reason %q", what, err, reason)
	}
}

// MustList returns what the store lists of a name. It also works during the cleanup of the test.
func MustList(t testing.TB, s store.Inspector, name string) store.State {
	t.Helper()
	st, ok := list(t, context.WithoutCancel(t.Context()), s, name)
	if !ok {
		st.Name = name
	}
	return st
}
