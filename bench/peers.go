package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredisadapter "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/prove"
)

// A faulty is a library under the faults of prove. If the library leaves renewal to its users,
// the adapter renews as holdfast does: every third of the TTL, and again soon after a failure.
type faulty struct {
	name string
	open func(url string, ttl time.Duration, dial prove.Dial) (library, error)
	// fenced says that its locks have tokens.
	fenced bool
	// silent says that the library reports no deadline: its user may rely on the lock until it
	// releases the lock or learns of the loss.
	silent bool
}

// A library is the library's locks in one process.
type library interface {
	Lock(ctx context.Context, name string) (held, error)
	TryLock(ctx context.Context, name string) (held, error)
	Close() error
}

// A held lock is one that a library granted.
type held interface {
	Token() int64
	Deadline() time.Time
	Lost() <-chan struct{}
	Release() error
}

// own describes the library to prove.
func (f *faulty) own() *prove.Own {
	return &prove.Own{Name: f.name + " on Redis", Silent: f.silent, Locks: func(url string, ttl time.Duration, dial prove.Dial) (*prove.Locks, error) {
		l, err := f.open(url, ttl, dial)
		if err != nil {
			return nil, err
		}
		return &prove.Locks{Close: l.Close, Lock: func(ctx context.Context, name string, try bool) (*prove.Lease, error) {
			lock := l.Lock
			if try {
				lock = l.TryLock
			}
			h, err := lock(ctx, name)
			if err != nil {
				return nil, err
			}
			return &prove.Lease{Token: h.Token(), Deadline: h.Deadline, Lost: h.Lost(), Release: h.Release}, nil
		}}, nil
	}}
}

var underFaults = []faulty{
	{"holdfast", faultyOurs, true, false},
	{"redislock", faultyRedislock, false, true},
	{"redsync", faultyRedsync, false, false},
	{"rueidislock", faultyRueidis, false, true},
}

func dialed(rawURL string, dial prove.Dial) (*redis.Client, error) {
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o.Dialer = dial
	return redis.NewClient(o), nil
}

type peerOurs struct {
	l   *holdfast.Locker
	rdb *redis.Client
}

func faultyOurs(rawURL string, ttl time.Duration, dial prove.Dial) (library, error) {
	rdb, err := dialed(rawURL, dial)
	if err != nil {
		return nil, err
	}
	l, err := newOnRedis(rdb, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	return peerOurs{l, rdb}, err
}

func (p peerOurs) Lock(ctx context.Context, name string) (held, error) {
	return lease(p.l.Mutex(name).Lock(ctx))
}

func (p peerOurs) TryLock(ctx context.Context, name string) (held, error) {
	return lease(p.l.Mutex(name).TryLock(ctx))
}

func lease(l *holdfast.Lease, err error) (held, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p peerOurs) Close() error {
	defer p.rdb.Close()
	return p.l.Close()
}

// A peerLease is another library's lock, renewed by the adapter.
type peerLease struct {
	release func() error
	lost    chan struct{}
	ended   context.CancelFunc // stops the renewals
	over    atomic.Bool

	mu       sync.Mutex
	deadline time.Time // of the newest renewal; zero: not known
}

func (l *peerLease) Token() int64          { return 0 }
func (l *peerLease) Lost() <-chan struct{} { return l.lost }

func (l *peerLease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *peerLease) Release() error {
	l.over.Store(true)
	l.ended()
	return l.release()
}

// lose records that the library reported a loss.
func (l *peerLease) lose() {
	if !l.over.Swap(true) {
		close(l.lost)
	}
}

// errNotOurs is what an adapter's renew returns when the library has reported a loss.
var errNotOurs = errors.New("the library reported a loss")

// renewed returns a lease that is renewed until it is released or lost. renew returns the new
// deadline.
func renewed(ttl time.Duration, deadline time.Time, renew func(context.Context) (time.Time, error), release func() error) *peerLease {
	ctx, cancel := context.WithCancel(context.Background())
	l := &peerLease{release: release, lost: make(chan struct{}), ended: cancel, deadline: deadline}
	go func() {
		for wait := ttl / 3; ; {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			at, err := renew(ctx)
			switch {
			case errors.Is(err, errNotOurs):
				l.lose()
				return
			case err != nil:
				wait = ttl / 20
			default:
				wait = ttl / 3
				l.mu.Lock()
				l.deadline = at
				l.mu.Unlock()
			}
		}
	}()
	return l
}

// class wraps the library's error so that it means what holdfast's would.
func class(ctx context.Context, err error, refused bool) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case refused:
		return fmt.Errorf("%w: %w", holdfast.ErrHeld, err)
	}
	return fmt.Errorf("%w: %w", holdfast.ErrUnavailable, err)
}

type peerRedislock struct {
	rdb    *redis.Client
	client *redislock.Client
	ttl    time.Duration
}

func faultyRedislock(rawURL string, ttl time.Duration, dial prove.Dial) (library, error) {
	rdb, err := dialed(rawURL, dial)
	if err != nil {
		return nil, err
	}
	return peerRedislock{rdb, redislock.New(rdb), ttl}, nil
}

func (p peerRedislock) Lock(ctx context.Context, name string) (held, error) {
	return p.obtain(ctx, name, redislock.LinearBackoff(10*time.Millisecond))
}

func (p peerRedislock) TryLock(ctx context.Context, name string) (held, error) {
	return p.obtain(ctx, name, redislock.NoRetry())
}

// A sending is a retry strategy that notes when the newest request is sent, at the earliest.
type sending struct {
	redislock.RetryStrategy
	at time.Time
}

// NextBackoff returns how long the library waits before its next request.
func (s *sending) NextBackoff() time.Duration {
	d := s.RetryStrategy.NextBackoff()
	s.at = time.Now().Add(d)
	return d
}

