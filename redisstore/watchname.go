package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisnames"
	"github.com/holdfast-go/holdfast/store"
)

// WatchName implements [store.NameWatcher]. The channel of a name is its key, so a user needs the same pattern
// for both. All watched names share one connection, which is closed when no name is watched.
func (s *Store) WatchName(ctx context.Context, name string, changed func()) (stop func(), err error) {
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	key := s.key(name)
	if stop, err = s.watched().Watch(ctx, key, changed); err == nil {
		return stop, nil
	}
	denied := forbids(err.Error())
	if err = s.failed(fmt.Sprintf("subscribe to %q", key), err); denied {
		err = &deafError{err, s.grant("+subscribe", "+unsubscribe", "+ping", "&"+s.prefix+"*")}
	}
	return nil, err
}

// newNames returns an empty Names. Its connection is also subscribed to a channel of its own, which tests it.
func (s *Store) newNames() *redisnames.Names {
	w := &mailbox{s: s, channel: s.channel(store.NewProcess())}
	return &redisnames.Names{
		Life: s.ctx, Tasks: &s.tasks, Every: s.pingEvery, Least: leastPause, Most: mostPause, Try: w.try,
		Open: func(ctx context.Context) (*redis.PubSub, error) { return w.subscribe(ctx), nil },
	}
}
