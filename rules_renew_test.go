package holdfast

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/store"
)

// sent is when the calls were sent, counted from the first.
func sent(calls []*call, from time.Time) (at []time.Duration) {
	for _, c := range calls {
		at = append(at, c.sent.Sub(from))
	}
	return at
}

// renewalsFail makes the renewals fail that are sent before the time.
func (s *link) renewalsFail(until time.Time) {
	s.on(func(c *call) fate {
		if c.op == "renew" && time.Now().Before(until) {
			return fate{fail: errLink}
		}
		return fate{}
	})
}

// B70.
func TestRule3_RenewedAtAThirdOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := lock(t, locker(t, s, &Options{TTL: 6 * time.Second}), "a")
		time.Sleep(11 * time.Second)
		same(t, "renewals", fmt.Sprint(sent(s.made("renew"), start)), "[2s 4s 6s 8s 10s]")
		same(t, "renewed for", s.made("renew")[0].holds[0].TTL, 6*time.Second)
		if !l.Valid() {
			t.Fatal("lost")
		}
		same(t, "deadline", l.Deadline(), ends(start.Add(10*time.Second), 6*time.Second))
		release(t, l)
	})
}

// A store may grant less than it was asked for: of that it is a third, too.
func TestRule3_WhatIsGrantedForLessIsRenewedSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(*call) fate {
			return fate{
				answer: func(a *store.Answer) { a.TTL = a.TTL * 3 / 4 },
				renew:  func(_ int, r *store.Renewal) { r.TTL = r.TTL * 3 / 4 },
			}
		})
		start := time.Now()
		l := lock(t, locker(t, s, &Options{TTL: 12 * time.Second}), "a")
		time.Sleep(10 * time.Second)
		same(t, "renewals", fmt.Sprint(sent(s.made("renew"), start)), "[3s 6s 9s]")
		same(t, "deadline", l.Deadline(), ends(start.Add(9*time.Second), 9*time.Second))
		release(t, l)
	})
}

// B74, B76.
func TestRule3_AnIndeterminateRenewalIsRetriedUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		s.renewalsFail(start.Add(28*time.Second + 800*time.Millisecond))
		time.Sleep(29*time.Second + 650*time.Millisecond)
		if !l.Valid() || over(l.Lost()) {
			t.Fatal("an indeterminate renewal was taken for a loss")
		}
		tries := s.made("renew")
		last := tries[len(tries)-1]
		if last.sent.Before(start.Add(28*time.Second + 800*time.Millisecond)) {
			t.Fatalf("the last retry was %v after the grant", last.sent.Sub(start))
		}
		same(t, "deadline", l.Deadline(), ends(last.sent, 30*time.Second))
		pauses := map[time.Duration]bool{}
		for i := 1; i < len(tries); i++ {
			pause := tries[i].sent.Sub(tries[i-1].sent)
			if pause > 800*time.Millisecond || pause < 10*time.Millisecond {
				t.Fatalf("a pause of %v between two tries", pause)
			}
			pauses[pause] = true
		}
		if len(tries) < 25 || len(pauses) < len(tries)-5 {
			t.Fatalf("%d tries with %d different pauses between them, want jitter", len(tries), len(pauses))
		}
		release(t, l)
	})
}

// B76.
func TestRule3_IndeterminateUntilTheDeadlineIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		s.renewalsFail(start.Add(time.Hour))
		<-l.Lost()
		same(t, "lost", time.Now(), ends(start, 30*time.Second))
		err := l.Release()
		is(t, err, ErrLost)
		if !strings.Contains(err.Error(), "time ran out") {
			t.Fatalf("%v does not say why", err)
		}
	})
}

// A renewal that the server refuses for now is no loss either.
func TestRule3_ARefusalThatIsNotALossIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		s.on(func(c *call) fate {
			if c.op == "renew" && c.n < 3 {
				return fate{fail: store.ErrDenied}
			}
			return fate{}
		})
		time.Sleep(12 * time.Second)
		same(t, "renewals", len(s.made("renew")), 4)
		if !l.Valid() {
			t.Fatal("lost")
		}
	})
}

