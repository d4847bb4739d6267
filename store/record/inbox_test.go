package record_test

import (
	"fmt"
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
				p.releases(h)
				if a := p.ask(p.claim(try)); a.Granted {
					t.Error("a later claim was granted again, before one whose note is older")
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
