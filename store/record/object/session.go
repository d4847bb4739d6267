package object

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A session is an object that each renewal rewrites. The server shows how old it is, by when it was written and by
// its clock in the answer, both truncated to the second. Once it is older than its TTL less a second, it is closed
// by a write that depends on what was read, and deleted. If an answer lacks either time, the object must be seen
// unchanged for its TTL, by the clock of this process. Both ways may be used for one session: each ends it no
// earlier than its owner does, and the closing write shows which renewal it has seen.

const (
	// MinTTL and MaxTTL are the smallest and the largest TTL of a session; Backend.Late is added to the smallest.
	MinTTL, MaxTTL = 5 * time.Second, 365 * 24 * time.Hour
	// early is how long before its TTL a session expires by the server's clock, and may be closed: one more second
	// for each truncated time. So it has ended within its TTL.
	early = time.Second
	// margin is how much less than the TTL the owner of a session counts on: early, a second for the two
	// truncations, and one for the clocks of the many machines that may answer.
	margin = 3 * time.Second
	// Stale is how far the Date of an answer may be behind the server's clock: it is truncated to the second, and
	// some servers make a new one only each second. To take a Date for more recent than it is ends nothing early.
	Stale = 2 * time.Second
	// Age is how far the difference of two Dates may be off from the time that passed between them: one is stale,
	// and the other comes from a machine whose clock is ahead.
	Age = Stale + time.Second
	// soon is the least time that an unclosed session is reported to have left.
	soon = 20 * time.Millisecond
	// forgotten is how long, in addition to twice its TTL, an unrenewed session is remembered: that of a detached
	// hold.
	forgotten = time.Minute
)

// A stored is the content of the object of a session, or of its calls.
type stored struct {
	V      int   `json:"v"`
	TTL    int64 `json:"ttl,omitempty"`    // in seconds
	Count  int64 `json:"count,omitempty"`  // of renewals, so that no two bodies are the same
	Calls  int64 `json:"calls,omitempty"`  // as last read by its owner; in the calls object, the counter
	Closed bool  `json:"closed,omitempty"` // the session has ended, and with it its entries
}

func (v stored) bytes() []byte {
	v.V = form
	text, err := json.Marshal(&v)
	if err != nil {
		panic(err) // impossible: it has only numbers
	}
	return text
}

// An own is a session that this process began. Its renewals are sent one after another.
type own struct {
	mu            sync.Mutex
	ttl           time.Duration
	version       string // of its object, as far as known
	count, calls  int64
	renewed       int64 // the count of the newest renewal that was answered as done
	indeterminate bool  // the newest renewal was not answered as done

	used store.Instant // when a renewal was last sent; guarded by Backend.mu
}

func (b *Backend) sessionKey(id session.ID) string { return b.Prefix + "s/" + id.String() }
func (b *Backend) callKey(id session.ID) string    { return b.Prefix + "c/" + id.String() }

// sessionOf returns the session of an object, by the last part of its key.
func sessionOf(text string) (id session.ID, ok bool) {
	if len(text) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil
}

// SessionTraits implements [session.Backend].
func (b *Backend) SessionTraits() session.Traits {
	return session.Traits{Life: session.ByServerClock, MinTTL: MinTTL + b.Late, MaxTTL: MaxTTL, Tick: time.Second}
}

// Begin implements [session.Backend].
func (b *Backend) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	if ttl < MinTTL+b.Late || ttl > MaxTTL || ttl%time.Second != 0 {
		return 0, fmt.Errorf("%w: a session of %v", store.ErrInvalid, ttl)
	}
	if err := b.Prepare(ctx); err != nil {
		return 0, err
	}
	o, what, err := b.put(ctx, b.sessionKey(id), stored{TTL: int64(ttl / time.Second)}.bytes(), "")
	if err != nil { // one that exists is ours: its ID is random, and a proxy may have sent the write twice //mutant:object-begun-after-all
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := store.Now()
	maps.DeleteFunc(b.own, func(_ session.ID, o *own) bool { return now > o.used.Add(2*o.ttl+forgotten) }) //mutant:object-ended-session-is-kept
	b.own[id] = &own{ttl: ttl, version: o.Version, used: now, indeterminate: what != Done}
	return ttl - margin - b.Late, nil //mutant:object-times-are-cut
}

func (b *Backend) ofOwn(id session.ID) *own {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.own[id]
	if o != nil {
		o.used = store.Now()
	}
	return o
}

func (b *Backend) disown(id session.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.own, id)
}

