package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/memstore"
)

// An observer keeps the events that it receives.
type observer struct {
	mu    sync.Mutex
	all   []Event
	waits []Event // EventWaiting, of which there are some for each wait
}

func (o *observer) tell(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Kind == EventWaiting {
		o.waits = append(o.waits, e)
		return
	}
	o.all = append(o.all, e)
}

// reported is the events so far, each as its kind and its duration.
func (o *observer) reported() string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	var s []string
	for _, e := range o.all {
		s = append(s, fmt.Sprint(e.Kind, " ", e.After))
	}
	return strings.Join(s, ", ")
}

// last is the newest event.
func (o *observer) last(t testing.TB) Event {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) == 0 {
		t.Fatal("no event")
	}
	return o.all[len(o.all)-1]
}

// eventOf is an event of the name a over a link, with the fields that every event has.
func eventOf(kind EventKind, token int64, after time.Duration, err error) Event {
	return Event{Kind: kind, Name: "a", Store: "a link", Token: token, After: after, Err: err}
}

// plain is e with the fields of eventOf alone.
func plain(e Event) Event {
	return Event{Kind: e.Kind, Name: e.Name, Store: e.Store, Token: e.Token, After: e.After, Err: e.Err}
}

// observed is a locker with TTL 30 s and an observer, over a link.
func observed(t *testing.T, more *Options) (*link, *Locker, *observer) {
	o, s := &observer{}, newLink(t)
	return s, locker(t, s, more.over(&Options{Observer: o.tell})), o
}

func TestObserver_ReceivesAGrantItsRenewalsAndItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		s.on(func(c *call) fate { return fate{there: 20 * time.Millisecond, back: 30 * time.Millisecond} })
		l := lock(t, locks, "a")
		time.Sleep(25 * time.Second)
		release(t, l)
		// Renewed 10 s after the ask was sent, and then after the renewal was;
		// held for the 25 s, and for 50 ms until the release was answered.
		same(t, "events", o.reported(), "granted 50ms, renewed 50ms, renewed 50ms, released 25.05s")
		for _, e := range o.all {
			same(t, "event", plain(e), eventOf(e.Kind, l.Token(), e.After, nil))
		}
	})
}

func TestObserver_ReceivesTheWaitAndARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, &Options{PollMin: 10 * time.Millisecond, PollMax: 10 * time.Millisecond})
		other := other(t, s.mem, "a", time.Hour)
		_, err := locks.Mutex("a").TryLock(t.Context())
		same(t, "events", o.reported(), "refused 0s")
		is(t, o.last(t).Err, ErrHeld)
		same(t, "the caller's error", o.last(t).Err, err)

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = locks.Mutex("a").Lock(ctx)
		same(t, "events", o.reported(), "refused 0s, refused 3s")
		same(t, "event", plain(o.last(t)), eventOf(EventRefused, 0, 3*time.Second, err))

		first := waits(t, locks.Mutex("a").Lock)
		second, third := waits(t, locks.Mutex("a").Lock), waits(t, locks.Mutex("a").Lock) // in this process's own queue
		time.Sleep(2 * time.Second)
		third.cancel()
		third.failed(context.Canceled, ErrHeld)
		same(t, "event", plain(o.last(t)), eventOf(EventRefused, 0, 2*time.Second, third.err))
		time.Sleep(5 * time.Second)
		other.release()
		for i, w := range []*waiter{first, second} {
			l := w.got()
			waited := 7*time.Second + time.Duration(i)*time.Minute
			if e := o.last(t); e.Kind != EventGranted || e.After < waited || e.After > waited+100*time.Millisecond {
				t.Fatalf("got %v after %v, want a grant after a wait of %v and a poll", e.Kind, e.After, waited)
			}
			time.Sleep(time.Minute)
			release(t, l)
		}
	})
}

func TestObserver_ReceivesAnIndeterminateOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		l := lock(t, locks, "b")
		s.on(func(c *call) fate { return fate{fail: errLink} })
		start := time.Now()
		_, err := locks.Mutex("a").TryLock(t.Context())
		is(t, err, ErrUnavailable)
		same(t, "event", plain(o.last(t)), eventOf(EventFailed, 0, time.Since(start), err))

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = locks.Mutex("a").Lock(ctx)
		is(t, err, context.DeadlineExceeded)
		same(t, "event", plain(o.last(t)), eventOf(EventFailed, 0, 2*time.Second, err))

		is(t, l.Release(), ErrUnavailable)
		same(t, "kind", o.last(t).Kind, EventReleased)
		is(t, o.last(t).Err, ErrUnavailable)
	})
}

func TestObserver_ReceivesHowLateARenewalWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		start := time.Now()
		l := lock(t, locks, "a")
		s.renewalsFail(start.Add(13 * time.Second))
		time.Sleep(15 * time.Second)
		release(t, l)
		synctest.Wait()
		tries := s.made("renew")
		want := []Event{eventOf(EventGranted, l.Token(), 0, nil)}
		for i, c := range tries {
			late := c.sent.Sub(start) - 10*time.Second // since the first was due
			if i < len(tries)-1 {
				want = append(want, eventOf(EventRenewalFailed, l.Token(), late, o.all[i+1].Err))
				is(t, o.all[i+1].Err, ErrUnavailable, errLink)
				continue
			}
			want = append(want, eventOf(EventRenewed, l.Token(), late, nil))
		}
		want = append(want, eventOf(EventReleased, l.Token(), 15*time.Second, nil))
		got := slices.Clone(o.all)
		for i := range got {
			got[i] = plain(got[i])
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got events %v, want %v", o.all, want)
		}
	})
}

// The same is true for a hold that waits for other names and is kept by asking again.
func TestObserver_ReceivesHowLateAHoldOfSeveralIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		b := other(t, s.mem, "b", time.Hour)
		_, leases := waitsAll(t, locks.With(&Options{MinHold: 2 * time.Hour}).All(mutexes(locks, "a", "b")...))
		time.Sleep(time.Minute)
		b.release()
		release(t, leases())
		synctest.Wait()
		kept := 0
		for _, e := range o.all {
			if e.Kind == EventRenewed {
				kept++
				same(t, "late", e.After, 0)
			}
		}
		if kept < 5 {
			t.Fatalf("renewed %d times in a minute, want at least 5", kept)
		}
	})
}

// However a hold ends, its end is reported once.
func TestObserver_ReceivesEachLossOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(s *link)
		is   error
		held time.Duration
	}{
		{"an operator broke it", func(s *link) { s.mem.Break("a") }, ErrLost, 10 * time.Second},
		{"its time ran out", func(s *link) { s.renewalsFail(time.Now().Add(time.Hour)) }, engine.ErrTimeOver, 30*time.Second - 300*time.Millisecond - engine.Margin},
		{"MaxHold has passed", func(s *link) {}, engine.ErrMaxHold, 40 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, locks, o := observed(t, &Options{MaxHold: 40 * time.Second})
				l := lock(t, locks, "a")
				c.lose(s)
				<-l.Lost()
				e := o.last(t)
				same(t, "event", plain(e), eventOf(EventLost, l.Token(), c.held, e.Err))
				is(t, e.Err, c.is, ErrLost)
				reported := o.reported()
				is(t, l.Release(), ErrLost)
				time.Sleep(time.Hour)
				same(t, "events after the release", o.reported(), reported)
			})
		})
	}
}

// The renewal for which the release waited has learned of the loss: it is not
// reported yet.
func TestObserver_ReceivesALossThatTheReleaseFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		l := lock(t, locks, "a")
		s.mem.Break("a")
		s.on(func(c *call) fate { return fate{back: 2 * time.Second} })
		time.Sleep(11 * time.Second) // the renewal is under way
		is(t, l.Release(), ErrLost)
		same(t, "events", o.reported(), "granted 0s, lost 12s")
	})
}

func TestObserver_CloseReleasesAndEndsWaitsWithoutAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, locks, o := observed(t, nil)
		other(t, s.mem, "taken", time.Hour)
		lock(t, locks, "a")
		w := waits(t, locks.Mutex("taken").Lock)
		time.Sleep(time.Second)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		w.failed(ErrClosed)
		same(t, "events", o.reported(), "granted 0s, released 1s")
	})
}

// Invalid calls are refused before anything is sent.
func TestObserver_ReceivesNoMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks, o := observed(t, nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := locks.Mutex("").Lock(t.Context())
		is(t, err, ErrInvalid)
		_, err = locks.Mutex("a").TryLock(ended)
		is(t, err, context.Canceled)
		same(t, "events", o.reported(), "")
	})
}

// The observer may call anything that takes a lock, and may be slow: the engine
// holds no lock meanwhile.
func TestObserver_IsCalledWithoutALock(t *testing.T) {
	bounded(t, func(t *testing.T) {
		s := newLink(t)
		var locks *Locker
		var kinds sync.Map
		locks = locker(t, s, &Options{Observer: func(e Event) {
			kinds.Store(e.Kind, true)
			if e.Name == "inner" {
				return
			}
			// No user should do this: it would hang if a lock were held.
			l, err := locks.With(nil).Mutex("inner").TryLock(context.Background())
			if err == nil {
				err = l.Release()
			}
			if err != nil {
				t.Error(err)
			}
		}})
		l := lock(t, locks, "a")
		if _, err := locks.Mutex("a").TryLock(t.Context()); !errors.Is(err, ErrHeld) {
			t.Fatal(err)
		}
		w := waits(t, locks.Mutex("a").Lock)
		w.cancel()
		w.failed(context.Canceled)
		s.renewalsFail(time.Now().Add(10*time.Second + 1))
		time.Sleep(25 * time.Second)
		release(t, l)
		l = lock(t, locks, "a")
		asksFor(t, s.mem, "please")
		time.Sleep(25 * time.Second)
		s.mem.Break("a")
		<-l.Lost()
		synctest.Wait()
		reported := 0
		kinds.Range(func(any, any) bool { reported++; return true })
		same(t, "kinds", reported, engine.EventKinds-2) // no failure, and no hand-over
	})
}

