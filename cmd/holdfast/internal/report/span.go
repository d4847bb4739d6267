package report

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A Span is the numbers of a run's span, which the command is told before the span is made: as W3C's Trace Context
// writes them, in hexadecimal.
type Span struct {
	Trace, ID, Flags string
	Parent, State    string // TRACEPARENT and TRACESTATE that we were told; empty: the span is the first of its trace
}

// NewSpan draws the number of a span below that of the environment, if that has one.
func NewSpan(getenv func(string) string) *Span {
	s := &Span{ID: hexNumber(8), Flags: "01"}
	if trace, flags, ok := readTraceparent(getenv("TRACEPARENT")); ok {
		s.Trace, s.Flags, s.Parent, s.State = trace, flags, getenv("TRACEPARENT"), getenv("TRACESTATE")
		return s
	}
	s.Trace = hexNumber(16)
	return s
}

// Traceparent is what the command is told.
func (s *Span) Traceparent() string { return "00-" + s.Trace + "-" + s.ID + "-" + s.Flags }

// readTraceparent reads version-trace-span-flags; later versions may have more behind that.
func readTraceparent(text string) (trace, flags string, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) < 4 || len(parts) > 4 && parts[0] == "00" || parts[0] == "ff" {
		return "", "", false
	}
	for i, n := range []int{2, 32, 16, 2} {
		if len(parts[i]) != n || strings.Trim(parts[i], "0123456789abcdef") != "" || n > 2 && strings.Trim(parts[i], "0") == "" {
			return "", "", false
		}
	}
	return parts[1], parts[3], true
}

// hexNumber is a random number of so many bytes, and not 0.
func hexNumber(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	b[0] |= 1
	return hex.EncodeToString(b)
}
