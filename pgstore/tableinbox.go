package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// pingEvery is how often a silent connection that listens is tested.
	pingEvery = 5 * time.Second
	// Bounds of the pause before a broken connection is replaced.
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
	// How long to wait for the first notification, which we send to ourselves: behind a pooler, and
	// on a connection to the server itself, which may just be slow.
	pooledEcho = 2 * time.Second
	directEcho = 30 * time.Second
)

// An inbox is the one connection of a Store that listens. It is open while there are listeners.
type inbox struct {
	mu      sync.Mutex
	of      map[string]*channel // by name
	keeps   bool                // a goroutine keeps the connection open
	differs bool                // the connection does not yet follow the current channels
	wake    context.CancelFunc  // ends the wait for the next notification
}

// A channel is a channel with listeners. It is guarded by inbox.mu.
type channel struct {
	listeners map[*listener]bool
	asked     bool          // the current connection listens to it
	isOpen    bool          // some connection has listened to it
	open      chan struct{} // closed when isOpen is set, or when the channel was given up
	err       error         // why it was given up
}

// A listener receives the notifications of a channel.
type listener struct {
	heard  func(payload string)
	missed func() // some may have been missed
	stays  bool   // until Close
	gone   bool   // it has stopped; guarded by inbox.mu
}

// add begins to listen to a channel. It does not add a listener that stays if the channel has
// listeners.
func (b *inbox) add(s *Store, name string, l *listener) *channel {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.of[name]
	if c == nil {
		if b.of == nil {
			b.of = map[string]*channel{}
		}
		c = &channel{listeners: map[*listener]bool{}, open: make(chan struct{})}
		b.of[name] = c
	}
	if !l.stays || len(c.listeners) == 0 {
		c.listeners[l] = true
	}
	if !b.keeps && s.ctx.Err() == nil { //mutant:pg-listen-begins-anew
		b.keeps = true
		s.tasks.Go(func() { b.keep(s) })
	}
	if !c.asked {
		b.differ()
	}
	return c
}

// remove removes a listener.
func (b *inbox) remove(name string, l *listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.of[name]
	if l.gone || c == nil {
		return
	}
	l.gone = true
	delete(c.listeners, l) //mutant:pg-name-watched-for-ever
	if len(c.listeners) == 0 {
		b.differ()
	}
}

// differ makes the connection follow the current channels. b.mu is held.
func (b *inbox) differ() {
	if b.differs = true; b.wake != nil {
		b.wake()
	}
}

