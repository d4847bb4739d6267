package main

import (
	"context"
	"fmt"
	"iter"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// deaf is what some drivers are: it does not heed its context.
type deaf struct{ store.Inspector }

func (deaf) List(context.Context, string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		yield(store.State{Name: "seen"}, nil)
		time.Sleep(time.Hour)
	}
}

// What was read until then is shown.
func TestAReadDoesNotWaitForADriverThatIgnoresContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100 * time.Millisecond
		begun := time.Now()
		states, errs := (&inspected{Inspector: deaf{}, where: "S"}).all(t.Context(), "", most)
		if len(states) != 1 || len(errs) != 1 || codeOf(errs[0]) != exitUnavailable {
			t.Errorf("%+v, %v", states, errs)
		}
		if took := time.Since(begun); took != most {
			t.Errorf("it took %v, want %v", took, most)
		}
		time.Sleep(time.Hour) // the driver comes back
	})
}

func TestAStoreThatWasSilentIsNotWaitedForAgain(t *testing.T) {
	refused := fmt.Errorf("%w: %w", holdfast.ErrUnavailable, syscall.ECONNREFUSED)
	for _, c := range []struct {
		err  error
		held bool
		most time.Duration
	}{
		{exit(say(refused, "a", "S", 0)), false, 0}, {exit(errSilent), false, 100 * time.Millisecond}, {&exitError{code: exitLost}, true, 100 * time.Millisecond},
		{&exitError{code: exitHeld}, false, 500 * time.Millisecond}, {&exitError{code: 0}, true, 2 * time.Second},
	} {
		if d := closesFor(c.err, c.held); d > c.most {
			t.Errorf("%v: %v, want at most %v", c.err, d, c.most)
		}
	}
}
