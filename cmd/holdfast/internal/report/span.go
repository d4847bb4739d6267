package report

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A Span has the ids of a run's span, in hexadecimal as in W3C Trace Context. The command gets
// them before the span is made.
type Span struct {
	Trace, ID, Flags string
	Parent, State    string // TRACEPARENT and TRACESTATE that we got; empty: the span is the first of its trace
}

// NewSpan makes the ids of a span below that of the environment, if there is one.
func NewSpan(getenv func(string) string) *Span {
	s := &Span{ID: hexNumber(8), Flags: "01"}
	if trace, flags, ok := readTraceparent(getenv("TRACEPARENT")); ok {
		s.Trace, s.Flags, s.Parent, s.State = trace, flags, getenv("TRACEPARENT"), getenv("TRACESTATE")
		return s
	}
	s.Trace = hexNumber(16)
	return s
}

// Traceparent returns the TRACEPARENT for the command.
func (s *Span) Traceparent() string { return "00-" + s.Trace + "-" + s.ID + "-" + s.Flags }

// readTraceparent reads version-trace-span-flags; later versions may append more.
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

// hexNumber returns a random number of that many bytes, which is not 0.
func hexNumber(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	b[0] |= 1
	return hex.EncodeToString(b)
}
