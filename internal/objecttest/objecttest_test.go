package objecttest

import (
	"context"
	"errors"
	"flag"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "24") // most of them wait most of the time
	goleak.VerifyTestMain(m)
}

// A cut link no longer answers.
type cut struct {
	object.Lister
	mu  sync.Mutex
	off bool
}

var errCut = errors.New("no answer")

func (c *cut) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
}

func (c *cut) Put(ctx context.Context, key string, body []byte, version string) (object.Object, object.Fate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return object.Object{}, 0, errCut
	}
	return c.Lister.Put(ctx, key, body, version)
}

// No test of this package uses the other methods of a link.
func (c *cut) MuteAfter(int) {}
func (c *cut) HoldAfter(int) {}
func (c *cut) Met() int      { return 0 }
func (c *cut) Reset()        {}
func (c *cut) Deliver()      {}

// memories is a subject on two servers: one reports its times, the other does not.
func memories() Subject {
	timed, silent := &Memory{}, &Memory{Untimed: true}
	var mu sync.Mutex
	links := map[string]*cut{}
	return Subject{
		Within: synctest.Test,
		Place:  func(testing.TB) string { return "timed test-" + store.NewProcess().String() + "/" },
		Untimed: func(_ testing.TB, place string) string {
			_, prefix, _ := strings.Cut(place, " ")
			return "silent " + prefix
		},
		Linked: func(_ testing.TB, place string) (string, Link) {
			l := &cut{}
			at := place + " " + store.NewProcess().String()
			mu.Lock()
			defer mu.Unlock()
			links[at] = l
			return at, l
		},
		Open: func(_ testing.TB, place string) *Process {
			parts := strings.Split(place, " ")
			m := map[string]*Memory{"timed": timed, "silent": silent}[parts[0]]
			return m.Process(parts[1], func(s object.Lister) object.Lister {
				mu.Lock()
				defer mu.Unlock()
				if l := links[place]; l != nil {
					l.Lister = s
					return l
				}
				return s
			})
		},
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, Subject){
		"suite": Suite, "suite without time": SuiteWithoutTime, "differential": Differential, "cron": Cron, "without time": WithoutTime, "nothing is left": NothingIsLeft,
		"foreign": ForeignIsLeftAlone, "a refused try": ARefusedTryWritesNothing, "server": Server,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, memories())
		})
	}
	t.Run("backend", func(t *testing.T) {
		t.Parallel()
		s := memories()
		s.Linked, s.InProcess = nil, true // its link can only be cut
		Backend(t, s)
	})
}