// B73, B75, B63.
func TestRule3_NotYoursIsLostAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		ctx := l.Context(t.Context())
		s.mem.Break("a")
		<-l.Lost()
		same(t, "lost", time.Since(start), 10*time.Second)
		is(t, context.Cause(ctx), ErrLost)
		if l.Valid() {
			t.Fatal("valid after the store said that it is not ours")
		}
		is(t, l.Release(), ErrLost)
		time.Sleep(time.Hour)
		same(t, "calls", s.ops(), "try renew")
	})
}

func TestRule3_TheReasonOfABreakIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		e := stored(s.mem, "a").Entries[0]
		b := store.Break{Name: "a", ID: e.ID, Token: e.Token, Reason: "host is on fire"}
		if err := s.mem.BreakHold(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		<-l.Lost()
		err := l.Release()
		is(t, err, ErrLost)
		if !strings.Contains(err.Error(), "host is on fire") {
			t.Fatalf("%v does not tell the reason", err)
		}
	})
}

func TestRule3_ALostEntryIsNeverCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		s.mem.Break("a")
		<-l.Lost()
		time.Sleep(time.Hour)
		empty(t, s.mem)
	})
}

func TestRule3_ARenewalWhoseAnswerIsLostCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		s.on(func(c *call) fate {
			if c.op == "renew" && c.n%2 == 0 {
				return fate{lose: errLink}
			}
			return fate{}
		})
		time.Sleep(10 * time.Minute)
		if !l.Valid() {
			t.Fatal("lost, though each second renewal was answered")
		}
		release(t, l)
	})
}

// Ten thousand leases are renewed in as few calls as there are batches, and
// nothing runs in between.
func TestRule4_LeasesAreRenewedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		s := newLink(t)
		locks := locker(t, s, nil)
		before := runtime.NumGoroutine()
		for i := range n {
			lock(t, locks, fmt.Sprint(i))
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more > 2 {
			t.Fatalf("%d goroutines for %d leases that are held", more, n)
		}
		for round := 1; round <= 6; round++ {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			calls := s.made("renew")
			same(t, "calls", len(calls), round*10) // a thousand leases a call
			var holds int
			for _, c := range calls {
				holds += len(c.holds)
			}
			same(t, "holds renewed", holds, round*n)
		}
	})
}

// Leases granted at different times are renewed together where that is only a
// little early.
func TestRule4_WhatIsNearlyDueGoesWithTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, nil)
		for i := range 500 {
			lock(t, locks, fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(11 * time.Second)
		same(t, "calls", len(s.made("renew")), 1)
		same(t, "holds renewed", len(s.made("renew")[0].holds), 500)
	})
}

// What was renewed in one call is so each time, also where some calls wait for others: a store may
// keep that by one write.
func TestRule4_WhatWasRenewedTogetherIsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5500 // in six calls, more than are under way at a time
		s := newLink(t)
		locks := locker(t, s, nil)
		for i := range n {
			lock(t, locks, fmt.Sprint(i))
		}
		s.on(func(c *call) fate {
			return fate{there: time.Duration(1+c.n%3) * 20 * time.Millisecond, back: time.Duration(c.n%7) * time.Millisecond}
		})
		rounds := map[string]bool{}
		time.Sleep(5 * time.Second) // no call is under way when we look
		for range 20 {
			before := len(s.made("renew"))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			var sets []string
			for _, c := range s.made("renew")[before:] {
				var ids []string
				for _, h := range c.holds {
					ids = append(ids, h.ID.String())
				}
				slices.Sort(ids)
				sets = append(sets, fmt.Sprintf("%d %x", len(ids), sha256.Sum256([]byte(strings.Join(ids, "")))))
			}
			slices.Sort(sets)
			rounds[strings.Join(sets, "\n")] = true
		}
		if len(rounds) != 1 {
			t.Errorf("in twenty rounds the leases were renewed in %d different sets of calls", len(rounds))
		}
	})
}

func TestRule4_GoroutinesStayFewThoughTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		s := newLink(t)
		locks := locker(t, s, nil)
		before := runtime.NumGoroutine()
		var leases []*Lease
		for i := range n {
			leases = append(leases, lock(t, locks, fmt.Sprint(i)))
			if i%100 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		start := time.Now()
		hang := make(chan struct{})
		s.on(func(*call) fate { return fate{hang: hang} })
		for time.Since(start) < 29*time.Second {
			time.Sleep(time.Second)
			if more := runtime.NumGoroutine() - before; more > 100 {
				t.Fatalf("%d goroutines for %d leases", more, n)
			}
			if n := s.underway("renew"); n > 40 { // they are not all sent at once, and none is sent again
				t.Fatalf("%d calls are under way", n)
			}
		}
		time.Sleep(time.Until(start.Add(30 * time.Second)))
		for _, l := range leases {
			if l.Valid() || !over(l.Lost()) {
				t.Fatal("a lease outlived its time")
			}
		}
		close(hang)
	})
}

func TestRule4_OneNamesFailureDoesNotTouchAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		locks := locker(t, s, nil)
		good, gone, silent := lock(t, locks, "good"), lock(t, locks, "gone"), lock(t, locks, "silent")
		silentID := silent.ID()
		s.on(func(c *call) fate {
			return fate{renew: func(i int, r *store.Renewal) {
				if c.holds[i].ID.String() == silentID {
					r.Err = errLink
				}
			}}
		})
		s.mem.Break("gone")
		<-gone.Lost()
		same(t, "one is lost at once", time.Since(start), 10*time.Second)
		<-silent.Lost()
		same(t, "one at its deadline", time.Now(), ends(start, 30*time.Second))
		if !good.Valid() {
			t.Fatal("the third is lost as well")
		}
		renewed := 0
		for _, c := range s.made("renew") {
			for _, h := range c.holds {
				if h.Name == "good" {
					renewed++
				}
			}
		}
		if renewed < 2 || renewed > 3 {
			t.Fatalf("the third was renewed %d times in 30 seconds", renewed)
		}
		release(t, good)
	})
}

// A renewal that had to wait for its turn is not sent for a lease that ended
// meanwhile: it would keep the name from the next.
func TestRule4_WhatEndsBeforeItsBatchIsSentIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{TTL: 8 * time.Second})
		hang := make(chan struct{})
		s.on(func(c *call) fate {
			if c.op == "renew" && c.n < engine.Batches {
				return fate{hang: hang}
			}
			return fate{}
		})
		var last *Lease
		// In calls of their own, as they are bounded differently, and due at once:
		// the last one waits until the others hang for long.
		start, due := time.Now(), 1700*time.Millisecond
		for i, every := range []time.Duration{1700, 1400, 1200, 1000} {
			time.Sleep(time.Until(start.Add(due - every*time.Millisecond)))
			lock(t, locks.With(&Options{RenewEvery: every * time.Millisecond}), fmt.Sprint(i))
		}
		time.Sleep(170 * time.Millisecond)
		last = lock(t, locks.With(&Options{RenewEvery: 900 * time.Millisecond, MaxHold: 915 * time.Millisecond}), "last")
		<-last.Lost()
		same(t, "batches under way", len(s.made("renew")), engine.Batches)
		time.Sleep(2 * engine.Grace)
		close(hang)
		synctest.Wait()
		for _, c := range s.made("renew") {
			if c.name == last.Name() {
				t.Fatal("renewed though it was lost")
			}
		}
	})
}

