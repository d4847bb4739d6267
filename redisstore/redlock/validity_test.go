package redlock

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// thawedAfter freezes the servers and starts f. It thaws the servers once they have been sent a request, and returns at which instant.
func thawedAfter(t *testing.T, s *Store, freeze, thaw func(), f func()) (thawed store.Instant) {
	t.Helper()
	idle(t, s)
	freeze()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	flying(t, s)
	time.Sleep(10 * time.Millisecond)
	thawed = store.Now()
	thaw()
	<-done
	return thawed
}

func TestALeaseCountsFromBeforeTheFirstNodeWasAsked(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{Timeout: longAnswer})
	freeze := func() {
		for _, server := range servers {
			server.Freeze()
		}
	}
	thaw := func() {
		for _, server := range servers {
			server.Thaw()
		}
	}
	free(t, s, "x") // so that there is a newest token: otherwise the first ask's number would be too old
	c := mutex("x")
	var a store.Answer
	var err error
	thawed := thawedAfter(t, s, freeze, thaw, func() { a, err = s.Ask(t.Context(), c) })
	if err != nil || !a.Granted || a.From == 0 || a.From >= thawed {
		t.Fatalf("grant of nodes that could answer only from %v on: got %+v, %v", thawed, a, err)
	}
	cl := s.claims.get(c.ID)
	if off := a.From.Add(a.TTL).Sub(cl.deadline); off < c.TTL/100 {
		t.Errorf("a hold of %v ends %v before its TTL, want a hundredth, as the nodes' clocks may be faster", c.TTL, off)
	}
	var r store.Renewal
	h := store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}
	thawed = thawedAfter(t, s, freeze, thaw, func() { r = s.Renew(t.Context(), []store.Hold{h})[0] })
	if r.Err != nil || r.From == 0 || r.From >= thawed {
		t.Errorf("renewal by nodes that could answer only from %v on: got %+v", thawed, r)
	}
	if off := r.From.Add(r.TTL).Sub(cl.deadline); off < c.TTL/100 {
		t.Errorf("a renewal for %v ends %v before its TTL, want a hundredth", c.TTL, off)
	}
}

// An entry that exists may not have existed all the time: a late copy of the ask can have recreated it.
func TestARenewalAfterTheOldDeadlineIsALoss(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{})
	h := holdOnAll(t, s, mutex("x"))
	if err := clientsOf(t, servers[2].Addr)[0].Del(t.Context(), s.key("x")).Err(); err != nil {
		t.Fatal(err)
	}
	s.claims.get(h.ID).deadline = store.Now()
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Fatalf("renewal after the deadline by nodes that have the hold: %v, want ErrLost", err)
	}
	until(t, "the rest of the hold is released", func() bool { return len(listed(t, s, "x").Entries) == 0 })
	idle(t, s) // the call itself waits for most nodes only
	for i := range servers {
		value, err := clientsOf(t, servers[i].Addr)[0].Get(t.Context(), s.key("x")).Result()
		if err == nil && len(value) != headSize {
			t.Errorf("node %d still has it, or again: %q", i, value)
		}
	}
}

// A notification only makes the waiter ask again: the number of a claim that waits is not a token.
func TestANotificationNeverCarriesAToken(t *testing.T) {
	t.Parallel()
	_, s := nodes(t, 3, Options{})
	s.straggle = longAnswer // the test waits for a node that has freed it and stalls
	notifications := make(chan store.Notification, 100)
	if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
		t.Fatal(err)
	}
	h := mustHold(t, s, mutex("x"))
	waits := mutex("x")
	if a := mustAsk(t, s, waits); a.Granted {
		t.Fatalf("granted while another claim holds the lock: %+v", a)
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case notification := <-notifications:
			if notification.Token != 0 || notification.N != 0 {
				t.Errorf("got a notification with a token: %+v", notification)
			}
			if notification.ID != waits.ID {
				continue
			}
			if a := mustAsk(t, s, waits); !a.Granted || a.Token <= h.Token {
				t.Errorf("ask after a notification: got %+v", a)
			}
			return
		case <-timer.C:
			t.Fatal("got no notification")
		}
	}
}

// A client with another maximum may have found the node without a record after this client had used it.
func TestANodeThatComesToHaveAnotherMaximumGrantsNothing(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{MaxTTL: 30 * time.Second})
	for _, server := range servers {
		if err := clientsOf(t, server.Addr)[0].Set(t.Context(), s.record(), openRecord(40*time.Second), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	c := mutex("x")
	c.TTL = 10 * time.Second
	if a, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "40s") {
		t.Errorf("got %+v, %v, want ErrInvalid with the other maximum", a, err)
	}
}

// severable is a path to a server that can be cut.
type severable struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (v *severable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cut {
		return nil, errors.New("the link is cut")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		v.conns = append(v.conns, conn)
	}
	return conn, err
}

func (v *severable) sever(cut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.conns {
		c.Close()
	}
	v.cut, v.conns = cut, nil
}

func TestAReturningNodeGetsReleasesThatItMissed(t *testing.T) {
	t.Parallel()
	addrs, o := testserver.SharedRedises(t, 3), apart()
	var way severable
	far := redis.NewClient(&redis.Options{Addr: addrs[2], MaxRetries: -1, DialerRetries: 1, Dialer: way.dial})
	t.Cleanup(func() { far.Close() })
	s := trusting(t, append(clientsOf(t, addrs[:2]...), far), o)
	defer s.Close()
	allUp(t, s)
	h := holdOnAll(t, s, mutex("x")) // the node on the severable path has it too
	direct := clientsOf(t, addrs[2])[0]
	size := func() int64 { return direct.StrLen(t.Context(), s.key("x")).Val() }
	way.sever(true)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	until(t, "the node is out of use", func() bool { return nodesUp(s) == 2 })
	way.sever(false)
	until(t, "the hold is released there, too", func() bool { return size() == int64(headSize) })
}

func TestAClockOffsetWithinTheRoundTripIsNoError(t *testing.T) {
	asked := time.Now()
	for _, c := range []struct{ clock, took, want time.Duration }{
		{0, 0, 0},
		{0, 3 * time.Second, 0}, // our process stalled after the answer
		{3 * time.Second, 3 * time.Second, 0},
		{time.Hour, time.Second, time.Hour - time.Second/2},
		{-time.Hour, time.Second, -time.Hour - time.Second/2},
		{time.Second, 0, time.Second},
	} {
		if got := clockOff(asked.Add(c.clock), asked, asked.Add(c.took)); got != c.want {
			t.Errorf("a clock that read %v %v after the request was sent: got %v apart, want %v", c.clock, c.took, got, c.want)
		}
	}
}
