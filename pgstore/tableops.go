package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// Ask implements [store.Store].
func (s *Store) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return store.Answer{}, err
	}
	defer s.sweep()
	name, n := []byte(c.Name), c.Tokens()
	args := []any{name, c.ID[:], c.Limit, c.Weight, int64(n), micros(c.TTL), micros(c.MinHold), micros(c.LockDelay), []byte(c.Owner)}
	kept := micros(store.TokenRetention + max(c.TTL+c.LockDelay, c.MinHold))
	for range repeats {
		token, err := s.askFree(ctx, c.Name, append(args[:len(args):len(args)], kept))
		if err != nil {
			return store.Answer{}, err
		}
		if token != 0 {
			return store.Answer{
				Granted: true, Token: token, N: n, TTL: c.TTL, Weight: c.Weight, Want: c.Weight, Last: token + int64(n) - 1,
			}, nil
		}
		if c.Try {
			// What needs no write needs no lock: who is ahead now was there while
			// we asked.
			f, err := s.look(ctx, c.Name)
			if err != nil {
				return store.Answer{}, err
			}
			if a, change, err := f.q.Ask(f.time(), c.Name, &c); !change.Wrote {
				return a, err
			}
		}
		f, err := s.act(ctx, "ask for", c.Name, s.do.ask, append(args[:len(args):len(args)], micros(c.PositionTTL), c.Try)...)
		if err != nil {
			return store.Answer{}, err
		}
		if f.there {
			if err := f.lost(); err != nil {
				return store.Answer{}, err
			}
			return f.q.Poll(f.time(), c.Name, &c)
		}
		// It was dropped, as nobody had used it for a day.
		s.seen.set(c.Name, false)
	}
	return store.Answer{}, fmt.Errorf("%w: ask for %q on %s: its row came and went %d times", store.ErrUnavailable, c.Name, s.address, repeats)
}

// askFree runs the statement for a name that nobody uses, and makes the table
// if it is missing. It returns 0 if somebody does.
func (s *Store) askFree(ctx context.Context, name string, args []any) (token int64, err error) {
	statement := s.do.askFast
	if s.seen.get(name) {
		statement = s.do.askIdle
	}
	ask := func() error {
		return s.run(ctx, statement, args, func() { token = 0 }, func(scan func(...any) error) error {
			var durable *string
			return scan(&token, &durable)
		})
	}
	err = ask()
	if isNoTable(err) {
		if err := s.create(ctx); err != nil {
			return 0, err
		}
		statement = s.do.askFast
		err = ask()
	}
	if err != nil {
		return 0, s.failed(fmt.Sprintf("ask for %q", name), err)
	}
	if token != 0 {
		s.seen.set(name, true)
	}
	return token, nil
}

// Poll implements [store.Poller].
func (s *Store) Poll(ctx context.Context, c store.Claim) (store.Answer, error) {
	if err := bounds.CheckClaim(&c); err != nil {
		return store.Answer{}, err
	}
	f, err := s.look(ctx, c.Name)
	if err != nil {
		return store.Answer{}, err
	}
	return f.q.Poll(f.time(), c.Name, &c)
}

// Renew implements [store.Store]. All that need nothing but a later expiry are
// one statement; the others have one each.
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	out := make([]store.Renewal, len(holds))
	var names, ids, tokens, ttls, used, owners array
	var batch []int // the holds in the arrays
	left := []int{} // those that have a statement of their own
	named := map[string]bool{}
	for i, h := range holds {
		out[i].TTL = h.TTL
		if out[i].Err = bounds.CheckRenewal(&h); out[i].Err != nil {
			continue
		}
		// One statement changes a row once, and which of two it takes is open: the
		// first of a name is in the batch, so that they are done in their order.
		again := named[h.Name]
		named[h.Name] = true
		if again || h.NewID != (store.ID{}) {
			left = append(left, i)
			continue
		}
		batch = append(batch, i)
		names.bytes(h.Name)
		ids.bytes(string(h.ID[:]))
		tokens.number(h.Token)
		ttls.number(micros(h.TTL))
		used.number(h.Used)
		owners.bytes(h.Owner)
	}
	if len(batch) > 0 {
		done := map[int]bool{}
		args := []any{names.text(), ids.text(), tokens.text(), ttls.text(), used.text(), owners.text()}
		err := s.run(ctx, s.do.renewFast, args, func() { clear(done) }, func(scan func(...any) error) error {
			var i, weight, want, upgradeToken int64
			var durable *string
			if err := scan(&i, &weight, &want, &upgradeToken, &durable); err != nil {
				return err
			}
			if i < 1 || int(i) > len(batch) {
				return fmt.Errorf("hold %d of %d was renewed", i, len(batch))
			}
			r := &out[batch[i-1]]
			r.Weight, r.Want, r.UpgradeToken = weight, want, upgradeToken
			done[batch[i-1]] = true
			return nil
		})
		for _, i := range batch {
			switch {
			case isNoTable(err):
				out[i].Err = store.ErrLost
			case err != nil:
				out[i] = store.Renewal{TTL: holds[i].TTL, Err: s.failed(fmt.Sprintf("renew %q", holds[i].Name), err)}
			case !done[i]:
				left = append(left, i)
			}
		}
	}
	// A row that somebody keeps locked holds up its own name alone.
	slices.Sort(left)
	of := map[string][]int{}
	for _, i := range left {
		of[holds[i].Name] = append(of[holds[i].Name], i)
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, renewers)
	for _, some := range of {
		slots <- struct{}{}
		wait.Go(func() {
			for _, i := range some {
				out[i] = s.renew(ctx, &holds[i])
			}
			<-slots
		})
	}
	wait.Wait()
	return out
}

