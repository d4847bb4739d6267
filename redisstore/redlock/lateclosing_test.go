package redlock

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// lateClosing returns the address of a path to a server. The client learns of no closed connection on it before tell is called.
func lateClosing(t *testing.T, server string) (addr string, tell func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan struct{})
	tell = sync.OnceFunc(func() { close(reported) })
	var running sync.WaitGroup
	pass := func(client net.Conn) {
		defer client.Close()
		if upstream, err := net.Dial("tcp", server); err == nil {
			running.Go(func() {
				io.Copy(upstream, client)
				upstream.Close()
			})
			io.Copy(client, upstream)
		}
		<-reported
	}
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { pass(client) })
		}
	})
	t.Cleanup(func() {
		tell()
		l.Close()
		running.Wait()
	})
	return l.Addr().String(), tell
}

// Until the client learns of the closed connection, a dead node looks like one that does not answer.
func TestANodeWithALateFINDelaysNoCallAndIsRejoined(t *testing.T) {
	t.Parallel()
	gone := testserver.Redis(t)
	addr, tell := lateClosing(t, gone.Addr)
	s := trusting(t, clientsOf(t, append(testserver.SharedRedises(t, 2), addr)...), &Options{Prefix: apart().Prefix, Timeout: 10 * time.Second})
	t.Cleanup(func() { s.Close() })
	allUp(t, s)
	held := holdOnAll(t, s, mutex("held"))
	gone.Kill()
	for i := range 30 {
		free(t, s, fmt.Sprint(i))
		if err := s.Renew(t.Context(), []store.Hold{held})[0].Err; err != nil {
			t.Fatal(err)
		}
	}
	gone.Restart()
	tell()
	until(t, "the node is in use again", func() bool { return nodesUp(s) == 3 })
	if err := s.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
}
