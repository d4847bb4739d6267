package natsstore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
)

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		names := []string{name}
		if name != "" {
			if err := store.CheckName(name); err != nil {
				yield(store.State{Name: name}, err)
				return
			}
		} else {
			var err error
			if names, err = s.names(ctx, yield); err != nil {
				yield(store.State{}, s.failed("list the names", err))
				return
			}
		}
		for _, name := range names {
			st, err := s.state(ctx, name)
			if (err != nil || len(st.Entries) > 0) && !yield(st, err) {
				return
			}
		}
	}
}

// names is all that have a key, in order. A key that is not ours is yielded as an
// error.
func (s *Store) names(ctx context.Context, yield func(store.State, error) bool) (names []string, err error) {
	b, err := s.prepared(ctx, false)
	if b == nil {
		return nil, err
	}
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(s.subject("n.>")))
	if err != nil {
		return nil, s.noStream(err)
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		key := strings.TrimPrefix(subject, s.subject(""))
		name, ok := nameOf(key)
		if !ok {
			if !yield(store.State{Name: key}, fmt.Errorf("%w: no name has the key %q in %s: it is not of holdfast", store.ErrCorrupt, key, s.address)) {
				return nil, nil
			}
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

func (s *Store) state(ctx context.Context, name string) (store.State, error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	r, err := s.read(ctx, name, false)
	if err != nil {
		return store.State{Name: name}, s.failed(fmt.Sprintf("look at %q", name), err)
	}
	return r.q.State(r.now, name), nil
}
