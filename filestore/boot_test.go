//go:build linux || darwin

package filestore

import (
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// owners are the kinds of owners whose entry can be found with another boot id.
var owners = []struct {
	name string
	// take takes the name and then makes the owner such a one. other is closed if
	// the owner is dead.
	take func(t *testing.T, other *Store)
	// blocks says that the entry blocks, unless the host was rebooted.
	blocks bool
}{
	{"living", func(t *testing.T, other *Store) { lockSoon(t, other, "name") }, true},
	{"dead", func(t *testing.T, other *Store) {
		lockSoon(t, other, "name")
		other.Close()
	}, false},
	{"its FIFO deleted", func(t *testing.T, other *Store) {
		h := lockSoon(t, other, "name")
		if err := os.Remove(other.fifo(h.ID.Process(), liveFIFO)); err != nil {
			t.Fatal(err)
		}
		other.Close()
	}, true},
	{"detached", func(t *testing.T, other *Store) {
		h := lockSoon(t, other, "name")
		h.NewID = store.Process{}.NewID()
		if err := other.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
			t.Fatal(err)
		}
		other.Close()
	}, true},
	{"released, within its MinHold", func(t *testing.T, other *Store) {
		c := lockOf(store.NewProcess(), "name")
		c.MinHold = time.Hour
		a, err := other.Ask(t.Context(), c)
		if err != nil || !a.Granted {
			t.Fatalf("%+v, %v", a, err)
		}
		if err := other.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}); err != nil {
			t.Fatal(err)
		}
		other.Close()
	}, true},
}

// Which entries a reboot ends. A different boot id alone does not prove a reboot,
// as containers can have their own boot ids.
func TestAnotherBootIDDropsOnlyWhatARebootEnded(t *testing.T) {
	for _, o := range owners {
		for what, reboot := range map[string]func(*testing.T, *Store){
			"no reboot": nil,
			"a file from before the boot": func(t *testing.T, s *Store) {
				now := s.now()
				before := time.UnixMicro(now.Wall - now.Clock).Add(-time.Minute)
				if err := os.Chtimes(s.path("name"), time.Time{}, before); err != nil {
					t.Fatal(err)
				}
			},
			"a clock that started again": func(_ *testing.T, s *Store) {
				now := s.now
				s.now = func() queue.Time { return queue.Time{Clock: 1, Wall: now().Wall - time.Hour.Microseconds()} }
			},
		} {
			t.Run(o.name+", "+what, func(t *testing.T) {
				dir := t.TempDir()
				s, other := open(t, dir), open(t, dir)
				defer s.Close()
				s.boot = "another"
				o.take(t, other)
				if o.name == "living" {
					defer other.Close()
				}
				if reboot != nil {
					reboot(t, s)
				}
				q, err := s.peek(t.Context(), "read", "name")
				if err != nil {
					t.Fatal(err)
				}
				last := q.Last
				c := lockOf(store.NewProcess(), "name")
				c.Try = true
				a, err := s.Ask(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				blocks := o.blocks && reboot == nil || o.name == "living"
				if a.Granted == blocks {
					t.Errorf("got granted %v, want %v", a.Granted, !blocks)
				}
				if a.Granted && a.Token <= last {
					t.Errorf("got token %d after %d, want a larger one", a.Token, last)
				}
			})
		}
	}
}
