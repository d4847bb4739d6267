package redisstore

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// scanPage is how many keys the server scans for one page of a list.
const scanPage = 500

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		if name != "" {
			if err := store.CheckName(name); err != nil {
				yield(store.State{Name: name}, err)
				return
			}
			s.states(ctx, []string{s.key(name)}, yield)
			return
		}
		servers, err := s.servers(ctx)
		if err != nil {
			yield(store.State{}, s.failed("list the names", err))
			return
		}
		pattern := glob.Replace(s.prefix) + "{*}"
		seen := map[string]bool{} // a scan may show a key twice
		for _, server := range servers {
			for cursor, more := uint64(0), true; more; more = cursor != 0 {
				var keys []string
				keys, cursor, err = server.Scan(ctx, cursor, pattern, scanPage).Result()
				if err != nil {
					if !yield(store.State{}, s.failed("list the names", err)) {
						return
					}
					break // the next server
				}
				fresh := keys[:0]
				for _, k := range keys {
					if !seen[k] {
						seen[k] = true
						fresh = append(fresh, k)
					}
				}
				if !s.states(ctx, fresh, yield) {
					return
				}
			}
		}
	}
}

// glob escapes a prefix so that it matches literally.
var glob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// servers returns the servers that have the names, each with its part of them.
func (s *Store) servers(ctx context.Context) (all []redis.Cmdable, err error) {
	if _, ok := s.client.(*redis.ClusterClient); !ok {
		return []redis.Cmdable{s.client}, nil
	}
	masters, err := s.masters(ctx)
	for _, m := range masters {
		all = append(all, m)
	}
	return all, err
}

// states yields the states of the keys that have entries, and reports whether to continue.
func (s *Store) states(ctx context.Context, keys []string, yield func(store.State, error) bool) bool {
	commands := make([]*command, len(keys))
	for i, key := range keys {
		commands[i] = s.command(&s.scripts.view, key)
	}
	s.start(ctx, commands...)
	for i, key := range keys {
		name, ok := s.name(key)
		if !ok {
			if !yield(store.State{Name: key}, fmt.Errorf("%w: no name has the key %q on %s: it is not of holdfast", store.ErrCorrupt, key, s.address)) {
				return false
			}
			continue
		}
		now, q, err := s.view(ctx, commands[i], "look at", name)
		if err != nil {
			if !yield(store.State{Name: name}, err) {
				return false
			}
			continue
		}
		if st := q.State(now, name); len(st.Entries) > 0 && !yield(st, nil) {
			return false
		}
	}
	return true
}
