package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestURLsOfClustersAndSentinelsAreRead(t *testing.T) {
	for url, want := range map[string]string{
		"redis+cluster://a:1,b:2,c":                                                  "Redis cluster a:1, b:2, c:6379",
		"redis+cluster://u:p%2C@a:1,[::1]:2/":                                        "Redis cluster a:1, [::1]:2",
		"rediss+cluster://a/0?replicas=2&dial_timeout=3s":                            "Redis cluster a:6379",
		"REDIS+CLUSTER://a":                                                          "Redis cluster a:6379",
		"redis+sentinel://a,b:1/m":                                                   "Redis behind Sentinel a:26379, b:1, master m, database 0",
		"redis+sentinel://u:p%2F@a/m/3?sentinel_password=x&read_timeout=1s":          "Redis behind Sentinel a:26379, master m, database 3",
		"rediss+sentinel://:p@a,b/m?sentinel_username=u&skip_verify=true":            "Redis behind Sentinel a:26379, b:26379, master m, database 0",
		"redis://a:1/2?replicas=1&read_timeout=1s":                                   "Redis at a:1, database 2",
		"redis+sentinel://a/m?replicas=0&max_retries=2&context_timeout_enabled=true": "Redis behind Sentinel a:26379, master m, database 0",
	} {
		s, err := Open(url, nil)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := s.Describe().Store; got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
		if n := s.replicas; n != map[bool]int{true: n, false: 0}[strings.Contains(url, "replicas")] || strings.Contains(url, "replicas=2") != (n == 2) {
			t.Errorf("%s: got %d required replicas", url, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for url, want := range map[string]bool{"redis://a?durable=1&replicas=2": true, "redis+cluster://a?durable=true": true, "redis+sentinel://a/m?durable=0": false, "redis://a": false} {
		s, err := Open(url, nil)
		if err != nil || s.durable != want {
			t.Errorf("%s: %v", url, err)
			continue
		}
		s.Close()
	}
	s, err := Open("redis://a?replicas=1&token_retention=2h", &Options{Replicas: 2, TokenRetention: time.Hour})
	if err != nil || s.replicas != 2 || s.retention != time.Hour {
		t.Errorf("the option does not override the URL: %v", err)
	}
	s.Close()
	for _, url := range []string{"redis://a?token_retention=2h", "redis+cluster://a?token_retention=2h&replicas=0", "redis+sentinel://a/m?token_retention=120m"} {
		s, err := Open(url, nil)
		if err != nil || s.retention != 2*time.Hour {
			t.Errorf("%s: %v", url, err)
			continue
		}
		s.Close()
	}
}

func TestWrongURLsOfClustersAndSentinelsSayWhatIsWrong(t *testing.T) {
	for url, says := range map[string]string{
		"redis+cluster:a":                        "redis+cluster://",
		"redis+cluster://":                       "host",
		"redis+cluster://a,,b":                   "host",
		"redis+cluster://a:x,b":                  "redis+cluster://",
		"redis+cluster://a,b:x":                  "host",
		"redis+cluster://a/1":                    "database",
		"redis+cluster://a?addr=b:1":             "addr",
		"redis+cluster://a?read_only=true":       "read_only",
		"redis+cluster://a?route_randomly=true":  "route_randomly",
		"redis+cluster://a?no_such=1":            "no_such",
		"redis+cluster://a?replicas=many":        "replicas",
		"redis+cluster://a?replicas=-1":          "replicas",
		"redis+cluster://a?durable=yes":          "durable",
		"redis://a?durable=2":                    "durable",
		"rediss+cluster://a?skip_verify=perhaps": "skip_verify",
		"redis+cluster://a?skip_verify=true":     "skip_verify",
		"redis+sentinel://a":                     "master",
		"redis+sentinel://a/":                    "master",
		"redis+sentinel://a/m/one":               "database",
		"redis+sentinel://a/m/-1":                "database",
		"redis+sentinel://a/m?replica_only=true": "replica_only",
		"redis+sentinel://a/m?master_name=n":     "master_name",
		"redis+sentinel://a/m?password=p4ss":     "password",
		"redis+ring://a":                         "redis+cluster://",
		"redisx://a":                             "redis://",
		"http+cluster://a":                       "redis://",
		"redis://a?replicas=x":                   "replicas",
		"redis://a?token_retention=60":           "token_retention",
		"redis://a?token_retention=":             "token_retention",
		"redis://a?token_retention=0s":           "token_retention",
		"redis://a?token_retention=59s":          "at least 1m0s",
	} {
		s, err := Open(url, nil)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "p4ss") {
			t.Errorf("%s: %v, want an error with %q", url, err, says)
		}
		if err == nil {
			s.Close()
		}
	}
	for what, o := range map[string]*Options{"replicas": {Replicas: -1}, "Dialer": {Dialer: (&net.Dialer{}).DialContext}} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		if _, err := New(client, o); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		client.Close()
	}
}

// The passwords of servers and Sentinels, verbatim and as people write them into URLs.
func TestNoErrorShowsAPasswordOfAClusterOrASentinel(t *testing.T) {
	none := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: got no error", what)
			return
		}
		for _, p := range []string{"p4ss", "s3cret", "other"} {
			if strings.Contains(err.Error(), p) {
				t.Errorf("%s: the error shows %q: %v", what, p, err)
			}
		}
	}
	for _, url := range []string{
		"redis+cluster://locks:p4ss@127.0.0.1:1,127.0.0.1:2?dial_timeout=100ms&dialer_retries=1",
		"redis+sentinel://locks:p4ss@127.0.0.1:1,127.0.0.1:2/m?sentinel_username=other&sentinel_password=s3cret&dial_timeout=100ms&dialer_retries=1",
	} {
		s, err := Open(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for what, f := range map[string]func() error{
			"ask":   func() error { _, err := s.Ask(t.Context(), mutex("n")); return err },
			"watch": func() error { return s.Watch(t.Context(), me, func(store.Notification) {}) },
			"check": func() error { return s.Check(t.Context())[0].Err },
		} {
			none(what, f())
		}
		none("Describe", errors.New(s.Describe().Store))
		s.Close()
	}
	for _, url := range []string{
		"redis+cluster://locks:p4ss/s3cret@a,b", "redis+cluster://locks:p4ss,s3cret", "redis+cluster://p4ss@s3cret@a:x",
		"redis+cluster://locks:p4ss s3cret@a", "redis+cluster://locks:p4ss#s3cret@a,b/m", "redis+sentinel://locks:p4ss?s3cret@a/m",
		"redis+sentinel://locks:p4ss%s3cret@a/m", "redis+sentinel://s3cret:p4ss/x", "redis+sentinel://u:p4ss/m@a/b/c/d", "redis+cluster:\x00p4ss",
	} {
		s, err := Open(url, nil)
		none(url, err)
		if err == nil {
			s.Close()
		}
	}
}

