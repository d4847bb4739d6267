package record_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// coming is the first ask of a claim that will wait if it is refused.
func coming(c *store.Claim) { c.Try, c.Waits = true, true }

func count(all []recordtest.Op, op recordtest.Op) (n int) {
	for _, one := range all {
		if one == op {
			n++
		}
	}
	return n
}

// begins lets the process begin its sessions.
func (p *process) begins() {
	p.t.Helper()
	h, c := p.takes(p.claim(named("another"))), p.claim(named("another"))
	p.waits(c)
	p.givesUp(c)
	p.releases(h)
}

// A granted hold lasts for its whole TTL, whether its owner would have waited or not.
func TestAnImmediateGrantLastsForItsWholeTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, recordtest.NewMemory(recordtest.Options{}), true)
		for _, how := range []func(*store.Claim){coming, try, func(*store.Claim) {}} {
			c := p.claim(how, func(c *store.Claim) { c.Name = c.ID.String() })
			if a := p.ask(c); !a.Granted || a.TTL != c.TTL {
				t.Errorf("got %+v, want granted for %v", a, c.TTL)
			}
		}
	})
}

// The first ask does not check whether the holders are alive; the following ask does.
func TestAClaimChecksTheHoldersOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, true), start(t, m, true)
		q.takes(q.claim())
		if sent := p.sends(func() { p.waits(p.claim(coming)) }); count(sent, recordtest.OpLeft) != 0 {
			t.Errorf("the first claim sends %v", sent)
		}
		if sent := p.sends(func() { p.waits(p.claim()) }); count(sent, recordtest.OpLeft) != 1 {
			t.Errorf("the next claim sends %v", sent)
		}
	})
}

// Law 9.
func TestAWatchedSessionIsNotWatchedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q, r := start(t, m, true), start(t, m, true), start(t, m, true)
		h := q.claim()
		q.takes(h)
		ahead, c := r.claim(), p.claim()
		r.waits(ahead)
		sent := p.sends(func() {
			p.waits(c)
			synctest.Wait()
			r.givesUp(ahead) // so the holder is ahead, and is reported as such
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		})
		if n := count(sent, recordtest.OpAwait); n != 2 {
			t.Errorf("%d sessions are watched, want that of each claim ahead: %v", n, sent)
		}
		p.waits(c) // the holder is still ahead, and stays watched
		m.Lapse(q.SessionForTest(h.TTL))
		time.Sleep(100 * time.Millisecond)
		if !p.heard(c.ID) {
			t.Error("the end of the session ahead is not reported")
		}
	})
}

// A claim that joins a crowd leaves its note at once, as it would lose the race.
func TestAClaimOnACrowdedNameSendsNoSwap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Apart: true})
		q := start(t, m, true)
		h := q.takes(q.claim())
		var all []*process
		var claims []store.Claim
		for range 10 {
			all = append(all, start(t, m, true))
			claims = append(claims, all[len(all)-1].claim())
			all[len(all)-1].waits(claims[len(claims)-1])
		}
		p := start(t, m, true)
		p.begins()
		p.waits(p.claim(coming))
		// The releaser takes the note in, so the ask waits for that.
		time.AfterFunc(time.Millisecond, func() { q.releases(h) })
		if sent := p.sends(func() { p.ask(p.claim()) }); len(sent) == 0 || sent[0] != recordtest.OpJoin {
			t.Errorf("the claim sends %v, want a note first", sent)
		}
		// Once the crowd may have left, the claim can be first.
		c := p.claim()
		p.waits(c)
		p.givesUp(c)
		for i := range all {
			if i > 0 {
				all[i].givesUp(claims[i])
			}
		}
		time.Sleep(2 * time.Second)
		if sent := p.sends(func() { p.ask(p.claim()) }); len(sent) == 0 || sent[0] != recordtest.OpSwap {
			t.Errorf("later the claim sends %v, want a swap first", sent)
		}
	})
}

// Law 4. The reported claims ahead are at most a second old, although the note replaces a read.
func TestTheReportedQueueIsASecondOldAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(terse)
		start := func() *process {
			c := m.Client()
			return startOn(t, c, c.Peeking(), true)
		}
		q := start()
		h := q.takes(q.claim())
		var all []*process
		var claims []store.Claim
		for range 10 {
			p := start()
			c := p.claim()
			p.waits(c)
			all, claims = append(all, p), append(claims, c)
		}
		p := start()
		p.begins()
		p.waits(p.claim(coming))
		for i := range all {
			all[i].givesUp(claims[i])
		}
		time.Sleep(2 * time.Second)
		time.AfterFunc(10*time.Microsecond, func() { q.renews(store.Hold{Name: h.Name, ID: h.ID, Token: h.Token, TTL: h.TTL, Owner: "another"}) }) // it takes in the notes
		if a := p.ask(p.claim()); a.Waiting > 0 {
			t.Errorf("%d are reported as ahead, although all have left", a.Waiting)
		}
	})
}

// A note is refused if its session was called since. It is not left again and again.
func TestARefusedNoteIsWrittenToTheRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Apart: true})
		p, q := start(t, m, true), start(t, m, true)
		q.takes(q.claim())
		p.begins()
		for range 10 {
			other := start(t, m, true)
			other.waits(other.claim())
		}
		p.waits(p.claim(coming))
		c := p.claim()
		if err := q.client.Call(t.Context(), p.SessionForTest(c.PositionTTL)); err != nil {
			t.Fatal(err)
		}
		if sent := p.sends(func() { p.waits(c) }); count(sent, recordtest.OpJoin) != 1 || count(sent, recordtest.OpSwap) != 1 {
			t.Errorf("the claim sends %v, want one note and one swap", sent)
		}
	})
}

// If a server reports no ends of sessions, a notification goes only to the next claim. So that claim must be alive.
func TestAReleaseSkipsTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := terse
		o.Silent = true
		m := recordtest.NewMemory(o)
		start := func() *process {
			c := m.Client()
			return startOn(t, c, c.Peeking(), true)
		}
		q, next, dead, r := start(), start(), start(), start()
		h, n := q.takes(q.claim()), next.claim()
		next.waits(n)
		dead.waits(dead.claim())
		dead.all(recordtest.Lost, recordtest.OpRenew, recordtest.OpEnd, recordtest.OpSwap)
		time.Sleep(store.MaxPositionTTL * 4 / 5)
		c := r.claim()
		r.waits(c)
		next.waits(n)
		q.renews(h)
		time.Sleep(store.MaxPositionTTL / 2)
		q.releases(h)
		until(t, "the next is notified", func() bool { return next.heard(n.ID) })
		next.releases(next.takes(n)) // a moment later
		until(t, "the living waiter is notified", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.ContainsFunc(r.notifications, func(n store.Notification) bool { return n.ID == c.ID && n.Token > 0 })
		})
	})
}
