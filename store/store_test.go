package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestAnIDIsReadAsItWasWritten(t *testing.T) {
	p := NewProcess()
	id := p.NewID()
	if id.Process() != p {
		t.Errorf("got process %v of id %v, want %v", id.Process(), id, p)
	}
	if !strings.HasPrefix(id.String(), p.String()) || len(id.String()) != 32 {
		t.Errorf("id %v of process %v", id, p)
	}
	read, err := ParseID(id.String())
	if err != nil || read != id {
		t.Errorf("ParseID(%q): got %v, %v", id, read, err)
	}
	text, err := id.MarshalText()
	if err != nil || string(text) != id.String() {
		t.Errorf("MarshalText: got %q, %v", text, err)
	}
	for _, bad := range []string{"", "00", id.String() + "00", id.String()[:31] + "g", strings.ToUpper(id.String())[:30]} {
		if _, err := ParseID(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseID(%q): got %v, want ErrInvalid", bad, err)
		}
	}
}

func TestNoTwoIDsAreTheSame(t *testing.T) {
	p := NewProcess()
	seen := map[ID]bool{}
	for range 10_000 {
		id := p.NewID()
		if seen[id] {
			t.Fatalf("got id %v twice", id)
		}
		seen[id] = true
	}
	if NewProcess() == p {
		t.Error("two processes have the same id")
	}
}

func TestAnOwnerIsReadAsItWasWritten(t *testing.T) {
	for _, o := range []Owner{
		{},
		{Host: "web-3", PID: 4711, Program: "backup.sh", Note: "nightly, zürich 🔒", Space: "4026531836"},
		{Host: "web-3", PID: math.MaxInt64, Program: "x"},
	} {
		if read := ParseOwner(o.Stored()); read != o {
			t.Errorf("ParseOwner(%q): got %+v, want %+v", o, read, o)
		}
	}
}

func TestAnOwnerIsCutAndIsSafeToPrint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 400), func(b []byte) string { return string(b) }))
		o := Owner{
			Host: part.Draw(t, "host"), PID: rapid.Int().Draw(t, "pid"), Program: part.Draw(t, "program"),
			Note: part.Draw(t, "note"), Space: part.Draw(t, "space"),
		}
		s := o.Stored()
		if len(s) > 256 || !utf8.ValidString(s) {
			t.Fatalf("got %d bytes, valid UTF-8: %v: %q", len(s), utf8.ValidString(s), s)
		}
		if i := strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }); i >= 0 {
			t.Fatalf("a control character at %d of %q", i, s)
		}
		if n := strings.Count(s, "\t"); n != 4 {
			t.Fatalf("got %d tabs in %q, want 4", n, s)
		}
		if again := ParseOwner(s).Stored(); again != s {
			t.Fatalf("%q was parsed and stored as %q", s, again)
		}
	})
}

func TestAForeignOwnerIsReadAsFarAsItGoes(t *testing.T) {
	for s, want := range map[string]Owner{
		"":                        {},
		"web-3":                   {Host: "web-3"},
		"web-3\tnot a number\tx":  {Host: "web-3", Program: "x"},
		"h\t1\tp\ts\tn\tmore\t\n": {Host: "h", PID: 1, Program: "p", Space: "s", Note: "n more  "},
		"\x1b[2J\x00":             {Host: " [2J "},
	} {
		if o := ParseOwner(s); o != want {
			t.Errorf("ParseOwner(%q): got %+v, want %+v", s, o, want)
		}
	}
}

// An error that is not definite is indeterminate: the claim may exist, so the
// request is repeated or the claim is released.
func TestOnlyWhatWasSurelyNotAppliedIsDefinite(t *testing.T) {
	for _, err := range []error{
		ErrLost, &LostError{}, &LostError{Reason: "because"}, ErrMismatch, &MismatchError{Have: 1, Want: 2},
		ErrInvalid, ErrDenied, ErrCorrupt, ErrUnsupported, NewerFormError("key x", 2, 1), fmt.Errorf("ask: %w", ErrDenied),
	} {
		if !Definite(err) {
			t.Errorf("%v is indeterminate, want definite", err)
		}
	}
	for _, err := range []error{
		errors.New("connection reset"), context.DeadlineExceeded, context.Canceled, ErrUnavailable, ErrClosed,
		fmt.Errorf("%w: %w", ErrUnavailable, context.Canceled),
	} {
		if Definite(err) {
			t.Errorf("%v is definite, want indeterminate", err)
		}
	}
}

func TestErrorsSayWhatAPersonNeeds(t *testing.T) {
	for _, c := range []struct {
		err   error
		is    error
		tells []string
	}{
		{&MismatchError{Have: Full, Want: 3}, ErrMismatch, []string{"a lock", "a semaphore of 3"}},
		{&MismatchError{Have: 2, Want: 3}, ErrMismatch, []string{"a semaphore of 2", "a semaphore of 3"}},
		{&LostError{Reason: "disk full"}, ErrLost, []string{"lost", "broken", "disk full"}},
		{&LostError{}, ErrLost, []string{"lost"}},
		{NewerFormError("key x", 2, 1), ErrUnsupported, []string{"key x", "2", "1", "newer holdfast"}},
	} {
		if !errors.Is(c.err, c.is) || !errors.Is(fmt.Errorf("ask: %w", c.err), c.is) {
			t.Errorf("%v does not match %v", c.err, c.is)
		}
		if errors.Is(c.err, ErrHeld) {
			t.Errorf("%v matches ErrHeld", c.err)
		}
		for _, part := range c.tells {
			if !strings.Contains(c.err.Error(), part) {
				t.Errorf("%q does not say %q", c.err, part)
			}
		}
	}
}

func TestHowFarClocksAreApart(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		ahead, within time.Duration
		want          string
	}{
		{0, 0, "the same as this host's, to within 100µs"},
		{-2 * ms, 3 * ms, "the same as this host's, to within 3ms"},
		{-5 * ms, 3 * ms, "5ms behind this host's, to within 3ms"},
		{time.Hour + 30*time.Microsecond, ms, "1h0m0s ahead of this host's, to within 1ms"},
	} {
		if got := ClockFinding(c.ahead, c.within).Found; got != c.want {
			t.Errorf("%v ±%v: got %q, want %q", c.ahead, c.within, got, c.want)
		}
	}
}
