package mongostore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A session is a document with the time of its last renewal, by the server's clock, and its TTL. It has ended once its
// field over is set: by its owner, or by a process that finds it expired by the server's clock, unless it was renewed
// meanwhile.

// The range of TTLs.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = 365 * 24 * time.Hour
)

// SessionTraits implements [session.Backend].
func (b *backend) SessionTraits() session.Traits {
	return session.Traits{Life: session.ByServerClock, MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Millisecond}
}

func sessionID(id session.ID) bson.Binary { return binary('s', id[:]) }

// living matches a session that has not ended.
func living(id session.ID) bson.D {
	return object("_id", sessionID(id), "v", int32(form), "over", false) //mutant:mongo-end-is-final
}

// renew begins a session or renews it.
func (b *backend) renew(ctx context.Context, id session.ID, ttl time.Duration, begins bool) (*stored, error) {
	set := object("ttl", ttl.Milliseconds(), expires, date(b.time().latest(), ttl+b.retention+slack)) //mutant:mongo-session-is-kept
	return b.modify(ctx, living(id), object("$currentDate", now, "$set", set), begins)
}

// An own is a session that this process began.
type own struct {
	ttl  time.Duration
	used store.Instant // when it began, or its last renewal was sent
}

// forgotten is how long a session without renewals is remembered, in addition to twice its TTL. A detached hold's session
// is not renewed.
const forgotten = time.Minute

// Begin implements [session.Backend]. The server truncates times to milliseconds, so a session may end up to 1 ms early.
func (b *backend) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	if err := b.prepare(ctx); err != nil {
		return 0, err
	}
	b.index()
	d, err := b.renew(ctx, id, ttl, true)
	if err == nil && d == nil {
		err = fmt.Errorf("the session %v is there", id)
	}
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := store.Now()
	maps.DeleteFunc(b.own, func(_ session.ID, o own) bool { return now > o.used.Add(2*o.ttl+forgotten) }) //mutant:mongo-ended-session-is-kept
	b.own[id] = own{ttl, now}
	return ttl - time.Millisecond, nil //mutant:mongo-dates-are-cut
}

// Renew implements [session.Backend].
func (b *backend) Renew(ctx context.Context, id session.ID) (int64, error) {
	b.mu.Lock()
	o, ours := b.own[id]
	if ours {
		b.own[id] = own{o.ttl, store.Now()}
	}
	b.mu.Unlock()
	if !ours {
		return 0, store.ErrLost
	}
	d, err := b.renew(ctx, id, o.ttl, false)
	if err != nil {
		return 0, err
	}
	if d == nil {
		b.forget(id)
		return 0, store.ErrLost
	}
	return d.Calls, nil
}

func (b *backend) forget(id session.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.own, id)
}

// Call implements [session.Backend].
func (b *backend) Call(ctx context.Context, id session.ID) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	_, err := b.modify(ctx, living(id), object("$inc", object("calls", int64(1))), false)
	return err
}

// End implements [session.Backend].
func (b *backend) End(ctx context.Context, id session.ID) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	b.forget(id)
	_, err := b.modify(ctx, living(id), b.over(), false)
	return err
}

// over ends a session. The document is kept for a while, because other processes may read it.
func (b *backend) over() bson.D {
	return object("$set", object("over", true, expires, date(b.time().latest(), b.retention+slack)))
}

// Await implements [session.Backend].
func (b *backend) Await(context.Context, session.ID) error { return store.ErrUnsupported }

// abreast is how many sessions are checked one by one at a time. Up to that many are checked without a common read first.
const abreast = 8

// Left implements [session.Backend]. For many sessions, one read shows which certainly have time left, by the latest time
// that the server's clock can show. The others are checked one by one.
func (b *backend) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	var ends map[session.ID]int64
	if len(ids) > abreast {
		var err error
		if ends, err = b.ends(ctx, ids); err != nil {
			return nil, b.failed(err)
		}
	}
	out, errs := make([]time.Duration, len(ids)), make([]error, len(ids))
	var looking sync.WaitGroup
	room := make(chan struct{}, abreast)
	for i, id := range ids {
		if out[i] = time.Duration(ends[id]-b.time().latest()) * time.Microsecond; out[i] > 0 {
			continue
		}
		room <- struct{}{}
		looking.Go(func() {
			defer func() { <-room }()
			out[i], errs[i] = b.left(ctx, id)
		})
	}
	looking.Wait()
	return out, errors.Join(errs...)
}

// ends returns when sessions end unless renewed, in microseconds, from one read.
func (b *backend) ends(ctx context.Context, ids []session.ID) (map[session.ID]int64, error) {
	all := make(bson.A, len(ids))
	for i, id := range ids {
		all[i] = sessionID(id)
	}
	ends := map[session.ID]int64{}
	err := b.each(ctx, object("_id", object("$in", all), "over", false), func(id []byte, raw bson.Raw) bool {
		if d, err := b.parse("a session", raw); err == nil && len(id) == 1+len(session.ID{}) { // otherwise it is checked by itself
			ends[session.ID(id[1:])] = (int64(d.At) + d.TTL) * 1000
		}
		return true
	})
	return ends, err
}

// left checks one session. The server writes the time of the check in the same step that returns the last renewal. If
// the session has expired, left ends it, unless it was renewed meanwhile, and reports the end only once a majority has
// it. That a session does not exist, or had ended before, is confirmed by a majority too.
func (b *backend) left(ctx context.Context, id session.ID) (time.Duration, error) {
	for {
		d, err := b.modify(ctx, living(id), object("$currentDate", object("seen", true)), false)
		if err != nil {
			return 0, err
		}
		if d == nil {
			raw, err := b.find(ctx, sessionID(id)) //mutant:mongo-end-is-confirmed
			if err != nil || raw == nil {
				return 0, err
			}
			if d, err := b.parse("a session", raw); err != nil || d.Over {
				return 0, err
			}
			continue
		}
		if left := time.Duration(int64(d.At)+d.TTL-int64(d.Seen)) * time.Millisecond; left > 0 {
			return max(left-time.Millisecond, time.Microsecond), nil // seen was truncated to milliseconds: the time may be 1 ms later //mutant:mongo-look-is-cut
		}
		unrenewed := append(living(id), bson.E{Key: "at", Value: d.At}) //mutant:mongo-renewed-meanwhile
		ended, err := b.modify(ctx, unrenewed, b.over(), false)         //mutant:mongo-end-is-made-final
		if err != nil || ended != nil {
			return 0, err
		}
	}
}
