package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A sessionHold is what our session holds for one claim. The server counts each reader of a key.
type sessionHold struct {
	key   Key
	write bool
	token int64
	owner string
}

// A keyUse is what this process has of a key. To the server all of it is one session, which never
// blocks itself.
type keyUse struct {
	holders []*sessionHold
	asked   bool // a statement about it is under way
}

// A sighting is who held a key when the server was last asked.
type sighting struct {
	when    time.Time
	holding int
	holders []store.Entry
}

// sightFor is how long a sighting is valid: waiters ask often, and reading pg_locks is expensive.
const sightFor = time.Second

type jobKind int8

const (
	jobAsk jobKind = iota
	jobRelease
	jobCheck
)

// A job is one operation under way. The goroutine that handles the connection finishes it, even if
// its caller no longer waits.
type job struct {
	kind  jobKind
	ctx   context.Context
	key   Key
	write bool
	claim store.Claim // of an ask
	hold  store.Hold  // of a release

	done   chan struct{}
	answer store.Answer
	err    error
}

func (j *job) finish(err error) {
	j.err = err
	close(j.done)
}

// do runs a job. If the caller's context ends, the job goes on: an ask that was already sent may be
// granted, and the hold is then there for the same id.
func (s *Store) do(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.ctx, j.done = ctx, make(chan struct{})
	s.mu.Lock()
	if s.life.Err() != nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: the store was closed", store.ErrUnavailable)
	}
	if !s.busy && j.kind != jobAsk { // nothing is held or under way
		s.mu.Unlock()
		return nil
	}
	s.jobs = append(s.jobs, j)
	if !s.busy {
		s.busy = true
		s.tasks.Go(s.run)
	}
	if s.wake != nil {
		s.wake()
	}
	s.mu.Unlock()
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ask implements [store.Store]. There are no queue positions: each ask is a try.
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	key, err := KeyOf(c.Name)
	d := s.Describe
	switch {
	case err != nil:
		return store.Answer{}, err
	case c.Limit != store.Full:
		return store.Answer{}, fmt.Errorf("%w: slots of %q on %s: %s", store.ErrUnsupported, c.Name, s.address, d().Lacks[store.PromiseSlots])
	case c.Weight != store.Full && c.Weight != 1:
		return store.Answer{}, fmt.Errorf("%w: an upgradeable read of %q on %s: %s", store.ErrUnsupported, c.Name, s.address, d().Lacks[store.PromiseUpgrade])
	}
	j := &job{kind: jobAsk, key: key, write: c.Weight == store.Full, claim: c}
	if err := s.do(ctx, j); err != nil {
		return store.Answer{}, err
	}
	return j.answer, nil
}

// Renew implements [store.Store]. It asks the server whether the session still exists, in one round
// trip for all holds.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	var err error
	if s.judge(holds, out, nil) {
		err = s.do(ctx, &job{kind: jobCheck})
	}
	s.judge(holds, out, err)
	return out
}

// judge reports which holds are lost. If err is not nil, the state of the others is unknown, and
// they get err. It returns whether any hold is left.
func (s *Store) judge(holds []store.Hold, out []store.Renewal, err error) (any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range holds {
		have := s.holds[h.ID]
		switch {
		case have == nil || have.token != h.Token: //mutant:pg-session-renew-token
			out[i] = store.Renewal{Err: store.ErrLost}
		case h.NewID != (store.ID{}):
			out[i] = store.Renewal{Err: fmt.Errorf("%w: %q on %s goes to no other process", store.ErrUnsupported, h.Name, s.address)}
		default:
			any = true
			weight := int64(1)
			if have.write {
				weight = store.Full
			}
			if out[i] = (store.Renewal{Weight: weight, Want: weight}); err != nil {
				out[i] = store.Renewal{Err: err}
			}
		}
	}
	return any
}

// Change implements [store.Store].
func (s *Store) Change(_ context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := store.CheckChange(&h, turn, weight); err != nil {
		return store.Answer{}, err
	}
	return store.Answer{}, fmt.Errorf("%w: change %q on %s: it has no upgradeable reads", store.ErrUnsupported, h.Name, s.address)
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	gone := !s.busy // then nothing is held
	s.mu.Unlock()
	if gone {
		return nothingThere(h)
	}
	err := s.do(ctx, &job{kind: jobRelease, hold: h})
	if err != nil && !errors.Is(err, store.ErrLost) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.busy { // it ended with the connection
			return nothingThere(h)
		}
	}
	return err
}

