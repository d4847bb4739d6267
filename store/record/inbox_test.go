package record_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// An ask writes on the record alone if that is enough. So it may be granted before a claim whose note is in the
// inbox. But a process that takes and releases the name again and again does not keep the other out.
func TestNoWaiterIsOvertakenByTwoLaterHolds(t *testing.T) {
	t.Parallel()
	for _, peeks := range []bool{true, false} {
		t.Run(fmt.Sprintf("peeks_%v", peeks), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(terse)
				c := m.Client()
				backend := record.Backend(c)
				if peeks {
					backend = c.Peeking()
				}
				p, first := startOn(t, c, backend, false), start(t, m, false)
				h := p.takes(p.claim(try))
				first.givesUpWaiting()
				p.releases(h)
				h = p.takes(p.claim(try)) // so that the record that the other remembers is old
				first.joinsAndHangs(true)
				if n := len(p.stored().Inbox); n != 1 {
					t.Fatalf("got %d notes, want one", n)
				}
				time.Sleep(time.Second) // p reads the inbox again
				p.releases(h)
				if a := p.ask(p.claim(try)); a.Granted {
					t.Error("a later claim was granted again, before one whose note is older")
				}
			})
		})
	}
}

// A process that meets no other leaves the inbox unread with some of its releases: it then sends no more than the two
// writes of each lock. A note that comes meanwhile is overtaken by no more holds than that.
func TestAnUndisturbedProcessReadsTheInboxSeldom(t *testing.T) {
	t.Parallel()
	const seldom = 9
	nothing := func(*process) {}
	for _, c := range []struct {
		name     string
		once, on func(other *process) // what another process does: before all, and before each lock
		pause    time.Duration        // in which the lock is held
		reads    int                  // of 2*seldom releases
	}{
		{"undisturbed", nothing, nothing, 0, 2},
		{"holds_for_long", nothing, nothing, time.Second, 2 * seldom},
		{"beside_a_holder", func(other *process) { other.takes(other.claim(reader)) }, nothing, 0, 2 * seldom},
		{"after_another", nothing, func(other *process) { other.releases(other.takes(other.claim(reader))) }, 0, 2 * seldom},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(terse)
				client := m.Client()
				p, other := startOn(t, client, client.Peeking(), false), start(t, m, false)
				p.releases(p.takes(p.claim(reader)))
				c.once(other)
				p.releases(p.takes(p.claim(reader)))
				reads := 0
				for range 2 * seldom {
					c.on(other)
					h := p.takes(p.claim(reader))
					time.Sleep(c.pause)
					for _, op := range p.sends(func() { p.releases(h) }) {
						if op != recordtest.OpSwap {
							reads++
							break
						}
					}
				}
				if reads != c.reads {
					t.Errorf("got %d reads of the inbox in %d releases, want %d", reads, 2*seldom, c.reads)
				}
			})
		})
	}
	t.Run("overtakes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := recordtest.NewMemory(terse)
			client := m.Client()
			p, other := startOn(t, client, client.Peeking(), false), start(t, m, false)
			h := p.takes(p.claim(try))
			other.givesUpWaiting()
			for range 3 { // so that the record that the other remembers is old, and p has read the inbox since
				p.releases(h)
				h = p.takes(p.claim(try))
			}
			other.joinsAndHangs(true)
			if n := len(p.stored().Inbox); n != 1 {
				t.Fatalf("got %d notes, want one", n)
			}
			for n := range seldom + 1 {
				p.releases(h)
				c := p.claim(try)
				a := p.ask(c)
				if !a.Granted {
					if n == 0 {
						t.Error("no hold overtook the note: this shows nothing")
					}
					return
				}
				h = store.Hold{Name: at, ID: c.ID, Token: a.Token, TTL: c.TTL}
			}
			t.Errorf("the note was overtaken by more than %d holds", seldom)
		})
	})
}

