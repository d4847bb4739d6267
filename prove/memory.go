package prove

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A memory store works only within one process. So in its runs a group of goroutines
// stands for each process. Each group has its own engine, and the faulty link is
// between that engine and the store.

// memoryFaults are the faults that can strike a group.
var memoryFaults = []Fault{restart, cut, halfCut, latency, jitter, reset}

// A callLink is the link between one engine and the store in this process. As over
// any other link, a call over it can hang.
type callLink struct {
	*memstore.Store

	mu     sync.Mutex
	fault  Fault
	delay  time.Duration
	rng    *rand.Rand
	hits   int
	mended chan struct{}
	sink   func(store.Notification)
}

func newCallLink(s *memstore.Store, seed uint64) *callLink {
	return &callLink{Store: s, rng: rand.New(rand.NewPCG(seed, 2))}
}

func (l *callLink) strike(f Fault, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault, l.delay, l.hits, l.mended = f, delay, 0, make(chan struct{})
}

// mend ends the fault. It sends an empty notification, to make up for those that were lost.
func (l *callLink) mend() int {
	l.mu.Lock()
	on, hits, sink := l.fault != "", l.hits, l.sink
	if on {
		close(l.mended)
	}
	l.fault = ""
	l.mu.Unlock()
	if !on {
		return 0
	}
	if sink != nil {
		sink(store.Notification{})
	}
	return hits
}

func (l *callLink) close() { l.mend() }

var errLink = errors.New("the link is bad")

// call makes a call over the link; apply performs it at the store.
func (l *callLink) call(ctx context.Context, apply func() error) error {
	l.mu.Lock()
	f, delay, mended := l.fault, l.delay, l.mended
	if f == jitter {
		delay = time.Duration(l.rng.Int64N(int64(delay)) + 1)
	}
	if f == reset && l.rng.IntN(3) > 0 {
		f = ""
	}
	if f != "" {
		l.hits++
	}
	l.mu.Unlock()
	switch f {
	case cut:
		return errLink
	case latency, jitter:
		if err := travel(ctx, delay); err != nil {
			return err
		}
		err := apply()
		return errors.Join(err, travel(ctx, delay))
	case halfCut:
		err := apply()
		select {
		case <-mended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	case reset:
		apply()
		return errLink
	}
	return apply()
}

func travel(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *callLink) Ask(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	err = l.call(ctx, func() error { a, err = l.Store.Ask(context.Background(), c); return err })
	return a, err
}

func (l *callLink) Poll(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	err = l.call(ctx, func() error { a, err = l.Store.Poll(context.Background(), c); return err })
	return a, err
}

func (l *callLink) Renew(ctx context.Context, holds []store.Hold) (out []store.Renewal) {
	err := l.call(ctx, func() error { out = l.Store.Renew(context.Background(), holds); return nil })
	if err != nil {
		out = make([]store.Renewal, len(holds))
		for i := range out {
			out[i].Err = err
		}
	}
	return out
}

func (l *callLink) Change(ctx context.Context, h store.Hold, turn int32, weight int64) (a store.Answer, err error) {
	err = l.call(ctx, func() error { a, err = l.Store.Change(context.Background(), h, turn, weight); return err })
	return a, err
}

func (l *callLink) Release(ctx context.Context, h store.Hold) error {
	return l.call(ctx, func() error { return l.Store.Release(context.Background(), h) })
}

func (l *callLink) ReleaseAll(ctx context.Context, holds []store.Hold) (out []error) {
	err := l.call(ctx, func() error { out = l.Store.ReleaseAll(context.Background(), holds); return nil })
	if err != nil {
		out = make([]error, len(holds))
		for i := range out {
			out[i] = err
		}
	}
	return out
}

// Watch implements [store.Watcher]. A link that passes no replies passes no
// notifications either.
func (l *callLink) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	l.mu.Lock()
	l.sink = sink
	l.mu.Unlock()
	return l.Store.Watch(ctx, p, func(h store.Notification) {
		l.mu.Lock()
		lose := l.fault == cut || l.fault == halfCut
		l.hits += count(lose)
		l.mu.Unlock()
		if !lose {
			sink(h)
		}
	})
}

// Describe implements [store.Store].
func (l *callLink) Describe() store.Description {
	d := l.Store.Describe()
	d.InProcess = false // its calls can hang
	return d
}

// A group is the goroutines that stand for a process.
type group struct {
	in  *io.PipeWriter
	out *io.PipeReader
	err chan error
}

// startGroup starts the work of a child in this process, on what open opens.
func startGroup(open func(*child) error) *group {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	g := &group{inW, outR, make(chan error, 1)}
	go func() {
		orders := bufio.NewScanner(inR)
		orders.Buffer(nil, 1<<20)
		c, err := readJob(orders, outW)
		if err == nil {
			c.inside = true
			err = c.run(func() error { return open(c) }, orders)
			c.begins.Do(func() { close(c.finish) }) // otherwise the workers would go on
		}
		inR.Close()
		outW.Close()
		g.err <- err
	}()
	return g
}
