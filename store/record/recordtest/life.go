package recordtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// A life is a session. An ended one is kept, so that it is not begun again.
type life struct {
	ttl     time.Duration
	expires store.Instant
	stamp   string // changes with each renewal
	calls   int64
	over    bool
	ended   chan struct{} // closed with over
}

// lives returns a session that has not ended, or nil.
func (m *Memory) lives(id session.ID) *life {
	l := m.sessions[id]
	if l == nil || l.over {
		return nil
	}
	if m.expired(l) { //mutant:recordtest-session-expires
		m.end(id, l)
		return nil
	}
	return l
}

// end ends a session for good, and removes its notes from the inboxes where a late join of it is impossible.
func (m *Memory) end(id session.ID, l *life) {
	if l.over {
		return
	}
	l.over = true  //mutant:recordtest-end-is-final
	close(l.ended) //mutant:recordtest-end-told
	if m.o.Void == record.VoidByMark {
		return
	}
	for _, n := range m.names {
		n.inbox = slices.DeleteFunc(n.inbox, func(x left) bool { return x.by == id }) //mutant:recordtest-end-removes-own-notes
	}
}

// begin is Begin at the server.
func (m *Memory) begin(id session.ID, ttl time.Duration) (server int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ttl < m.o.MinTTL || ttl > m.o.MaxTTL || ttl%m.o.Tick != 0 { //mutant:recordtest-ttl-range
		return m.server, fmt.Errorf("%w: a TTL of %v", store.ErrInvalid, ttl)
	}
	if m.sessions[id] != nil {
		return m.server, fmt.Errorf("%w: session %v was begun before", store.ErrInvalid, id)
	}
	m.sessions[id] = &life{ttl: ttl, expires: store.Now().Add(ttl), stamp: m.next(), ended: make(chan struct{})}
	return m.server, nil
}

// renew is Renew at the server.
func (m *Memory) renew(id session.ID) (calls, server int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lives(id) //mutant:recordtest-renew-of-living
	if l == nil {    //mutant:recordtest-renew-of-nothing
		return 0, m.server, store.ErrLost
	}
	l.stamp = m.next()                 //mutant:recordtest-renew-stamps
	l.expires = store.Now().Add(l.ttl) //mutant:recordtest-renew
	return l.calls, m.server, nil      //mutant:recordtest-renew-tells-calls
}

// call is Call at the server.
func (m *Memory) call(id session.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lives(id); l != nil { //mutant:recordtest-call-of-nothing
		l.calls++ //mutant:recordtest-call
	}
}

// left is Left at the server. After it, a session that was never begun can no longer begin.
func (m *Memory) left(ids []session.ID) []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]time.Duration, len(ids))
	for i, id := range ids { //mutant:recordtest-left-in-order
		if l := m.lives(id); l != nil { //mutant:recordtest-left-of-living
			out[i] = max(l.expires.Sub(store.Now()), 1) //mutant:recordtest-left
		} else if m.sessions[id] == nil { //mutant:recordtest-left-of-nothing
			m.sessions[id] = &life{over: true, ended: closed}
		}
	}
	return out
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// stop is End at the server.
func (m *Memory) stop(id session.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.sessions[id]; l != nil {
		m.end(id, l) //mutant:recordtest-end
	}
}

// ending returns a channel that is closed when the session has ended, and the time when it ends by itself.
func (m *Memory) ending(id session.ID) (ended <-chan struct{}, until store.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lives(id); l != nil {
		return l.ended, l.expires
	}
	return closed, 0 //mutant:recordtest-await-ended
}

// Begin implements [session.Backend].
func (c *Client) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	a, err := send(ctx, c, Request{Op: OpBegin, Session: id}, func() (a answer) {
		a.server, a.err = c.m.begin(id, ttl)
		return a
	})
	c.hears(a)
	return ttl, failed(err, a.err) //mutant:recordtest-lasts
}

// An answer is the answer of a server about a session.
type answer struct {
	calls, server int64
	err           error
}

// hears records which server answered, if any.
func (c *Client) hears(a answer) {
	if a.server != 0 {
		c.server.Store(a.server) //mutant:recordtest-server
	}
}

