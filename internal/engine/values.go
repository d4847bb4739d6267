package engine

import (
	"context"
	"time"
)

// values is a context that has the values of another, and neither its end nor its
// deadline. The calls that serve one claim have those of the claim's context, and so
// have its events; a batch has none. A nil *values has none either.
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
