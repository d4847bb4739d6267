package redlock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Trust tells the nodes that they have no holds, so that they grant at once. Otherwise a node
// that was just started, or never used before, grants nothing for MaxTTL. Use it for the first
// installation, and for tests. If a client does hold a name that a node has forgotten, two can
// then hold it.
//
// All nodes must answer before ctx ends. Otherwise the error matches [store.ErrUnavailable],
// or the error that every node returned, such as [store.ErrDenied]. Use the same options for
// [New] afterwards.
func Trust(ctx context.Context, clients []*redis.Client, o *Options) error {
	s, err := newStore(clients, o, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	s.trusts = true
	if err := s.ready(ctx, len(s.nodes)); err != nil {
		return s.ended("prepare", "the nodes", err)
	}
	var errs []error
	for _, n := range s.nodes {
		n.mu.Lock()
		switch {
		case n.state == up:
		case n.err != nil:
			errs = append(errs, n.err)
		default:
			errs = append(errs, n.failed(errNotYet))
		}
		n.mu.Unlock()
	}
	if len(errs) > 0 {
		return s.tooFew("prepare", "the nodes", len(s.nodes)-len(errs), len(s.nodes), errs)
	}
	return nil
}
