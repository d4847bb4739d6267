package mssqlstore

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/microsoft/go-mssqldb"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// mute returns the URL of a port that accepts connections and answers nothing, like a frozen server.
func mute(t *testing.T) (url string, dialed *atomic.Int64) {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialed = new(atomic.Int64)
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for {
			c, err := at.Accept()
			if err != nil {
				return
			}
			dialed.Add(1)
			defer c.Close()
		}
	}()
	t.Cleanup(func() { at.Close(); <-ended })
	return "sqlserver://" + at.Addr().String() + "?database=d", dialed
}

// The driver itself sets no limit.
func TestAServerThatIsSilentIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	url, dialed := mute(t)
	s, err := Open(url+"&connection+timeout=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	done := make(chan error, 1)
	go func() { _, err := s.b.Load(t.Context(), "n"); done <- err }()
	if err, ok := within(done); !ok || err == nil || store.Definite(err) || dialed.Load() == 0 {
		t.Errorf("%v (in time: %v) after %d connections, want an indeterminate error", err, ok, dialed.Load())
	}
}

// A caller with less time than a login takes does not end the login: the next caller uses its connection.
func TestALogInContinuesWithoutItsCaller(t *testing.T) {
	t.Parallel()
	url, dialed := mute(t)
	config, _, err := parseURL(url+"&connection+timeout=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { _, err := connector{mssql.NewConnectorConfig(config)}.Connect(ctx); done <- err }()
	if err, ok := within(done); !ok || err == nil || errors.Is(err, context.Canceled) || dialed.Load() == 0 {
		t.Errorf("%v (in time: %v) after %d connections, want the server's silence, not the end of the context", err, ok, dialed.Load())
	}
}

// This holds also on a pool whose driver ignores the context.
func TestACallReturnsWhenItsContextEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for what, openAt := range map[string]func(url string) (*Store, error){
		"connections of our own": func(url string) (*Store, error) { return Open(url, nil) },
		"a pool of the caller's": func(url string) (*Store, error) {
			db, err := sql.Open("sqlserver", url)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { db.Close() })
			return New(db, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			url, dialed := mute(t)
			s, err := openAt(url)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done, second := make(chan error, 1), make(chan error, 1)
			go func() { _, err := s.b.Load(ctx, "n"); done <- err }()
			until(t, "the store has dialed", func() bool { return dialed.Load() > 0 })
			// The second call waits for the first, which reads the tables.
			go func() { _, err := s.b.Left(ctx, []session.ID{{1}}); second <- err }()
			cancel()
			for _, call := range []chan error{done, second} {
				if err, ok := within(call); !ok || !errors.Is(err, context.Canceled) {
					t.Errorf("%v (in time: %v), want the context's error", err, ok)
				}
			}
			closed := make(chan error, 1)
			go func() { closed <- s.Close() }()
			if _, ok := within(closed); !ok {
				t.Errorf("not closed after %v", patience)
			}
		})
	}
}

// within returns what the channel delivers, if it comes in time.
func within(c chan error) (error, bool) {
	select {
	case err := <-c:
		return err, true
	case <-time.After(patience):
		return nil, false
	}
}

// The driver uses the connections that Options.Dial makes, and the error of a dial is returned unchanged.
func TestConnectionsAreMadeByDial(t *testing.T) {
	t.Parallel()
	want := errors.New("no way")
	var asked atomic.Pointer[string]
	s, err := Open("sqlserver://192.0.2.1:1433?database=d", &Options{Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		at := network + " " + address
		asked.Store(&at)
		return nil, want
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.b.Load(t.Context(), "n"); !errors.Is(err, want) {
		t.Errorf("%v, want the error of Dial", err)
	}
	if at := asked.Load(); at == nil || *at != "tcp 192.0.2.1:1433" {
		t.Errorf("got dials to %v", at)
	}
}
