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
	"github.com/holdfast-go/holdfast/store/storetest"
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

// A doubling link sends some writes twice, like some proxies, and returns the second answer. No other write comes between
// the two: what overwrites the first hides that it was done.
type doubling struct {
	object.Lister
	*doubled
}

// A doubled counts the writes of all processes.
type doubled struct {
	mu   sync.Mutex
	sent int
}

func (d doubling) Put(ctx context.Context, key string, body []byte, version string) (object.Object, object.Fate, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, what, err := d.Lister.Put(ctx, key, body, version)
	if d.sent++; err == nil && !strings.Contains(key, "/t/") && d.sent%3 == 0 { // a trial would fail, and be repeated
		o, what, err = d.Lister.Put(ctx, key, body, version)
	}
	return o, what, err
}

func TestNothingIsLostWhereWritesAreSentTwice(t *testing.T) {
	t.Parallel()
	s, m, all := memories(), &Memory{}, &doubled{}
	s.Open = func(_ testing.TB, place string) *Process {
		return m.Process(strings.Split(place, " ")[1], func(next object.Lister) object.Lister { return doubling{next, all} })
	}
	place := s.Place(t)
	storetest.Run(t, func(t *testing.T) store.Store { return rereading{patient{s.start(t, place).Store}} }, s.within()...)
}

// A rereading store may have to find out by a second read what it has done. That does not look how long others stay.
type rereading struct{ patient }

func (r rereading) Describe() store.Description {
	d := r.patient.Describe()
	d.Lacks[store.PromiseUntil] = "an answer may come of a second read"
	return d
}
