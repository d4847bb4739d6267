package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// withList is a link that can also list names.
type withList struct{ withNotifications }

func (s withList) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		err := s.do(ctx, &call{op: "list", name: name}, nil, func(fate) error { return nil })
		if err != nil {
			yield(store.State{Name: name}, err)
			return
		}
		for st, err := range s.mem.List(ctx, name) {
			if !yield(st, err) {
				return
			}
		}
	}
}

func (s withList) BreakHold(ctx context.Context, b store.Break) error { return s.mem.BreakHold(ctx, b) }

// listed is a link to a memory store, with notifications and lists.
func listed(t testing.TB, mem *memstore.Store) withList {
	return withList{withNotifications{linkTo(t, mem)}}
}

// candidate is a locker of its own on the store, with that owner.
func candidate(t testing.TB, mem *memstore.Store, note string) *Locker {
	return locker(t, listed(t, mem), &Options{Note: note})
}

func TestElection_CandidatesAreServedInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		terms := make(chan string, 20)
		var last int64
		for round := range 2 {
			for _, name := range []string{"one", "two", "three", "four"} {
				e := candidate(t, mem, name).Election("leader")
				go e.Lead(t.Context(), func(ctx context.Context) error {
					l := LeaseFrom(ctx)
					if l.Token() <= last {
						t.Errorf("got token %d after %d, want a larger one", l.Token(), last)
					}
					last = l.Token()
					time.Sleep(time.Minute)
					terms <- fmt.Sprint(name, " ", round)
					return nil
				})
				synctest.Wait()
			}
		}
		for round := range 2 {
			for _, name := range []string{"one", "two", "three", "four"} {
				same(t, "served", <-terms, fmt.Sprint(name, " ", round))
			}
		}
		synctest.Wait()
		empty(t, mem)
	})
}

func TestElection_LeadEndsWithFnAndResigns(t *testing.T) { // B169
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		e := candidate(t, mem, "").Election("leader")
		mine := errors.New("mine")
		for _, want := range []error{nil, mine} {
			terms := 0
			err := e.Lead(t.Context(), func(ctx context.Context) error {
				terms++
				time.Sleep(time.Minute)
				return want
			})
			same(t, "error", err, want)
			same(t, "terms", terms, 1)
			empty(t, mem)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := e.Lead(ctx, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		is(t, err, context.DeadlineExceeded)
		empty(t, mem)
		func() {
			defer func() { same(t, "recovered", recover(), any("boom")) }()
			e.Lead(t.Context(), func(context.Context) error { panic("boom") })
		}()
		empty(t, mem)
		is(t, e.Lead(t.Context(), func(ctx context.Context) error { return LeaseFrom(ctx).Release() }), nil)
		empty(t, mem)
	})
}

// Whatever fn returned is taken as a consequence of the loss.
func TestElection_CampaignsAgainAfterALoss(t *testing.T) {
	for _, returned := range []error{nil, errors.New("its work was cut off")} {
		for _, how := range []string{"broken", "MaxHold", "late"} {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				locks, o := candidate(t, mem, ""), &Options{}
				if how == "MaxHold" {
					o.MaxHold = time.Hour
				}
				rival := candidate(t, mem, "rival")
				var waited *waiter
				var tokens []int64
				err := locks.With(o).Election("leader").Lead(t.Context(), func(ctx context.Context) error {
					l := LeaseFrom(ctx)
					tokens = append(tokens, l.Token())
					if len(tokens) == 2 {
						return nil
					}
					waited = waits(t, rival.Election("leader").Campaign)
					go func() { release(t, waited.got()) }()
					switch how {
					case "broken":
						mem.Break("leader")
					case "late":
						l.engine().Probe().Forget() // its timer never fires
						time.Sleep(time.Minute)
						return returned
					}
					<-ctx.Done()
					is(t, context.Cause(ctx), ErrLost)
					return returned
				})
				is(t, err, nil)
				same(t, "terms", len(tokens), 2)
				if tokens[1] <= tokens[0] {
					t.Errorf("got tokens %v, want the second larger", tokens)
				}
				if waited.got().Token() > tokens[1] {
					t.Error("the leader that lost was elected again before the waiting candidate")
				}
			})
		}
	}
}

