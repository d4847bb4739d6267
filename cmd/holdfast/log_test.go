package main

import (
	"errors"
	"strings"
	"testing"
)

// With -v a line begins as all others do, and no id or error in it is cut.
func TestWithVerboseEachLineIsOursAndWhole(t *testing.T) {
	was := stderr
	defer func() { stderr = was }()
	var said strings.Builder
	stderr = &voice{to: &said}
	long := strings.Repeat("e", 300)
	logger(true).Warn("holdfast: the lease could not be renewed", "name", "a", "id", "0123", "err", errors.New("no\n\x1b"+long))
	want := `holdfast: a: the lease could not be renewed id=0123 err="no\n\x1b` + long + "\"\n"
	if said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}
