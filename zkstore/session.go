package zkstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A session is a ZooKeeper session with a connection of its own, and two nodes that end with it.
// The version of the first counts the calls. Each renewal writes to the second.

// An own is a session that this process has begun.
type own struct {
	*link
	calls int32 // seen so far; guarded by backend.mu
}

// SessionTraits implements [session.Backend].
func (b *backend) SessionTraits() session.Traits {
	return session.Traits{Life: session.ByServer, MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Millisecond, ReportsEnd: true}
}

func (b *backend) callsNode(id session.ID) string   { return b.path + "/s/" + id.String() }
func (b *backend) renewalNode(id session.ID) string { return b.path + "/r/" + id.String() }

// asks returns the timeout to ask for, so that the holds of a crashed process are freed within the
// TTL and a second. A session ends at the first tick of the server after its timeout, so at most a
// tick late. The tick is unknown, but it is 2 s by default, and at most half the least timeout. So
// the timeout is shorter by the part of a tick that may exceed a second.
func asks(ttl time.Duration) time.Duration {
	return (ttl - min(max(ttl/2-time.Second, 0), time.Second) + time.Millisecond - 1).Truncate(time.Millisecond) //mutant:zk-less-asked-than-ttl
}

// counts returns how much of its timeout a session certainly lasts after an answered write. A
// member reports the sessions that it has heard of to the leader every half tick. If it dies
// before, the leader counts from the last report. No timeout is shorter than two ticks.
func counts(timeout time.Duration) time.Duration { return timeout * 3 / 4 } //mutant:zk-timeout-that-counts

// Begin implements [session.Backend].
func (b *backend) Begin(ctx context.Context, id session.ID, ttl time.Duration) (_ time.Duration, err error) {
	b.tasks.Go(func() { _, _ = b.connected(b.ctx) }) // it will be needed
	timeout := asks(ttl)                             //mutant:zk-timeout-asked-for
	l, err := b.connect(timeout, ttl, func() { b.disown(id) })
	if err != nil {
		return 0, b.failed(err)
	}
	_, err = ask(ctx, l, func(c *zk.Conn) (struct{}, error) {
		if err := l.greet(c); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, b.made(c, func() error {
			_, _, err := outcome(c.Multi(
				b.create(b.callsNode(id), "", zk.FlagEphemeral),
				b.create(b.renewalNode(id), strconv.FormatInt(timeout.Milliseconds(), 10), zk.FlagEphemeral)))
			return err
		})
	})
	if err != nil {
		l.end()
		return 0, b.failed(err)
	}
	grants := l.timeout() //mutant:zk-session-grants
	switch {
	case grants > ttl: //mutant:zk-session-too-long
		err = fmt.Errorf("%w: a TTL of %v: the least that %s grants is %v (two of its ticks, or its minSessionTimeout)", store.ErrInvalid, ttl, b.address, grants)
	case grants < timeout:
		err = fmt.Errorf("%w: a TTL of %v: the most that %s grants is %v (twenty of its ticks, or its maxSessionTimeout)", store.ErrInvalid, ttl, b.address, grants)
	default:
		b.mu.Lock()
		defer b.mu.Unlock()
		if l.over() {
			return 0, zk.ErrSessionExpired
		}
		b.own[id] = &own{link: l}
		return counts(grants), nil
	}
	b.tasks.Go(l.farewell)
	return 0, err
}

func (b *backend) ofOwn(id session.ID) *own {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own[id]
}

// disown forgets a session of this process.
func (b *backend) disown(id session.ID) *own {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.own[id]
	delete(b.own, id)
	return o
}

