package recordtest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

var notifyPromises = []promise{
	{name: "a notification comes with all its fields", run: notified, notify: true},
	{name: "notifications of one swap go to each process", run: notifiedEach, notify: true},
	{name: "no notification comes before its record", run: notifiedAfterRecord, notify: true},
	{name: "a refused swap sends no notification", run: refusedNotifies, notify: true},
	{name: "no notification is missed once Listen has returned", run: notifiedAtOnce, notify: true},
	{name: "after a new connection all are notified", run: notifiedAgain, notify: true, linked: true},
	{name: "a Listen that failed delivers nothing and can be repeated", run: listenRepeated, notify: true, linked: true},
	{name: "three hundred processes are notified by one swap", run: notifiedCrowd, notify: true},
	{name: "who does not listen delays nobody", run: notifiedDeaf, notify: true},
	{name: "no process is notified for another", run: notifiedApart, notify: true},
	{name: "without notifications Listen says so", run: listenUnsupported},
	{name: "a swap held on its way notifies only if it was done", run: heldNotifies, notify: true, linked: true},
}

// An ear collects the notifications that a process received.
type ear struct {
	p  store.Process
	mu sync.Mutex
	of []record.Notification
}

func (e *ear) sink(n record.Notification) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of = append(e.of, n)
}

func (e *ear) all() []record.Notification {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]record.Notification(nil), e.of...)
}

// heard returns how often the notification was received.
func (e *ear) heard(n record.Notification) (times int) {
	for _, one := range e.all() {
		if one == n {
			times++
		}
	}
	return times
}

// foreign returns the first notification received that is neither in own nor the zero Notification, or nil.
func (e *ear) foreign(own ...record.Notification) *record.Notification {
next:
	for _, one := range e.all() {
		for _, n := range own {
			if one == n || one == (record.Notification{}) {
				continue next
			}
		}
		if one != (record.Notification{}) {
			return &one
		}
	}
	return nil
}

func (t *trial) listen(b record.Backend) *ear {
	t.Helper()
	e := &ear{p: store.NewProcess()}
	if err := b.Listen(t.ctx, e.p, e.sink); err != nil {
		t.Fatalf("Listen: %v", err)
	}
	return e
}

// granted returns the notification of a grant.
func granted(name string, p store.Process, token int64) record.Notification {
	return record.Notification{Name: name, ID: p.NewID(), Token: token, N: 3, Session: newSession(), Asked: true}
}

// notify makes a swap with notifications, which must be done.
func (t *trial) notify(b record.Backend, name string, all ...record.Notification) {
	t.Helper()
	old := t.load(b, name)
	if out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("x"), Notifications: all}); !out.Done {
		t.Fatal("a Swap on the newest version is refused")
	}
}

func (t *trial) hears(e *ear, n record.Notification) {
	t.Helper()
	t.until("the notification arrives", func() bool { return e.heard(n) > 0 })
}

func notified(t *trial) {
	a, b := t.open(), t.open()
	e := t.listen(a)
	long := fresh()
	long += strings.Repeat("n", store.MaxName-len(long))
	var own []record.Notification
	for i, name := range append([]string{fresh(), long}, odd...) {
		if i > 1 {
			name += fresh()
		}
		n := granted(name, e.p, 1<<62+int64(i))
		switch i % 4 {
		case 1:
			n.N = store.MaxBlock
		case 2: // an entry ahead
			n.Token, n.N = 0, 0
		case 3: // to be asked for again
			n.Token, n.N, n.Session = 0, 0, [8]byte{}
		}
		own = append(own, n)
		t.notify([]record.Backend{b, a}[i%2], name, n)
		t.hears(e, n)
	}
	if n := e.foreign(own...); n != nil {
		t.Errorf("got %+v, which no swap has sent", *n)
	}
}

func notifiedEach(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	ears := []*ear{t.listen(a), t.listen(b), t.listen(a)}
	var all []record.Notification
	for i := range 9 {
		all = append(all, granted(name, ears[i%3].p, int64(i+1)))
	}
	t.notify(b, name, all...)
	for i, n := range all {
		t.hears(ears[i%3], n)
	}
}

func notifiedAfterRecord(t *trial) {
	a, b, c, name := t.open(), t.open(), t.open(), fresh()
	p := store.NewProcess()
	heard := make(chan record.Notification, 64)
	if err := a.Listen(t.ctx, p, func(n record.Notification) {
		if n.Name == name {
			heard <- n
		}
	}); err != nil {
		t.Fatalf("Listen: %v", err)
	}
	const swaps = 20
	reading := make(chan found, swaps)
	go func() {
		defer close(reading)
		for range swaps {
			select {
			case n := <-heard:
				r, err := c.Load(t.ctx, name)
				reading <- found{n, r, err}
			case <-t.ctx.Done():
				return
			}
		}
	}()
	old := t.load(b, name)
	for i := range swaps {
		data := strconv.Itoa(i + 1)
		out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte(data), Notifications: []record.Notification{granted(name, p, int64(i+1))}})
		if !out.Done {
			t.Fatal("a Swap on the newest version is refused")
		}
		f := t.within(reading)
		if f.e != nil {
			t.Fatalf("Load: %v", f.e)
		}
		if n, _ := strconv.Atoi(string(f.r.Data)); int64(n) < f.n.Token {
			t.Errorf("the notification of record %d arrived, but Load returns %s", f.n.Token, describe(f.r))
		}
		old = f.r
	}
}

// found is a notification, and the record when it arrived.
type found struct {
	n record.Notification
	r record.Record
	e error
}

