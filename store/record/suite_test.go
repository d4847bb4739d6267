package record_test

import (
	"context"
	"flag"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "48") // most of them wait most of the time
	record.PatientForTest(30 * time.Second)
	goleak.VerifyTestMain(m)
}

// servers are the kinds of server that there are.
var servers = []struct {
	name string
	o    recordtest.Options
}{
	{"one_request", recordtest.Options{}},
	{"join_apart", recordtest.Options{Apart: true, Halves: true}},
	{"void_by_mark", recordtest.Options{Void: record.VoidByMark, Apart: true}},
	{"quiet", recordtest.Options{Quiet: true, Silent: true}},
	{"no_clock", recordtest.Options{Blind: true, Silent: true}},
	{"own_clock", recordtest.Options{Life: session.ByOwnClock, Blind: true}},
	{"terse", terse},
	{"polling", polling},
}

// slow is for a machine that stalls.
func slow(o recordtest.Options) recordtest.Options {
	o.MinTTL = 4 * time.Second
	return o
}

// terse is a server like NATS: its answers say little, and the record and the inbox are read separately.
var terse = recordtest.Options{Void: record.VoidByMark, Apart: true, Halves: true, Terse: true}

// storeOn is a store on a new connection.
func storeOn(m *recordtest.Memory, o recordtest.Options) store.Store {
	return watching(record.New(backendOf(m.Client(), o)), o)
}

// backendOf is the backend that a store gets from a client.
func backendOf(c *recordtest.Client, o recordtest.Options) record.Backend {
	if o.Terse {
		return c.Peeking()
	}
	return c
}

func watching(s *record.Store, o recordtest.Options) store.Store {
	if o.Quiet {
		return s
	}
	return record.WatchStore{Store: s}
}

// memories has a server for each subtest, in the subtest's bubble: goroutines that wait for it must be made there. In a bubble nothing is late,
// and no session ends early, however busy the machine is.
func memories(o recordtest.Options) func(t *testing.T) *recordtest.Memory {
	var mu sync.Mutex
	of := map[*testing.T]*recordtest.Memory{}
	return func(t *testing.T) *recordtest.Memory {
		mu.Lock()
		defer mu.Unlock()
		if of[t] == nil {
			of[t] = recordtest.NewMemory(slow(o))
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				delete(of, t)
			})
		}
		return of[t]
	}
}

func TestTheStoreKeepsThePromisesOfAllStores(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			server := memories(kind.o)
			storetest.Run(t, func(t *testing.T) store.Store { return storeOn(server(t), kind.o) }, synctest.Test)
		})
	}
}

// sessioned returns what is compared with the rule. It is for one bubble.
func sessioned(o recordtest.Options) storetest.Sessioned {
	backings := map[store.Store]*recordtest.Memory{}
	return storetest.Sessioned{
		Open: func(*testing.T) func() store.Store {
			m := recordtest.NewMemory(slow(o))
			return func() store.Store {
				of := record.New(backendOf(m.Client(), o))
				of.DoubtForTest() // otherwise a waiter whose session has ended is granted, and its lock delay blocks
				s := watching(of, o)
				backings[s] = m
				return s
			}
		},
		End: func(t *testing.T, s store.Store) error {
			of := s
			if w, ok := s.(record.WatchStore); ok {
				of = w.Store
			}
			return of.(*record.Store).LapseForTest(t.Context(), backings[s])
		},
	}
}

func TestTheStoreDoesWhatTheRuleSays(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { storetest.DifferentialBySession(t, sessioned(kind.o)) })
		})
	}
}

// A server that stands still while sessions end says nothing about the rule: the comparison goes on with a fresh one.
func TestTheComparisonGoesOnIfTheEndOfSessionsIsUnanswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := sessioned(servers[0].o)
		open, end := of.Open, of.End
		opened, unanswered := 0, 0
		of.Open = func(t *testing.T) func() store.Store {
			opened++
			return open(t)
		}
		of.End = func(t *testing.T, s store.Store) error {
			if unanswered == 0 {
				unanswered++
				time.Sleep(time.Second)
				return context.DeadlineExceeded
			}
			return end(t, s)
		}
		storetest.DifferentialBySession(t, of)
		if unanswered != 1 || opened != 2 {
			t.Errorf("%d unanswered, %d backings, want 1 and 2", unanswered, opened)
		}
	})
}

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			server := memories(kind.o)
			storetest.Faults(t, storetest.Linked{Within: synctest.Test, Open: func(t *testing.T) (store.Store, storetest.Link) {
				c := server(t).Client()
				return watching(record.New(backendOf(c, kind.o)), kind.o), c.Link()
			}})
		})
	}
}
