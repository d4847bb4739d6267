package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestAReopenedMailboxReportsMissedNotifications(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	direct := clientOf(t, server.Addr)
	p := newProxy(t, server.Addr)
	s := storeOn(t, clientOf(t, p.addr), nil)
	defer s.Close()
	s.pingEvery = longAnswer // the mailbox reopens because its connection has ended, not because an answer is late
	notifications := make(chan store.Notification, 100)
	if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
		t.Fatal(err)
	}
	next := func() store.Notification {
		t.Helper()
		select {
		case h := <-notifications:
			return h
		case <-time.After(patience):
			t.Fatalf("no notification within %v", patience)
			return store.Notification{}
		}
	}
	handOver := func(name string) {
		t.Helper()
		h, w := mustHold(t, s, mutex(name)), mutex(name)
		if a := mustAsk(t, s, w); a.Granted {
			t.Fatal("two claims hold the lock")
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if got := next(); got.Name != name || got.ID != w.ID || got.Token <= h.Token {
			t.Errorf("got notification %+v, want one for %v of %q", got, w.ID, name)
		}
	}
	handOver("before")
	if n, err := direct.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Int(); err != nil || n != 1 {
		t.Fatalf("CLIENT KILL: %d, %v", n, err)
	}
	if got := next(); got != (store.Notification{}) {
		t.Errorf("after the break: got notification %+v, want the zero notification", got)
	}
	handOver("after")

	server.Kill()
	server.Restart()
	if got := next(); got != (store.Notification{}) {
		t.Errorf("after the restart: got notification %+v, want the zero notification", got)
	}
	until(t, "the client has connected to the server again", func() bool {
		_, err := s.Poll(t.Context(), mutex("x"))
		return err == nil
	})
	handOver("after a restart")
}

func TestASilentMailboxStaysOpenAndOneThatHangsIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("protocol ", protocol), func(t *testing.T) {
			t.Parallel()
			aSilentMailbox(t, protocol)
		})
	}
}

func aSilentMailbox(t *testing.T, protocol int) {
	server := testserver.Redis(t)
	p := newProxy(t, server.Addr)
	s := storeOn(t, clientOf(t, p.addr, func(o *redis.Options) { o.Protocol, o.ReadTimeout = protocol, 3*time.Second }), nil)
	defer s.Close()
	s.pingEvery = 4 * time.Second // a machine that stalls for a while answers within that
	notifications := make(chan store.Notification, 100)
	until(t, "a mailbox is open", func() bool { return s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }) == nil })
	eyes := clientOf(t, server.Addr)
	tries := func() (n int) {
		info, err := eyes.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(info) {
			fmt.Sscanf(line, "cmdstat_publish:calls=%d,", &n)
		}
		return n
	}
	until(t, "the mailbox was tested several times, and no notification arrived", func() bool { // the machine may stall for longer once
		begun := tries()
		until(t, "the mailbox was tested several times", func() bool { return tries() >= begun+2 })
		select {
		case h := <-notifications:
			t.Logf("protocol %d: a silent mailbox got %+v", protocol, h)
			return false
		default:
			return true
		}
	})
	opened := p.accepted.Load()
	server.Freeze()
	until(t, "the mailbox was replaced", func() bool { return p.accepted.Load() > opened })
	server.Thaw()
	select {
	case h := <-notifications:
		if h != (store.Notification{}) {
			t.Errorf("protocol %d: after the break: got notification %+v, want the zero notification", protocol, h)
		}
	case <-time.After(patience):
		t.Errorf("protocol %d: no notification within %v", protocol, patience)
	}
}
