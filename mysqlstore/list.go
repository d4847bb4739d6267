package mysqlstore

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/store"
)

// page is how many rows are read at a time where all are looked at.
const page = 500

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		what, query := "list the names", s.sql.page("", "total<>0", page)
		if name != "" {
			what, query = fmt.Sprintf("look at %q", name), s.sql.read(name)
			if err := store.CheckName(name); err != nil {
				yield(store.State{Name: name}, err)
				return
			}
		}
		if err := s.prepare(ctx, what); err != nil {
			yield(store.State{Name: name}, err)
			return
		}
		for {
			var states []store.State
			var errs []error
			last, n := "", 0
			// Read to the end before anything is yielded: the caller may want the
			// connection for something else.
			err := s.rows(ctx, s.db, query, func(r row, err error) error {
				last, n = r.name, n+1
				if st := r.q.State(r.now, r.name); err != nil || len(st.Entries) > 0 {
					states, errs = append(states, st), append(errs, err)
				}
				return nil
			})
			if err != nil {
				yield(store.State{Name: name}, s.failed(what, err))
				return
			}
			for i, st := range states {
				if !yield(st, errs[i]) {
					return
				}
			}
			if n < page || name != "" {
				return
			}
			query = s.sql.page(last, "total<>0", page)
		}
	}
}
