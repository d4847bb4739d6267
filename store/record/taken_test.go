package record_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// resting returns a process whose ask rests, because the note of another process is older than its own, and a channel
// for the ask's answer. It must run in a bubble, where time passes only while all goroutines wait.
// reads counts the requests that the process has sent since.
func resting(t *testing.T, o recordtest.Options, apart bool) (p, holder *process, h store.Hold, c store.Claim, answered chan store.Answer, reads *atomic.Int32) {
	m := recordtest.NewMemory(o)
	client := m.Client()
	backend := record.Backend(client)
	if apart {
		backend = client.Peeking()
	}
	p, holder = startOn(t, client, backend, true), start(t, m, false)
	away := start(t, m, false)
	h = holder.takes(holder.claim())
	p.givesUpWaiting()
	away.givesUpWaiting()
	holder.changes(h, 1) // so that what they remember is old
	away.joinsAndHangs(apart)
	reads = new(atomic.Int32)
	joined := false
	client.Fates(func(q recordtest.Request) recordtest.Fate {
		switch q.Op {
		case recordtest.OpSwap, recordtest.OpLoad, recordtest.OpInbox, recordtest.OpJoin:
			if joined {
				reads.Add(1)
			}
			joined = joined || q.Op == recordtest.OpJoin || q.Op == recordtest.OpSwap && !apart
			time.Sleep(time.Millisecond) // so that it waits for longer than that
		}
		return recordtest.Answered
	})
	c, answered = p.claim(), make(chan store.Answer, 1)
	go func() {
		a, err := p.Ask(context.WithoutCancel(t.Context()), c)
		if err != nil {
			t.Errorf("ask: %v", err)
		}
		answered <- a
	}()
	until(t, "the note is in the inbox", func() bool { return len(holder.stored().Inbox) == 2 })
	time.Sleep(2 * time.Millisecond) // for the answers to it
	synctest.Wait()
	reads.Store(0)
	return p, holder, h, c, answered, reads
}

// A claim that has left a note need not read the record to learn that the note was taken in.
func TestATakenInNotesOwnerIsNotifiedAndReadsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, holder, h, _, answered, reads := resting(t, recordtest.Options{}, false)
		holder.changes(h, 2) // its answer has the inbox
		holder.changes(h, 3)
		synctest.Wait()
		select {
		case a := <-answered:
			if a.Granted || a.From == 0 {
				t.Errorf("%+v", a)
			}
		default:
			t.Error("the owner of the note is not notified that it was taken in")
		}
		if n := reads.Load(); n != 0 {
			t.Errorf("the claim sent %d requests, want none", n)
		}
	})
}

// A note under an ended session keeps nothing. A claim that has joined again needs a notification for the present session.
func TestANoteTakenInUnderAnotherSessionDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _, _, c, answered, reads := resting(t, recordtest.Options{}, false)
		p.NotifyForTest(record.Notification{Name: at, ID: c.ID, N: 1, Session: session.NewID()})
		synctest.Wait()
		select {
		case a := <-answered:
			t.Errorf("answered after %d requests: got %+v", reads.Load(), a)
		default:
			<-answered
		}
		if reads.Load() == 0 {
			t.Error("the claim was answered without a read of the record")
		}
	})
}

// The record and the inbox are read separately. A claim that reads only the record writes nothing, as it does not know which
// claims came before.
func TestAReadOfTheRecordAloneOvertakesNoNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := recordtest.Options{Void: record.VoidByMark, Apart: true, Halves: true}
		_, holder, h, c, answered, reads := resting(t, o, true)
		<-answered
		if n := reads.Load(); n < 4 {
			t.Errorf("got %d requests, want a read, another read, and a write", n)
		}
		if all := holder.entries(); len(all) != 3 || all[0] != h.ID || all[2] != c.ID {
			t.Errorf("got entries %v, want the holder, another, and %v", all, c.ID)
		}
	})
}

// In a crowd the server reports the end of the claim ahead. If that report fails, the waiter finds the end when it asks
// again.
func TestARepeatedAskInACrowdFindsAnEndedHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q := start(t, m, false), start(t, m, false)
		q.takes(q.claim())
		p.all(recordtest.Hangs, recordtest.OpAwait)
		first := p.claim()
		p.waits(first)
		for range 9 {
			p.waits(p.claim())
		}
		q.client.Cut()
		m.Lapse(q.Sessions()...)
		time.Sleep(2 * time.Second) // what was heard of it before is not believed for longer
		if a := p.ask(first); !a.Granted {
			t.Errorf("got %+v, want granted: the holder's session has ended", a)
		}
	})
}

// In a crowd the first waiter finds any holder that has ended, however many holders there are.
func TestADeadHolderAmongManyIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		const slots = 20
		slot := func(c *store.Claim) { c.Limit, c.Weight = slots, 1 }
		var holders []*process
		for range slots {
			q := start(t, m, false)
			q.takes(q.claim(slot))
			holders = append(holders, q)
		}
		p := start(t, m, false)
		p.all(recordtest.Hangs, recordtest.OpAwait)
		first := p.claim(slot)
		p.waits(first)
		dead := holders[14]
		dead.client.Cut()
		m.Lapse(dead.Sessions()...)
		time.Sleep(2 * time.Second) // what was heard of it before is not believed for longer
		if a := p.ask(first); !a.Granted {
			t.Errorf("got %+v, want granted: one holder's session has ended", a)
		}
	})
}

// Laws 4 and 14. A forgotten name is read again before its claims are asked for. Otherwise a claim that is in the record would leave
// a second note and wait for a notification, and a late notification could report a grant that was broken meanwhile.
func TestAClaimOfAForgottenNameIsReadBeforeItIsGranted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(terse)
		c := m.Client()
		p, q := startOn(t, c, c.Peeking(), false), start(t, m, false)
		away := start(t, m, false)
		h := q.takes(q.claim())
		away.givesUpWaiting()
		waits := p.claim()
		p.waits(waits)
		p.ForgetForTest()
		q.releases(h)
		granted := record.Notification{Name: at, ID: waits.ID, N: 1, Session: p.SessionForTest(store.MaxPositionTTL)}
		for st, err := range q.List(t.Context(), at) {
			if err != nil {
				t.Fatal(err)
			}
			granted.Token = st.Entries[0].Token
		}
		if err := q.BreakHold(t.Context(), store.Break{Name: at, ID: waits.ID, Token: granted.Token, Reason: "because"}); err != nil {
			t.Fatal(err)
		}
		if st := p.HearForTest(store.MaxPositionTTL); st.Calls == 0 {
			t.Fatalf("got %+v, want a call", st)
		}
		away.joinsAndHangs(true) // so that a note of this process would be left to others
		p.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op == recordtest.OpJoin {
				p.NotifyForTest(granted)
			}
			return recordtest.Answered
		})
		broken := (*store.LostError)(nil)
		if a, err := p.Ask(t.Context(), waits); !errors.As(err, &broken) || broken.Reason != "because" {
			t.Fatalf("got %+v, %v, want lost with the reason \"because\"", a, err)
		}
	})
}
