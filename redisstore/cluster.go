package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// reloadTime bounds one attempt to find out which server has which names. An attempt that
// asks a dead server ends then, and the next one asks another server.
const reloadTime = time.Second

// reloadPause is the minimum time between two such attempts, however many commands fail.
const reloadPause = 100 * time.Millisecond

// lane returns the lane of the key's server. In a cluster each server has its own lane, so a
// hung server does not delay the others.
func (s *Store) lane(ctx context.Context, key string) *lane {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return &s.one
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return &s.one // the command will return the error
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

// masters returns the servers that have the names, each with its part of them, according to
// the cluster now.
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
	if err == nil && len(all) == 0 { // asked a server that has left its cluster
		err = errors.New("the server is not part of a cluster")
	}
	return all, err
}

// reload makes the client find out which server has which names now, after a server did not
// answer or said that it does not have the name. The client does that by itself only when it
// retries a command, and the commands of a Store are not retried.
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

// elsewhere reports whether the error may mean that another server has the name now.
func elsewhere(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) { // the caller has left
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