func TestObserver_ChildrenKeepIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &observer{}
		_, s, o := observed(t, nil)
		release(t, lock(t, s.With(&Options{TTL: time.Minute}), "a"))
		same(t, "events", o.reported(), "granted 0s, released 0s")
		release(t, lock(t, s.With(&Options{Observer: of.tell}), "a"))
		same(t, "events of the parent", o.reported(), "granted 0s, released 0s")
		same(t, "events of the child", of.reported(), "granted 0s, released 0s")
	})
}

// Without an observer nothing is allocated for one, and the events themselves
// are not allocated either.
func TestObserver_AllocatesNothing(t *testing.T) {
	pair := func(o *Options) float64 {
		s, err := New(memstore.New(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m := s.Mutex("a")
		return testing.AllocsPerRun(200, func() {
			l, err := m.TryLock(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
	var events int
	with := pair(&Options{Observer: func(e Event) { events += int(e.Kind) }})
	without := pair(nil)
	if events == 0 {
		t.Fatal("no event")
	}
	same(t, "allocations with an observer", with, without)
}

func TestEventKind_SaysItsName(t *testing.T) {
	same(t, "text of a kind", EventRenewalFailed.String(), "renewal failed")
	same(t, "text of an unknown kind", EventKind(99).String(), "event 99")
	for k := EventGranted; k <= EventLost; k++ {
		if strings.HasPrefix(k.String(), "event") {
			t.Errorf("kind %d has no name", k)
		}
	}
}

// The level of a log line says whether an operator is needed, and each line names
// its lock and owner, also as JSON.
func TestLog_ALossIsAnErrorAFailedRenewalAWarningTheRestDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newLink(t)
		locks := locker(t, s, &Options{Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		one := lock(t, locks, "one") // granted, renewed late, released
		s.renewalsFail(time.Now().Add(11 * time.Second))
		time.Sleep(12 * time.Second)
		release(t, one)
		two := lock(t, locks, "two") // broken
		s.mem.Break("two")
		<-two.Lost()
		synctest.Wait()                  // it is reported after that
		three := lock(t, locks, "three") // indeterminate whether it was released
		s.on(func(c *call) fate { return fate{fail: errLink} })
		is(t, three.Release(), ErrUnavailable)
		s.on(nil)
		four := lock(t, locks, "four") // the loss is found by the release
		time.Sleep(9 * time.Second)
		s.mem.Break("four")
		s.on(func(c *call) fate { return fate{back: 2 * time.Second} })
		time.Sleep(2 * time.Second)
		is(t, four.Release(), ErrLost)

		synctest.Wait()
		leases := map[string]*Lease{"one": one, "two": two, "three": three, "four": four}
		var levels []string
		for line := range strings.Lines(log.String()) {
			var r struct {
				Level, Msg, Name, ID, Store, Err string
				Token                            int64
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			l := leases[r.Name]
			if l == nil || r.ID != l.ID() || r.Token != l.Token() || r.Store != "a link" {
				t.Errorf("%s does not name the lock, its holder and its store", line)
			}
			if (r.Err == "") != (r.Msg == "holdfast: granted" || r.Msg == "holdfast: released") {
				t.Errorf("%s: got an error on a success, or none on a failure", line)
			}
			levels = append(levels, r.Name+" "+r.Level)
		}
		same(t, "log", strings.Join(levels, ", "), "one DEBUG, one WARN, one DEBUG, two DEBUG, two ERROR, three DEBUG, three DEBUG, four DEBUG, four ERROR")
	})
}

// A program that counts waits can leave out those of candidates, which are normal.
func TestObserver_EventsOfCandidatesSayThatTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		var events observer
		watched := func() *Locker { return locker(t, listed(t, mem), &Options{Observer: events.tell, Wait: time.Minute}) }
		leader, err := watched().Election("a").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = watched().Election("a").Campaign(t.Context())
		is(t, err, ErrHeld)
		release(t, leader)
		synctest.Wait()
		seen := map[EventKind]bool{}
		for _, e := range append(events.all, events.waits...) {
			if seen[e.Kind] = true; !e.Candidate {
				t.Errorf("the event %v is not marked as a candidate's", e.Kind)
			}
		}
		for _, kind := range []EventKind{EventGranted, EventWaiting, EventRefused, EventRenewed, EventReleased} {
			same(t, kind.String(), seen[kind], true)
		}
		events.all = nil
		release(t, lock(t, watched(), "a"))
		for _, e := range events.all {
			if e.Candidate {
				t.Errorf("the event %v of a mutex is marked as a candidate's", e.Kind)
			}
		}
	})
}