// keep keeps the connection open while there are listeners. When an attempt fails, it gives up new
// channels.
func (b *inbox) keep(s *Store) {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		idle, err := b.read(s, func() { pause = leastPause })
		if b.broke(idle, err, s.ctx.Err() != nil) {
			return
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// broke notes that the connection has ended, and reports whether none is needed any more.
func (b *inbox) broke(idle bool, err error, closed bool) (done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, c := range b.of {
		c.asked = false //mutant:pg-channels-listened-to-again
		givenUp := !c.isOpen && !idle
		if givenUp {
			c.err = err
			close(c.open)
		}
		if givenUp || closed || len(c.listeners) == 0 { //mutant:pg-failed-listen-is-forgotten
			delete(b.of, name)
		}
	}
	b.wake, b.differs, b.keeps = nil, true, len(b.of) > 0
	return !b.keeps
}

// read delivers the notifications of one connection until it breaks, the Store is closed, or there
// are no listeners (idle). It calls listening once notifications arrive.
func (b *inbox) read(s *Store, listening func()) (idle bool, err error) {
	ctx := s.ctx
	soon, cancel := context.WithTimeout(ctx, directEcho)
	defer cancel()
	config, err := s.listenConfig(soon)
	if err != nil {
		return false, err
	}
	conn, err := pgx.ConnectConfig(soon, config)
	if err != nil {
		return false, err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(bye)
	}()
	// The simple protocol has no prepared statement for a pooler to lose. The server must not close
	// this connection for being idle: it is silent by design.
	answers, err := conn.PgConn().Exec(soon, "SELECT pg_backend_pid(), set_config('idle_session_timeout', '0', false)").ReadAll()
	if err != nil {
		return false, err
	}
	// A pooler has process IDs of its own. A connection to the server that has the tables needs no
	// test: each notification wakes all listeners, and if many processes start at once, they would
	// all wake each other.
	direct := string(answers[0].Rows[0][0]) == strconv.FormatUint(uint64(conn.PgConn().PID()), 10)
	if !direct || s.listenAt != "" { //mutant:pg-listen-is-tried
		within := pooledEcho
		if direct {
			within = directEcho
		}
		if err := b.echo(s, conn, within); err != nil {
			return false, err
		}
	}
	for {
		idle, err := b.follow(ctx, conn, listening)
		if idle || err != nil {
			return idle, err
		}
		n, err := b.next(ctx, conn, s.pingEvery)
		if err != nil {
			return false, err
		}
		switch {
		case n != nil:
			b.deliver(n.Channel, n.Payload)
		case b.isBehind():
		default:
			if err := b.ping(ctx, conn, s.pingEvery); err != nil {
				return false, err
			}
		}
	}
}

// follow makes the connection listen to the channels with listeners, and to no others. It reports whether there
// are none.
func (b *inbox) follow(ctx context.Context, conn *pgx.Conn, listening func()) (idle bool, err error) {
	b.mu.Lock()
	if !b.differs {
		b.mu.Unlock()
		return false, nil
	}
	b.differs = false
	var do []string
	more := map[string]*channel{}
	for name, c := range b.of {
		switch {
		case len(c.listeners) == 0:
			delete(b.of, name)
			if c.asked {
				do = append(do, "UNLISTEN "+connect.Quote(name)) //mutant:pg-name-unlistened
			}
		case !c.asked:
			c.asked, more[name] = true, c
			do = append(do, "LISTEN "+connect.Quote(name))
		}
	}
	idle = len(b.of) == 0
	b.mu.Unlock()
	if idle || len(do) == 0 {
		return idle, nil
	}
	soon, cancel := context.WithTimeout(ctx, directEcho)
	defer cancel()
	if _, err := conn.PgConn().Exec(soon, strings.Join(do, "; ")).ReadAll(); err != nil {
		return false, err
	}
	listening()
	var missed []*listener
	b.mu.Lock()
	for _, c := range more {
		if !c.isOpen {
			c.isOpen = true
			close(c.open)
			continue
		}
		for l := range c.listeners {
			missed = append(missed, l)
		}
	}
	b.mu.Unlock()
	for _, l := range missed { // some may have been missed
		l.missed()
	}
	return false, nil
}

// deliver passes a notification to the listeners of its channel.
func (b *inbox) deliver(name, payload string) {
	b.mu.Lock()
	var all []*listener
	if c := b.of[name]; c != nil {
		for l := range c.listeners {
			all = append(all, l)
		}
	}
	b.mu.Unlock()
	for _, l := range all {
		l.heard(payload)
	}
}

// isBehind reports whether the connection does not yet follow the current channels.
func (b *inbox) isBehind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.differs
}

// next returns the next notification, or nil if none came within the time or before the channels
// changed.
func (b *inbox) next(ctx context.Context, conn *pgx.Conn, within time.Duration) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	b.mu.Lock()
	if b.wake = cancel; b.differs {
		cancel()
	}
	b.mu.Unlock()
	return receive(ctx, waiting, conn)
}

// receive returns the next notification, or nil if none came before the end of waiting, which ends
// with ctx.
func receive(ctx, waiting context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	n, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case waiting.Err() != nil && !conn.IsClosed():
		return nil, nil
	}
	return nil, err
}

func (b *inbox) ping(ctx context.Context, conn *pgx.Conn, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(within, time.Second))
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol)
	return err
}

// echo sends a notification to this process over the pool. A pooler answers LISTEN as if it worked,
// and then gives the server's connection to another client, so no notification arrives.
func (b *inbox) echo(s *Store, conn *pgx.Conn, within time.Duration) error {
	own := "holdfast_" + store.NewProcess().String()
	waiting, cancel := context.WithTimeout(s.ctx, within)
	defer cancel()
	if _, err := conn.PgConn().Exec(waiting, "LISTEN "+connect.Quote(own)).ReadAll(); err != nil {
		return err
	}
	err := s.db.query(s.ctx, "SELECT pg_notify($1::text, 'echo')::text", []any{own}, how{}, func(func(...any) error) error { return nil })
	if err != nil && !unprepared(err) {
		return err
	}
	waiting, cancel = context.WithTimeout(s.ctx, within) // counts from the sending
	defer cancel()
	n, err := receive(s.ctx, waiting, conn)
	if err == nil && n == nil {
		err = fmt.Errorf("%w: listen on %s: no notification comes within %v, as behind a pooler that shares connections: waiters poll; Options.Listen names the server itself", store.ErrUnsupported, s.address, within)
	}
	return err
}
