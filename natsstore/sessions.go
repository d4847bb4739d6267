package natsstore

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// The range of TTLs.
const (
	minTTL = time.Second
	maxTTL = 365 * 24 * time.Hour
)

// form is the version of the stored form of sessions and calls.
const form = 1

// A stored is the value of the key of a session, or of its calls.
type stored struct {
	V      int   `json:"v"`
	TTL    int64 `json:"ttl,omitempty"`    // in seconds
	Count  int64 `json:"count,omitempty"`  // of the renewals, so that no two are the same
	Calls  int64 `json:"calls,omitempty"`  // that its owner has read
	Closed bool  `json:"closed,omitempty"` // its entries have ended
}

func (v stored) bytes() []byte {
	v.V = form
	text, err := json.Marshal(&v)
	if err != nil {
		panic(err) // numbers
	}
	return text
}

// An own is a session that this process has begun. Its renewals are sent one after another.
type own struct {
	mu            sync.Mutex
	ttl           time.Duration
	seq           uint64 // of the key's newest message, as far as we know
	which         int64  // of which server
	count         int64
	calls         int64
	indeterminate bool // a renewal was not answered

	used store.Instant // when a renewal was last sent; guarded by backend.mu
}

// SessionTraits implements [session.Backend].
func (b *backend) SessionTraits() session.Traits {
	return session.Traits{Life: session.ByServer, MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Second}
}

// Begin implements [session.Backend]. It creates the session's key.
func (b *backend) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	if ttl < minTTL || ttl > maxTTL || ttl%time.Second != 0 {
		return 0, fmt.Errorf("%w: a session of %v on NATS", store.ErrInvalid, ttl)
	}
	k, err := b.prepare(ctx)
	if err != nil {
		return 0, b.failed(err)
	}
	value := stored{TTL: int64(ttl / time.Second)}
	seq, ok, err := b.put(ctx, k, message{key: sessionKey(id), data: value.bytes()}, 0, ttl)
	if err == nil && !ok {
		err = fmt.Errorf("the key of session %v is in use", id)
	}
	if err != nil {
		return 0, b.failed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := store.Now()
	maps.DeleteFunc(b.own, func(_ session.ID, o *own) bool { return now > o.used.Add(2*o.ttl+forgotten) }) //mutant:nats-ended-session-is-kept
	b.own[id] = &own{ttl: ttl, seq: seq, which: k.which, used: now}
	b.met() //mutant:nats-server-of-a-begin
	return ttl, nil
}

// met notes that a server has answered.
func (b *backend) met() { b.server.Store(b.connectedTo()) }

// connectedTo returns a number that identifies the connected server and is never 0.
func (b *backend) connectedTo() int64 {
	h := fnv.New64a()
	io.WriteString(h, b.nc.ConnectedServerId())
	return int64(h.Sum64()>>1) | 1
}

// Server implements [session.Replaceable]. A server has a new id each time that it is started.
// Server returns the one that this process is connected to. So the restart of a leader elsewhere is
// not noticed, but that leader has the state of the majority; and another member of a cluster
// counts as a new server, which costs a write for each hold.
func (b *backend) Server() int64 { return b.server.Load() }

// forgotten is how long, in addition to twice its TTL, an unrenewed session is remembered: the
// session of a detached hold.
const forgotten = time.Minute

func (b *backend) ofOwn(id session.ID) *own {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.own[id]
	if o != nil {
		o.used = store.Now()
	}
	return o
}

func (b *backend) disown(id session.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.own, id)
}