func TestElection_AnOutageLeavesTheCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := listed(t, mem)
		down := func(*call) fate { return fate{fail: errLink} }
		s.on(down)
		e := locker(t, s, nil).Election("leader")
		var led atomic.Int64
		done := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			done <- e.Lead(ctx, func(ctx context.Context) error {
				led.Add(1)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		time.Sleep(time.Hour)
		same(t, "terms", led.Load(), 0)
		s.on(nil)
		time.Sleep(10 * time.Second)
		same(t, "terms", led.Load(), 1)
		s.on(down) // it is lost because it is not renewed
		time.Sleep(time.Hour)
		s.on(nil)
		time.Sleep(time.Minute)
		same(t, "terms", led.Load(), 2)
		s.on(down)
		time.Sleep(time.Hour)
		cancel()
		err := <-done
		is(t, err, context.Canceled, ErrUnavailable)
		s.on(nil)
	})
}

func TestElection_OtherErrorsEndTheCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := listed(t, mem)
		locks := locker(t, s, nil)
		never := func(context.Context) error { t.Error("the function was called without a term"); return nil }
		is(t, locks.Election("").Lead(t.Context(), never), ErrInvalid)
		s.on(func(*call) fate { return fate{fail: ErrDenied} })
		is(t, locks.Election("leader").Lead(t.Context(), never), ErrDenied)
		s.on(nil)
		slot, err := locks.Semaphore("slots", 2).TryAcquire(t.Context(), 1)
		is(t, err, nil)
		is(t, locks.Election("slots").Lead(t.Context(), never), ErrMismatch)
		release(t, slot)
		o := other(t, mem, "leader", time.Hour)
		start := time.Now()
		err = locks.With(&Options{Wait: time.Second}).Election("leader").Lead(t.Context(), never)
		is(t, err, context.DeadlineExceeded, ErrHeld)
		same(t, "waited", time.Since(start), time.Second)
		w := waits(t, func(ctx context.Context) (*Lease, error) { return nil, locks.Election("leader").Lead(ctx, never) })
		locks.Close()
		w.failed(ErrClosed)
		o.release()
	})
}

// seen is what an observer has yielded, as text.
func seen(l Leader, err error) string {
	switch {
	case err != nil:
		return "error"
	case l.Nobody():
		return "nobody"
	}
	return l.Note
}

// observe collects what Observe yields until ctx ends.
func observe(ctx context.Context, e *Election, each func()) (reported func() []string, done chan struct{}) {
	var all []string
	done = make(chan struct{})
	go func() {
		defer close(done)
		for l, err := range e.Observe(ctx) {
			all = append(all, seen(l, err))
			each()
		}
	}()
	return func() []string { synctest.Wait(); return all }, done
}

func TestElection_ObserveYieldsEachChangeAndNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		reported, done := observe(ctx, candidate(t, mem, "").Election("leader"), func() {})
		lead := func(note string) *Lease {
			l, err := candidate(t, mem, note).Election("leader").Campaign(t.Context())
			is(t, err, nil)
			time.Sleep(5 * time.Minute) // renewed many times
			return l
		}
		same(t, "yielded", fmt.Sprint(reported()), "[nobody]")
		l := lead("anna")
		same(t, "yielded", fmt.Sprint(reported()), "[nobody anna]")
		w := waits(t, candidate(t, mem, "bert").Election("leader").Campaign)
		release(t, l)
		w.got()
		time.Sleep(time.Second)
		same(t, "yielded", fmt.Sprint(reported()), "[nobody anna bert]")
		release(t, w.got())
		time.Sleep(time.Second)
		release(t, lead("anna"))
		time.Sleep(time.Second)
		reader, err := candidate(t, mem, "a reader").RWMutex("leader").Read().Lock(t.Context())
		is(t, err, nil)
		time.Sleep(time.Second)
		release(t, reader)
		same(t, "yielded", fmt.Sprint(reported()), "[nobody anna bert nobody anna nobody]")
		cancel()
		<-done
		same(t, "yielded", len(reported()), 6) // the end of ctx yields nothing
	})
}

func TestElection_ObserveReturnsTheLeaderAndItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		l, err := candidate(t, mem, "anna").Election("leader").Campaign(t.Context())
		is(t, err, nil)
		start := time.Now()
		time.Sleep(time.Minute)
		for leader, err := range candidate(t, mem, "").Election("leader").Observe(t.Context()) {
			is(t, err, nil)
			same(t, "id", leader.ID, l.ID())
			same(t, "token", leader.Token, l.Token())
			same(t, "since", leader.Since.Sub(start), 0)
			if d := time.Until(leader.Expires); d < 19*time.Second || d > 30*time.Second {
				t.Errorf("the leader expires in %v, want 19s to 30s", d)
			}
			same(t, "pid", leader.PID, ThisProcess().PID)
			break
		}
	})
}

