package record_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// An untimed backend is of a server that has a clock, but some or all of its answers do not have the time.
type untimed struct {
	*recordtest.Client
	all bool // otherwise only those of List
}

func (b untimed) Load(ctx context.Context, name string) (record.Record, error) {
	r, err := b.Client.Load(ctx, name)
	if b.all {
		r.Now = 0
	}
	return r, err
}

func (b untimed) Swap(ctx context.Context, s *record.Swap) (record.Outcome, error) {
	out, err := b.Client.Swap(ctx, s)
	if b.all {
		out.Now.Now = 0
	}
	return out, err
}

func (b untimed) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		for r, err := range b.Client.List(ctx, unwritten) {
			r.Now = 0
			if !yield(r, err) {
				return
			}
		}
	}
}

// startUntimed starts a process that gets no time: with no answer, or with no listing.
func startUntimed(t *testing.T, m *recordtest.Memory, all bool) *process {
	t.Helper()
	c := m.Client()
	return startOn(t, c, untimed{c, all}, false)
}

// counted are claims with a duration that counts by the server's time.
var counted = map[string]func(*store.Claim){
	"minimum hold": func(c *store.Claim) { c.MinHold = time.Minute },
	"lock delay":   func(c *store.Claim) { c.LockDelay = time.Minute },
}

// The process would count by its own clock, which differs from the server's.
func TestNothingIsCountedWithoutServerTime(t *testing.T) {
	t.Parallel()
	for what, with := range counted {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(recordtest.Options{})
				p, q := start(t, m, false), startUntimed(t, m, true)
				q.releases(q.takes(q.claim())) // operations that need no time
				if _, err := q.Ask(t.Context(), q.claim(with)); !errors.Is(err, store.ErrUnsupported) {
					t.Fatalf("ask with a %s: got %v, want ErrUnsupported", what, err)
				}
				h := p.takes(p.claim(with))
				if _, err := q.Ask(t.Context(), q.claim(try)); !errors.Is(err, store.ErrUnsupported) {
					t.Fatalf("ask for a name held with a %s: got %v, want ErrUnsupported", what, err)
				}
				p.releases(h)
			})
		})
	}
}

// As ls and a completion do: they write nothing, and have read no time before.
func TestANameIsListedThoughTheListingHasNoTime(t *testing.T) {
	t.Parallel()
	for what, with := range counted {
		for _, all := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m := recordtest.NewMemory(recordtest.Options{})
					p := start(t, m, false)
					h := p.takes(p.claim(with))
					for _, name := range []string{"", at} {
						q, n := startUntimed(t, m, all), 0
						for st, err := range q.List(t.Context(), name) {
							if err != nil || st.Name != at || len(st.Entries) != 1 || st.Entries[0].ID != h.ID || st.Entries[0].Expires <= 0 {
								t.Errorf("the list has %+v, %v, want the holder", st, err)
							}
							n++
						}
						if _, err := q.Poll(t.Context(), q.claim()); err != nil || n != 1 {
							t.Errorf("the list has %d names; poll: %v", n, err)
						}
					}
				})
			})
		}
	}
}

// A process that writes one name all the time reads the server's clock now and then.
func TestAWriterOfOneNameReadsTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := recordtest.NewMemory(terse).Client() // no answer to a swap has the time
		p := startOn(t, c, c.Peeking(), false)
		loads := 0
		for range 10 {
			p.releases(p.takes(p.claim()))
			time.Sleep(20 * time.Second)
			p.client.Fates(func(r recordtest.Request) recordtest.Fate {
				if r.Op == recordtest.OpLoad && r.Name == at {
					loads++
				}
				return recordtest.Answered
			})
		}
		if loads == 0 || loads > 5 {
			t.Errorf("in three minutes the store read the server's clock %d times, want once a minute", loads)
		}
	})
}

// Breaking and releasing a hold work on a server that returns no time.
func TestAServerWithoutTimesKeepsWhatNeedsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{Void: record.VoidByMark, Quiet: true, Silent: true})
		p, q := startUntimed(t, m, true), startUntimed(t, m, true)
		h := p.takes(p.claim())
		c := q.claim()
		q.waits(c)
		if err := q.BreakHold(t.Context(), store.Break{Name: at, ID: h.ID, Token: h.Token, Reason: "because", Now: true}); err != nil {
			t.Fatal(err)
		}
		if a := q.ask(c); !a.Granted {
			t.Fatalf("got %+v, want granted: the hold before was broken", a)
		}
		m.Lapse(q.Sessions()...)
		p.releases(p.takes(p.claim(try)))
	})
}
