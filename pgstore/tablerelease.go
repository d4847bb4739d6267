package pgstore

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// ReleaseAll implements [store.Store]. One statement releases all holds that only need to be
// dropped; each of the others takes one.
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	var names, ids, tokens, used, announces array
	var batch []int // the holds in the arrays
	done := make([]bool, len(holds))
	lone := true
	claims := make([]*localClaim, len(holds))
	for i, h := range holds {
		if out[i] = store.CheckName(h.Name); out[i] != nil {
			done[i] = true
			continue
		}
		if h.Token == 0 {
			continue
		}
		m := s.enter(h.Name, h.ID, false)
		defer s.exit(m)
		if m == nil || s.gone(ctx, m) != nil {
			continue
		}
		lone = lone && s.lone(m)
		claims[i] = m
		batch = append(batch, i)
		names.bytes(h.Name)
		ids.bytes(string(h.ID[:]))
		tokens.number(h.Token)
		used.number(h.Used)
		announces.bool(h.Announce)
	}
	if len(batch) > 1 {
		dropped := map[int]bool{}
		args := []any{names.text(), ids.text(), tokens.text(), used.text(), !lone, announces.text()}
		err := s.run(ctx, s.do.releaseAll, args, func() { clear(dropped) }, func(scan func(...any) error) error {
			var i int64
			var durable *string
			if err := scan(&i, &durable); err != nil {
				return err
			}
			if i < 1 || int(i) > len(batch) {
				return fmt.Errorf("hold %d of %d was released", i, len(batch))
			}
			dropped[batch[i-1]] = true
			return nil
		})
		for _, i := range batch {
			switch {
			case isNoTable(err):
				out[i], done[i] = store.ErrLost, true
			case err != nil:
				out[i], done[i] = s.failed(fmt.Sprintf("release %q", holds[i].Name), err), true
			case dropped[i]:
				done[i] = true
			}
			if done[i] {
				s.leave(claims[i], &holds[i], isGone(out[i]))
			}
		}
	}
	// A locked row delays only its own name.
	var left []int
	var rest []store.Hold
	for i := range holds {
		if !done[i] {
			left, rest = append(left, i), append(rest, holds[i])
		}
	}
	store.EachName(rest, renewers, func(i int) { out[left[i]] = s.Release(ctx, rest[i]) })
	return out
}
