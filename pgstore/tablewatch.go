package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/store"
)

// Watch implements [store.Watcher]. It listens to the channel of the process until Close, on the
// one connection that the Store has for all channels. An error matches store.ErrUnsupported where
// that is impossible: with Options.NoListen, a driver that cannot listen, or a pooler that hands
// the connection to others. A connection that is not open when ctx ends is opened nevertheless, for
// the next call.
func (s *Store) Watch(ctx context.Context, p store.Process, sink func(store.Notification)) error {
	_, err := s.listen(ctx, "holdfast_"+p.String(), &listener{
		stays: true,
		heard: func(payload string) {
			if h, ok := notification(payload); ok {
				s.heard(&h)
				sink(h)
			}
		},
		missed: func() { sink(store.Notification{}) },
	})
	return err
}

// WatchName implements [store.NameWatcher]. It listens to the channel of the name on the same
// connection. The errors are those of Watch.
func (s *Store) WatchName(ctx context.Context, name string, changed func()) (stop func(), err error) {
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	return s.listen(ctx, nameChannel(name), &listener{heard: func(string) { changed() }, missed: changed})
}

// nameChannel returns the channel for changes of a name's holders. Stores with other tables share
// it, so some notifications are false.
func nameChannel(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "holdfast_" + hex.EncodeToString(sum[:16])
}

// listen begins to listen to a channel, and returns once nothing sent to it can be missed.
func (s *Store) listen(ctx context.Context, channel string, l *listener) (stop func(), err error) {
	if s.noListen {
		return nil, fmt.Errorf("%w: listen on %s: Options.NoListen is set", store.ErrUnsupported, s.address)
	}
	c := s.inbox.add(s, channel, l)
	select {
	case <-c.open:
		err = c.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.ctx.Done():
		err = s.ctx.Err()
	}
	stop = func() { s.inbox.remove(channel, l) }
	if err == nil {
		return stop, nil
	}
	if !l.stays {
		stop()
	}
	if errors.Is(err, store.ErrUnsupported) {
		return nil, err
	}
	return nil, s.failed("listen", err)
}

// listenConfig returns how to open the connection that listens.
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

// listenHost parses Options.Listen; host is empty if Listen is.
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

// notification parses a notification: token and block size (0 and 0 for an upgrade, 0 and 1 for a
// request to give up), the id, and the name in hexadecimal.
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
	if token == 0 { // n only says why the owner must renew; the renewal shows the change
		n = 0
	}
	return store.Notification{Name: string(name), ID: id, Token: token, N: n}, true
}

// heard notes that a claim was granted: its owner may use the notification as the answer, so the
// next call may be a renewal or a release.
func (s *Store) heard(n *store.Notification) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	switch m := s.claims.of[n.ID]; {
	case m == nil || m.name != n.Name:
	case n.Token != 0:
		m.heard = n.Token //mutant:pg-granted-by-a-notification
		s.waited(n.Name)
	default: // it is asked to give up, or its upgrade was granted
		m.asked, m.askedAt = true, store.Now() //mutant:pg-asked-by-a-notification
	}
}
