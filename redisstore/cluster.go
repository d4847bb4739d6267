package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// reloadTime bounds one attempt to find out which server has which names: an
// attempt that asks a dead server is given up for the next, which asks
// another.
const reloadTime = time.Second

// reloadPause is the least time between two such attempts, however many commands
// fail.
const reloadPause = 100 * time.Millisecond

// lane is the lane of the key's server. On a cluster each has its own, so that
// one that hangs does not hold up the others.
func (s *Store) lane(ctx context.Context, key string) *lane {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return &s.one
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return &s.one // the command will find out why
	}
	addr := master.Options().Addr
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[addr]
	if l == nil {
		l = &lane{s: s}
		s.lanes[addr] = l
	}
	return l
}

// masters are the servers that have the names, each with its part of them, as
// the cluster says now.
func (s *Store) masters(ctx context.Context) ([]*redis.Client, error) {
	cluster := s.client.(*redis.ClusterClient)
	var mu sync.Mutex
	var all []*redis.Client
	err := cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
		return nil
	})
	if err == nil && len(all) == 0 { // by the word of one that has left its cluster
		err = errors.New("the server is not part of a cluster")
	}
	return all, err
}

// reload has the client find out which server has which names now, once a
// server did not answer or says that it is not the one. The client does so by
// itself only when it repeats a command, which it does not for those of a
// Store.
func (s *Store) reload() {
	if _, ok := s.client.(*redis.ClusterClient); !ok || s.ctx.Err() != nil || !s.reloading.CompareAndSwap(false, true) {
		return
	}
	s.tasks.Go(func() {
		defer s.reloading.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, reloadTime)
		defer cancel()
		s.masters(ctx) // if that fails, the next failure tries again
		select {
		case <-time.After(reloadPause):
		case <-s.ctx.Done():
		}
	})
}

// elsewhere reports whether the error may mean that another server has the name
// by now.
func elsewhere(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) { // who asked has left
		return false
	}
	var server redis.Error
	if !errors.As(err, &server) {
		return true // it did not answer
	}
	if _, moved := redis.IsMovedError(err); moved {
		return true
	}
	return redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) || redis.IsLoadingError(err)
}
