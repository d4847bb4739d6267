// Package setnx is a lock by SET NX PX on one Redis, as many programs have it.
package setnx

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrTaken says that another process has the lock, and ErrGone that this one has lost it.
var (
	ErrTaken = errors.New("setnx: another process has it")
	ErrGone  = errors.New("setnx: this process no longer has it")
)

// A Locker takes locks on one Redis.
type Locker struct {
	Redis *redis.Client
	TTL   time.Duration
	// Naive is the classic mistake: DEL releases the lock, even if another process has it by then.
	Naive bool
}

// A Lock is a lock that was taken. It is not renewed.
type Lock struct {
	l           *Locker
	name, value string
	until       time.Time
	lost        chan struct{}
	timer       *time.Timer
	once        sync.Once
}

var release = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// Try takes the lock if it is free.
func (l *Locker) Try(ctx context.Context, name string) (*Lock, error) {
	x := &Lock{l: l, name: name, value: rand.Text(), until: time.Now().Add(l.TTL), lost: make(chan struct{})}
	ok, err := l.Redis.SetNX(ctx, name, x.value, l.TTL).Result()
	switch {
	case err != nil:
		return nil, fmt.Errorf("setnx: %w", err)
	case !ok:
		return nil, ErrTaken
	}
	x.timer = time.AfterFunc(time.Until(x.until), func() { x.once.Do(func() { close(x.lost) }) })
	return x, nil
}

// Lock takes the lock, or waits until it is free or ctx ends.
func (l *Locker) Lock(ctx context.Context, name string) (*Lock, error) {
	for {
		x, err := l.Try(ctx, name)
		if err == nil {
			return x, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Until returns when the lock expires.
func (x *Lock) Until() time.Time { return x.until }

// Lost is closed when the lock has expired.
func (x *Lock) Lost() <-chan struct{} { return x.lost }

// Release releases the lock.
func (x *Lock) Release(ctx context.Context) error {
	x.timer.Stop()
	if x.l.Naive {
		return x.l.Redis.Del(ctx, x.name).Err()
	}
	n, err := release.Run(ctx, x.l.Redis, []string{x.name}, x.value).Int()
	if err == nil && n == 0 {
		err = ErrGone
	}
	return err
}
