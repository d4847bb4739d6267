package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Linked is a store over a network whose links a test can break.
type Linked struct {
	// Open opens one more store object over the same backing, as in another
	// process, with a link of its own.
	Open func(t *testing.T) (store.Store, Link)
	// Waits says why a call may return after its context has ended; then that is not
	// tested. Empty: no call does.
	Waits string
	// Within runs each subtest, as the within of [Run] does. It may be nil.
	Within Within
}

// A Link is the network between one store object and its server, or all of its servers.
type Link interface {
	// MuteAfter drops the server's answers, after that many more pieces of them have
	// passed.
	MuteAfter(pieces int)
	// HoldAfter holds back requests to the server, after that many more pieces have
	// passed, and drops the server's later answers.
	HoldAfter(pieces int)
	// Met returns how many pieces have been dropped or held so far.
	Met() int
	// Reset resets all connections of the store object. New connections pass everything.
	Reset()
	// Deliver delivers the requests held back on connections that were reset
	// since.
	Deliver()
}

const (
	// silent is how long a connection is silent before it is reset.
	silent = 150 * time.Millisecond
	// beside is how many other claims of the process are given up.
	beside = 8
	// exchanges is how many points are tested: a connection falls silent after 0,
	// 1, … pieces, as some stores send several requests for one ask.
	exchanges = 4
)

// Faults makes the connections of a store object silent while it asks, and then
// resets them. The store's answers must still be true, and claims that it has
// given up must end.
func Faults(t *testing.T, c Linked) {
	t.Helper()
	s, _ := c.Open(t)
	d := s.Describe()
	if err := s.Close(); err != nil {
		t.Fatalf("Close of a store just opened: %v", err)
	}
	if why, lacks := d.Lacks[store.PromiseDeadline]; lacks {
		t.Skipf("the store lacks %q: %s", store.PromiseDeadline, why)
	}
	t.Run("fault", func(t *testing.T) { // so that Faults returns only after all subtests
		all := map[string]func(*trial, Linked, int){
			"an ask that was not answered is granted in the session it was sent in": repeatedAsk,
			"an ask that arrives late goes beside another claim of its process":     lateAsk,
			"an ask that is repeated leaves nothing beside another claim":           repeatedBeside,
			"the owner learns of a break now that is repeated":                      repeatedBreak,
			"a release that is repeated keeps the minimum hold":                     repeatedRelease,
			"an adoption that was not answered ends with its TTL":                   unansweredAdoption,
		}
		if c.Waits == "" {
			all["a call on a frozen server returns when its context ends"] = frozenServer
			all["the first call does too"] = frozenAtFirst
		}
		for name, run := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for after := range exchanges {
					t.Run(fmt.Sprintf("after %d", after), func(t *testing.T) {
						t.Parallel()
						var within []Within
						if c.Within != nil {
							within = append(within, c.Within)
						}
						runWithin(t, within, func(t *testing.T) {
							untilInTime(t, func(t *trial) { run(t, c, after) }, func(int) *trial { return newTrial(t, nil, d) })
						})
					})
				}
			})
		}
	})
}

// lasts returns the TTL of claims, and lastsLong that of claims that a busy machine
// must not lose.
func (t *trial) lasts() time.Duration     { return t.ticks(max(t.d.MinTTL, 4*time.Second)) }
func (t *trial) lastsLong() time.Duration { return t.ticks(max(t.d.MinTTL, 10*time.Second)) }

// linked opens a store object that is closed with the test.
func (t *trial) linked(c Linked) (store.Store, Link, store.Process) {
	t.Helper()
	s, link := c.Open(t.T)
	t.Cleanup(func() { s.Close() }) // it may fail on a link that was reset
	return s, link, store.NewProcess()
}

// lasting returns a claim with a TTL of d.
func (t *trial) lasting(p store.Process, name string, d time.Duration) store.Claim {
	claim := Mutex(p, name)
	claim.TTL, claim.PositionTTL = d, min(d, claim.PositionTTL)
	return claim
}

// once returns a context for one operation, which the caller repeats if it is not
// answered: what was sent before a reset may be lost.
func (t *trial) once() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, 2*time.Second)
}

// given releases the hold until the outcome is known.
func (t *trial) given(s store.Store, h store.Hold) {
	t.Helper()
	t.until("the claim is withdrawn: "+h.Name, func() bool {
		ctx, cancel := t.once()
		defer cancel()
		err := s.Release(ctx, h)
		return err == nil || store.Definite(err)
	})
}

// warm makes the store object do its one-time work.
func (t *trial) warm(s store.Store, p store.Process) {
	t.Helper()
	claim := t.lasting(p, t.name(), t.lasts())
	t.given(s, store.Hold{Name: claim.Name, ID: claim.ID, Token: t.granted(s, claim).Token})
}

