package record_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// stored is the record of the name and its inbox on the server.
func (p *process) stored() record.Record {
	p.t.Helper()
	r, err := p.client.Load(p.t.Context(), at)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// changes writes the record each time.
func (p *process) changes(h store.Hold, i int) {
	p.t.Helper()
	h.Owner = fmt.Sprint("owner ", i)
	if r := p.renews(h); r.Err != nil {
		p.t.Fatal(r.Err)
	}
}

// No process uses the name. It is settled only after a day without a write: a living
// process may not write its names for weeks.
func TestACrashedHoldersEntryIsRemovedWithoutAnyClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, alive, q := start(t, m, false), start(t, m, false), start(t, m, false)
		p.takes(p.claim())
		other := alive.takes(alive.claim(func(c *store.Claim) { c.Name = "other" }))
		m.Lapse(p.Sessions()...)
		p.client.Cut()
		before := q.stored()
		q.sweeps()
		if r := q.stored(); r.Version != before.Version {
			t.Fatal("a record that was just written is cleaned up")
		}
		m.Advance(25 * time.Hour)
		q.SweepForTest()
		until(t, "the entry of the dead process is removed", func() bool { return record.EntriesForTest(q.stored().Data) == 0 })
		if r := alive.renews(other); r.Err != nil {
			t.Fatalf("renewal of a living process's hold: %v", r.Err)
		}
	})
}

// The note came after the last write of a name that nobody uses any more.
func TestACrashedWaitersNoteIsRemovedFromAnIdleName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := terse
		o.Retention = 48 * time.Hour // the record is still there
		m := recordtest.NewMemory(o)
		p, other, q := start(t, m, false), start(t, m, false), start(t, m, false)
		h := other.takes(other.claim(try))
		p.givesUpWaiting()
		other.releases(h)
		h = other.takes(other.claim(try)) // so that the record that the other remembers is old
		p.joinsAndHangs(true)
		note := record.Swap{Name: at, Old: record.Record{Version: "none"}, Data: []byte("x"), Join: &record.Join{Session: p.Sessions()[0], Notes: q.stored().Inbox}}
		m.Lapse(p.Sessions()...)
		p.client.Cut()
		other.releases(h)
		q.releases(q.takes(q.claim(try)))
		if out, err := q.client.Swap(t.Context(), &note); err != nil || len(note.Join.Notes) != 1 || len(q.stored().Inbox) != 1 {
			t.Fatalf("got %+v, %v, and %d notes are left, want one", out, err, len(q.stored().Inbox))
		}
		m.Advance(25 * time.Hour)
		q.SweepForTest()
		until(t, "the note of the dead process is removed", func() bool { return len(q.stored().Inbox) == 0 })
	})
}

// sweeps starts a sweep, and returns when it has listed the names.
func (p *process) sweeps() {
	p.t.Helper()
	listed := make(chan struct{}, 1)
	p.client.Fates(func(r recordtest.Request) recordtest.Fate {
		if r.Op == recordtest.OpList {
			select {
			case listed <- struct{}{}:
			default:
			}
		}
		return recordtest.Answered
	})
	p.SweepForTest()
	select {
	case <-listed:
	case <-time.After(patience):
		p.t.Fatal("no sweep ran")
	}
	p.client.Fates(nil)
}

// Servers bound the size of a record. A claim that does not fit gets an error, and all others continue.
func TestAnAskThatExceedsTheRecordSizeSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 800
		m := recordtest.NewMemory(recordtest.Options{MaxRecord: most})
		p, q, late := start(t, m, false), start(t, m, false), start(t, m, false)
		wide := func(c *store.Claim) { c.Owner = strings.Repeat("x", 100) }
		h := p.takes(p.claim(wide))
		var waits []store.Claim
		for {
			c := q.claim(wide)
			a, err := q.Ask(t.Context(), c)
			if err != nil {
				if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "too many wait") {
					t.Fatalf("ask: %v", err)
				}
				q.givesUp(c)
				break
			}
			if waits = append(waits, c); a.Granted || len(waits) > most/100 {
				t.Fatalf("%d waiters, and the last got %+v", len(waits), a)
			}
		}
		if len(waits) < 3 {
			t.Fatalf("only %d claims fit", len(waits))
		}
		c := late.claim(wide)
		if _, err := late.Ask(t.Context(), c); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("ask of another process: %v", err)
		}
		late.givesUp(c)
		q.waits(waits[0])            // a waiter keeps its position
		p.releases(h)                // and makes room
		late.waits(late.claim(wide)) // although it remembers the old record
		if a := q.ask(waits[0]); !a.Granted {
			t.Fatalf("the first waiter: got %+v, want granted", a)
		}
		if n := len(q.stored().Data); n > most {
			t.Fatalf("the record has %d bytes, too many", n)
		}
	})
}

