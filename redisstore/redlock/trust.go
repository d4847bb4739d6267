package redlock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Trust tells the nodes that they have no holds, so that they grant at once: a node that
// was just started, or never used before, otherwise grants nothing for MaxTTL. It is for
// the first installation, and for tests. If a client does hold a name that a node has
// forgotten, two can hold it then.
//
// All nodes must answer before ctx ends: otherwise the error matches
// [store.ErrUnavailable], or the error that every node answered, such as
// [store.ErrDenied]. Use the same options as for [New] afterwards.
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
