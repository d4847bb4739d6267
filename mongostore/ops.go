package mongostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/store"
)

// attempts is how often an operation is tried that the server says was not
// applied.
const attempts = 4

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	what, call := fmt.Sprintf("ask for %q", c.Name), s.newCall()
	r, _, err := s.run(ctx, what, c.Name, askPipeline(&c, call), true, call)
	if err != nil {
		return store.Answer{}, err
	}
	s.index()
	if r.call == call.number && !r.ok {
		return store.Answer{}, r.lost(c.ID, call)
	}
	// What the server has done is in the document, and what to answer is what
	// the rule would answer now to the same claim.
	a, err := r.q.Look(r.now, c.Name, &c)
	if err != nil {
		return store.Answer{}, err
	}
	if e := r.find(c.ID); a.Granted && (e == nil || !e.Granted || e.Token != a.Token) {
		return store.Answer{}, s.differs(what)
	}
	return a, nil
}

// Look implements [store.Looker].
func (s *Store) Look(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := checkClaim(&c); err != nil {
		return store.Answer{}, err
	}
	var r row
	for got, err := range s.read(ctx, fmt.Sprintf("look at %q", c.Name), object("_id", c.Name)) {
		if err != nil {
			return store.Answer{}, err
		}
		r = got.row
	}
	return r.q.Look(r.now, c.Name, &c)
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := cmp.Or(checkName(h.Name), store.CheckChange(h.Name, turn, weight)); err != nil {
		return store.Answer{}, err
	}
	what, call := fmt.Sprintf("change the weight of %q", h.Name), s.newCall()
	r, there, err := s.run(ctx, what, h.Name, changePipeline(&h, turn, weight, call), false, call)
	if err != nil {
		return store.Answer{}, err
	}
	if !there || r.call == call.number && !r.ok {
		return store.Answer{}, r.lost(h.ID, call)
	}
	a, change, err := r.q.Change(r.now, &h, turn, weight)
	if err != nil {
		return store.Answer{}, err
	}
	if change.Wrote { // the server should have, and has not
		return store.Answer{}, s.differs(what)
	}
	return a, nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := checkName(h.Name); err != nil {
		return err
	}
	call := s.newCall()
	r, there, err := s.run(ctx, fmt.Sprintf("release %q", h.Name), h.Name, releasePipeline(&h, call), false, call)
	if err != nil || h.Token == 0 || there && r.call == call.number && r.ok {
		return err
	}
	return r.lost(h.ID, call)
}

// ReleaseAll implements [store.Store]. Holds of different names are given back
// by one command, and another reads how they came out; the others one by one.
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	times := map[string]int{} // that a name is there
	for i := range holds {
		times[holds[i].Name]++
	}
	var left, many []int
	for i := range holds {
		switch out[i] = checkName(holds[i].Name); {
		case out[i] != nil:
		case times[holds[i].Name] == 1:
			many = append(many, i)
		default:
			left = append(left, i)
		}
	}
	for part := range slices.Chunk(many, bulk) {
		left = append(left, s.many(ctx, "release", releasePipeline, holds, part, func(j int, r *row, call call) {
			if holds[j].Token != 0 && !r.ok {
				out[j] = r.lost(holds[j].ID, call)
			}
		})...)
	}
	slices.Sort(left) // what is of one name is done in its order
	rest := make([]store.Hold, len(left))
	for i, j := range left {
		rest[i] = holds[j]
	}
	store.EachName(rest, abreast, func(i int) { out[left[i]] = s.Release(ctx, rest[i]) })
	return out
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := checkName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	call := s.newCall()
	r, there, err := s.run(ctx, fmt.Sprintf("break %q", b.Name), b.Name, breakPipeline(&b, call), false, call)
	if err == nil && !(there && r.call == call.number && r.ok) {
		err = store.ErrLost
	}
	return err
}

// run runs a pipeline over the document of a name and returns what is there
// then; there is false if nothing is, and nothing was made.
func (s *Store) run(ctx context.Context, what, name string, pipeline bson.A, upsert bool, c call) (r row, there bool, err error) {
	// A session of the caller's would have us be part of his transaction.
	ctx = mongo.NewSessionContext(ctx, nil)
	o := options.FindOneAndUpdate().SetReturnDocument(options.After).SetUpsert(upsert)
	for range attempts {
		timeless := s.timeless.Load()
		if o.SetProjection(s.fields()); timeless {
			o.SetProjection(nil)
		}
		var raw bson.Raw
		raw, err = s.locks.FindOneAndUpdate(ctx, object("_id", name), pipeline, o).Raw()
		switch {
		case err == nil:
			if r, err = s.parse(name, raw); err == nil && !r.timed && r.call != c.number {
				return s.reread(ctx, what, name)
			}
			return r, true, err
		case hasCode(err, noVariable, undefinedVariable) && !timeless:
			// It may have found that when it was to answer, and had written: then there
			// is nothing to do for the same call, and its number is in the document.
			s.timeless.Store(true) //mutant:mongo-server-tells-time-asked
		case errors.Is(err, mongo.ErrNoDocuments):
			return r, false, nil
		case !hasCode(err, duplicateKey): // somebody else was the first at this name //mutant:mongo-racing-first-claims-fail
			return r, false, s.failed(what, err)
		}
	}
	return r, false, s.failed(what, err)
}

// reread reads the document of a name with the time, where the reply to a call
// that changed nothing had none.
func (s *Store) reread(ctx context.Context, what, name string) (r row, there bool, err error) {
	for got, err := range s.read(ctx, what, object("_id", name)) {
		return got.row, err == nil, err
	}
	return r, false, nil
}

// differs is an error that matches nothing definite.
func (s *Store) differs(what string) error {
	return fmt.Errorf("%w: %s on %s: the server came to another result than the rule", store.ErrUnavailable, what, s.address)
}
