package redlock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Trust says of nodes that nobody holds anything by them: so they need not be
// left alone for MaxTTL, as ones just started or never used before are. It is
// for the first installation, and for tests. Where a client does hold something
// by a node that has forgotten it, two can hold it then.
//
// The nodes must all answer. Options are those that New is given afterwards.
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