// obtain takes the TTL as the deadline: the library reports none. It counts from just before
// the request that obtained the lock, since the server counts from its arrival.
func (p peerRedislock) obtain(ctx context.Context, name string, again redislock.RetryStrategy) (held, error) {
	sent := &sending{again, time.Now()}
	l, err := p.client.Obtain(ctx, name, p.ttl, &redislock.Options{RetryStrategy: sent})
	if err != nil {
		return nil, class(ctx, err, errors.Is(err, redislock.ErrNotObtained))
	}
	return renewed(p.ttl, sent.at.Add(p.ttl), func(ctx context.Context) (time.Time, error) {
		return p.refresh(ctx, l)
	}, func() error { return released(l.Release(context.Background()), redislock.ErrLockNotHeld) }), nil
}

// refresh renews the lock and returns its new deadline, which counts from just before the request.
func (p peerRedislock) refresh(ctx context.Context, l *redislock.Lock) (time.Time, error) {
	sent := time.Now()
	err := l.Refresh(ctx, p.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		err = errNotOurs
	}
	return sent.Add(p.ttl), err
}

func (p peerRedislock) Close() error { return p.rdb.Close() }

// released turns the library's error for "not yours" into holdfast's.
func released(err, notOurs error) error {
	if errors.Is(err, notOurs) {
		return fmt.Errorf("%w: %w", holdfast.ErrLost, err)
	}
	return err
}

type peerRedsync struct {
	rdb *redis.Client
	rs  *redsync.Redsync
	ttl time.Duration
}

func faultyRedsync(rawURL string, ttl time.Duration, dial prove.Dial) (library, error) {
	rdb, err := dialed(rawURL, dial)
	if err != nil {
		return nil, err
	}
	return peerRedsync{rdb, redsync.New(goredisadapter.NewPool(rdb)), ttl}, nil
}

func (p peerRedsync) Lock(ctx context.Context, name string) (held, error) {
	return p.lock(ctx, name, (*redsync.Mutex).LockContext)
}

func (p peerRedsync) TryLock(ctx context.Context, name string) (held, error) {
	return p.lock(ctx, name, (*redsync.Mutex).TryLockContext)
}

func (p peerRedsync) lock(ctx context.Context, name string, lock func(*redsync.Mutex, context.Context) error) (held, error) {
	m := p.rs.NewMutex(name, redsync.WithExpiry(p.ttl), redsync.WithTries(1<<30))
	if err := lock(m, ctx); err != nil {
		var taken *redsync.ErrTaken
		return nil, class(ctx, err, errors.As(err, &taken))
	}
	var mu sync.Mutex // Extend writes Until without a lock
	l := renewed(p.ttl, m.Until(), func(ctx context.Context) (time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		ok, err := m.ExtendContext(ctx)
		var taken *redsync.ErrTaken
		switch {
		case ok:
			return m.Until(), nil
		case errors.Is(err, redsync.ErrExtendFailed), errors.As(err, &taken):
			err = errNotOurs
		}
		return time.Time{}, err
	}, func() error {
		mu.Lock()
		defer mu.Unlock()
		ok, err := m.UnlockContext(context.Background())
		if err == nil && !ok {
			err = redsync.ErrLockAlreadyExpired
		}
		return released(err, redsync.ErrLockAlreadyExpired)
	})
	go l.loseAtTheDeadline()
	return l, nil
}

// loseAtTheDeadline does what a careful user does with a library that reports a deadline.
func (l *peerLease) loseAtTheDeadline() {
	for !l.over.Load() {
		left := time.Until(l.Deadline())
		if left <= 0 {
			l.lose()
			return
		}
		time.Sleep(min(left, 10*time.Millisecond))
	}
}

func (p peerRedsync) Close() error { return p.rdb.Close() }

type peerRueidis struct{ l rueidislock.Locker }

// faultyRueidis waits for an answer as long as the TTL instead of 20 ms. With 20 ms it gets
// hardly any lock under faults.
func faultyRueidis(rawURL string, ttl time.Duration, dial prove.Dial) (library, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	o := rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{u.Host},
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return dial(ctx, "tcp", addr)
			},
		},
		KeyMajority: 1, KeyValidity: ttl, NoLoopTracking: true, TryNextAfter: ttl,
	}
	for began := time.Now(); ; time.Sleep(ttl / 10) { // it connects at once, and the link may be down
		l, err := rueidislock.NewLocker(o)
		if err == nil {
			return peerRueidis{l}, nil
		}
		if time.Since(began) > time.Minute {
			return nil, err
		}
	}
}

func (p peerRueidis) Lock(ctx context.Context, name string) (held, error) {
	return p.lock(ctx, name, p.l.WithContext)
}

func (p peerRueidis) TryLock(ctx context.Context, name string) (held, error) {
	return p.lock(ctx, name, p.l.TryWithContext)
}

// lock: the library renews by itself and ends the context of a lock that it knows to be lost.
// It does not report when it last renewed.
func (p peerRueidis) lock(ctx context.Context, name string, lock func(context.Context, string) (context.Context, context.CancelFunc, error)) (held, error) {
	// The library would end the lock with the context that bounds the wait.
	within, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	held, cancel, err := lock(within, name)
	if !stop() && err == nil {
		cancel()
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, class(ctx, err, errors.Is(err, rueidislock.ErrNotLocked))
	}
	l := &peerLease{lost: make(chan struct{}), ended: func() {}}
	l.release = func() error { // it returns no error
		cancel()
		end()
		return nil
	}
	context.AfterFunc(held, l.lose) // no effect if the lock was released
	return l, nil
}

func (p peerRueidis) Close() error { p.l.Close(); return nil }
