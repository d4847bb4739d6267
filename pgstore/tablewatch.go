package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// pingEvery is how often the connection that listens is tried when it is
	// silent.
	pingEvery = 5 * time.Second
	// One that breaks is opened anew after a pause between these.
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
	// The first notification, which we send to ourselves, is waited for at most
	// so long: where a pooler is in between, and on a connection to the server
	// itself, which may be slow and no more.
	pooledEcho = 2 * time.Second
	directEcho = 30 * time.Second
)

// Watch implements [store.Watcher]: one LISTEN, on a connection of its own,
// until Close. An error matches store.ErrUnsupported where there cannot be one:
// Options.NoListen, a driver that cannot, a pooler in between that hands the
// connection to others. A connection that is not open when ctx ends is opened all
// the same, for the next call.
func (s *Store) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	if s.noListen {
		return fmt.Errorf("%w: listen on %s: Options.NoListen is set", store.ErrUnsupported, s.address)
	}
	s.opening.Lock()
	m := s.opening.of[p]
	if m == nil || m.failed() { //mutant:pg-listen-begins-anew
		m = &mailbox{s: s, channel: "holdfast_" + p.String(), sink: sink, open: make(chan struct{})}
		s.opening.of[p] = m
		s.tasks.Go(m.run)
	}
	s.opening.Unlock()
	var err error
	select {
	case <-m.open:
		s.opening.Lock()
		if s.opening.of[p] == m {
			delete(s.opening.of, p)
		}
		s.opening.Unlock()
		err = m.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.ctx.Done():
		err = s.ctx.Err()
	}
	if err == nil || errors.Is(err, store.ErrUnsupported) {
		return err
	}
	return s.failed("listen", err)
}

// failed reports whether the first attempt has ended, and in vain.
func (m *mailbox) failed() bool {
	select {
	case <-m.open:
		return m.err != nil
	default:
		return false
	}
}

// opening is the mailboxes of which no Watch has the outcome yet.
type opening struct {
	sync.Mutex
	of map[store.Process]*mailbox
}

// A mailbox is where the notifications for one process arrive.
type mailbox struct {
	s       *Store
	channel string
	sink    func(store.Notification)
	open    chan struct{} // closed when the first attempt has ended
	err     error         // of that
}

