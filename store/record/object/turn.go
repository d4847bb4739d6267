package object

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// A listing is billed as a write where objects are billed, so the processes that share a prefix take turns: one of them goes over all, once
// an hour. Who has done so last an object tells, by when it was written. Whoever finds that old writes it anew, if nobody else has meanwhile, and sweeps.

// SweepEvery is how often what crashes have left is swept, by one of all processes.
const SweepEvery = time.Hour

// A turn is what the object of the newest sweep has.
type turn struct {
	V     int    `json:"v"`
	Rev   string `json:"rev"`             // drawn, so that no two are the same
	After string `json:"after,omitempty"` // the key up to which a sweep came that was broken off: the next goes on there
}

// A turnTaker is when this process is to look again whose turn it is.
type turnTaker struct {
	mu   sync.Mutex
	next store.Instant
}

// due reports whether it is time to look. It is not again for an hour then.
func (t *turnTaker) due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := store.Now()
	if now < t.next { //mutant:object-turn-is-looked-for-each-time
		return false
	}
	t.next = now.Add(SweepEvery)
	return true
}

// in has it be due in so long, an hour at the most.
func (t *turnTaker) in(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = store.Now().Add(min(max(d, 0), SweepEvery))
}

// Sweep implements [record.Sweeper].
func (b *Backend) Sweep(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		if !b.tried.Load() || !b.turns.due() { // who only looks writes nothing //mutant:object-who-looks-sweeps
			return
		}
		from, version, own := b.turn(ctx)
		if !own {
			return
		}
		whole, last := true, from
		b.list(ctx, unwritten, from, func(key string) { last = key }, func(n record.Named, err error) bool {
			whole = yield(n, err) && (err == nil || store.Definite(err)) // what cannot be read is passed over //mutant:object-sweep-passes-over
			return whole
		})
		if whole = whole && ctx.Err() == nil; whole {
			last = ""
		}
		if last != from {
			b.behind(func(ctx context.Context) { _, _, _ = b.server.Put(ctx, b.turnKey(), turnAt(last), version) }) // else the next begins where this one did //mutant:object-sweep-goes-on
		}
	}
}

func (b *Backend) turnKey() string { return b.Prefix + "w/sweep" }

func turnAt(after string) []byte {
	text, err := json.Marshal(turn{V: form, Rev: rand.Text(), After: after})
	if err != nil {
		panic(err) // text
	}
	return text
}

// turn takes the turn, if it is one's own: then the version is that of the object which says so.
func (b *Backend) turn(ctx context.Context) (after, version string, own bool) {
	o, err := b.server.Get(ctx, b.turnKey())
	var t turn
	switch {
	case err != nil || o.Now.IsZero(): // without its time nothing is swept
		return "", "", false
	case o.Version == "":
	case json.Unmarshal(o.Body, &t) != nil || t.V != form || o.Written.IsZero():
		return "", "", false
	case o.Now.Sub(o.Written) < SweepEvery: //mutant:object-turn-of-another
		b.turns.in(SweepEvery - o.Now.Sub(o.Written))
		return "", "", false
	}
	w, what, err := b.server.Put(ctx, b.turnKey(), turnAt(t.After), o.Version)
	if err != nil || what != Done { //mutant:object-turn-of-two
		return "", "", false
	}
	return t.After, w.Version, true
}
