package zkstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// A backend is a record.Backend in ZooKeeper. Requests outside the holdfast sessions use one
// connection. Its ZooKeeper session keeps only the listeners and a node to write to.
type backend struct {
	servers   []string
	o         Options
	path      string
	address   string // for messages
	retention time.Duration
	inUse     time.Duration

	ctx   context.Context // of everything that outlives a call; ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	dialed atomic.Pointer[error] // result of the newest connection attempt

	mu    sync.Mutex
	data  *data
	own   map[session.ID]*own
	clock clock
}

// A clock is the server's clock in an answer, with the times when the request was sent and the
// answer received.
type clock struct {
	at          int64 // in microseconds
	sent, heard store.Instant
}

const (
	dataTimeout  = 10 * time.Second // of the session of the connection
	clockAge     = 10 * time.Second // how long the server's clock is assumed to run like the local one
	startTimeout = 5 * time.Second  // for a member that answers
	attempts     = 8                // for a transaction that misses a node which others delete when it is empty
)

// A data is the connection for requests outside the holdfast sessions.
type data struct {
	*link
	node  string        // of this process: a deletion of all data deletes it
	ready chan struct{} // closed when the connection is ready, or never will be
	err   error         // why it never will be
	mu    sync.Mutex
	epoch epoch
}

// An epoch is the state of the parent node of all dates, which is written whenever records are
// deleted. A record read in an earlier epoch is no base for a write, because the versions of a
// recreated node start over.
type epoch struct {
	made    int64
	version int32
}

func newBackend(servers []string, o *Options, path string) *backend {
	b := &backend{
		servers: servers, o: *o, path: path, address: "ZooKeeper at " + strings.Join(servers, ", "), retention: retention, inUse: inUse, own: map[session.ID]*own{},
	}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// connected returns the connection, and opens one if there is none.
func (b *backend) connected(ctx context.Context) (*data, error) {
	b.mu.Lock()
	d := b.data
	if d == nil || d.link != nil && d.over() {
		d = &data{ready: make(chan struct{})}
		b.data = d
		b.tasks.Go(func() { b.start(d) })
	}
	b.mu.Unlock()
	select {
	case <-d.ready:
		return d, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.ctx.Done():
		return nil, b.ctx.Err()
	}
}

// start connects, and writes to a node of its own. Then all later reads are at least as new as
// anything that any member has answered to anyone before.
func (b *backend) start(d *data) {
	ctx, cancel := context.WithTimeout(b.ctx, startPatience)
	defer cancel()
	l, err := b.connect(dataTimeout, 0, func() {})
	if err == nil {
		node := b.path + "/r/" + session.NewID().String()
		var read *zk.Stat
		read, err = ask(ctx, l, func(c *zk.Conn) (dates *zk.Stat, err error) {
			if err := l.greet(c); err != nil {
				return nil, err
			}
			err = b.made(c, func() (err error) {
				if _, dates, err = c.Get(b.path + "/i"); err != nil {
					return err
				}
				sent := store.Now()
				all, _, err := outcome(c.Multi(exists(b.path+"/n"), exists(b.path+"/k"), b.create(node, "", zk.FlagEphemeral), &zk.SetDataRequest{Path: node, Version: -1}))
				if err == nil {
					b.hear(all[len(all)-1].Stat, sent)
				}
				return err
			})
			return dates, err
		})
		if err == nil {
			d.node, d.epoch = node, epoch{read.Czxid, read.Version}
		} else {
			l.end()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.link = l; err != nil {
		d.err, b.data = b.failed(err), nil
	}
	close(d.ready)
}

// leave makes later calls use a new connection, because all data was deleted. Calls under way are
// answered on the old connection: if it were closed, their outcome would be unknown.
func (b *backend) leave(d *data) {
	b.mu.Lock()
	present := b.data == d
	if present {
		b.data = nil
	}
	b.mu.Unlock()
	if !present {
		return
	}
	b.tasks.Go(func() {
		d.rest(b.ctx, dataTimeout) //mutant:zk-leaves-what-is-under-way
		d.farewell()               // each listener makes a new mailbox; the old session may still have one
	})
}

// startPatience bounds the beginning of a connection. Tests replace it.
var startPatience = startTimeout

// made runs f until it misses no node, and creates the parents of all other nodes.
func (b *backend) made(c *zk.Conn, f func() error) (err error) {
	for range attempts {
		if err = f(); !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		for _, dir := range []string{"/i", "/k", "/m", "/n", "/r", "/s"} {
			if err := b.makePath(c, b.path+dir, zk.FlagPersistent); err != nil {
				return err
			}
		}
	}
	return err
}

// makePath creates a node and the missing ones above it. Others delete a container when it is
// empty, so it may be recreated.
func (b *backend) makePath(c *zk.Conn, path string, kind int32) (err error) {
	for range attempts {
		_, err = c.Create(path, nil, kind, b.o.ACL) // also for a container: see wire.outgoing
		above := path[:strings.LastIndexByte(path, '/')]
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode) || above == "":
			return err
		}
		if err := b.makePath(c, above, zk.FlagPersistent); err != nil {
			return err
		}
	}
	return err
}

// hear notes the server's clock at the write of a node.
func (b *backend) hear(written *zk.Stat, sent store.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent >= b.clock.sent {
		b.clock = clock{written.Mtime * 1000, sent, store.Now()} //mutant:zk-clock-ahead
	}
}

// now estimates the server's clock and is never ahead of it. latest is the most that the clock can
// show.
func (b *backend) now() (now, latest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := store.Now()
	return b.clock.at + at.Sub(b.clock.heard).Microseconds(), b.clock.at + 1000 + at.Sub(b.clock.sent).Microseconds()
}

// clocked reads the server's clock again if the last read was long ago.
func (b *backend) clocked(ctx context.Context, d *data) error {
	b.mu.Lock()
	known := store.Now() < b.clock.heard.Add(clockAge)
	b.mu.Unlock()
	if known {
		return nil
	}
	sent := store.Now()
	written, err := ask(ctx, d.link, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(d.node, nil, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		b.leave(d) // all was deleted
	}
	if err == nil {
		b.hear(written, sent)
	}
	return err
}

// abreast is how many requests are under way at once for one call.
const abreast = 32

// each runs f for the numbers below n, up to abreast at a time.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	room := make(chan struct{}, abreast)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			f(i)
		})
	}
	all.Wait()
}

