package record_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

type traceKey struct{}

// tracing is a backend that records for each swap the trace in its context, and the traces that
// it can be linked to. The first swap stops until the test lets it continue.
type tracing struct {
	*recordtest.Client
	begun, goesOn chan struct{}
	once          sync.Once

	mu    sync.Mutex
	trace []string
}

func (b *tracing) Swap(ctx context.Context, s *record.Swap) (record.Outcome, error) {
	all := []string{fmt.Sprint(ctx.Value(traceKey{}))}
	for _, claim := range store.Claims(ctx) {
		all = append(all, fmt.Sprint(claim.Value(traceKey{})))
	}
	slices.Sort(all[1:])
	b.mu.Lock()
	b.trace = append(b.trace, fmt.Sprint(all))
	b.mu.Unlock()
	b.once.Do(func() {
		close(b.begun)
		<-b.goesOn
	})
	return b.Client.Swap(ctx, s)
}

// A write has a context of the store. If it writes one claim, it has that claim's values. If it
// writes several together, it names their contexts.
func TestAWriteForSeveralIsLinkedToEach(t *testing.T) {
	m := recordtest.NewMemory(recordtest.Options{})
	c := m.Client()
	b := &tracing{Client: c, begun: make(chan struct{}), goesOn: make(chan struct{})}
	p := startOn(t, c, b, true)
	var all sync.WaitGroup
	ask := func(i int) {
		all.Go(func() {
			read := p.claim()
			read.Weight = 1
			if a, err := p.Ask(context.WithValue(t.Context(), traceKey{}, fmt.Sprint("trace ", i)), read); err != nil || !a.Granted {
				t.Errorf("reader %d: got %+v, %v", i, a, err)
			}
		})
	}
	ask(0)
	<-b.begun
	for i := range 3 {
		ask(i + 1)
	}
	until(t, "all calls wait", func() bool { return p.WaitingForTest(at) == 3 })
	close(b.goesOn)
	all.Wait()
	if want := []string{"[trace 0]", "[<nil> trace 1 trace 2 trace 3]"}; !slices.Equal(b.trace, want) {
		t.Errorf("got %q, want %q", b.trace, want)
	}
}