// Joins do not conflict, so a crowd can leave more notes than fit into the record. Releases still work.
func TestNotesThatExceedTheRecordSizeStayInTheInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most, many = 300, 12
		m := recordtest.NewMemory(recordtest.Options{MaxRecord: most})
		p, q := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		var crowd []*process
		for range many {
			crowd = append(crowd, start(t, m, false))
			crowd[len(crowd)-1].givesUpWaiting()
		}
		p.changes(h, 1) // the record that they remember is old
		for _, one := range crowd {
			one.joinsAndHangs(false)
		}
		if n := len(q.stored().Inbox); n != many {
			t.Fatalf("got %d notes in the inbox", n)
		}
		p.releases(h)
		r, in := q.stored(), 0
		until(t, "some notes are taken in", func() bool { // by the releaser, after its release was answered
			r = q.stored()
			in = record.EntriesForTest(r.Data)
			return in > 0
		})
		if len(r.Inbox) == 0 || in+len(r.Inbox) != many || len(r.Data) > most {
			t.Fatalf("%d are taken in, %d notes are left, the record has %d bytes", in, len(r.Inbox), len(r.Data))
		}
	})
}

// Each session whose notes were taken in has a mark, as long as it lives. Once there are
// many marks, a writer checks the sessions of some.
func TestTheMarksOfSessionsThatHaveEndedAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // in which none of the sessions expires meanwhile
		m := recordtest.NewMemory(recordtest.Options{Void: record.VoidByMark, Apart: true})
		p, q, next := start(t, m, false), start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		const many = 100
		for i := range many {
			q.givesUpWaiting()                                                       // so that it knows the record
			p.changes(h, i)                                                          // which has changed since
			c := q.claim(lasting(5*time.Second + time.Duration(i)*time.Millisecond)) // another session
			q.waits(c)
			q.givesUp(c)
		}
		if n := record.MarksForTest(next.stored().Data); n < many {
			t.Fatalf("got only %d marks of %d living sessions", n, many)
		}
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		next.waits(next.claim())
		for i := 0; record.MarksForTest(next.stored().Data) > 70; i++ { // which it checks, and when, is by chance
			if i == 20*many {
				t.Fatalf("got %d marks of ended sessions, too many", record.MarksForTest(next.stored().Data))
			}
			p.changes(h, many+i)
		}
	})
}

// A claim gives up while its note waits among others. The note is still taken in: later
// it would be behind claims that came after it.
func TestAnAbandonedNoteIsStillTakenIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p := start(t, m, false)
		h := p.takes(p.claim())
		var others []*process
		for range 3 {
			one := start(t, m, false)
			one.givesUpWaiting()
			others = append(others, one)
		}
		p.changes(h, 1)
		others[0].joinsAndHangs(false)
		others[1].joinsAndHangs(false)
		last := others[2]
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		joined, gone := false, false
		last.client.Fates(func(r recordtest.Request) recordtest.Fate {
			switch {
			case r.Op != recordtest.OpLoad && r.Op != recordtest.OpSwap || gone:
			case joined: // it reads or writes again
				gone = true
				cancel()
				return recordtest.Lost
			default:
				joined = r.Op == recordtest.OpSwap && r.Swap.Join != nil
			}
			return recordtest.Answered
		})
		if _, err := last.Ask(ctx, last.claim()); err == nil {
			t.Fatal("the claim was answered")
		}
		until(t, "all notes are taken in", func() bool {
			r := p.stored()
			return len(r.Inbox) == 0 && record.EntriesForTest(r.Data) == 4
		})
	})
}