func TestMaxHold_IsLostAndGivenBackAtItsEnd(t *testing.T) {
	bounded(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, s, &Options{MaxHold: 65 * time.Second})
		start := time.Now()
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		<-l.Lost()
		same(t, "lost", time.Since(start), 65*time.Second)
		next.got()
		if late := next.at.Sub(start.Add(65 * time.Second)); late > 4*time.Second {
			t.Fatalf("the next got in %v later", late)
		}
		err := l.Release()
		is(t, err, ErrLost)
		if !strings.Contains(err.Error(), "MaxHold") {
			t.Fatalf("%v does not say why", err)
		}
		same(t, "releases", len(s.made("release")), 1)
	})
}

// A thousand leases with every fault that a link has: whoever is told Valid is
// alone, by the store's own account.
func TestRule3_ValidIsNeverTrueOfWhatTheStoreGaveAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			switch c.op {
			case "renew", "ask", "try", "release", "withdraw":
			default:
				return fate{}
			}
			f := fate{there: time.Duration(rand.IntN(250)) * time.Millisecond, back: time.Duration(rand.IntN(250)) * time.Millisecond}
			switch rand.IntN(6) {
			case 0:
				f.fail = errLink
			case 1:
				f.lose = errLink
			}
			return f
		})
		locks := locker(t, s, &Options{TTL: time.Second})
		var lost, done, failed int
		for range 300 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			l, err := locks.Mutex("a").Lock(ctx)
			cancel()
			if err != nil {
				failed++
				continue
			}
			for end := time.Now().Add(time.Duration(rand.IntN(3000)) * time.Millisecond); time.Now().Before(end) && l.Valid(); {
				st := stored(s.mem, "a")
				if len(st.Entries) == 0 || st.Entries[0].ID != l.engine().Probe().Hold().ID || st.Entries[0].Expires <= 0 {
					t.Fatal("valid, and the store has given the name away")
				}
				time.Sleep(7 * time.Millisecond)
			}
			if err := l.Release(); errors.Is(err, ErrLost) {
				lost++
			} else {
				done++
			}
		}
		t.Logf("%d released, %d lost, %d not obtained", done, lost, failed)
		if lost < 10 || done < 50 {
			t.Fatal("too few of one kind to prove anything")
		}
	})
}

// Of an outage an operator hears one warning, however many leases it hits, with
// how many those are; each lease has its line at debug, and its loss an error.
func TestRule3_AnOutageIsOneWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		var log strings.Builder
		locks := locker(t, s, &Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		var all []*Lease
		for i := range 2500 { // three batches
			all = append(all, lock(t, locks, fmt.Sprint(i)))
		}
		for outage := range 3 {
			log.Reset()
			s.renewalsFail(time.Now().Add(15 * time.Second)) // and then they work again
			time.Sleep(25 * time.Second)
			synctest.Wait()
			same(t, fmt.Sprint("warnings of outage ", outage), strings.Count(log.String(), "level=WARN"), 1)
			same(t, "lines", strings.Count(log.String(), "renewal failed"), len(all))
			if !strings.Contains(log.String(), "held=2500") {
				t.Error("not told how many leases are at stake")
			}
		}
		s.renewalsFail(time.Now().Add(time.Minute))
		<-all[0].Lost()
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "losses", strings.Count(log.String(), "level=ERROR"), len(all))
		log.Reset() // a grant is an answer too: what comes then is another outage
		lock(t, locks, "a")
		s.renewalsFail(time.Now().Add(15 * time.Second))
		time.Sleep(15 * time.Second)
		synctest.Wait()
		same(t, "warnings", strings.Count(log.String(), "level=WARN"), 1)
	})
}

// And once a lease, not once a try.
func TestRule3_AnOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		var log strings.Builder
		l := lock(t, locker(t, s, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), "a")
		s.renewalsFail(time.Now().Add(time.Hour))
		<-l.Lost()
		synctest.Wait()
		same(t, "warnings", strings.Count(log.String(), "level=WARN"), 1)
		same(t, "errors", strings.Count(log.String(), "level=ERROR"), 1)
		if !strings.Contains(log.String(), "name=a") || !strings.Contains(log.String(), errLink.Error()) {
			t.Fatal(log.String())
		}
	})
}
