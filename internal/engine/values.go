package engine

import (
	"context"
	"time"
)

// values is a context with the values of another, but without its end and deadline. The
// calls that serve one claim, and its events, have the values of the claim's context; a
// batch has none. A nil *values has none either.
type values struct{ of context.Context }

func (v *values) Deadline() (time.Time, bool) { return time.Time{}, false }
func (v *values) Done() <-chan struct{}       { return nil }
func (v *values) Err() error                  { return nil }

func (v *values) Value(key any) any {
	if v == nil || v.of == nil || ending.Value(key) != nil { // context.Cause finds the end of a context by its values //mutant:values-tell-the-end
		return nil
	}
	return v.of.Value(key)
}
