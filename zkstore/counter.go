package zkstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// mostCounted is below the end of the counter that numbers the children of a node,
// 2147483647, where the server repeats numbers. It is far enough below for all that
// is under way when it is reached.
const mostCounted uint32 = 2_000_000_000

// usedUp reports whether the number tells no order: nobody is granted anything by it.
func usedUp(seq int32) bool { return uint32(seq) >= mostCounted } // one below 0 too //mutant:zk-counter-used-up

// recount takes back the node of a claim whose number tells no order, and deletes the
// node of the name, which starts the counter again. The server does that only if
// nobody has a node there: then nobody holds the name or waits for it, as when it
// deletes an empty container by itself. The error says that somebody does.
func (s *Store) recount(ctx context.Context, m *mine, sess *session) error {
	if _, err := s.remove(ctx, m); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dropSoon(m)
		return err
	}
	s.mu.Lock()
	s.unplaced(m)
	m.state = asked
	s.mu.Unlock()
	dir := s.nameNode(m.name)
	_, err := s.await(ctx, func() error { return sess.conn.Delete(dir, -1) }) //mutant:zk-counter-starts-again
	switch {
	case err == nil, errors.Is(err, zk.ErrNoNode): //mutant:zk-name-not-empty
		return nil
	case errors.Is(err, zk.ErrNotEmpty):
		err = fmt.Errorf("%w: %q has been claimed %d times, and ZooKeeper cannot number its claims any more; it can be claimed again as soon as nobody holds it or waits for it, or delete node %q and all below it while no program runs that uses it",
			store.ErrUnsupported, m.name, mostCounted, dir)
	}
	_, err = s.noAnswer(m, err)
	return err
}
