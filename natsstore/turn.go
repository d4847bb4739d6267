package natsstore

import (
	"context"
	"sync"
)

// turns let the operations of this process on one name come one after another:
// they would only disturb each other, and what one has written the next knows.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	taken chan struct{} // has room for one
	users int
}

// take waits for the turn at a name. The caller calls end if there is no error.
func (t *turns) take(ctx context.Context, name string) (end func(), err error) {
	t.mu.Lock()
	one := t.of[name]
	if one == nil {
		one = &turn{taken: make(chan struct{}, 1)}
		t.of[name] = one
	}
	one.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.of, name)
		}
	}
	select {
	case one.taken <- struct{}{}:
		return func() {
			<-one.taken
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
