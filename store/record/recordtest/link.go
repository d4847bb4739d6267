package recordtest

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/store/storetest"
)

// A link is the connection of a Client to its Memory, as storetest.Faults and this suite disturb it: by counting
// requests and answers, not by the clock.
type link struct {
	mu    sync.Mutex
	mode  silence
	after int // how many more of what the mode affects may pass
	met   int
	reset chan struct{} // closed by Reset; nil until it is waited for
	held  []func()
	gone  []func() // held by connections that were reset
}

type silence int

const (
	_     silence = iota
	muted         // answers are lost
	held          // requests are held
)

// Link returns the client's connection to the server, for tests that disturb it.
func (c *Client) Link() storetest.Link { return (*clientLink)(c) }

type clientLink Client

func (c *clientLink) MuteAfter(pieces int) { c.link.silence(muted, pieces) }
func (c *clientLink) HoldAfter(pieces int) { c.link.silence(held, pieces) }

func (k *link) silence(mode silence, after int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mode, k.after, k.met = mode, after, 0
}

func (c *clientLink) Met() int {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.link.met
}

func (c *clientLink) Reset() {
	k := &c.link
	k.mu.Lock()
	k.mode = 0
	k.gone, k.held = append(k.gone, k.held...), nil
	if k.reset != nil {
		close(k.reset)
		k.reset = nil
	}
	k.mu.Unlock()
	(*Client)(c).again()
}

func (c *clientLink) Deliver() {
	k := &c.link
	k.mu.Lock()
	gone := k.gone
	k.gone = nil
	k.mu.Unlock()
	for _, do := range gone {
		do()
	}
}

// passes counts what goes in one direction, and reports whether it passes. Otherwise the caller waits on the channel
// for Reset.
func (k *link) passes(mode silence, do func()) (reset <-chan struct{}, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mode != mode {
		return nil, true
	}
	if k.after > 0 {
		k.after--
		return nil, true
	}
	if k.met++; do != nil {
		k.held = append(k.held, do)
	}
	if k.reset == nil {
		k.reset = make(chan struct{})
	}
	return k.reset, false
}

// request waits until a request has arrived. The error says that it has not, or not yet.
func (k *link) request(ctx context.Context, do func()) error {
	reset, ok := k.passes(held, do)
	return wait(ctx, reset, ok)
}

// answer waits until an answer has arrived. The error says that it never will.
func (k *link) answer(ctx context.Context) error {
	reset, ok := k.passes(muted, nil)
	return wait(ctx, reset, ok)
}

func wait(ctx context.Context, reset <-chan struct{}, ok bool) error {
	if ok {
		return nil
	}
	select {
	case <-reset:
		return ErrNoAnswer
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deaf reports whether a notification is lost.
func (k *link) deaf() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mode != 0 && k.after == 0
}
