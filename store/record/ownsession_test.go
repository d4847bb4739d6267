package record_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// grantedBeforeAnother lets a claim wait until it is granted, with another behind it.
func grantedBeforeAnother(p, q, r *process) store.Hold {
	h, c := q.takes(q.claim()), p.claim()
	p.waits(c)
	r.waits(r.claim())
	q.releases(h)
	time.Sleep(500 * time.Millisecond)
	return p.takes(c)
}

// A hold that was waited for moves with its first renewal into the long session, which the
// record has not named before. The process need not read the state of its own session.
func TestAProcessDoesNotCheckItsOwnSession(t *testing.T) {
	for _, k := range servers {
		if k.name == "terse" { // whose answer does not have what it wrote, so the record is read
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			bubble(t, k.o, func(t *testing.T, m *recordtest.Memory, next func() *process) {
				p, q, r := next(), next(), next()
				g := grantedBeforeAnother(p, q, r)
				p.sendsOnly("the first renewal", func() {
					if x := p.renews(g); x.Err != nil {
						t.Fatal(x.Err)
					}
				}, recordtest.OpSwap)
			})
		})
	}
}

// The same if the server does not answer questions about sessions.
func TestAFirstRenewalNeedsNoAnswerAboutSessions(t *testing.T) {
	for _, k := range servers {
		t.Run(k.name, func(t *testing.T) {
			bubble(t, k.o, func(t *testing.T, m *recordtest.Memory, next func() *process) {
				p, q, r := next(), next(), next()
				g := grantedBeforeAnother(p, q, r)
				p.all(recordtest.Lost, recordtest.OpLeft, recordtest.OpReadSession)
				if x := p.renews(g); x.Err != nil {
					t.Fatal(x.Err)
				}
			})
		})
	}
}
