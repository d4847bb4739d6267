package pgstore

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/store"
)

// listPage is how many names one page of a list has.
const listPage = 500

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		if name != "" {
			f, err := &found{}, store.CheckName(name)
			if err == nil {
				f, err = s.lookJudged(ctx, name, everybodys)
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
				if err == nil {
					err = s.judge(ctx, f, everybodys)
				}
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

// page reads the names that come next behind one, in the order of their bytes.
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
	return page, nil
}
