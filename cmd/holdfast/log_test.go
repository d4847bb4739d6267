package main

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// With -v a line begins like all others, and no id or error in it is cut, except in a warning.
func TestWithVerboseEachLineHasThePrefixAndIsWhole(t *testing.T) {
	was := stderr
	defer func() { stderr = was }()
	var said strings.Builder
	stderr = &voice{to: &said}
	long := strings.Repeat("e", 300)
	logger(true).Debug("holdfast: the lease could not be renewed", "name", "a", "id", "0123", "err", errors.New("no\n\x1b"+long))
	want := `holdfast: a: the lease could not be renewed id=0123 err="no\n\x1b` + long + "\"\n"
	if said.String() != want {
		t.Errorf("got %q, want %q", said.String(), want)
	}
}

// With -v, too, a warning is one line of at most 160 characters, with its name and its cause.
func TestWithVerboseAWarningIsALineOfTheUsualLength(t *testing.T) {
	was := stderr
	defer func() { stderr = was }()
	var said strings.Builder
	stderr = &voice{to: &said}
	long := strings.Repeat("e", 300)
	logger(true).Warn("holdfast: disk: fsync is off "+long, "store", "a store", "see", "holdfast doctor")
	logger(true).Warn("holdfast: no wake-ups", "name", "a", "store", "a store", "err", errors.New(long+" refused"))
	lines := strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "holdfast: disk: fsync is off ") || !strings.HasSuffix(lines[0], "; see 'holdfast doctor'") ||
		!strings.HasPrefix(lines[1], "holdfast: a: no wake-ups: ") || !strings.HasSuffix(lines[1], " refused") {
		t.Fatalf("%q", lines)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n != 160 {
			t.Errorf("got %d characters, want 160: %q", n, line)
		}
	}
}
