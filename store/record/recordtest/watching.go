package recordtest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

var watchPromises = []promise{
	{name: "who watches a record hears of each swap of it", run: watched, watches: true},
	{name: "a watcher of a record is notified of no other", run: watchedAlone, watches: true},
	{name: "a watcher that has stopped is notified of nothing", run: watchedNoMore, watches: true},
	{name: "after a new connection each watcher is notified", run: watchedAgain, watches: true, linked: true},
}

// watch counts the reports that a record has changed.
func (t *trial) watch(b record.Backend, name string) (times *atomic.Int64, stop func()) {
	t.Helper()
	times = new(atomic.Int64)
	stop, err := b.(record.NameWatcher).WatchRecord(t.ctx, name, func() { times.Add(1) })
	if err != nil {
		t.Fatalf("WatchRecord: %v", err)
	}
	return times, stop
}

// writes makes a swap that is done, whatever the record is.
func (t *trial) writes(b record.Backend, name, data string) {
	t.Helper()
	if out := t.swap(b, record.Swap{Name: name, Old: t.load(b, name), Data: []byte(data)}); !out.Done {
		t.Fatal("a Swap on the newest version is refused")
	}
}

func watched(t *trial) {
	a, b, name := t.open(), t.open(), fresh()+"/ü %"
	first, stop := t.watch(a, name) // there is no record yet
	defer stop()
	second, stop := t.watch(a, name)
	defer stop()
	for i, by := range []record.Backend{b, a, b} {
		before, other := first.Load(), second.Load()
		t.writes(by, name, string(rune('a'+i)))
		t.until("both watchers are notified", func() bool { return first.Load() > before && second.Load() > other })
	}
}

func watchedAlone(t *trial) {
	a, name, other := t.open(), fresh(), fresh()
	t.writes(a, name, "a")
	times, stop := t.watch(a, name)
	defer stop()
	near, stop := t.watch(a, name+"x")
	defer stop()
	t.writes(a, other, "a")
	t.writes(a, name, "b")
	t.until("its watcher is notified", func() bool { return times.Load() > 0 })
	if n := near.Load(); n > 0 {
		t.Errorf("got %d changes of a name that was never written", n)
	}
}

func watchedNoMore(t *trial) {
	a, name := t.open(), fresh()
	gone, stop := t.watch(a, name)
	times, stopLater := t.watch(a, name)
	stop()
	stop()
	t.writes(a, name, "a") // this may still be reported
	t.until("the other watcher is notified", func() bool { return times.Load() > 0 })
	t.until("the late notification has arrived", func() bool {
		before, heard := gone.Load(), times.Load()
		t.writes(a, name, "b")
		t.until("the other watcher is notified", func() bool { return times.Load() > heard })
		return gone.Load() == before
	})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	stopLater()
}

func watchedAgain(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	t.writes(b, name, "a")
	times, stop := t.watch(a, name)
	defer stop()
	for range 2 {
		link.MuteAfter(0)
		t.writes(b, name, "b")
		before := times.Load()
		link.Reset()
		t.until("the watcher is notified to poll", func() bool { return times.Load() > before })
		t.until("the watcher is notified of the next change", func() bool {
			before := times.Load()
			t.writes(b, name, "c")
			for begun := time.Now(); times.Load() == before && time.Since(begun) < moment; time.Sleep(time.Millisecond) {
			}
			return times.Load() > before
		})
	}
}

// A looker is the result of one WatchRecord.
type looker struct {
	client  *Client
	name    string
	changed func()
}

// WatchRecord implements [record.NameWatcher].
func (c *Client) WatchRecord(ctx context.Context, name string, changed func()) (stop func(), err error) {
	if c.m.o.Quiet {
		return nil, store.ErrUnsupported
	}
	l := &looker{c, name, changed}
	stop = func() {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		delete(c.m.looking, l) //mutant:recordtest-watches-for-ever
	}
	_, err = send(ctx, c, Request{Op: OpListen, Name: name}, func() bool {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		if c.ctx.Err() == nil {
			c.m.looking[l] = true
		}
		return true
	})
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// looked notifies the watchers of a name, on working connections, that it was written; or the watchers of a client
// that the client has reconnected.
func (m *Memory) looked(name string, again *Client) {
	m.mu.Lock()
	var to []*looker
	for l := range m.looking {
		if again == nil && l.name == name || l.client == again { //mutant:recordtest-watches-that-name
			to = append(to, l)
		}
	}
	m.mu.Unlock()
	for _, l := range to {
		l.client.mu.Lock()
		cut := l.client.cut
		l.client.mu.Unlock()
		if !cut && !l.client.link.deaf() {
			l.changed()
		}
	}
}