func (s *Store) renew(ctx context.Context, h *store.Hold) store.Renewal {
	newID := []byte{}
	if h.NewID != (store.ID{}) {
		newID = h.NewID[:]
	}
	f, err := s.act(ctx, "renew", h.Name, s.do.renew, []byte(h.Name), h.ID[:], h.Token, micros(h.TTL), h.Used, []byte(h.Owner), newID)
	if err = cmp.Or(err, lostOr(f)); err != nil {
		return store.Renewal{TTL: h.TTL, Err: err}
	}
	r, _ := f.q.Renew(f.time(), h)
	return r
}

func lostOr(f *found) error {
	if f == nil {
		return nil
	}
	return f.lost()
}

// Change implements [store.Store].
func (s *Store) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (store.Answer, error) {
	if err := store.CheckChange(h.Name, turn, weight); err != nil {
		return store.Answer{}, err
	}
	f, err := s.act(ctx, "change the weight of", h.Name, s.do.change, []byte(h.Name), h.ID[:], h.Token, int64(turn), weight)
	if err = cmp.Or(err, lostOr(f)); err != nil {
		return store.Answer{}, err
	}
	if f.verdict == "I" {
		return store.Answer{}, store.NotUpgradeableError(h.Name)
	}
	// It has been applied, so this only says how the hold stands.
	a, _, err := f.q.Change(f.time(), &h, turn, weight)
	return a, err
}

// A way is the statement that gives a hold back.
type way int

const (
	alone  way = iota // nobody waits: the shortest
	next              // the next is let in, and nothing else
	beside            // whatever else there is
)

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, h store.Hold) error {
	const what = "release"
	if err := store.CheckName(h.Name); err != nil {
		return err
	}
	args := []any{[]byte(h.Name), h.ID[:], h.Token, h.Used}
	by := s.ways.get(h.Name) // as the last time, most likely
	if h.Token != 0 && by != beside {
		done, woke := false, false
		statement := s.do.releaseFast
		if by == next {
			statement = s.do.releaseNext
		}
		err := s.run(ctx, statement, args, func() { done, woke = false, false }, func(scan func(...any) error) error {
			done = true
			var durable *string
			return scan(&woke, &durable)
		})
		if err != nil && !isNoTable(err) {
			return s.failed(fmt.Sprintf("%s %q", what, h.Name), err)
		}
		if done {
			if !woke {
				s.ways.set(h.Name, alone)
			}
			return nil
		}
	}
	f, err := s.act(ctx, what, h.Name, s.do.release, args...)
	if err == nil && h.Token != 0 {
		switch {
		case f.woken == 0:
			s.ways.set(h.Name, alone)
		case by == alone:
			s.ways.set(h.Name, next)
		default: // that was in vain
			s.ways.set(h.Name, beside)
		}
	}
	if h.Token == 0 {
		return err
	}
	return cmp.Or(err, lostOr(f))
}

// BreakHold implements [store.Inspector].
func (s *Store) BreakHold(ctx context.Context, b store.Break) error {
	if err := store.CheckName(b.Name); err != nil {
		return err
	}
	if len(b.Reason) > store.MaxReason {
		return fmt.Errorf("%w: the reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(b.Reason), store.MaxReason)
	}
	reason := cmp.Or(b.Reason, "no reason given")
	f, err := s.act(ctx, "break", b.Name, s.do.breaks, []byte(b.Name), b.ID[:], b.Token, []byte(reason), b.Now)
	return cmp.Or(err, lostOr(f))
}

// names are remembered for how they were when they were last used, so that the
// statement for names of another kind is not sent in vain.
type names[V comparable] struct {
	mu  sync.Mutex
	are map[string]V
}

// mostNames bounds what is remembered.
const mostNames = 1000

// get returns what was set, or the zero V.
func (n *names[V]) get(name string) V {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.are[name]
}

func (n *names[V]) set(name string, v V) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var zero V
	_, known := n.are[name]
	switch {
	case v == zero:
		delete(n.are, name)
	case n.are == nil || len(n.are) >= mostNames && !known:
		n.are = map[string]V{name: v}
	default:
		n.are[name] = v
	}
}