// expires reports whether a claim that was sent then may have expired. Its session lasts for less than its TTL.
func (t *trial) expires(c store.Claim, sent store.Instant) bool {
	d := min(c.TTL, c.PositionTTL)
	if t.lacks(store.PromiseExpiry) {
		d /= 2
	}
	return store.Now().Sub(sent) > d && !t.lacks(store.PromiseDeadline)
}

// granted asks for the claim until the outcome is known. If the claim expired before
// its answer came, because the machine was slow, the trial is inconclusive.
func (t *trial) granted(s store.Store, c store.Claim) (a store.Answer) {
	t.Helper()
	began := store.Now()
	t.until("an ask is answered: "+c.Name, func() bool {
		ctx, cancel := t.once()
		defer cancel()
		var err error
		if a, err = s.Ask(ctx, c); errors.Is(err, store.ErrLost) && t.expires(c, began) {
			panic(tooSlow)
		}
		if err != nil && store.Definite(err) {
			t.Fatalf("ask for %q: %v", c.Name, err)
		}
		return err == nil
	})
	if !a.Granted {
		t.Fatalf("%q is not granted: %+v", c.Name, a)
	}
	return a
}

// repeatedAsk: an ask is not answered, and then its connection is reset. It is repeated
// while all other claims of its process are given up. If sessions keep the claims, it
// is repeated with another TTL: then there is another session in which the store could
// believe it to be, and its own keeps nothing else. As long as its owner's answers say
// that it is granted, no other claim is.
func repeatedAsk(t *trial, c Linked, after int) {
	here, link, proc := t.linked(c)
	there, _, other := t.linked(c)
	t.warm(here, proc)
	link.MuteAfter(after)
	claim := t.lasting(proc, t.name(), t.lasts())
	var waiting sync.WaitGroup
	var given []store.Claim
	for range beside {
		one := t.lasting(proc, t.name(), t.lasts())
		given = append(given, one)
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(t.ctx, silent/3)
			defer cancel()
			here.Ask(ctx, one)
		})
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		here.Ask(ctx, claim)
	}()
	t.fallSilent(link, after, asked)
	waiting.Wait()
	link.Reset()
	cancel() // some drivers ignore a reset
	<-asked
	if t.lacks(store.PromiseExpiry) { // longer than its session lasts when it keeps nothing else
		claim.TTL = t.ticks(min(3*t.lasts(), t.d.MaxTTL))
	}
	last := given[0] // until it is given up too, the claims that were asked for with it may still be there
	for _, one := range given[1:] {
		t.given(here, store.Hold{Name: one.Name, ID: one.ID})
	}
	var a store.Answer
	var sent store.Instant
	t.until("the ask is answered", func() bool {
		ctx, cancel := t.once()
		defer cancel()
		sent = store.Now()
		var err error
		if a, err = here.Ask(ctx, claim); errors.Is(err, store.ErrLost) {
			t.given(here, store.Hold{Name: claim.Name, ID: claim.ID})
			claim.ID = proc.NewID()
		}
		return err == nil && a.Granted
	})
	if a.From != 0 {
		sent = a.From
	}
	t.given(here, store.Hold{Name: last.Name, ID: last.ID})
	until, tries := sent.Add(a.TTL), 0
	for ; store.Now() < until; tries++ {
		try := t.lasting(other, claim.Name, t.lasts())
		try.Try = true
		b, err := there.Ask(t.ctx, try)
		if left := until.Sub(store.Now()); err == nil && b.Granted && left > 0 {
			t.Fatalf("two hold the name: another was granted it, with token %d, although the first, with token %d, may rely on it for %v more", b.Token, a.Token, left)
		} else if err == nil && b.Granted {
			t.given(there, store.Hold{Name: try.Name, ID: try.ID, Token: b.Token})
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("no other was granted it in %d tries", tries)
	t.given(here, store.Hold{Name: claim.Name, ID: claim.ID, Token: a.Token})
	t.isFree(there, other, claim.Name)
}

// fallSilent returns when the link has dropped something, and has then been silent for a
// while. If the store needed fewer pieces than may pass, it gets its answer: then answered
// is closed. If no piece may pass, there is no answer.
func (t *trial) fallSilent(link Link, after int, answered <-chan struct{}) {
	t.Helper()
	t.until("a request meets the silence", func() bool {
		select {
		case <-answered:
			return true
		default:
			return link.Met() > 0
		}
	})
	if after == 0 && link.Met() == 0 {
		t.Fatal("all requests were answered, although no answer should pass: the link is not that of the store, so the test proves nothing")
	}
	time.Sleep(silent)
}

// over returns a channel that is closed when all goroutines have ended.
func over(all *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

// isFree waits until another process is granted the name, and gives it back.
func (t *trial) isFree(s store.Store, p store.Process, name string) {
	t.Helper()
	t.until("the name is free after its claim was withdrawn: "+name, func() bool {
		try := t.lasting(p, name, t.lasts())
		try.Try = true
		ctx, cancel := t.once()
		defer cancel()
		a, err := s.Ask(ctx, try)
		if err != nil || !a.Granted {
			return false
		}
		t.given(s, store.Hold{Name: name, ID: try.ID, Token: a.Token})
		return true
	})
}

// keep makes the process hold something, and wait for something else that the
// other process holds, until end is called.
func (t *trial) keep(s store.Store, p store.Process, there store.Store, other store.Process) (end func()) {
	holds := func(s store.Store, p store.Process) (h store.Hold, from store.Instant) {
		c, sent := t.lasting(p, t.name(), t.lastsLong()), store.Now()
		a := t.granted(s, c)
		return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: t.lastsLong()}, cmp.Or(a.From, sent) // its session may have been renewed earlier
	}
	hold, from := holds(s, p)
	theirs, theirsFrom := holds(there, other)
	waits := t.lasting(p, theirs.Name, t.lastsLong())
	ctx, cancel := context.WithCancel(t.ctx)
	var keeping sync.WaitGroup
	var slow atomic.Bool // a claim expired before its owner renewed it
	late := func(kept *atomic.Int64) bool { return store.Now().Sub(store.Instant(kept.Load())) > t.lastsLong()/2 }
	// from is when the session of what is kept was last renewed.
	again := func(what string, from store.Instant, once func(context.Context) (from store.Instant, err error)) (kept *atomic.Int64) {
		kept = new(atomic.Int64)
		kept.Store(int64(from))
		keeping.Go(func() {
			for ctx.Err() == nil {
				one, cancel := t.once()
				sent := store.Now()
				from, err := once(one)
				if cancel(); errors.Is(err, store.ErrLost) && ctx.Err() == nil {
					if slow.Load() || late(kept) {
						slow.Store(true)
					} else {
						t.Errorf("%s next to them is lost: %v", what, err) // then this test would prove nothing
					}
					return
				}
				pause := t.lastsLong() / 4
				if err == nil {
					kept.Store(int64(cmp.Or(from, sent)))
				} else { // after another pause as long it may have expired
					pause = silent / 10
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
		return kept
	}
	renews := func(s store.Store, h store.Hold) func(context.Context) (store.Instant, error) {
		return func(ctx context.Context) (store.Instant, error) {
			r := s.Renew(ctx, []store.Hold{h})[0]
			return r.From, r.Err
		}
	}
	again("the hold", from, renews(s, hold))
	ahead := again("the hold of another", theirsFrom, renews(there, theirs))
	again("the waiter", from, func(ctx context.Context) (store.Instant, error) {
		a, err := s.Ask(ctx, waits)
		if err == nil && a.Granted {
			slow.CompareAndSwap(false, late(ahead)) // it had expired
			err = fmt.Errorf("%w: the waiter was granted", store.ErrLost)
		}
		return a.From, err
	})
	return func() {
		cancel()
		keeping.Wait()
		if slow.Load() {
			panic(tooSlow)
		}
	}
}

// repeatedBeside: asks are answered in part, as some stores send several requests for one.
// They are repeated, granted and released, while their process holds something else.
// Nothing of them remains.
func repeatedBeside(t *trial, c Linked, after int) {
	here, link, proc := t.linked(c)
	there, _, other := t.linked(c)
	t.warm(there, other)
	defer t.keep(here, proc, there, other)()
	for i := range beside {
		link.MuteAfter(after + i*exchanges)
		ctx, cancel := context.WithCancel(t.ctx)
		var waiting sync.WaitGroup
		var claims []store.Claim
		for range beside {
			claim := t.lasting(proc, t.name(), t.lastsLong())
			claim.Weight = 1 // a smaller claim reads more of the queue
			claims = append(claims, claim)
			waiting.Go(func() { here.Ask(ctx, claim) })
		}
		t.fallSilent(link, after+i*exchanges, over(&waiting))
		link.Reset()
		cancel() // some drivers ignore a reset
		waiting.Wait()
		for _, claim := range claims {
			t.until("the claim is granted or lost: "+claim.Name, func() bool {
				ctx, cancel := t.once()
				defer cancel()
				a, err := here.Ask(ctx, claim)
				if err == nil && a.Granted {
					t.given(here, store.Hold{Name: claim.Name, ID: claim.ID, Token: a.Token})
				}
				return err == nil && a.Granted || errors.Is(err, store.ErrLost)
			})
		}
		for _, claim := range claims {
			t.isFree(there, other, claim.Name)
		}
	}
}
