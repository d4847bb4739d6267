package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/store"
)

type traceKey struct{}

func of(trace string) context.Context {
	return context.WithValue(context.Background(), traceKey{}, trace)
}

// traces is the value of a context and those of the claims that it serves.
func traces(ctx context.Context) string {
	all := fmt.Sprint(ctx.Value(traceKey{}))
	for _, c := range store.Claims(ctx) {
		all += fmt.Sprint(", ", c.Value(traceKey{}))
	}
	return all
}

func TestJoin_OneCallerHasItsValuesAndSeveralAreNamed(t *testing.T) {
	batch := store.ForClaims(context.Background(), func() []context.Context { return []context.Context{of("a"), of("b")} })
	for want, ctx := range map[string]context.Context{
		"<nil>":                 store.Join(context.Background()),
		"one":                   store.Join(context.Background(), of("one")),
		"<nil>, one, two":       store.Join(context.Background(), of("one"), of("two")),
		"<nil>, a, b":           store.Join(context.Background(), batch),
		"<nil>, a, b, one":      store.Join(context.Background(), batch, of("one")),
		"ours":                  store.Join(of("ours"), of("one")),
		"<nil>, one, two, a, b": store.Join(context.Background(), store.Join(context.Background(), of("one"), of("two")), batch),
	} {
		if got := traces(ctx); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A request for several callers ends with the store's own context, and has its cause.
func TestJoin_TheEndOfACallerEndsNoJoinedCall(t *testing.T) {
	ours, end := context.WithCancelCause(context.Background())
	theirs, leave := context.WithCancelCause(of("one"))
	ctx := store.Join(ours, theirs)
	leave(errors.New("the caller returned"))
	if err := context.Cause(ctx); err != nil || ctx.Err() != nil {
		t.Fatalf("the joined call ended with one caller: %v", err)
	}
	closed := errors.New("closed")
	end(closed)
	below, cancel := context.WithCancel(ctx)
	defer cancel()
	if got := context.Cause(below); got != closed || traces(below) != "one" {
		t.Errorf("got cause %v, trace %s", got, traces(below))
	}
}

func TestTheTestsCatchEachMutantOfClaims(t *testing.T) {
	mutant.Catch(t, []mutant.Broken{
		{Name: "a joined call forgets its only caller", Pkg: "store", Test: "TestJoin_OneCallerHasItsValuesAndSeveralAreNamed", Edits: []mutant.Edit{mutant.At("joined-is-forgotten", mutant.Stmt("_ = c"))}},
		{Name: "a joined call ends with its caller", Pkg: "store", Test: "TestJoin_TheEndOfACallerEndsNoJoinedCall", Edits: []mutant.Edit{mutant.At("joined-ends-with-caller", mutant.Cond("v != nil && a.caller.Value(key) == nil"))}},
	})
}
