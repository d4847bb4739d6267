package record_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// Law 14: if another process ends a hold, its owner is called before any other claim can be granted.

// faulty is one request of a process that fails.
type faulty struct {
	op   recordtest.Op
	n    int
	fate recordtest.Fate
}

// faults are the faults that an operation of several swaps and a call can meet.
func faults() (all []faulty) {
	for _, fate := range []recordtest.Fate{recordtest.Lost, recordtest.Unanswered, recordtest.Late} {
		all = append(all, faulty{recordtest.OpSwap, 1, fate}, faulty{recordtest.OpSwap, 2, fate}, faulty{recordtest.OpCall, 1, fate})
	}
	return all
}

func TestARepeatedBreakNowIsReportedToTheOwner(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		t.Run(fmt.Sprintf("%s_%d_fate_%d", f.op, f.n, f.fate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(recordtest.Options{})
				p, q, operator := start(t, m, false), start(t, m, false), start(t, m, false)
				h := p.takes(p.claim())
				if r := p.renews(h); r.Err != nil {
					t.Fatal(r.Err)
				}
				next := q.claim()
				q.waits(next)
				operator.once(f.op, f.n, f.fate)
				for range 3 { // an operator that tries again may get the answer that it has gone
					err := operator.BreakHold(t.Context(), store.Break{Name: at, ID: h.ID, Token: h.Token, Now: true})
					if q.ask(next).Granted {
						if r := p.renews(h); !errors.Is(r.Err, store.ErrLost) {
							t.Fatalf("got %+v, although the name is granted to another; the break returned %v", r, err)
						}
					}
					if err == nil {
						break
					}
				}
				m.Deliver()
				if !q.ask(next).Granted {
					t.Fatal("the next is not granted")
				}
			})
		})
	}
}

func TestABreakNowOfAHoldThatGoesMeanwhileIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, operator := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		operator.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op == recordtest.OpCall {
				p.releases(h)
			}
			return recordtest.Answered
		})
		if err := operator.BreakHold(t.Context(), store.Break{Name: at, ID: h.ID, Token: h.Token, Now: true}); err != nil {
			t.Fatal(err)
		}
	})
}

// as is the hold for an adoption, under a new id of the process.
func (p *process) as(h store.Hold) store.Hold {
	h.NewID = p.id.NewID()
	return h
}

// detaches gives the hold an id of no process.
func (p *process) detaches(h store.Hold) store.Hold {
	p.t.Helper()
	h.NewID = store.Process{}.NewID()
	if r := p.renews(h); r.Err != nil {
		p.t.Fatal(r.Err)
	}
	h.ID, h.NewID = h.NewID, store.ID{}
	return h
}

// An adoption is not answered, and is given up. Its process continues.
func TestAnAdoptionThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		for _, by := range []string{"release", "time"} {
			t.Run(fmt.Sprintf("%s_%d_fate_%d_by_%s", f.op, f.n, f.fate, by), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m := recordtest.NewMemory(recordtest.Options{})
					p, q, next := start(t, m, false), start(t, m, false), start(t, m, false)
					h := q.as(p.detaches(p.takes(p.claim())))
					q.takes(q.claim(func(c *store.Claim) { c.Name = "another" })) // in the same session
					q.once(f.op, f.n, f.fate)
					if q.renews(h).Err == nil {
						return // it met no fault
					}
					if by == "release" {
						for q.Release(t.Context(), store.Hold{Name: at, ID: h.NewID}) != nil {
						}
						m.Deliver()
					} else {
						m.Deliver()
						time.Sleep(h.TTL + time.Second) // the session of the other continues
						synctest.Wait()
					}
					if ids := next.entries(); slices.Contains(ids, h.NewID) {
						t.Fatalf("the list has %v, which was given up", ids)
					}
				})
			})
		}
	}
}

