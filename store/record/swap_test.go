package record

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A try leaves no note, so its operation has no claim.
func TestATryDuringADirectReadIsRefused(t *testing.T) {
	t.Parallel()
	c := &store.Claim{ID: store.NewProcess().NewID()}
	n := &name{doing: []*op{{asks: true}, {asks: true, looks: true, claim: c}}}
	a := &applied{view: &view{q: queue.Queue{Entries: []queue.Entry{{ID: c.ID}}}}}
	if !looksInVain(n, a) || wouldGrant(n, a) {
		t.Fatal("the name is held, and there is room")
	}
	if a.q.Entries[0].Granted = true; !wouldGrant(n, a) {
		t.Fatal("nobody else holds the name, and there is no room")
	}
}