// The end is seen as soon as the lease has expired, even while the name stays closed.
func TestElection_ObserveReportsNoExpiredLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		l, err := candidate(t, mem, "anna").With(&Options{LockDelay: time.Hour}).Election("leader").Campaign(t.Context())
		is(t, err, nil)
		l.engine().Probe().Forget() // its process dies
		expires := time.Now().Add(30 * time.Second)
		quiet := &Options{PollMin: time.Hour, PollMax: time.Hour}
		var all []string
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for leader, err := range candidate(t, mem, "").With(quiet).Election("leader").Observe(ctx) {
			if all = append(all, seen(leader, err)); len(all) == 2 {
				break
			}
		}
		same(t, "yielded", fmt.Sprint(all), "[anna nobody]")
		if late := time.Since(expires); late < 0 || late > 10*time.Millisecond {
			t.Errorf("the end was yielded %v after the expiry, want at most 10ms", late)
		}
	})
}

func TestElection_ObserveEndsAtTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		watching := candidate(t, mem, "")
		reported, done := observe(t.Context(), watching.Election("leader"), func() { time.Sleep(time.Minute) })
		for i := range 100 {
			l, err := candidate(t, mem, fmt.Sprint(i)).Election("leader").Campaign(t.Context())
			is(t, err, nil)
			time.Sleep(3 * time.Second)
			if i < 99 {
				release(t, l)
			}
		}
		time.Sleep(3 * time.Minute)
		all := reported()
		if len(all) > 8 || len(all) < 4 || all[len(all)-1] != "99" {
			t.Errorf("yielded %v, want 4 to 8 values, the last \"99\"", all)
		}
		watching.Close()
		<-done
		same(t, "yielded last", reported()[len(all)], "error")
	})
}

func TestElection_ObserveReadsInGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listed(t, memstore.New())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, done := observe(ctx, locker(t, s, nil).Election("leader"), func() {})
		<-done
		lists := s.made("list")
		for i := range lists[1:] {
			pause, most := lists[i+1].sent.Sub(lists[i].sent), 960*time.Millisecond
			if pause > most || pause < 1600*time.Microsecond {
				t.Fatalf("pause %d is %v, want it within the bounds", i, pause)
			}
		}
		if n := len(lists); n > 1000 || n < 600 {
			t.Errorf("%d reads in ten minutes, want 600 to 1000", n)
		}
		same(t, "calls that write", len(s.made("try", "ask", "renew", "release")), 0)
	})
}

func TestElection_ObserveReportsAnOutageOnceAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listed(t, memstore.New())
		locks := locker(t, s, nil)
		l, err := locks.With(&Options{Note: "anna"}).Election("leader").Campaign(t.Context())
		is(t, err, nil)
		var last error
		reported, done := observe(t.Context(), locks.Election("leader"), func() {})
		outage := func(err error) {
			s.on(func(c *call) fate {
				if c.op == "list" {
					return fate{fail: err}
				}
				return fate{}
			})
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Minute)
		outage(errLink)
		s.on(nil)
		time.Sleep(time.Minute)
		same(t, "yielded", fmt.Sprint(reported()), "[anna error anna]")
		outage(errLink)
		outage(ErrDenied) // the loop ends here
		<-done
		same(t, "yielded", fmt.Sprint(reported()), "[anna error anna error error]")
		for _, last = range locks.Election("leader").Observe(t.Context()) {
		}
		is(t, last, ErrDenied)
		s.on(nil)
		release(t, l)
	})
}

func TestElection_ObserveRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := listed(t, mem)
		one := func(e *Election) (last error) {
			n := 0
			for _, err := range e.Observe(t.Context()) {
				last = err
				n++
			}
			same(t, "yielded", n, 1)
			return last
		}
		is(t, one(locker(t, newLink(t), nil).Election("leader")), ErrUnsupported)
		lacks := listed(t, mem)
		lacks.link.desc.Lacks = map[store.Promise]string{store.PromiseInspect: "it is blind"}
		is(t, one(locker(t, lacks, nil).Election("leader")), ErrUnsupported)
		locks := locker(t, s, nil)
		is(t, one(locks.Election("")), ErrInvalid)
		slot, err := locks.Semaphore("leader", 2).TryAcquire(t.Context(), 1)
		is(t, err, nil)
		is(t, one(locks.Election("leader")), ErrMismatch)
		release(t, slot)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range locks.Election("leader").Observe(ctx) {
			t.Error("a value was yielded after the end of ctx")
		}
		s.on(func(*call) fate { return fate{there: time.Hour} })
		reported, done := observe(t.Context(), locks.Election("leader"), func() {})
		same(t, "yielded", len(reported()), 0)
		start := time.Now()
		locks.Close()
		<-done
		same(t, "time in Close", time.Since(start), 0)
		same(t, "yielded", fmt.Sprint(reported()), "[error]")
		is(t, one(locks.Election("leader")), ErrClosed)
	})
}
