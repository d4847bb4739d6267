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

// A listing of objects is billed as a write. So of all processes that share a prefix, only one lists all objects,
// once an hour. The age of an object says when that was last. A process that finds it older than an hour rewrites it
// by a conditional write, and then sweeps. A sweep ends after a while (see record.Sweeper). It goes on a minute later:
// else a server would hold ever more objects if more are left in an hour than one sweep can delete.

const (
	// SweepEvery is how often one of all processes sweeps what crashes have left.
	SweepEvery = time.Hour
	// resumes is how long after its end an interrupted sweep goes on.
	resumes = time.Minute
)

// A turn is the content of the object that says when the newest sweep was.
type turn struct {
	V     int    `json:"v"`
	Rev   string `json:"rev"`             // random, so that no two bodies are the same
	After []byte `json:"after,omitempty"` // if a sweep was interrupted: the last key that it reached. The next continues there
}

// A turnTaker says when this process reads that object again.
type turnTaker struct {
	mu   sync.Mutex
	next store.Instant
}

// due reports whether it is time to read the object. If so, it returns false for the next hour.
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

// in makes it due after d, or after an hour if that is less.
func (t *turnTaker) in(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = store.Now().Add(min(max(d, 0), SweepEvery))
}

// Swept puts off the next sweep of this process by an hour. It is for tests that count requests: some processes sweep a
// second after their start.
func (b *Backend) Swept() { b.turns.in(SweepEvery) }

// Sweep implements [record.Sweeper].
func (b *Backend) Sweep(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return b.SweepBy(ctx, func(after string, at func(key string), yield func(record.Named, error) bool) {
		b.list(ctx, unwritten, after, at, yield)
	})
}

// SweepBy is Sweep with the caller's listing. list yields the names whose keys follow after, and calls at with each key
// that it has finished.
func (b *Backend) SweepBy(ctx context.Context, list func(after string, at func(key string), yield func(record.Named, error) bool)) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		if !b.tried.Load() || !b.turns.due() { // a process that only reads must write nothing //mutant:object-who-looks-sweeps
			return
		}
		from, version, own := b.turn(ctx)
		if !own {
			return
		}
		whole, last := true, from
		list(from, func(key string) { last = key }, func(n record.Named, err error) bool {
			// An object that cannot be read has a name, and is skipped. An error without one ends the listing.
			whole = yield(n, err) && (err == nil || n.Name != "" || store.Definite(err)) //mutant:object-sweep-passes-over
			return whole
		})
		if whole = whole && ctx.Err() == nil; whole {
			last = ""
		}
		if !whole {
			b.turns.in(resumes)
		}
		if last != from {
			b.behind(func(ctx context.Context) { _, _, _ = b.server.Put(ctx, b.turnKey(), turnAt(last), version) }) // if this fails, the next sweep begins where this one did //mutant:object-sweep-goes-on
		}
	}
}

func (b *Backend) turnKey() string { return b.Prefix + "w/sweep" }

func turnAt(after string) []byte {
	text, err := json.Marshal(turn{V: form, Rev: rand.Text(), After: []byte(after)})
	if err != nil {
		panic(err) // impossible: it has only text
	}
	return text
}

// turn reports whether this process must sweep now. If so, it has written the object, and version is the new
// version.
func (b *Backend) turn(ctx context.Context) (after, version string, own bool) {
	o, err := b.server.Get(ctx, b.turnKey())
	if err != nil || o.Now.IsZero() || o.Version != "" && o.Written.IsZero() { // no sweep without the server's time
		return "", "", false
	}
	var t turn
	every := SweepEvery
	switch err := json.Unmarshal(o.Body, &t); {
	case t.V > form: // even if the rest cannot be read //mutant:object-turn-of-a-newer-version
		return "", "", false
	case err != nil || t.V < 1: // there is none, or it is damaged: from the beginning
		t = turn{} //mutant:object-damaged-turn
	case len(t.After) > 0:
		every = resumes //mutant:object-sweep-goes-on-soon
	}
	if since := o.Now.Sub(o.Written); o.Version != "" && since < every { //mutant:object-turn-of-another
		b.turns.in(every - since)
		return "", "", false
	}
	w, what, err := b.server.Put(ctx, b.turnKey(), turnAt(string(t.After)), o.Version)
	if err != nil || what != Done { //mutant:object-turn-of-two
		return "", "", false
	}
	return string(t.After), w.Version, true
}