// Who releases a hold beside a process that has probably written the record reads both halves at once, and not one
// after the other. Law 11: that serves only for a write.
func TestAReleaseBesideAnotherReadsBothHalvesAtOnce(t *testing.T) {
	t.Parallel()
	read := []recordtest.Op{recordtest.OpInbox, recordtest.OpLoad}
	for _, c := range []struct {
		name      string
		meanwhile func(other *process, h store.Hold)
		renewals  int
		err       error
		then      []recordtest.Op // after both halves
	}{
		{"a_waiter", func(other *process, _ store.Hold) { other.waits(other.claim()) }, 0, nil, []recordtest.Op{recordtest.OpSwap}},
		{"a_note", func(other *process, _ store.Hold) { other.joinsAndHangs(true) }, 0, nil, append(read[:2:2], recordtest.OpSwap)},
		{"no_hold", func(other *process, h store.Hold) { other.releases(h) }, 0, store.ErrLost, read},
		{"nobody", func(*process, store.Hold) {}, 3, nil, []recordtest.Op{recordtest.OpSwap}}, // what it knows is too old
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(terse)
				client := m.Client()
				p, first, other := startOn(t, client, client.Peeking(), true), start(t, m, false), start(t, m, false)
				h := first.takes(first.claim())
				other.givesUpWaiting()
				claim := p.claim()
				p.waits(claim)
				first.releases(h)
				synctest.Wait()
				h = p.takes(claim) // by a notification
				c.meanwhile(other, h)
				for range c.renewals {
					time.Sleep(30 * time.Second)
					if r := p.renews(h); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				time.Sleep(time.Second)
				var mu sync.Mutex
				var all []recordtest.Op
				began := time.Now()
				client.Fates(func(r recordtest.Request) recordtest.Fate {
					mu.Lock()
					all = append(all, r.Op)
					mu.Unlock()
					time.Sleep(time.Millisecond) // each request takes as long
					return recordtest.Answered
				})
				err := p.Release(t.Context(), h)
				took := time.Since(began)
				client.Fates(nil)
				mu.Lock()
				defer mu.Unlock()
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("the release returned %v, want %v", err, c.err)
				}
				if len(all) >= 2 {
					slices.Sort(all[:2]) // sent at once
				}
				if want := append(read[:2:2], c.then...); !slices.Equal(all, want) {
					t.Errorf("the release sends %v, want %v", all, want)
				}
				if want := time.Duration(len(all)-1) * time.Millisecond; took != want { // the time of a bubble is exact
					t.Errorf("the release of %d requests took %v, want %v: two of them at once", len(all), took, want)
				}
			})
		})
	}
}

// In a crowd each claim leaves taking in the notes to others. But if nobody holds the name, no release will do it.
func TestAClaimOnAFreeNameTakesInAllNotesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, holder, _, c, answered, reads := resting(t, terse, true)
		p.DoubtForTest()
		if err := holder.Close(); err != nil { // its sessions end
			t.Fatal(err)
		}
		if a := <-answered; a.Granted {
			t.Errorf("got %+v, although there is an older note", a)
		}
		if n := reads.Load(); n != 4 {
			t.Errorf("got %d requests, want four: the record, both halves, and the write", n)
		}
		if all := p.entries(); len(all) != 2 || all[1] != c.ID {
			t.Errorf("got entries %v, want another and %v", all, c.ID)
		}
	})
}

// One claim of a crowd takes in all notes.
func TestTheOldestNotesOwnerTakesInAllNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(terse)
		c := m.Client()
		p, q := startOn(t, c, c.Peeking(), true), start(t, m, false)
		h := q.takes(q.claim())
		for range 9 {
			q.waits(q.claim())
		}
		p.givesUpWaiting()
		q.changes(h, 1) // so that the record that it remembers is old
		var mu sync.Mutex
		reads := map[recordtest.Op]int{}
		joined := false
		c.Fates(func(r recordtest.Request) recordtest.Fate {
			mu.Lock()
			defer mu.Unlock()
			if joined {
				reads[r.Op]++
			}
			joined = joined || r.Op == recordtest.OpJoin
			return recordtest.Answered
		})
		p.waits(p.claim())
		mu.Lock()
		defer mu.Unlock()
		if reads[recordtest.OpInbox] != 2 || reads[recordtest.OpLoad] != 2 || reads[recordtest.OpSwap] != 1 {
			t.Errorf("got %v, want the record, the oldest note, both halves, and the write", reads)
		}
	})
}

// A session that keeps nothing is ended after a while.
func TestAWaiterGoesIntoNoSessionThatIsEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		q.takes(q.claim())
		p.givesUpWaiting()
		time.Sleep(2*store.MaxPositionTTL - time.Second) // in a second it would be
		p.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op == recordtest.OpSwap {
				time.Sleep(2 * time.Second)
			}
			return recordtest.Answered
		})
		p.waits(p.claim())
	})
}
