package pgstore

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// listPage is how many names one page of a list has.
const listPage = 500

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		if name != "" {
			f, err := &found{}, store.CheckName(name)
			if err == nil {
				if f, err = s.look(ctx, name); err == nil {
					err = s.seeLeft(ctx, f)
				}
			}
			if err != nil {
				yield(store.State{Name: name}, err)
			} else if st := f.q.State(f.time(), name); len(st.Entries) > 0 {
				yield(st, nil)
			}
			return
		}
		for behind := []byte{}; ; {
			page, err := s.page(ctx, behind)
			if err != nil {
				yield(store.State{}, err)
				return
			}
			for _, f := range page {
				name := string(f.name)
				err := s.check(f, name)
				if err != nil {
					if !yield(store.State{Name: name}, err) {
						return
					}
				} else if st := f.q.State(f.time(), name); len(st.Entries) > 0 && !yield(st, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
			behind = page[len(page)-1].name
		}
	}
}

// page reads the names that follow one, in the order of their bytes.
func (s *Store) page(ctx context.Context, behind []byte) ([]*found, error) {
	var page []*found
	err := s.run(ctx, s.do.list, []any{behind, int64(listPage)}, func() { page = nil }, func(scan func(...any) error) error {
		var r row
		var name []byte
		if err := scan(append(r.dests(), &name)...); err != nil {
			return err
		}
		if len(page) == 0 || string(page[len(page)-1].name) != string(name) {
			page = append(page, &found{name: name})
		}
		page[len(page)-1].add(&r)
		return nil
	})
	if isNoTable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed("list the names", err)
	}
	return page, s.seeLeft(ctx, page...)
}

// seeLeft gives each entry that a session keeps the remaining time of that session, by one read. It
// does not end expired sessions: the operation that decides on them does. So a list needs no right
// to write, and works on a standby.
func (s *Store) seeLeft(ctx context.Context, page ...*found) error {
	in := map[session.ID]bool{}
	for _, f := range page {
		for _, id := range f.in {
			in[id] = true
		}
	}
	if len(in) == 0 {
		return nil
	}
	left, _, err := s.readLeft(ctx, slices.Collect(maps.Keys(in))) //mutant:pg-list-ends-no-session
	if err != nil {
		return err
	}
	for _, f := range page {
		for i := range f.q.Entries {
			e := &f.q.Entries[i]
			if in, kept := f.in[e.ID]; kept {
				e.Expires = min(e.Expires, f.now+left[in]) //mutant:pg-listed-with-its-session
			}
		}
	}
	return nil
}
