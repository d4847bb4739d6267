package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// deaf ignores its context, as some drivers do.
type deaf struct{ store.Inspector }

func (deaf) List(context.Context, string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		yield(store.State{Name: "seen"}, nil)
		time.Sleep(time.Hour)
	}
}

// The part that was read until then is shown.
func TestAReadDoesNotWaitForADriverThatIgnoresContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100 * time.Millisecond
		begun := time.Now()
		states, errs := (&inspected{Inspector: deaf{}, where: "S"}).all(t.Context(), "", most)
		if len(states) != 1 || len(errs) != 1 || codeOf(errs[0]) != exitUnavailable {
			t.Errorf("got %+v, %v, want no answer", states, errs)
		}
		if took := time.Since(begun); took != most {
			t.Errorf("the read took %v, want %v", took, most)
		}
		time.Sleep(time.Hour) // the driver returns
	})
}

// A tiring store answers once, and then never again.
type tiring struct {
	store.Inspector
	silent bool
}

func (s *tiring) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		if s.silent {
			<-ctx.Done()
			yield(store.State{}, fmt.Errorf("list: %w: %w", holdfast.ErrUnavailable, ctx.Err()))
			return
		}
		s.silent = true
		yield(stateWith(name, entryOf(1, 5, "web-1", "")), nil)
	}
}

// The last read before the end leaves no time for a slow store.
func TestAWaitEndsAsHeldIfTheLastLookIsTooSlow(t *testing.T) {
	for _, c := range []struct {
		silent bool
		limit  time.Duration
		want   error
	}{{false, time.Second, holdfast.ErrHeld}, {true, time.Second, holdfast.ErrUnavailable}, {false, time.Hour, holdfast.ErrUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			in := &inspected{Inspector: &tiring{silent: c.silent}, where: "S"}
			if err := in.waitFree(t.Context(), "a", c.limit); !errors.Is(err, c.want) {
				t.Errorf("silent from the first read %v, -w %v: got %v after %v, want %v", c.silent, c.limit, err, time.Since(begun), c.want)
			}
		})
	}
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
			t.Errorf("%v: Close waits %v, want at most %v", c.err, d, c.most)
		}
	}
}
