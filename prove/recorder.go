package prove

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A recorder stands between the engine and the store. It records when a claim was
// first sent and when it had its queue position: nothing else shows which claim
// came first.
type recorder struct {
	store.Store
	place time.Duration
	// waits says that the store has no queue positions. A refused Ask is recorded
	// as one, to show which claims waited.
	waits bool
	now   func() time.Duration
	tell  func(Event)

	mu   sync.Mutex
	asks map[store.ID]*asked
}

// asked is what the recorder knows of a claim until it is released.
type asked struct {
	first time.Duration // when it was first sent
	kept  time.Duration // the time until which its position lasts at least; 0: no position
}

func newRecorder(s store.Store, place time.Duration, now func() time.Duration, tell func(Event)) *recorder {
	_, waits := s.Describe().Lacks[store.PromiseOrder]
	return &recorder{Store: s, place: place, waits: waits, now: now, tell: tell, asks: map[store.ID]*asked{}}
}

// store returns the recorder with those optional interfaces of the store that the
// engine uses.
func (r *recorder) store() store.Store {
	watcher, watches := r.Store.(store.Watcher)
	of, looks := r.Store.(store.Poller)
	poller := recordedPolls{of, r}
	switch {
	case watches && looks:
		return struct {
			*recorder
			store.Watcher
			recordedPolls
		}{r, watcher, poller}
	case watches:
		return struct {
			*recorder
			store.Watcher
		}{r, watcher}
	case looks:
		return struct {
			*recorder
			recordedPolls
		}{r, poller}
	}
	return r
}

// Ask implements [store.Store]. If the old position may have expired, the answer
// counts as a new position: the claim may now be at the end of the queue.
func (r *recorder) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	sent := r.now()
	r.mu.Lock()
	a := r.asks[c.ID]
	if a == nil {
		a = &asked{first: sent}
		r.asks[c.ID] = a
	}
	r.mu.Unlock()
	answer, err := r.Store.Ask(ctx, c)
	if err != nil || c.Try && (!r.waits || answer.Granted) { //mutant:judge-waits-without-place-noted
		return answer, err
	}
	now, from := r.now(), sent
	if answer.From != 0 { // the position's time began before this Ask, at the last renewal of its session
		from = now - store.Now().Sub(answer.From) //mutant:judge-place-counts-from-session
	}
	r.mu.Lock()
	fresh := a.kept == 0 && !answer.Granted || a.kept != 0 && now >= a.kept
	a.kept = from + r.place
	first := a.first
	r.mu.Unlock()
	if fresh {
		r.tell(Event{Do: placed, At: now, ID: c.ID.String(), Name: c.Name, Sent: first})
	}
	return answer, err
}

// recordedPolls adds Poll to a recorder. A Poll that returns a position keeps it alive, as an Ask does.
type recordedPolls struct {
	of store.Poller
	r  *recorder
}

// Poll implements [store.Poller].
func (p recordedPolls) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	answer, err := p.of.Poll(ctx, c)
	if err != nil || answer.From == 0 {
		return answer, err
	}
	now := p.r.now()
	kept := now - store.Now().Sub(answer.From) + p.r.place
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if a := p.r.asks[c.ID]; a != nil { //mutant:judge-polls-keep-places
		a.kept = max(a.kept, kept)
	}
	return answer, nil
}

// TellLosses implements [store.LossTeller] for a store that is one.
func (r *recorder) TellLosses(report func(store.ID, error)) {
	r.Store.(store.LossTeller).TellLosses(report)
}

// Release implements [store.Store].
func (r *recorder) Release(ctx context.Context, h store.Hold) error {
	r.mu.Lock()
	delete(r.asks, h.ID)
	r.mu.Unlock()
	return r.Store.Release(ctx, h)
}

// ReleaseAll implements [store.Store].
func (r *recorder) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	r.mu.Lock()
	for i := range holds {
		delete(r.asks, holds[i].ID)
	}
	r.mu.Unlock()
	return r.Store.ReleaseAll(ctx, holds)
}

// sent returns when the claim was first sent; 0: it was not, because it was granted
// inside the process.
func (r *recorder) sent(id string) time.Duration {
	parsed, err := store.ParseID(id)
	if err != nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.asks[parsed]; a != nil {
		return a.first
	}
	return 0
}
