package record_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// each answers all requests of a process after that time; 0: never.
func (p *process) each(after time.Duration) {
	p.client.Fates(func(recordtest.Request) recordtest.Fate {
		if after == 0 {
			return recordtest.Hangs
		}
		time.Sleep(after)
		return recordtest.Answered
	})
}

// In a crowd each request takes long, and an ask needs several. The engine may then ask again, as nobody is away.
func TestAnAskOfABusyServerIsContended(t *testing.T) {
	for after, busy := range map[time.Duration]bool{2 * time.Second: true, 0: false} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
				p, q := next(), next()
				p.takes(p.claim())
				q.each(after)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				_, err := q.Ask(ctx, q.claim())
				if errors.Is(err, store.ErrContended) != busy || errors.Is(err, store.ErrUnavailable) == busy || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v; contended: want %t", err, busy)
				}
			})
		})
	}
}

// A server that reads and does not write is away, whoever else is answered meanwhile.
func TestAServerThatDoesNotWriteIsAway(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		h := q.takes(q.claim())
		q.releases(h)
		p.takes(p.claim())
		q.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op == recordtest.OpSwap || r.Op == recordtest.OpJoin {
				return recordtest.Hangs
			}
			time.Sleep(10 * time.Millisecond)
			return recordtest.Answered
		})
		polling, stop := context.WithCancel(t.Context())
		var polls sync.WaitGroup
		defer polls.Wait()
		defer stop()
		polls.Go(func() {
			for polling.Err() == nil {
				_, _ = q.Poll(polling, q.claim())
				time.Sleep(100 * time.Millisecond)
			}
		})
		c := q.claim()
		for i := range 3 { // all but the first read before they write
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			if _, err := q.Ask(ctx, c); errors.Is(err, store.ErrContended) || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("ask %d: got %v, want unavailable", i, err)
			}
			cancel()
		}
	})
}

// A trial of many requests counts as well: it is no outage as long as the server answers it.
func TestAnAskDuringALongTrialIsContended(t *testing.T) {
	for _, answers := range []bool{true, false} {
		t.Run(map[bool]string{true: "answers", false: "is silent"}[answers], func(t *testing.T) {
			bubble(t, polling, func(t *testing.T, m *recordtest.Memory, _ func() *process) {
				c := m.Client()
				p := startOn(t, c, trying{c, answers}, false)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := p.Ask(ctx, p.claim()); errors.Is(err, store.ErrContended) != answers || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v; contended: want %t", err, answers)
				}
			})
		})
	}
}

// A trying server is tried without end.
type trying struct {
	*recordtest.Client
	answers bool
}

func (trying) Prepare(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (b trying) Heard() store.Instant {
	if b.answers {
		return store.Now()
	}
	return 0
}

// A poll of a claim that is in the record reads no inbox: all that is in there comes later.
func TestAPollOfAWaiterReadsNoInbox(t *testing.T) {
	o := polling
	o.Halves = true
	bubble(t, o, func(t *testing.T, m *recordtest.Memory, _ func() *process) {
		next := func() *process {
			c := m.Client()
			return startOn(t, c, c.Peeking(), false)
		}
		p, q, other := next(), next(), next()
		h, c := q.takes(q.claim()), p.claim()
		p.waits(c)
		p.sendsOnly("a poll", func() {
			if a := p.polls(c); a.Granted || a.Waiting != 0 {
				t.Errorf("got %+v", a)
			}
		}, recordtest.OpLoad)
		other.sendsOnly("a poll of a claim that does not wait", func() { other.polls(other.claim()) }, recordtest.OpInbox, recordtest.OpLoad)
		q.releases(h)
		var a store.Answer
		p.sendsOnly("the poll that finds the grant", func() { a = p.polls(c) }, recordtest.OpLoad)
		if !a.Granted || a.Token <= h.Token {
			t.Errorf("got %+v, want the grant", a)
		}
		p.sendsOnly("the release, which looks for notes", func() { p.releases(store.Hold{Name: at, ID: c.ID, Token: a.Token}) }, recordtest.OpInbox, recordtest.OpSwap)
	})
}

var _ record.Preparer = trying{}