// ReleaseAll implements [store.Store]. It sends the statements together, up to 64 in a round trip.
func (s *Store) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := make([]error, len(holds))
	store.EachName(holds, maxBatch, func(i int) { out[i] = s.Release(ctx, holds[i]) })
	return out
}

// nothingThere is the result of releasing a hold that does not exist.
func nothingThere(h store.Hold) error {
	if h.Token == 0 {
		return nil
	}
	return store.ErrLost
}

// take returns the jobs that can be sent now, and finishes those that need not be. It takes one at
// a time per key and per id. s.mu is held.
func (s *Store) take() (batch []*job) {
	later := s.jobs[:0]
	for _, j := range s.jobs {
		if len(batch) == maxBatch {
			later = append(later, j)
			continue
		}
		switch j.kind {
		case jobCheck:
			batch = append(batch, j)
		case jobRelease:
			have := s.holds[j.hold.ID]
			switch {
			case s.asking(batch, j.hold.ID):
				later = append(later, j)
			case have == nil || j.hold.Token != 0 && j.hold.Token != have.token: //mutant:pg-session-release-token
				j.finish(nothingThere(j.hold))
			case s.keys[have.key].asked:
				later = append(later, j)
			default:
				j.key, j.write = have.key, have.write
				s.keys[have.key].asked = true
				batch = append(batch, j)
			}
		case jobAsk:
			use := s.use(j.key)
			switch {
			case j.ctx.Err() != nil:
				j.finish(j.ctx.Err())
			case use.asked: //mutant:pg-session-asked-in-batch
				later = append(later, j)
			case s.holds[j.claim.ID] != nil:
				s.granted(j, s.holds[j.claim.ID])
			case use.blocks(j.write):
				s.refused(j, use.sighting())
			default:
				use.asked = true
				batch = append(batch, j)
			}
			s.forget(j.key)
		}
	}
	clear(s.jobs[len(later):])
	s.jobs = later
	return batch
}

// asking reports whether one of the jobs asks for the claim of this id.
func (s *Store) asking(batch []*job, id store.ID) bool {
	for _, j := range batch {
		if j.kind == jobAsk && j.claim.ID == id {
			return true
		}
	}
	return false
}

func (s *Store) use(k Key) *keyUse {
	if s.keys[k] == nil {
		s.keys[k] = &keyUse{}
	}
	return s.keys[k]
}

// forget drops the state of an unused key.
func (s *Store) forget(k Key) {
	if u := s.keys[k]; u != nil && !u.asked && len(u.holders) == 0 {
		delete(s.keys, k)
	}
}

// blocks reports whether this process itself blocks a writer, or a reader.
func (u *keyUse) blocks(write bool) bool {
	return len(u.holders) > 0 && (write || u.holders[0].write) //mutant:pg-session-blocked-by-ourselves
}

func (u *keyUse) sighting() *sighting {
	see := &sighting{holding: len(u.holders)}
	for _, h := range u.holders[:min(len(u.holders), store.MaxHolders)] {
		see.holders = append(see.holders, store.Entry{Granted: true, Owner: store.ParseOwner(h.owner)})
	}
	return see
}

// granted answers an ask with the hold.
func (s *Store) granted(j *job, h *sessionHold) {
	weight := int64(1)
	if h.write {
		weight = store.Full
	}
	j.answer = store.Answer{Granted: true, Token: h.token, N: 1, Weight: weight, Want: weight, Last: h.token}
	j.finish(nil)
}

// refused answers an ask with the holders of the key.
func (s *Store) refused(j *job, see *sighting) {
	j.answer = store.Answer{Holding: max(see.holding, 1), Holders: see.holders}
	if s.sequence != "" {
		j.answer.Last = s.drawn
	}
	j.finish(nil)
}

// hold records a hold that the server has granted.
func (s *Store) hold(j *job, token int64) *sessionHold {
	if s.sequence == "" {
		token = s.drawn + 1
	}
	s.drawn = max(s.drawn, token)
	h := &sessionHold{key: j.key, write: j.write, token: token, owner: j.claim.Owner}
	s.holds[j.claim.ID] = h
	use := s.use(j.key)
	use.holders = append(use.holders, h)
	return h
}

// give drops a hold that the server has released.
func (s *Store) give(id store.ID) {
	h := s.holds[id]
	delete(s.holds, id)
	use := s.use(h.key)
	for i, other := range use.holders {
		if other == h {
			use.holders = append(use.holders[:i], use.holders[i+1:]...)
			break
		}
	}
}
