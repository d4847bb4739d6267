package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Where the URL says rediss all goes over TLS, and the server's certificate is
// checked: by a process of its own, as what it trusts is read once.
func TestOverTLSTheServersCertificateIsChecked(t *testing.T) {
	if urls := os.Getenv("HOLDFAST_TEST_TLS"); urls != "" {
		for u := range strings.FieldsSeq(urls) {
			url, instead, _ := strings.Cut(u, "=")
			overTLSAll(t, url, instead)
		}
		return
	}
	t.Parallel()
	cert := testserver.NewCertificate(t)
	c := newCouple(t)
	primary := testserver.RedisTLS(t, cert, c.primary)
	var members, instead []string
	for _, s := range testserver.RedisCluster(t, 3) {
		addr := testserver.RedisTLS(t, cert, s)
		members, instead = append(members, addr), append(instead, s.Addr+">"+addr)
	}
	// From Redis 7.2 on a cluster tells who asks by TLS the ports of TLS, once each
	// server knows those of the others; until then it says 0.
	for _, addr := range members {
		c := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: &tls.Config{InsecureSkipVerify: true}})
		defer c.Close()
		until(t, "the ports of the cluster are known", func() bool {
			//lint:ignore SA1019 it is what the client of a cluster itself asks
			all, err := c.ClusterSlots(t.Context()).Result()
			return err == nil && !slices.ContainsFunc(all, func(s redis.ClusterSlot) bool {
				return slices.ContainsFunc(s.Nodes, func(n redis.ClusterNode) bool { return strings.HasSuffix(n.Addr, ":0") })
			})
		})
	}
	// Older ones, and Sentinel, tell addresses without TLS: the dialer knows better.
	sentinel := testserver.RedisSentinelTLS(t, cert, c.primary)
	urls := []string{
		"rediss://" + primary + "=",
		"rediss+cluster://" + strings.Join(members, ",") + "=" + strings.Join(instead, ","),
		"rediss+sentinel://" + sentinel + "/primary=" + c.primary.Addr + ">" + primary,
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), "HOLDFAST_TEST_TLS="+strings.Join(urls, " "), "SSL_CERT_FILE="+cert.File)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a process that trusts the certificate: %v\n%s", err, out)
	}
	// This process does not.
	url := "rediss://" + primary + "?dial_timeout=1m"
	s := openAt(t, url)
	defer s.Close()
	if _, err := s.Ask(t.Context(), mutex("n")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a process that does not trust the certificate: %v", err)
	}
	blind := openAt(t, url+"&skip_verify=true")
	defer blind.Close()
	mustHold(t, blind, mutex("n"))
}

// overTLSAll locks, is woken and looks at the server by way of the URL.
func overTLSAll(t *testing.T, url, instead string) {
	t.Helper()
	secure := map[string]string{}
	for pair := range strings.SplitSeq(instead, ",") {
		from, to, _ := strings.Cut(pair, ">")
		secure[from] = to
	}
	s, err := Open(url+"?read_timeout=1m&dial_timeout=1m", &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, cmp.Or(secure[addr], addr))
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.pingEvery = longAnswer // or one that is late would be missed
	notifications := make(chan store.Notification, 100)
	until(t, url+": a mailbox is open", func() bool {
		err = s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h })
		return err == nil
	})
	for i := range 6 {
		h, w := mustHold(t, s, mutex(fmt.Sprint("n", i))), mutex(fmt.Sprint("n", i))
		if a := mustAsk(t, s, w); a.Granted {
			t.Errorf("%s: two claims hold the lock", url)
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Error(err)
		}
		for woken := false; !woken; {
			select {
			case h := <-notifications:
				woken = h.ID == w.ID
			case <-time.After(patience):
				t.Fatalf("%s: got no notification", url)
			}
		}
		if err := s.Release(t.Context(), store.Hold{Name: w.Name, ID: w.ID}); err != nil {
			t.Error(err)
		}
	}
	for _, f := range s.Check(t.Context()) {
		if f.Level() == store.LevelFailure {
			t.Errorf("%s: %+v", url, f)
		}
	}
}

// A server that takes connections and says nothing, as one without TLS may.
func TestAHandshakeThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := Open("rediss://"+l.Addr().String(), &Options{Dialer: new(net.Dialer).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	watched := make(chan error, 1)
	go func() { watched <- s.Watch(t.Context(), me, func(store.Notification) {}) }()
	select {
	case err := <-watched:
		if err == nil {
			t.Error("a mailbox is open where no server answers")
		}
	case <-time.After(patience):
		t.Error("Watch waits for the mailbox without end")
	}
}
