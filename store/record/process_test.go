package record_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// until waits for what must happen.
var until = testwait.Until

// A process has its own store on a server.
type process struct {
	t *testing.T
	*record.Store
	client *recordtest.Client
	id     store.Process

	mu            sync.Mutex
	notifications []store.Notification
}

const at = "name"

// start starts a process, which gets notifications if watches is true.
func start(t *testing.T, m *recordtest.Memory, watches bool) *process {
	t.Helper()
	c := m.Client()
	return startOn(t, c, c, watches)
}

// startOn starts a process whose store has that backend, which is the client or a wrapper of it.
func startOn(t *testing.T, c *recordtest.Client, b record.Backend, watches bool) *process {
	t.Helper()
	p := &process{t: t, Store: record.New(b), client: c, id: store.NewProcess()}
	t.Cleanup(func() {
		c.Fates(nil)
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if watches {
		err := record.WatchStore{Store: p.Store}.Watch(t.Context(), p.id, func(h store.Notification) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.notifications = append(p.notifications, h)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// shortLived is a backend whose sessions last for less than their TTL, like those of ZooKeeper.
type shortLived struct{ *recordtest.Client }

func (b shortLived) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	lasts, err := b.Client.Begin(ctx, id, ttl)
	return shorter(lasts), err
}

func shorter(ttl time.Duration) time.Duration { return ttl * 3 / 4 }

// startShort starts a process with such sessions, which gets notifications.
func startShort(t *testing.T, m *recordtest.Memory) *process {
	t.Helper()
	c := m.Client()
	return startOn(t, c, shortLived{c}, true)
}

// claim is for the whole name, with a TTL of a minute and ten seconds for a position.
func (p *process) claim(with ...func(*store.Claim)) store.Claim {
	c := store.Claim{Name: at, ID: p.id.NewID(), Limit: store.Full, Weight: store.Full, TTL: time.Minute, PositionTTL: store.MaxPositionTTL}
	for _, f := range with {
		f(&c)
	}
	return c
}

func try(c *store.Claim) { c.Try = true }

func lasting(d time.Duration) func(*store.Claim) {
	return func(c *store.Claim) { c.TTL, c.PositionTTL = d, min(d, store.MaxPositionTTL) }
}

// moment is the time that passes before each step: in a bubble none would, and earlier steps would have the time of later ones.
const moment = time.Microsecond

func (p *process) ask(c store.Claim) store.Answer {
	p.t.Helper()
	time.Sleep(moment)
	a, err := p.Ask(p.t.Context(), c)
	if err != nil {
		p.t.Fatalf("ask: %v", err)
	}
	return a
}

func (p *process) takes(c store.Claim) store.Hold {
	p.t.Helper()
	a := p.ask(c)
	if !a.Granted {
		p.t.Fatalf("refused: %+v", a)
	}
	return store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}
}

func (p *process) waits(c store.Claim) store.Answer {
	p.t.Helper()
	a := p.ask(c)
	if a.Granted {
		p.t.Fatal("granted, want refused")
	}
	return a
}

// unanswered asks and gets no answer.
func (p *process) unanswered(c store.Claim) {
	p.t.Helper()
	if a, err := p.Ask(p.t.Context(), c); !errors.Is(err, store.ErrUnavailable) {
		p.t.Fatalf("ask: got %+v, %v, want no answer", a, err)
	}
}

func (p *process) releases(h store.Hold) {
	p.t.Helper()
	if err := p.Release(p.t.Context(), h); err != nil {
		p.t.Fatalf("release: %v", err)
	}
}

func (p *process) givesUp(c store.Claim) {
	p.t.Helper()
	p.releases(store.Hold{Name: c.Name, ID: c.ID})
}

func (p *process) renews(h store.Hold) store.Renewal {
	p.t.Helper()
	time.Sleep(moment)
	return p.Renew(p.t.Context(), []store.Hold{h})[0]
}

func (p *process) heard(id store.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.notifications, func(h store.Notification) bool { return h.ID == id })
}

// isTold fails the test unless the newest notification for a claim has the token.
func (p *process) isTold(id store.ID, token int64) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	reported := int64(-1)
	for _, n := range p.notifications {
		if n.ID == id {
			reported = n.Token
		}
	}
	if reported != token {
		p.t.Errorf("notified of token %d, want %d (-1: not notified)", reported, token)
	}
}

// entries is the listed ids.
func (p *process) entries() (ids []store.ID) {
	p.t.Helper()
	for st, err := range p.List(p.t.Context(), at) {
		if err != nil {
			p.t.Fatalf("list: %v", err)
		}
		for i := range st.Entries {
			ids = append(ids, st.Entries[i].ID)
		}
	}
	return ids
}

func (p *process) lists(want ...store.ID) {
	p.t.Helper()
	if have := p.entries(); !slices.Equal(have, want) {
		p.t.Fatalf("got entries\n%v, want\n%v", have, want)
	}
}

// once gives the nth request of a kind from now on, counted from 1, its fate; all others are
// answered.
func (p *process) once(op recordtest.Op, n int, fate recordtest.Fate) {
	var mu sync.Mutex
	p.client.Fates(func(q recordtest.Request) recordtest.Fate {
		mu.Lock()
		defer mu.Unlock()
		if q.Op == op {
			if n--; n == 0 {
				return fate
			}
		}
		return recordtest.Answered
	})
}

// all gives all requests of some kinds a fate.
func (p *process) all(fate recordtest.Fate, ops ...recordtest.Op) {
	p.client.Fates(func(q recordtest.Request) recordtest.Fate {
		if slices.Contains(ops, q.Op) {
			return fate
		}
		return recordtest.Answered
	})
}

// takesAfter takes a name after waiting while another held it: its hold is in the session for waiters.
func (p *process) takesAfter(other *process) store.Hold {
	p.t.Helper()
	h := other.takes(other.claim())
	c := p.claim()
	p.waits(c)
	other.releases(h)
	return p.takes(c)
}

// readsOnce takes and releases a read lock: two writes. It may be called by any goroutine.
func (p *process) readsOnce() {
	p.t.Helper()
	c := p.claim(try, func(c *store.Claim) { c.Weight = 1 })
	if a, err := p.Ask(p.t.Context(), c); err != nil || !a.Granted {
		p.t.Errorf("%+v, %v", a, err)
	}
	if err := p.Release(p.t.Context(), store.Hold{Name: at, ID: c.ID}); err != nil {
		p.t.Error(err)
	}
}

// givesUpWaiting waits once, so that the process has a session for waiters.
func (p *process) givesUpWaiting() {
	p.t.Helper()
	c := p.claim()
	p.waits(c)
	p.givesUp(c)
}

// writes writes the record.
func (p *process) writes(h store.Hold) {
	p.t.Helper()
	h.Owner = "another"
	if r := p.renews(h); r.Err != nil {
		p.t.Fatal(r.Err)
	}
}

// joinsAndHangs leaves a note, and does nothing from then on.
func (p *process) joinsAndHangs(apart bool) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	var mu sync.Mutex
	joined := false
	p.client.Fates(func(r recordtest.Request) recordtest.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Op == recordtest.OpRenew:
			return recordtest.Answered
		case joined:
			cancel()
			return recordtest.Lost
		}
		joined = r.Op == recordtest.OpJoin || r.Op == recordtest.OpSwap && r.Swap.Join != nil && !apart
		return recordtest.Answered
	})
	_, _ = p.Ask(ctx, p.claim())
	cancel()
}

// voids are the two ways in which a join is made void.
var voids = []struct {
	name string
	o    recordtest.Options
	join recordtest.Op // the request that leaves the note
}{
	{"by_call", recordtest.Options{}, recordtest.OpSwap},
	{"by_call_apart", recordtest.Options{Apart: true, Halves: true}, recordtest.OpJoin},
	{"by_mark", recordtest.Options{Void: record.VoidByMark, Apart: true}, recordtest.OpJoin},
}

// A claim without a session was not sent, so the process forgets it. That is true for an ask and for an adoption.
func TestAClaimThatWasNotSentIsForgotten(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	p, q := start(t, m, false), start(t, m, false)
	h := p.takes(p.claim())
	q.all(recordtest.Lost, recordtest.OpBegin)
	if a, err := q.Ask(t.Context(), q.claim(named("another"))); err == nil {
		t.Fatalf("got %+v, want an error: the process has no session", a)
	}
	h.NewID = q.id.NewID()
	if r := q.renews(h); r.Err == nil {
		t.Fatal("the adoption succeeded, although the process has no session")
	}
	if n := q.ClaimsForTest(); n != 0 {
		t.Errorf("%d claims are kept, want none", n)
	}
}
