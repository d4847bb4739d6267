package storetest_test

import (
	"context"
	"iter"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A called store counts the calls of each operation.
type called struct {
	*memstore.Store
	calls map[string]int
}

func (s called) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	s.calls["Ask"]++
	return s.Store.Ask(ctx, c)
}

func (s called) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	s.calls["Renew"]++
	return s.Store.Renew(ctx, holds)
}

func (s called) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	s.calls["Change"]++
	return s.Store.Change(ctx, h, turn, weight)
}

func (s called) Release(ctx context.Context, h store.Hold) error {
	s.calls["Release"]++
	return s.Store.Release(ctx, h)
}

func (s called) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	s.calls["ReleaseAll"]++
	return s.Store.ReleaseAll(ctx, holds)
}

func (s called) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	s.calls["Poll"]++
	return s.Store.Poll(ctx, c)
}

func (s called) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	s.calls["List"]++
	return s.Store.List(ctx, name)
}

func (s called) BreakHold(ctx context.Context, b store.Break) error {
	s.calls["BreakHold"]++
	return s.Store.BreakHold(ctx, b)
}

// An operation that is added to the contract fails this test until Everything calls it.
func TestEverythingCallsEveryOperation(t *testing.T) {
	s := called{memstore.New(), map[string]int{"Describe": 1, "Close": 1}} // these two ask the server nothing
	storetest.Everything(t, s)
	for _, operations := range []reflect.Type{reflect.TypeFor[store.Store](), reflect.TypeFor[store.Inspector](), reflect.TypeFor[store.Poller]()} {
		for m := range operations.Methods() {
			if s.calls[m.Name] == 0 {
				t.Errorf("%s is not called", m.Name)
			}
		}
	}
}