// Renew implements [session.Backend]. It writes, because a member that is cut off from the others
// still answers reads.
func (b *backend) Renew(ctx context.Context, id session.ID) (calls int64, err error) {
	o := b.ofOwn(id)
	if o == nil {
		return 0, store.ErrLost
	}
	b.mu.Lock()
	known := o.calls
	b.mu.Unlock()
	sent := store.Now()
	// The data stays the same: the timeout.
	write := &zk.SetDataRequest{Path: b.renewalNode(id), Data: []byte(strconv.FormatInt(o.timeout().Milliseconds(), 10)), Version: -1}
	all, failed, err := multi(ctx, o.link, &zk.CheckVersionRequest{Path: b.callsNode(id), Version: known}, write) //mutant:zk-renewal-tells-calls
	if failed == 0 && errors.Is(err, zk.ErrBadVersion) {                                                          // it was called
		sent = store.Now()
		if all, _, err = multi(ctx, o.link, write); err == nil {
			var g got
			if g, err = get(ctx, o.link, b.callsNode(id), false); err == nil && g.stat == nil {
				err = zk.ErrNoNode
			} else if err == nil {
				known = g.stat.Version
			}
		}
	}
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrSessionExpired):
		o.end()
		return 0, store.ErrLost
	case err != nil:
		return 0, b.failed(err)
	}
	b.hear(all[len(all)-1].Stat, sent)
	b.mu.Lock()
	defer b.mu.Unlock()
	o.calls = max(o.calls, known)
	return int64(known), nil
}

// Call implements [session.Backend].
func (b *backend) Call(ctx context.Context, id session.ID) error {
	d, err := b.connected(ctx)
	if err == nil {
		_, err = ask(ctx, d.link, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(b.callsNode(id), nil, -1) })
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return b.failed(err)
}

// Left implements [session.Backend]. If a session's node is missing, the server has ended the
// session, and never recreates it.
func (b *backend) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	d, err := b.connected(ctx)
	if err != nil {
		return nil, err
	}
	left, errs := make([]time.Duration, len(ids)), make([]error, len(ids))
	each(len(ids), func(i int) { left[i], errs[i] = b.lasts(ctx, d, ids[i]) })
	return left, b.failed(errors.Join(errs...))
}

// lasts returns how long a session lasts at least. If the node of its renewals is missing, the read
// may be stale, or the node was deleted from outside: the session has ended only if the other node
// is missing, too. If either is missing, the session is no longer renewed.
func (b *backend) lasts(ctx context.Context, d *data, id session.ID) (time.Duration, error) {
	g, err := get(ctx, d.link, b.renewalNode(id), false)
	if err == nil && g.stat == nil { //mutant:zk-end-is-fresh
		g, err = get(ctx, d.link, b.callsNode(id), true) //mutant:zk-both-nodes-gone
	}
	if err != nil || g.stat == nil {
		return 0, err
	}
	ms, _ := strconv.ParseInt(string(g.data), 10, 64)
	_, now := b.now()
	return max(time.Duration(ms)*time.Millisecond-time.Duration(now-g.stat.Mtime*1000)*time.Microsecond, time.Millisecond), nil
}

// End implements [session.Backend].
func (b *backend) End(ctx context.Context, id session.ID) error {
	d, err := b.connected(ctx)
	if err == nil {
		_, _, err = multi(ctx, d.link, &zk.DeleteRequest{Path: b.callsNode(id), Version: -1}, &zk.DeleteRequest{Path: b.renewalNode(id), Version: -1})
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return b.failed(err)
	}
	if o := b.disown(id); o != nil {
		b.tasks.Go(o.farewell) // with it its notes end
	}
	return nil
}

// Await implements [session.Backend]. Calls and new connections wake it, too.
func (b *backend) Await(ctx context.Context, id session.ID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	what := watched{b.callsNode(id), false}
	for {
		d, err := b.connected(ctx)
		if err != nil {
			return err
		}
		events := d.expect(what)
		g, err := ask(ctx, d.link, func(c *zk.Conn) (g got, err error) {
			err = d.asking(what, func() (err error) {
				g.data, g.stat, err = c.Get(what.path)
				return err
			})
			return g, err
		})
		if err == nil && g.stat != nil {
			select {
			case e := <-events:
				if e.Type == zk.EventNodeDeleted {
					return nil
				}
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if d.unexpect(what, events); errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return b.failed(err)
	}
}
