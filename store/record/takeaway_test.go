package record_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// Law 14: the owner of a hold that another process ends is called before anybody else can have it.

// faulty is one request of a process that fails.
type faulty struct {
	op   recordtest.Op
	n    int
	fate recordtest.Fate
}

// faults are those that an operation of several swaps and a call can meet.
func faults() (all []faulty) {
	for _, fate := range []recordtest.Fate{recordtest.Lost, recordtest.Unanswered, recordtest.Late} {
		all = append(all, faulty{recordtest.OpSwap, 1, fate}, faulty{recordtest.OpSwap, 2, fate}, faulty{recordtest.OpCall, 1, fate})
	}
	return all
}

func TestABreakNowThatIsRepeatedIsHeardByTheOwner(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		t.Run(fmt.Sprintf("%s_%d_fate_%d", f.op, f.n, f.fate), func(t *testing.T) {
			t.Parallel()
			m := recordtest.NewMemory(recordtest.Options{})
			p, q, operator := start(t, m, false), start(t, m, false), start(t, m, false)
			h := p.takes(p.claim())
			if r := p.renews(h); r.Err != nil {
				t.Fatal(r.Err)
			}
			next := q.claim()
			q.waits(next)
			operator.once(f.op, f.n, f.fate)
			for range 3 { // an operator that tries again may be told that it is gone
				err := operator.BreakHold(t.Context(), store.Break{Name: at, ID: h.ID, Token: h.Token, Now: true})
				if q.ask(next).Granted {
					if r := p.renews(h); !errors.Is(r.Err, store.ErrLost) {
						t.Fatalf("%+v, and another is granted the name; the break says %v", r, err)
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
	}
}

func TestABreakNowOfAHoldThatGoesMeanwhileIsDone(t *testing.T) {
	t.Parallel()
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
}
