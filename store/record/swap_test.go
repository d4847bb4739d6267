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
		t.Fatal("a try would be granted, although the name is held")
	}
	if a.q.Entries[0].Granted = true; !wouldGrant(n, a) {
		t.Fatal("a try would not be granted, although no other holds the name")
	}
}

// A release goes on after its write if a note of the claim may be in the unread part of the inbox. What is written then
// no longer finds the hold, which is no loss.
func TestAReleaseThatGoesOnIsDoneAllTheSame(t *testing.T) {
	t.Parallel()
	lost := store.ErrLost
	for what, c := range map[string]struct{ first, second, want error }{
		"the hold was in the record": {nil, lost, nil},
		"its note was found later":   {lost, nil, nil},
		"nothing was found":          {lost, lost, lost},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := &op{gives: true, rests: true, goesOn: true, done: make(chan struct{})}
			s, n := &records{}, &name{doing: []*op{o}, batch: []*op{o}}
			s.done(n, &applied{results: []error{c.first}}, true)
			if len(n.batch) != 1 {
				t.Fatal("the operation has ended, want it to go on")
			}
			s.done(n, &applied{results: []error{c.second}}, true)
			<-o.done
			if o.result != c.want {
				t.Errorf("the release returned %v, want %v", o.result, c.want)
			}
		})
	}
}
