package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
func TestRenewedAtAThirdOfTheTTL(t *testing.T) { // rule 3
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := lock(t, locker(t, s, &Options{TTL: 6 * time.Second}), "a")
		time.Sleep(11 * time.Second)
		same(t, "renewals", fmt.Sprint(sent(s.made("renew"), start)), "[2s 4s 6s 8s 10s]")
		same(t, "TTL of the renewal", s.made("renew")[0].holds[0].TTL, 6*time.Second)
		if !l.Valid() {
			t.Fatal("the lease was lost")
		}
		same(t, "deadline", l.Deadline(), ends(start.Add(10*time.Second), 6*time.Second))
		release(t, l)
	})
}

// A store can grant less than was asked for. Then renewals come after a third of that.
func TestAShorterGrantIsRenewedSooner(t *testing.T) { // rule 3
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
func TestAnIndeterminateRenewalIsRetriedUntilTheDeadline(t *testing.T) { // rule 3
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		l := lock(t, locker(t, s, nil), "a")
		s.renewalsFail(start.Add(28*time.Second + 800*time.Millisecond))
		time.Sleep(29*time.Second + 650*time.Millisecond)
		if !l.Valid() || over(l.Lost()) {
			t.Fatal("an indeterminate renewal ended the lease")
		}
		tries := s.made("renew")
		last := tries[len(tries)-1]
		if last.sent.Before(start.Add(28*time.Second + 800*time.Millisecond)) {
			t.Fatalf("the last retry was %v after the grant, too early", last.sent.Sub(start))
		}
		same(t, "deadline", l.Deadline(), ends(last.sent, 30*time.Second))
		pauses := map[time.Duration]bool{}
		for i := 1; i < len(tries); i++ {
			pause := tries[i].sent.Sub(tries[i-1].sent)
			if pause > 800*time.Millisecond || pause < 10*time.Millisecond {
				t.Fatalf("the pause between two tries was %v, want 10ms to 800ms", pause)
			}
			pauses[pause] = true
		}
		if len(tries) < 25 || len(pauses) < len(tries)-5 {
			t.Fatalf("%d tries with %d different pauses, want more tries or more jitter", len(tries), len(pauses))
		}
		release(t, l)
	})
}

// B76.
func TestIndeterminateUntilTheDeadlineIsLost(t *testing.T) { // rule 3
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
			t.Fatalf("%v does not say that the time ran out", err)
		}
	})
}

// A renewal that the server temporarily refuses is no loss either.
func TestARefusalThatIsNotALossIsRetried(t *testing.T) { // rule 3
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
			t.Fatal("the lease was lost")
		}
	})
}

// B73, B75, B63.
func TestAForeignHoldIsLostAtOnce(t *testing.T) { // rule 3
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
			t.Fatal("the lease is valid after the store reported its loss")
		}
		is(t, l.Release(), ErrLost)
		time.Sleep(time.Hour)
		same(t, "calls", s.ops(), "try renew")
	})
}

func TestTheReasonOfABreakIsReported(t *testing.T) { // rule 3
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
			t.Fatalf("%v does not give the reason", err)
		}
	})
}

func TestALostEntryIsNeverCreatedAgain(t *testing.T) { // rule 3
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := lock(t, locker(t, s, nil), "a")
		s.mem.Break("a")
		<-l.Lost()
		time.Sleep(time.Hour)
		empty(t, s.mem)
	})
}

func TestARenewalWhoseAnswerIsLostCosts(t *testing.T) { // rule 3
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
			t.Fatal("the lease was lost, although every other renewal was answered")
		}
		release(t, l)
	})
}

func TestMaxHold_IsLostAndReleasedAtItsEnd(t *testing.T) {
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
			t.Fatalf("the next was granted %v after MaxHold, want at most 4s", late)
		}
		err := l.Release()
		is(t, err, ErrLost)
		if !strings.Contains(err.Error(), "MaxHold") {
			t.Fatalf("%v does not name MaxHold", err)
		}
		same(t, "releases", len(s.made("release")), 1)
	})
}

// A thousand leases with every fault of a link: while Valid is true, the lease is
// the only holder in the store.
func TestValidIsNeverTrueAfterAnotherGrant(t *testing.T) { // rule 3
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
					t.Fatal("the lease is valid, but the store has granted the name to another")
				}
				time.Sleep(7 * time.Millisecond)
			}
			if err := l.Release(); errors.Is(err, ErrLost) {
				lost++
			} else {
				done++
			}
		}
		t.Logf("%d released, %d lost, %d not granted", done, lost, failed)
		if lost < 10 || done < 50 {
			t.Fatal("too few releases or losses to prove anything")
		}
	})
}

// An outage is logged as one warning, with the number of leases, however many
// it affects. Each lease has a line at level debug, and each loss is an error.
func TestAnOutageIsOneWarning(t *testing.T) { // rule 3
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
				t.Error("the warning does not say how many leases are affected")
			}
		}
		s.renewalsFail(time.Now().Add(time.Minute))
		<-all[0].Lost()
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, "losses", strings.Count(log.String(), "level=ERROR"), len(all))
		log.Reset() // a grant is an answer too: later failures are another outage
		lock(t, locks, "a")
		s.renewalsFail(time.Now().Add(15 * time.Second))
		time.Sleep(15 * time.Second)
		synctest.Wait()
		same(t, "warnings", strings.Count(log.String(), "level=WARN"), 1)
	})
}

// And once for each lease, not for each try.
func TestAnOutageIsLoggedOnce(t *testing.T) { // rule 3
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
