package mongostore

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/store"
)

// A named row is that of a name.
type named struct {
	name string
	row
}

// read yields the rows that the filter matches. One that cannot be read is an
// error in its place, with its name; an error without a name ends them.
func (s *Store) read(ctx context.Context, what string, filter bson.D) iter.Seq2[named, error] {
	return func(yield func(named, error) bool) {
		cursor, err := s.locks.Aggregate(ctx, bson.A{object("$match", filter), set("now", s.now())})
		if err != nil {
			yield(named{}, s.failed(what, err))
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			n := named{}
			n.name, _ = cursor.Current.Lookup("_id").StringValueOK()
			n.row, err = s.parse(n.name, cursor.Current)
			if !yield(n, err) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(named{}, s.failed(what, err))
		}
	}
}

// List implements [store.Inspector]. Without a name it reads all documents that
// have entries.
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		what, filter := "list the names", object("entries", object("$ne", bson.A{}))
		if name != "" {
			what, filter = fmt.Sprintf("look at %q", name), object("_id", name)
			if err := checkName(name); err != nil {
				yield(store.State{Name: name}, err)
				return
			}
		}
		for r, err := range s.read(ctx, what, filter) {
			if st := r.q.State(r.now, r.name); (err != nil || len(st.Entries) > 0) && !yield(st, err) {
				return
			}
		}
	}
}