func TestPasswordsOfServersAndSentinelsAreGivenToThose(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	sentinel := testserver.RedisCalmSentinels(t, c.primary, 1)[0]
	at := func(addr string) *redis.Client { return clientOf(t, addr) }
	do := func(c *redis.Client, args ...any) {
		t.Helper()
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	one := at(sentinel.Addr)
	do(one, "SENTINEL", "SET", "primary", "auth-pass", "p4ss/")
	do(at(c.replica.Addr), "CONFIG", "SET", "masterauth", "p4ss/")
	do(at(c.primary.Addr), "CONFIG", "SET", "requirepass", "p4ss/")
	do(one, "ACL", "SETUSER", "watch", "on", ">s3cret", "+@all")
	do(one, "ACL", "SETUSER", "default", "off")
	url := "redis+sentinel://:p4ss%2F@" + sentinel.Addr + "/primary?sentinel_username=watch&sentinel_password="
	right := openAt(t, url+"s3cret")
	defer right.Close()
	h := mustHold(t, right, mutex("n"))
	if err := right.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
	wrong := openAt(t, url+"s3cretx")
	defer wrong.Close()
	if _, err := wrong.Ask(t.Context(), mutex("n")); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("with a wrong password of the Sentinel: %v", err)
	}

	servers := testserver.RedisCluster(t, 3)
	for _, s := range servers {
		user(t, s, "locks", append(rights(t), "+cluster|slots", "+command")...)
	}
	escaped := strings.NewReplacer("/", "%2F", ":", "%3A", "@", "%40", "%", "%25", "{", "%7B", "}", "%7D").Replace(secret)
	cluster := openAt(t, "redis+cluster://locks:"+escaped+"@"+servers[1].Addr+","+servers[2].Addr)
	defer cluster.Close()
	for _, name := range []string{"a", "b", "c", "d"} {
		mustHold(t, cluster, mutex(name))
	}
	denied := openAt(t, "redis+cluster://locks:"+escaped+"x@"+servers[1].Addr)
	defer denied.Close()
	if _, err := denied.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("with a wrong password: %v, want ErrDenied", err)
	}
}

// The dialer makes all connections, and they use TLS where the URL says so.
func TestTheDialerOfTheOptionsMakesEachConnection(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	sentinel := testserver.RedisCalmSentinels(t, c.primary, 1)[0]
	cluster := testserver.RedisCluster(t, 3)
	for url, to := range map[string][]string{
		"redis://" + c.primary.Addr:                                                    {c.primary.Addr},
		"redis+sentinel://" + sentinel.Addr + "/primary":                               {c.primary.Addr, sentinel.Addr},
		"redis+cluster://" + cluster[0].Addr:                                           {cluster[0].Addr, cluster[1].Addr, cluster[2].Addr},
		"rediss://" + c.primary.Addr + "?skip_verify=true&dial_timeout=300ms":          {c.primary.Addr},
		"rediss+cluster://" + cluster[0].Addr + "?dialer_retries=1&dial_timeout=300ms": {cluster[0].Addr},
	} {
		var mu sync.Mutex
		var dialled []string
		hellos := 0
		s, err := Open(url, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(dialled, addr) {
				dialled = append(dialled, addr)
			}
			return &greeted{Conn: conn, greets: func(b byte) {
				mu.Lock()
				defer mu.Unlock()
				if b == 0x16 { // a TLS handshake
					hellos++
				}
			}}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			_, err := s.Ask(t.Context(), mutex(name))
			if (err != nil) != strings.HasPrefix(url, "rediss") {
				t.Errorf("%s: %v", url, err)
			}
			mu.Lock()
			greeted := hellos > 0 // a busy machine may be late for one
			mu.Unlock()
			if greeted {
				break
			}
		}
		s.Close()
		mu.Lock()
		slices.Sort(dialled)
		slices.Sort(to)
		if !slices.Equal(dialled, to) {
			t.Errorf("%s: got dials to %q, want %q", url, dialled, to)
		}
		if (hellos > 0) != strings.HasPrefix(url, "rediss") {
			t.Errorf("%s: got %d TLS handshakes", url, hellos)
		}
		mu.Unlock()
	}
}

// greeted reports the first byte that is written.
type greeted struct {
	net.Conn
	greets func(byte)
	once   sync.Once
}

func (g *greeted) Write(b []byte) (int, error) {
	g.once.Do(func() { g.greets(b[0]) })
	return g.Conn.Write(b)
}
