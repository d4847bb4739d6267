package redlock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Trust lets the nodes know that nobody holds anything on them, so that they grant at once:
// a node that was just started, or never used before, otherwise grants nothing for
// MaxTTL. It is for the first installation, and for tests. Where a client does hold
// something that a node has forgotten, two can hold it then.
//
// All nodes must answer before ctx ends: otherwise the error matches
// [store.ErrUnavailable], or what every node answered, such as [store.ErrDenied]. Give it
// the options that [New] gets afterwards.
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