// Renew implements [session.Backend]: it rewrites the object, if that is still as this process wrote it, and
// reads its calls.
func (b *Backend) Renew(ctx context.Context, id session.ID) (int64, error) {
	o := b.ofOwn(id)
	if o == nil {
		return 0, store.ErrLost
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var renewed error
	var called stored
	err := together(2, func(i int) (err error) {
		if i == 0 {
			renewed = b.renew(ctx, id, o)
			return nil
		}
		called, _, err = b.stored(ctx, b.callKey(id))
		return err
	})
	if renewed == store.ErrLost {
		b.disown(id)
	}
	if renewed != nil {
		return 0, renewed
	}
	if err != nil {
		return 0, err
	}
	o.calls = max(o.calls, called.Calls) //mutant:object-calls-forgotten
	return o.calls, nil
}

// renew rewrites the object. After a write that was not answered as done, the object is read first, and decides. A
// refusal alone shows no end: if a proxy sends a write twice, the first is done, and the second is refused. Only its
// owner renews a session, and other processes only close it.
func (b *Backend) renew(ctx context.Context, id session.ID, o *own) error {
	for range maxRaces {
		if o.indeterminate { //mutant:object-renewal-answered-lost
			v, at, err := b.stored(ctx, b.sessionKey(id))
			switch {
			case err != nil:
				return err
			case at.Version == "", v.Closed: //mutant:object-session-over-renewed
				return store.ErrLost
			case v.Count < o.renewed: // it was closed and deleted, and then its creation arrived again //mutant:object-session-begun-again
				return store.ErrLost
			}
			o.version = at.Version
		}
		o.count++
		at, what, err := b.server.Put(ctx, b.sessionKey(id), stored{TTL: int64(o.ttl / time.Second), Count: o.count, Calls: o.calls}.bytes(), o.version)
		switch {
		case err != nil:
			o.indeterminate = true
			return err
		case what == Done:
			o.version, o.renewed, o.indeterminate = at.Version, o.count, false
			return nil
		}
		o.indeterminate = true //mutant:object-renewal-sent-twice
	}
	return fmt.Errorf("renewals before came late, %d times", maxRaces)
}

// stored reads an object of a session.
func (b *Backend) stored(ctx context.Context, key string) (v stored, o Object, err error) {
	o, err = b.server.Get(ctx, key)
	if err != nil || o.Version == "" {
		return v, o, err
	}
	err = json.Unmarshal(o.Body, &v)
	switch where := key + " in " + b.Address; {
	case v.V > form: // even if the rest cannot be read
		return v, o, store.NewerFormError(where, v.V, form)
	case err != nil || v.V < 1:
		return v, o, fmt.Errorf("%w: %s was not written by holdfast, or is damaged: it was not changed", store.ErrCorrupt, where)
	}
	return v, o, nil
}

// Call implements [session.Backend]. The call counter has an object of its own, because writing that of the session
// would renew it.
func (b *Backend) Call(ctx context.Context, id session.ID) error {
	if err := b.Prepare(ctx); err != nil {
		return err
	}
	for range maxRaces {
		c, at, err := b.stored(ctx, b.callKey(id))
		if err != nil {
			return err
		}
		v, session, err := b.stored(ctx, b.sessionKey(id))
		if err != nil || session.Version == "" || v.Closed {
			return err // it has ended
		}
		next := stored{TTL: v.TTL, Calls: max(c.Calls, v.Calls) + 1} //mutant:object-calls-counted
		if _, what, err := b.server.Put(ctx, b.callKey(id), next.bytes(), at.Version); what == Done || err != nil {
			return err
		}
	}
	return fmt.Errorf("session %v is called by many at once", id)
}

// Left implements [session.Backend].
func (b *Backend) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if err := b.Prepare(ctx); err != nil {
		return nil, err
	}
	out := make([]time.Duration, len(ids))
	err := together(len(ids), func(i int) (err error) {
		out[i], err = b.left(ctx, ids[i])
		return err
	})
	return out, err
}

// left returns how long, at least, a session still lasts. An expired one is closed first, by a write that no late
// renewal can overtake.
func (b *Backend) left(ctx context.Context, id session.ID) (time.Duration, error) {
	for range maxRaces {
		v, o, err := b.stored(ctx, b.sessionKey(id))
		if err != nil {
			return 0, err
		}
		if o.Version == "" {
			b.watched.Forget(id)
			return 0, nil
		}
		if !v.Closed {
			ttl := time.Duration(v.TTL) * time.Second
			if o.timed() { //mutant:object-no-clock-judges
				b.watched.Forget(id)
				left := ttl - early - o.Now.Sub(o.Written) //mutant:object-session-judged
				if left > 0 {
					return max(left-Stale, soon), nil //mutant:object-left-is-cut
				}
			} else if left := b.watched.Seen(id, ttl, o.Version); left > 0 { //mutant:object-watched-for-its-ttl
				return left, nil
			}
			_, what, err := b.server.Put(ctx, b.sessionKey(id), stored{Closed: true}.bytes(), o.Version) //mutant:object-session-closed
			if err != nil {
				return 0, err
			}
			if what != Done { // it was renewed, or another process has closed it
				continue
			}
		}
		b.watched.Forget(id)
		b.behind(func(ctx context.Context) { _ = b.erase(ctx, id) })
		return 0, nil
	}
	return soon, nil
}

// Doubt implements [session.Doubter].
func (b *Backend) Doubt(id session.ID) time.Duration { return b.watched.Doubt(id) }

// End implements [session.Backend]. A late renewal fails, because the version that it depends on is gone.
func (b *Backend) End(ctx context.Context, id session.ID) error {
	b.disown(id)
	return b.erase(ctx, id)
}

// erase deletes the objects of a session that is never begun again.
func (b *Backend) erase(ctx context.Context, id session.ID) error {
	keys := []string{b.sessionKey(id), b.callKey(id)}
	return together(len(keys), func(i int) error { return b.server.Delete(ctx, keys[i], "") })
}