func TestAnAdoptionOfAHoldInUseIsReportedToItsOwner(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		for _, how := range []string{"repeated", "given_up", "detached"} {
			t.Run(fmt.Sprintf("%s_%d_fate_%d_%s", f.op, f.n, f.fate, how), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m := recordtest.NewMemory(recordtest.Options{})
					p, q, other := start(t, m, false), start(t, m, false), start(t, m, false)
					h := p.takes(p.claim())
					if r := p.renews(h); r.Err != nil {
						t.Fatal(r.Err)
					}
					next := other.claim()
					other.waits(next)
					adopted := q.as(h)
					if how == "detached" {
						adopted.NewID = store.Process{}.NewID()
					}
					q.once(f.op, f.n, f.fate)
					err := q.renews(adopted).Err
					switch {
					case how == "given_up" && err != nil:
						for q.Release(t.Context(), store.Hold{Name: at, ID: adopted.NewID}) != nil {
						}
						m.Deliver()
						until(t, "the owner learns of it, or keeps the hold", func() bool {
							return errors.Is(p.renews(h).Err, store.ErrLost) || slices.Contains(other.entries(), h.ID)
						})
					default:
						for err != nil {
							if err = q.renews(adopted).Err; errors.Is(err, store.ErrLost) {
								t.Fatal(err)
							}
						}
						if r := p.renews(h); !errors.Is(r.Err, store.ErrLost) {
							t.Fatalf("got %+v, although another has adopted the hold", r)
						}
					}
					if r := p.renews(h); r.Err == nil && other.ask(next).Granted {
						t.Fatal("two processes hold the name")
					}
				})
			})
		}
	}
}

// The hold's own process detaches it, or adopts it under another id.
func TestAHoldThatMayHaveAnotherIDIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p := start(t, m, false)
		for _, to := range []store.Process{p.id, {}} {
			h := p.takes(p.claim(func(c *store.Claim) { c.Name = "for " + to.String() }))
			if r := p.renews(h); r.Err != nil {
				t.Fatal(r.Err)
			}
			goes := h
			goes.NewID = to.NewID()
			p.once(recordtest.OpSwap, 1, recordtest.Unanswered)
			if r := p.renews(goes); r.Err == nil {
				t.Fatalf("got %+v, want no answer", r)
			}
			if r := p.renews(h); !errors.Is(r.Err, store.ErrLost) {
				t.Fatalf("got %+v, want lost: the hold has another id", r)
			}
		}
	})
}

// The server refuses an adoption after an earlier copy of it was done but not answered.
func TestAnAdoptionThatIsRefusedLaterLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, q, next, operator := start(t, m, false), start(t, m, false), start(t, m, false), start(t, m, false)
		h := q.as(p.detaches(p.takes(p.claim())))
		q.takes(q.claim(func(c *store.Claim) { c.Name = "another" }))
		q.once(recordtest.OpSwap, 1, recordtest.Unanswered)
		if r := q.renews(h); r.Err == nil {
			t.Fatalf("got %+v, want no answer", r)
		}
		if err := operator.BreakHold(t.Context(), store.Break{Name: at, ID: h.NewID, Token: h.Token}); err != nil {
			t.Fatal(err)
		}
		if r := q.renews(h); !errors.Is(r.Err, store.ErrLost) {
			t.Fatalf("got %+v, want lost: the hold was broken", r)
		}
		until(t, "the next is granted", func() bool { return next.ask(next.claim(try)).Granted })
	})
}

// The server does not answer for the session within the caller's time.
func TestARenewalAnsweredTooLateDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		p, operator := start(t, m, false), start(t, m, false)
		h := p.takes(p.claim())
		if r := p.renews(h); r.Err != nil {
			t.Fatal(r.Err)
		}
		if err := operator.BreakHold(t.Context(), store.Break{Name: at, ID: h.ID, Token: h.Token, Now: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(moment)
		ctx, cancel := context.WithCancel(t.Context())
		p.client.Fates(func(r recordtest.Request) recordtest.Fate {
			if r.Op == recordtest.OpRenew {
				cancel()
				return recordtest.Hangs
			}
			return recordtest.Answered
		})
		if r := p.Renew(ctx, []store.Hold{h})[0]; r.Err == nil {
			t.Fatalf("got %+v, although no answer came and the hold was broken", r)
		}
	})
}

// A request that is never answered does not block the name in this process for longer than others, although its sender would wait without end.
func TestAQuestionForLivesThatHangsEnds(t *testing.T) {
	bubble(t, polling, func(t *testing.T, m *recordtest.Memory, next func() *process) {
		p, q := next(), next()
		p.takes(p.claim())
		q.once(recordtest.OpLeft, 1, recordtest.Hangs)
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		if _, err := q.Ask(ctx, q.claim()); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("ask: got %v, and its context %v; want no answer before the context ends", err, ctx.Err())
		}
	})
}
