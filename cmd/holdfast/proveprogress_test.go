package main

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/prove"
)

func TestProgressLinesStayOnlyWithoutATerminal(t *testing.T) {
	steps := []prove.Progress{
		{Elapsed: time.Second, For: 90 * time.Second, Grants: 10},
		{Elapsed: 2 * time.Second, For: 90 * time.Second, Grants: 20, Faults: 3, Found: 1},
		{Elapsed: 3 * time.Second, For: 90 * time.Second, Grants: 30, Faults: 4, Found: 2},
		{Elapsed: 33 * time.Second, For: 90 * time.Second, Grants: 40, Faults: 5, Found: 2},
	}
	var terminal, file strings.Builder
	for w, l := range map[*strings.Builder]*progressLine{&terminal: {onTerminal: true}, &file: {}} {
		l.w, l.every = w, 30*time.Second
		for _, p := range steps {
			l.show(p)
		}
		l.end()
	}
	if text := terminal.String(); strings.Count(text, "\r") != len(steps)+1 || strings.Contains(text, "\n") || !strings.HasSuffix(text, "\r\x1b[K") {
		t.Errorf("on a terminal: got %q", text)
	}
	want := "holdfast: prove: 2s of 1m30s: 20 grants, 3 faults, 1 WRONG so far\n" +
		"holdfast: prove: 33s of 1m30s: 40 grants, 5 faults, 2 WRONG so far\n"
	if file.String() != want {
		t.Errorf("in a file: got %q, want %q", file.String(), want)
	}
}