// Renew implements [session.Backend]. It rewrites the key, if that is still as this process wrote
// it, and reads the calls.
func (b *backend) Renew(ctx context.Context, id session.ID) (calls int64, err error) {
	o := b.ofOwn(id)
	if o == nil {
		return 0, store.ErrLost
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	k, err := b.prepare(ctx)
	if err != nil {
		return 0, b.failed(err)
	}
	reading := make(chan error, 1)
	go func() {
		v, _, err := b.stored(ctx, k, callKey(id))
		calls = v.Calls
		reading <- err
	}()
	renewed := b.renewKey(ctx, k, id, o)
	err = <-reading
	if renewed == store.ErrLost {
		b.disown(id)
	}
	if renewed != nil {
		return 0, b.failed(renewed)
	}
	if err != nil {
		return 0, b.failed(err)
	}
	b.met()                       //mutant:nats-server-of-a-renewal
	o.calls = max(o.calls, calls) //mutant:nats-calls-forgotten
	return o.calls, nil
}

// renewKey writes the key once more. After an unanswered write it reads the key first, because the
// write may have been applied. If that write is applied between the read and the new write, it
// repeats both.
func (b *backend) renewKey(ctx context.Context, k *bucket, id session.ID, o *own) error {
	if o.which != k.which { // there the sequence may be that of another message
		o.which, o.indeterminate = k.which, true //mutant:nats-renewal-depends-on-another-server
	}
	for range maxRaces {
		if o.indeterminate { //mutant:nats-renewal-answered-lost
			v, m, err := b.stored(ctx, k, sessionKey(id))
			if err != nil {
				return err
			}
			if m.data == nil || v.Closed || m.seq < o.seq { // otherwise the server has forgotten an answered write //mutant:nats-older-renewal-goes-on
				return store.ErrLost
			}
			o.seq = m.seq
		}
		o.count++
		value := stored{TTL: int64(o.ttl / time.Second), Count: o.count, Calls: o.calls}
		seq, ok, err := b.put(ctx, k, message{key: sessionKey(id), data: value.bytes()}, o.seq, o.ttl)
		switch {
		case err != nil:
			o.indeterminate = true
			return err
		case ok:
			o.seq, o.indeterminate = seq, false
			return nil
		case !o.indeterminate:
			return store.ErrLost //mutant:nats-session-over-renewed
		}
	}
	return fmt.Errorf("renewals before came late, %d times", maxRaces)
}

// stored reads a key of a session.
func (b *backend) stored(ctx context.Context, k *bucket, key string) (v stored, m message, err error) {
	m, err = b.get(ctx, k, key)
	if err != nil || m.data == nil {
		return v, m, err
	}
	err = json.Unmarshal(m.data, &v)
	switch where := key + " in " + b.address; {
	case v.V > form: // regardless of the rest
		return v, m, store.NewerFormError(where, v.V, form)
	case err != nil || v.V < 1:
		return v, m, fmt.Errorf("%w: %s was not written by holdfast, or is damaged: it was not changed", store.ErrCorrupt, where)
	}
	return v, m, nil
}

// maxRaces is how often a write is tried if other writes come first.
const maxRaces = 16

// Call implements [session.Backend]. The calls have a key of their own, because writing the
// session's key would renew it.
func (b *backend) Call(ctx context.Context, id session.ID) error {
	k, err := b.prepared(ctx, false)
	if err != nil || k == nil {
		return b.failed(err)
	}
	for range maxRaces {
		c, m, err := b.stored(ctx, k, callKey(id))
		if err != nil {
			return b.failed(err)
		}
		v, at, err := b.stored(ctx, k, sessionKey(id))
		if err != nil || at.data == nil || v.Closed {
			return b.failed(err) // it has ended
		}
		next := stored{TTL: v.TTL, Calls: max(c.Calls, v.Calls) + 1} //mutant:nats-calls-counted
		// By then its owner has read the calls, and notes that in its own key.
		ttl := 4 * time.Duration(v.TTL) * time.Second
		if _, ok, err := b.put(ctx, k, message{key: callKey(id), data: next.bytes()}, m.seq, ttl); ok || err != nil {
			return b.failed(err)
		}
	}
	return fmt.Errorf("session %v is called by many at once", id)
}

// Left implements [session.Backend].
func (b *backend) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	k, err := b.prepare(ctx)
	if err != nil {
		return nil, b.failed(err)
	}
	var mu sync.Mutex
	left := map[session.ID]time.Duration{}
	err = together(ids, func(id session.ID) error {
		d, err := b.lasts(ctx, k, id)
		mu.Lock()
		defer mu.Unlock()
		left[id] = d
		return err
	})
	if err != nil {
		return nil, b.failed(err)
	}
	out := make([]time.Duration, len(ids))
	for i, id := range ids {
		out[i] = left[id]
	}
	return out, nil
}

// abreast is how many requests are under way at once.
const abreast = 32

// together runs f for all, many at a time, and returns an error of one of them.
func together[T any](all []T, f func(T) error) (failed error) {
	var running sync.WaitGroup
	var mu sync.Mutex
	room := make(chan struct{}, abreast)
	for _, one := range all {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			if err := f(one); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	running.Wait()
	return failed
}

// soon is how long a session lasts at least if its key exists.
const soon = 20 * time.Millisecond

// lasts returns how long a session lasts at least. If its key is missing, lasts first closes the
// session by a write that no late renewal can overtake, so that a stale read ends nothing.
func (b *backend) lasts(ctx context.Context, k *bucket, id session.ID) (time.Duration, error) {
	v, m, err := b.stored(ctx, k, sessionKey(id))
	switch {
	case err != nil || v.Closed:
		return 0, err
	case m.data != nil:
		age := time.Duration(k.latest()-m.at.UnixMicro()) * time.Microsecond
		return max(time.Duration(v.TTL)*time.Second-max(age, 0), soon), nil
	}
	ok, err := b.closeKey(ctx, k, id, m.seq) //mutant:nats-session-closed-before-entries
	if err == nil && !ok {
		return soon, nil // its key was not missing, or another process has closed it
	}
	return 0, err
}

// closeKey writes that a session has ended, if the newest message of its key is still the expected
// one. After that no renewal can be written.
func (b *backend) closeKey(ctx context.Context, k *bucket, id session.ID, expected uint64) (ok bool, err error) {
	_, ok, err = b.put(ctx, k, message{key: sessionKey(id), data: stored{Closed: true}.bytes()}, expected, markers)
	return ok, err
}

// End implements [session.Backend].
func (b *backend) End(ctx context.Context, id session.ID) error {
	b.disown(id)
	k, err := b.prepare(ctx)
	if err != nil {
		return b.failed(err)
	}
	for range maxRaces { // it may race with an unanswered renewal
		v, m, err := b.stored(ctx, k, sessionKey(id))
		if err != nil || v.Closed {
			return b.failed(err)
		}
		if ok, err := b.closeKey(ctx, k, id, m.seq); ok || err != nil {
			return b.failed(err)
		}
	}
	return fmt.Errorf("session %v is renewed by somebody", id)
}

// Await implements [session.Backend]. NATS does not report the end of a key.
func (b *backend) Await(context.Context, session.ID) error { return store.ErrUnsupported }