// run keeps the mailbox open until the store is closed, unless the first attempt fails.
func (m *mailbox) run() {
	ctx, opened := m.s.ctx, false
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		err := m.read(ctx, func() {
			pause = leastPause
			if opened {
				m.sink(store.Notification{}) // some may have been missed
				return
			}
			opened = true
			close(m.open)
		})
		if !opened {
			m.err = err
			close(m.open)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// read delivers what arrives on one connection, until it breaks or ctx ends.
// It calls listening once notifications come.
func (m *mailbox) read(ctx context.Context, listening func()) error {
	soon, cancel := context.WithTimeout(ctx, directEcho)
	defer cancel()
	config, err := m.s.listenConfig(soon)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(soon, config)
	if err != nil {
		return err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(bye)
	}()
	// The simple protocol has no prepared statement for a pooler to lose. Where
	// idle connections are closed, this one is not: its silence is its work.
	begin := "SELECT pg_backend_pid(), set_config('idle_session_timeout', '0', false); LISTEN " + connect.Quote(m.channel)
	answers, err := conn.PgConn().Exec(soon, begin).ReadAll()
	if err != nil {
		return err
	}
	// A pooler has numbers of its own. On a connection to the server that has the tables nothing
	// needs to be tried: each notification wakes all who listen, and when many come they would all be.
	direct := string(answers[0].Rows[0][0]) == strconv.FormatUint(uint64(conn.PgConn().PID()), 10)
	if !direct || m.s.listenAt != "" { //mutant:pg-listen-is-tried
		within := pooledEcho
		if direct {
			within = directEcho
		}
		if err := m.echo(ctx, conn, within); err != nil {
			return err
		}
	}
	listening()
	for {
		n, err := m.next(ctx, conn, m.s.pingEvery)
		if err != nil {
			return err
		}
		if n == "" {
			if err := m.ping(ctx, conn); err != nil {
				return err
			}
			continue
		}
		if h, ok := notification(n); ok {
			m.s.heard(&h)
			m.sink(h)
		}
	}
}

// listenConfig is how to open the connection that listens.
func (s *Store) listenConfig(ctx context.Context) (*pgx.ConnConfig, error) {
	c, err := s.db.config(ctx)
	if err != nil {
		return nil, err
	}
	c.OnNotification = nil
	host, port, _ := s.listenHost()
	if host == "" { //mutant:pg-listen-host
		return c, nil
	}
	if c.TLSConfig != nil && c.TLSConfig.ServerName == c.Host {
		c.TLSConfig = c.TLSConfig.Clone()
		c.TLSConfig.ServerName = host
	}
	c.Host, c.Port, c.Fallbacks = host, port, nil
	return c, nil
}

// listenHost reads Options.Listen; host is empty if it is.
func (s *Store) listenHost() (host string, port uint16, err error) {
	if s.listenAt == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(s.listenAt)
	n, err2 := strconv.ParseUint(text, 10, 16)
	if err = errors.Join(err, err2); err != nil || host == "" || n == 0 {
		return "", 0, fmt.Errorf("%w: the address to listen at, %.80q: want host:port of the PostgreSQL server itself", store.ErrInvalid, s.listenAt)
	}
	return host, uint16(n), nil
}

// next is the next notification, or "" if none came within the time.
func (m *mailbox) next(ctx context.Context, conn *pgx.Conn, within time.Duration) (string, error) {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		return n.Payload, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case waiting.Err() != nil && !conn.IsClosed():
		return "", nil
	}
	return "", err
}

func (m *mailbox) ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, max(m.s.pingEvery, time.Second))
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol)
	return err
}

// echo sends a notification to ourselves over the pool. A pooler answers LISTEN
// as if it did it, and then gives the server's connection to somebody else: no
// notification comes.
func (m *mailbox) echo(ctx context.Context, conn *pgx.Conn, within time.Duration) error {
	args := []any{m.channel}
	err := m.s.db.query(ctx, "SELECT pg_notify($1::text, 'echo')::text", args, how{}, func(func(...any) error) error { return nil })
	if err != nil && !unprepared(err) {
		return err
	}
	n, err := m.next(ctx, conn, within)
	if err != nil {
		return err
	}
	if n == "" {
		return fmt.Errorf("%w: listen on %s: no notification comes within %v, as behind a pooler that shares connections: waiters poll; Options.Listen names the server itself", store.ErrUnsupported, m.s.address, within)
	}
	return nil
}

// notification reads a notification: token and how many, 0 and 0 of an upgrade, 0 and 1 of who asks to give up, the id,
// and the name in hexadecimal.
func notification(payload string) (h store.Notification, ok bool) {
	part := strings.Split(payload, " ")
	if len(part) != 4 {
		return h, false
	}
	token, err1 := strconv.ParseInt(part[0], 10, 64)
	n, err2 := strconv.Atoi(part[1])
	id, err3 := store.ParseID(part[2])
	name, err4 := hex.DecodeString(part[3])
	if errors.Join(err1, err2, err3, err4) != nil {
		return h, false
	}
	if token == 0 { // then it says why the owner is to look, which its renewal tells
		n = 0
	}
	return store.Notification{Name: string(name), ID: id, Token: token, N: n}, true
}

// heard notes that a claim was granted: its owner may take the notification for the answer, so this
// store may be asked for nothing but what becomes of the hold.
func (s *Store) heard(n *store.Notification) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	switch m := s.claims.of[n.ID]; {
	case m == nil || m.name != n.Name:
	case n.Token != 0:
		m.heard = n.Token //mutant:pg-granted-by-a-notification
		s.waited(n.Name)
	default: // somebody asks for it, or its upgrade was granted
		m.asked, m.askedAt = true, store.Now() //mutant:pg-asked-by-a-notification
	}
}