// Server implements [session.Replaceable].
func (c *Client) Server() int64 { return c.server.Load() }

// Renew implements [session.Backend].
func (c *Client) Renew(ctx context.Context, id session.ID) (int64, error) {
	a, err := send(ctx, c, Request{Op: OpRenew, Session: id}, func() (a answer) {
		a.calls, a.server, a.err = c.m.renew(id)
		return a
	})
	c.hears(a)
	return a.calls, failed(err, a.err)
}

// Call implements [session.Backend].
func (c *Client) Call(ctx context.Context, id session.ID) error {
	_, err := send(ctx, c, Request{Op: OpCall, Session: id}, func() bool { c.m.call(id); return true })
	return err
}

// Left implements [session.Backend].
func (c *Client) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	if c.m.o.Life == session.ByOwnClock {
		return c.unchanged.Left(ctx, c, ids)
	}
	return send(ctx, c, Request{Op: OpLeft}, func() []time.Duration { return c.m.left(ids) })
}

// Doubt implements [session.Doubter].
func (c *Client) Doubt(id session.ID) time.Duration { return c.unchanged.Doubt(id) }

// End implements [session.Backend].
func (c *Client) End(ctx context.Context, id session.ID) error {
	_, err := send(ctx, c, Request{Op: OpEnd, Session: id}, func() bool { c.m.stop(id); return true })
	return err
}

// Await implements [session.Backend].
func (c *Client) Await(ctx context.Context, id session.ID) error {
	if c.m.o.Silent {
		return store.ErrUnsupported //mutant:recordtest-silent
	}
	if _, err := send(ctx, c, Request{Op: OpAwait, Session: id}, func() bool { return true }); err != nil {
		return err
	}
	for {
		ended, until := c.m.ending(id)
		timer := time.NewTimer(until.Sub(store.Now())) //mutant:recordtest-await-lapse
		select {
		case <-ended:
			timer.Stop()
			return nil
		case <-timer.C:
		case <-ctx.Done(): //mutant:recordtest-await-context
			timer.Stop()
			return ctx.Err()
		case <-c.ctx.Done(): //mutant:recordtest-close-ends-await
			timer.Stop()
			return fmt.Errorf("%w: this connection", store.ErrClosed)
		}
	}
}

// A server without a clock (Options.Life is session.ByOwnClock) has a stamp for each session, which each renewal
// changes.

// A stamped is what a read of a session returns.
type stamped struct {
	ttl   time.Duration
	stamp string // empty: it has ended, or was never begun
}

// stamp is ReadSession at the server. After it, a session that was never begun can no longer begin.
func (m *Memory) stamp(id session.ID) (s stamped) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lives(id); l != nil {
		return stamped{l.ttl, l.stamp} //mutant:recordtest-stamp
	}
	if m.sessions[id] == nil {
		m.sessions[id] = &life{over: true, ended: closed}
	}
	return s
}

// stopUnchanged is CloseSession at the server.
func (m *Memory) stopUnchanged(id session.ID, stamp string) (closed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lives(id)
	if l != nil && l.stamp == stamp { //mutant:recordtest-closes-unchanged
		m.end(id, l)
	}
	return l == nil || l.over
}

var _ session.Reader = (*Client)(nil)

// ReadSession implements [session.Reader].
func (c *Client) ReadSession(ctx context.Context, id session.ID) (time.Duration, string, error) {
	s, err := send(ctx, c, Request{Op: OpReadSession, Session: id}, func() stamped { return c.m.stamp(id) })
	return s.ttl, s.stamp, err
}

// CloseSession implements [session.Reader].
func (c *Client) CloseSession(ctx context.Context, id session.ID, stamp string) (closed bool, err error) {
	return send(ctx, c, Request{Op: OpCloseSession, Session: id}, func() bool { return c.m.stopUnchanged(id, stamp) })
}

// expired reports whether a session has expired by the server's clock, if it has one.
func (m *Memory) expired(l *life) bool {
	return m.o.Life != session.ByOwnClock && store.Now() >= l.expires
}