// A got is the result of reading a node.
type got struct {
	data []byte
	stat *zk.Stat // nil: the node does not exist
}

// get reads a node. fresh: it returns the newest state, even if that was written elsewhere.
func get(ctx context.Context, l *link, path string, fresh bool) (got, error) {
	return ask(ctx, l, func(c *zk.Conn) (g got, err error) {
		read := func() (err error) {
			g.data, g.stat, err = c.Get(path)
			return err
		}
		if fresh {
			err = l.reading(path, read)
		} else {
			err = read()
		}
		if errors.Is(err, zk.ErrNoNode) {
			return got{}, nil
		}
		return g, err
	})
}

// multi sends a transaction. It returns which of its operations made it fail, or -1.
func multi(ctx context.Context, l *link, ops ...any) (all []zk.MultiResponse, failed int, err error) {
	return outcome(ask(ctx, l, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) }))
}

func outcome(all []zk.MultiResponse, said error) (_ []zk.MultiResponse, failed int, err error) {
	if failed = slices.IndexFunc(all, func(r zk.MultiResponse) bool { return r.Error != nil }); failed >= 0 {
		said = all[failed].Error
	}
	return all, failed, said
}

func exists(path string) any { return &zk.CheckVersionRequest{Path: path, Version: -1} }

func (b *backend) create(path, data string, kind int32) any {
	return &zk.CreateRequest{Path: path, Data: []byte(data), Acl: b.o.ACL, Flags: kind}
}

// epochNow returns the epoch as last read. epochAgain reads it.
func (d *data) epochNow() epoch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.epoch
}

func (b *backend) epochAgain(ctx context.Context, d *data) error {
	g, err := get(ctx, d.link, b.path+"/i", false)
	if err != nil {
		return err
	}
	if g.stat == nil { // all was deleted
		b.leave(d)
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch = epoch{g.stat.Czxid, g.stat.Version}
	return nil
}

func (e epoch) String() string {
	return strconv.FormatInt(e.made, 36) + "-" + strconv.Itoa(int(e.version))
}

// Close implements [record.Backend]. It ends only those sessions of this process for which End was
// called.
func (b *backend) Close() error {
	b.end()
	b.mu.Lock()
	d := b.data
	for _, o := range b.own {
		o.end()
	}
	b.mu.Unlock()
	if d != nil {
		if <-d.ready; d.err == nil {
			d.farewell()
		}
	}
	b.tasks.Wait()
	return nil
}
