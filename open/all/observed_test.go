package all_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// notifiesOfNames reports whether the store can notify of changes of a name.
func (p *pair) notifiesOfNames(t *testing.T) bool {
	t.Helper()
	w, is := p.inspect.(store.NameWatcher)
	if !is {
		return false
	}
	stop, err := w.WatchName(t.Context(), "another", func() {})
	if errors.Is(err, store.ErrUnsupported) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	stop()
	return true
}

// An observer in another process is notified of each change of the leader. A poll would see it only after an hour.
func TestAnObserverOfAnElectionIsNotified_OnEachStore(t *testing.T) {
	eachStore(t, &holdfast.Options{PollMin: time.Hour, PollMax: time.Hour, TTL: 10 * time.Minute}, func(t *testing.T, p *pair) {
		if !p.notifiesOfNames(t) {
			if polled := []string{"file", "mysql", "sqlserver"}; !slices.Contains(polled, path.Base(t.Name())) {
				t.Fatal("the store does not notify of changes of a name")
			}
			t.Skip("the store is no NameWatcher: observers poll it")
		}
		e := p.here.Election("leader")
		lease, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		soon := within(t)
		steps := []func(){ // the observer watches before it sees the first leader
			func() { lease.SetNote("a note") },
			func() { lease.SetNote("another") },
			func() { lease.Release() },
			func() { e.Campaign(t.Context()) },
		}
		var seen []string
		for l, err := range p.there.Election("leader").Observe(soon) {
			if err != nil && soon.Err() == nil {
				t.Fatal(err)
			}
			if seen = append(seen, fmt.Sprint(!l.Nobody(), l.Note)); len(steps) == 0 {
				break
			}
			go steps[0]()
			steps = steps[1:]
		}
		if want := []string{"true", "truea note", "trueanother", "false", "true"}; !slices.Equal(seen, want) {
			t.Errorf("seen within %v: got %q, want %q", patience, seen, want)
		}
	})
}
