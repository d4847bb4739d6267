package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestNoErrorShowsThePassword(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	good := user(t, server, "locks", append(rights(t), "+select")...)
	mustHold(t, storeOn(t, good, nil), mutex("the password is right"))
	dead := testserver.Redis(t)
	dead.Kill()

	// One password is as people paste it, and the other as it should be.
	escaped := strings.NewReplacer("/", "%2F", ":", "%3A", "@", "%40", "%", "%25", "{", "%7B", "}", "%7D").Replace(secret)
	parts := []string{secret, escaped, "s3cret", "p4ss", "w:rd"}
	none := func(what string, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
			return
		}
		for _, p := range parts {
			if strings.Contains(err.Error(), p) {
				t.Errorf("%s: the error shows %q: %v", what, p, err)
			}
		}
	}
	use := func(what, url string, want error) {
		t.Helper()
		s, err := Open(url, nil)
		if err != nil {
			none(what+", open", err, want)
			return
		}
		defer s.Close()
		if strings.Contains(s.Describe().Store, "p4ss") {
			t.Errorf("%s: Describe shows %q", what, s.Describe().Store)
		}
		_, err = s.Ask(t.Context(), mutex("n"))
		none(what+", ask", err, want)
		none(what+", renew", s.Renew(t.Context(), []store.Hold{{Name: "n", Token: 1, TTL: time.Minute}})[0].Err, want)
		for _, err := range s.List(t.Context(), "") {
			none(what+", list", err, want)
		}
		none(what+", watch", s.Watch(t.Context(), me, func(store.Notification) {}), want)
	}
	use("wrong password", "redis://locks:"+escaped+"x@"+server.Addr, store.ErrDenied)
	use("wrong user", "redis://nobody:"+escaped+"@"+server.Addr, store.ErrDenied)
	use("server down", "redis://locks:"+escaped+"@"+dead.Addr, store.ErrUnavailable)
	use("TLS to a server without", "rediss://locks:"+escaped+"@"+server.Addr+"?dial_timeout=100ms", store.ErrUnavailable)
	use("no such database", "redis://locks:"+escaped+"@"+server.Addr+"/999", store.ErrUnavailable)
	for _, url := range []string{
		"redis://locks:" + secret + "@" + server.Addr,
		"redis://" + secret + "@" + server.Addr,
		"redis://:" + secret + "@" + server.Addr + "/0",
		"redis://locks:p4ss/w:rd@" + server.Addr,
		"redis://locks:p4ss#s3cret@" + server.Addr,
		"redis://locks:?s3cret=p4ss@" + server.Addr,
		"redis://s3cret/p4ss@" + server.Addr,
		"redis://locks:" + escaped + "@" + server.Addr + "/p4ss@s3cret",
		"http://locks:" + escaped + "@" + server.Addr,
		"locks:" + escaped + "@" + server.Addr,
		"s3cret:p4ss",
		"",
	} {
		_, err := Open(url, nil)
		none("URL "+url, err, store.ErrInvalid)
	}
	for url, says := range map[string]string{
		"redis://" + server.Addr + "/one":                 "database",
		"redis://" + server.Addr + "/0?dial_timeout=long": "dial_timeout",
		"redis://" + server.Addr + "/0?no_such=1":         "no_such",
	} {
		if _, err := Open(url, nil); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error with %q", url, err, says)
		}
	}
}

func TestANilClientAndARingAreRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for what, c := range map[string]struct {
		client redis.UniversalClient
		want   error
	}{
		"nil":           {nil, store.ErrInvalid},
		"a nil client":  {(*redis.Client)(nil), store.ErrInvalid},
		"a nil cluster": {(*redis.ClusterClient)(nil), store.ErrInvalid},
		"a ring":        {ring, store.ErrUnsupported},
	} {
		if _, err := New(c.client, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	s := storeOn(t, clientOf(t, "127.0.0.1:1"), nil) // no server is there
	defer s.Close()
	for what, edit := range map[string]func(*store.Claim){
		"no name":             func(c *store.Claim) { c.Name = "" },
		"a long name":         func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"no limit":            func(c *store.Claim) { c.Limit = 0 },
		"too high a limit":    func(c *store.Claim) { c.Limit = store.Full + 1 },
		"no weight":           func(c *store.Claim) { c.Weight = 0 },
		"too much weight":     func(c *store.Claim) { c.Limit, c.Weight = 3, 4 },
		"no TTL":              func(c *store.Claim) { c.TTL = 0 },
		"too short a TTL":     func(c *store.Claim) { c.TTL = minTTL - 1 },
		"too long a TTL":      func(c *store.Claim) { c.TTL = maxTTL + 1 },
		"a negative position": func(c *store.Claim) { c.PositionTTL = -1 },
		"a negative keep":     func(c *store.Claim) { c.MinHold = -1 },
		"too long a delay":    func(c *store.Claim) { c.LockDelay = maxTTL + 1 },
		"an endless owner":    func(c *store.Claim) { c.Owner = strings.Repeat("x", 1<<16) },
	} {
		c := mutex("n")
		edit(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("ask with %s: %v, want ErrInvalid", what, err)
		}
		if _, err := s.Poll(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("poll with %s: %v, want ErrInvalid", what, err)
		}
	}
	b := store.Break{Name: "n", Token: 1, Reason: strings.Repeat("x", store.MaxReason+1)}
	if err := s.BreakHold(t.Context(), b); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("break with a long reason: %v, want ErrInvalid", err)
	}
}

func TestTheUsersClientStaysOpenAndTheStoresIsClosed(t *testing.T) {
	addr := testserver.SharedRedis(t)
	client := clientOf(t, addr)
	if err := storeOn(t, client, nil).Close(); err != nil {
		t.Error(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the caller's client after Close: %v", err)
	}
	s, err := Open("redis://"+addr+"/3", apart())
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, s, mutex("n"))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.client.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("the store's client after Close: %v, want it closed", err)
	}
}