func (t *trial) within(c <-chan found) (f found) {
	t.Helper()
	select {
	case f = <-c:
	case <-time.After(patience):
		t.Fatalf("after %v still not: the notification arrives", patience)
	}
	return f
}

func refusedNotifies(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	e := t.listen(a)
	old := t.write(b, name, "old")
	t.write(b, name, "new")
	if out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("x"), Notifications: []record.Notification{granted(name, e.p, 1)}}); out.Done {
		t.Fatal("a Swap on an older version is done")
	}
	s := t.joining(name, t.session(b), 0, note("n"))
	s.Notifications = []record.Notification{granted(name, e.p, 2)}
	t.swap(b, s)
	last := granted(name, e.p, 3)
	t.notify(b, name, last)
	t.hears(e, last)
	t.never("a refused Swap sends a notification", func() bool { return e.foreign(last) != nil })
}

func notifiedAtOnce(t *trial) {
	b, name := t.open(), fresh()
	for range 10 {
		e := t.listen(t.open())
		n := granted(name, e.p, 1)
		t.notify(b, name, n)
		t.hears(e, n)
	}
}

func notifiedAgain(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	e := t.listen(a)
	n := granted(name, e.p, 1)
	t.notify(b, name, n)
	t.hears(e, n)
	for i := range 2 {
		link.MuteAfter(0)
		lost := granted(name, e.p, int64(2+i))
		t.notify(b, name, lost)
		before := e.heard(record.Notification{})
		link.Reset()
		t.until("all are notified to poll, or the lost notification arrives", func() bool { return e.heard(record.Notification{}) > before || e.heard(lost) > 0 })
		n := granted(name, e.p, int64(10+i))
		t.notify(b, name, n)
		t.hears(e, n)
	}
}

func listenRepeated(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	t.load(a, name) // so that it is connected
	p := store.NewProcess()
	failed, e := &ear{p: p}, &ear{p: p}
	link.MuteAfter(0)
	t.unanswered(link, func(ctx context.Context) error { return a.Listen(ctx, p, failed.sink) })
	link.Reset()
	t.until("Listen succeeds", func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, patience/4)
		defer cancel()
		return a.Listen(ctx, p, e.sink) == nil
	})
	n := granted(name, p, 1)
	t.notify(b, name, n)
	t.hears(e, n)
	// A backend that keeps trying listens again after a pause of a few seconds at most. So this loop lasts longer
	// than that.
	for end, token := time.Now().Add(longestPause), int64(2); time.Now().Before(end); token++ {
		n := granted(name, p, token)
		t.notify(b, name, n)
		t.hears(e, n)
		if len(failed.all()) > 0 {
			t.Fatalf("a failed Listen delivers %+v", failed.all()[0])
		}
		time.Sleep(moment)
	}
}

// longestPause is longer than any backend waits between two attempts to listen.
const longestPause = 6 * time.Second

func notifiedCrowd(t *trial) {
	const crowd = 300
	bs := []record.Backend{t.open(), t.open(), t.open()}
	name := fresh()
	var ears []*ear
	var all []record.Notification
	for i := range crowd {
		e := t.listen(bs[i%len(bs)])
		ears = append(ears, e)
		all = append(all, granted(name, e.p, int64(i+1)))
	}
	t.notify(bs[0], name, all...)
	for i, e := range ears {
		t.hears(e, all[i])
		if n := e.foreign(all[i]); n != nil {
			t.Fatalf("process %d got %+v, which is for another", i, *n)
		}
	}
}

func notifiedDeaf(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	e := t.listen(a)
	gone := t.s.Open(t.T)
	t.listen(gone)
	if err := gone.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	n := granted(name, e.p, 1)
	t.notify(b, name, granted(name, store.NewProcess(), 1), n, granted(name, store.NewProcess(), 2))
	t.hears(e, n)
	if r := t.load(b, name); !has(r, "x") {
		t.Errorf("Load: got %s", describe(r))
	}
}

func notifiedApart(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	ears := []*ear{t.listen(a), t.listen(a), t.listen(b)}
	for i, e := range ears {
		n := granted(name, e.p, int64(i+1))
		t.notify(a, name, n)
		t.hears(e, n)
		for j, other := range ears {
			if f := other.foreign(); j > i && f != nil {
				t.Errorf("process %d got %+v, which is for process %d", j, *f, i)
			}
		}
	}
	t.never("a process gets a notification for another", func() bool {
		for i, e := range ears {
			for _, n := range e.all() {
				if n != (record.Notification{}) && n.Token != int64(i+1) {
					return true
				}
			}
		}
		return false
	})
}

func listenUnsupported(t *trial) {
	b := t.open()
	err := b.Listen(t.ctx, store.NewProcess(), func(record.Notification) {})
	if t.traits.Notifies && err != nil {
		t.Errorf("Listen: got %v, although Traits says that there are notifications", err)
	}
	if !t.traits.Notifies && !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Listen: got %v, want store.ErrUnsupported", err)
	}
}

func heldNotifies(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	e := t.listen(b)
	old := t.write(b, name, "old")
	link.HoldAfter(0)
	t.unanswered(link, func(ctx context.Context) error {
		_, err := a.Swap(ctx, &record.Swap{Name: name, Old: old, Data: []byte("late"), Notifications: []record.Notification{granted(name, e.p, 1)}})
		return err
	})
	t.write(b, name, "new")
	link.Reset()
	link.Deliver()
	t.never("a late Swap that was not done sends a notification", func() bool { return e.foreign() != nil })
}
