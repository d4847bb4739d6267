package redisstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

const secret = "p4ss/w:rd@%{}s3cret"

// rights are those that the package comment lists, in its words.
func rights(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("redisstore.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "// # Rights\n")
	text, _, _ = strings.Cut(text, "// The client needs")
	var all []string
	for _, word := range strings.Fields(text) {
		if word == "resetkeys" || word == "resetchannels" || strings.ContainsRune("~&+-", rune(word[0])) && len(word) > 1 {
			all = append(all, word)
		}
	}
	if len(all) < 10 {
		t.Fatalf("the package comment lists %q", all)
	}
	return all
}

// user makes a user with these rights and returns a client of theirs.
func user(t *testing.T, server *testserver.Server, name string, rights ...string) *redis.Client {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">" + secret}
	for _, r := range rights {
		args = append(args, r)
	}
	if err := clientOf(t, server.Addr).Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return clientOf(t, server.Addr, func(o *redis.Options) { o.Username, o.Password = name, secret })
}

// denials are the commands that the server refused somebody, by its log.
func denials(t *testing.T, server *testserver.Server) (all []string) {
	t.Helper()
	log, err := clientOf(t, server.Addr).ACLLog(t.Context(), 100).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log {
		all = append(all, e.Reason+" "+e.Object)
	}
	return all
}

func TestTheRightsThatAreListedSuffice(t *testing.T) {
	server := testserver.Redis(t)
	client := user(t, server, "locks", rights(t)...)
	t.Run("store", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, client, nil) })
	})
	s := storeOn(t, client, nil)
	defer s.Close()
	if warnings, err := s.Check(t.Context()); err != nil || len(warnings) > 0 {
		t.Errorf("Check: %q, %v", warnings, err)
	}
	// The driver tries to introduce itself and goes on without.
	for _, d := range denials(t, server) {
		if !strings.HasPrefix(d, "command client|") {
			t.Errorf("the server refused: %s", d)
		}
	}
}

func TestEachListedRightIsNeeded(t *testing.T) {
	server := testserver.Redis(t)
	all := rights(t)
	uses := map[string]func(t *testing.T, s *Store) error{}
	lock := func(t *testing.T, s *Store) error {
		c := mutex("lock")
		a, err := s.Ask(t.Context(), c)
		if err != nil {
			return err
		}
		return s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
	}
	for _, right := range []string{"~holdfast:*", "+evalsha", "+eval", "+get", "+set", "+time"} {
		uses[right] = lock
	}
	for _, right := range []string{"&holdfast:*", "+subscribe"} {
		uses[right] = func(t *testing.T, s *Store) error { return s.Watch(t.Context(), me, func(store.Hint) {}) }
	}
	uses["+scan"] = func(t *testing.T, s *Store) (err error) {
		for _, err = range s.List(t.Context(), "") {
		}
		return err
	}
	for right, use := range uses {
		t.Run(right, func(t *testing.T) {
			i := slices.Index(all, right)
			if i < 0 {
				t.Fatalf("it is not listed: %q", all)
			}
			// A server that has the scripts needs no EVAL.
			if err := clientOf(t, server.Addr).ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			s := storeOn(t, user(t, server, "less", slices.Delete(slices.Clone(all), i, i+1)...), nil)
			defer s.Close()
			if err := use(t, s); !errors.Is(err, store.ErrDenied) {
				t.Errorf("without it: %v, want not allowed", err)
			} else if !strings.Contains(err.Error(), server.Addr) {
				t.Errorf("the error does not name the server: %v", err)
			}
		})
	}
}

func TestWithoutTheRightToPublishLocksWorkAndWaitersLook(t *testing.T) {
	server := testserver.Redis(t)
	all := slices.DeleteFunc(rights(t), func(r string) bool { return r == "+publish" })
	s := storeOn(t, user(t, server, "quiet", all...), nil)
	defer s.Close()
	h, w := mustHold(t, s, mutex("n")), mutex("n")
	mustAsk(t, s, w)
	if err := s.Release(t.Context(), h); err != nil {
		t.Errorf("release that wakes: %v", err)
	}
	if a := mustAsk(t, s, w); !a.Granted || a.Token <= h.Token {
		t.Errorf("the waiter gets %+v", a)
	}
}

func TestTheCheckWarnsOfAPolicyThatDropsKeys(t *testing.T) {
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	for policy, warns := range map[string]bool{
		"noeviction": false, "allkeys-lru": true, "volatile-ttl": true, "allkeys-random": true,
	} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		warnings, err := s.Check(t.Context())
		if err != nil || (len(warnings) == 1) != warns {
			t.Errorf("%s: %q, %v", policy, warnings, err)
		}
		if warns && len(warnings) == 1 && !strings.Contains(warnings[0], policy) {
			t.Errorf("%s: %q does not name it", policy, warnings[0])
		}
	}
	blind := storeOn(t, user(t, server, "blind", "-@all", "+ping"), nil)
	defer blind.Close()
	if warnings, err := blind.Check(t.Context()); err != nil || len(warnings) > 0 {
		t.Errorf("for a user who may not ask: %q, %v", warnings, err)
	}
}

func TestAServerThatIsTooOldIsFound(t *testing.T) {
	for version, old := range map[string]bool{
		"2.8.24": true, "5.0.14": true, "6.0.0": false, "6.2.14": false, "7.0.15": false, "10.1": false, "255.255.255": false, "": false, "unstable": false,
	} {
		if tooOld(version) != old {
			t.Errorf("%q too old: %v", version, !old)
		}
	}
}

func TestNoErrorShowsThePassword(t *testing.T) {
	server := testserver.Redis(t)
	good := user(t, server, "locks", append(rights(t), "+select")...)
	mustHold(t, storeOn(t, good, nil), mutex("the password is right"))
	dead := testserver.Redis(t)
	dead.Kill()

	// A password as people paste it, and as it should be.
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
		none(what+", watch", s.Watch(t.Context(), me, func(store.Hint) {}), want)
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
			t.Errorf("%s: %v, want one that says %q", url, err, says)
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
	s := storeOn(t, clientOf(t, "127.0.0.1:1"), nil) // nobody is there
	defer s.Close()
	for what, edit := range map[string]func(*store.Claim){
		"no name":          func(c *store.Claim) { c.Name = "" },
		"a long name":      func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"no limit":         func(c *store.Claim) { c.Limit = 0 },
		"too high a limit": func(c *store.Claim) { c.Limit = store.Full + 1 },
		"no weight":        func(c *store.Claim) { c.Weight = 0 },
		"too much weight":  func(c *store.Claim) { c.Limit, c.Weight = 3, 4 },
		"no TTL":           func(c *store.Claim) { c.TTL = 0 },
		"too short a TTL":  func(c *store.Claim) { c.TTL = minTTL - 1 },
		"too long a TTL":   func(c *store.Claim) { c.TTL = maxTTL + 1 },
		"a negative place": func(c *store.Claim) { c.Place = -1 },
		"a negative keep":  func(c *store.Claim) { c.Keep = -1 },
		"too long a delay": func(c *store.Claim) { c.Delay = maxTTL + 1 },
		"an endless owner": func(c *store.Claim) { c.Owner = strings.Repeat("x", 1<<16) },
	} {
		c := mutex("n")
		edit(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("ask with %s: %v", what, err)
		}
		if _, err := s.Look(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("look with %s: %v", what, err)
		}
	}
	b := store.Break{Name: "n", Token: 1, Reason: strings.Repeat("x", store.MaxReason+1)}
	if err := s.BreakHold(t.Context(), b); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("break with a long reason: %v", err)
	}
}

func TestTheUsersClientStaysOpenAndOursIsClosed(t *testing.T) {
	addr := testserver.SharedRedis(t)
	client := clientOf(t, addr)
	if err := storeOn(t, client, nil).Close(); err != nil {
		t.Error(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the user's client after Close: %v", err)
	}
	s, err := Open("redis://"+addr+"/3", nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, s, mutex("n"))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.client.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("our client after Close: %v", err)
	}
}

func TestATLSServerIsReachedByURL(t *testing.T) {
	addr := testserver.SharedRedis(t)
	cert := selfSigned(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the listener, and each pair with its client
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				server, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer server.Close()
				go io.Copy(server, c)
				io.Copy(c, server)
			}()
		}
	}()
	s, err := Open("rediss://"+l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	trusting, err := Open("rediss://"+l.Addr().String()+"?skip_verify=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer trusting.Close()
	mustHold(t, trusting, mutex("over TLS"))
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestOnAClusterTheWholeContractHolds(t *testing.T) {
	servers := testserver.RedisCluster(t, 3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { client.Close() })
	storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, client, nil) })

	// A user with the rights that the package comment lists, for a cluster too.
	for _, server := range servers {
		user(t, server, "locks", append(rights(t), "+cluster|slots", "+command")...)
	}
	least := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Username: "locks", Password: secret})
	t.Cleanup(func() { least.Close() })
	l := storeOn(t, least, nil)
	defer l.Close()
	if err := l.Watch(t.Context(), me, func(store.Hint) {}); err != nil {
		t.Errorf("with the least rights: %v", err)
	}
	for i := range 20 {
		h := mustHold(t, l, mutex(fmt.Sprint("least ", i)))
		if err := l.Release(t.Context(), h); err != nil {
			t.Errorf("with the least rights: %v", err)
		}
	}
	for _, err := range l.List(t.Context(), "") {
		if err != nil {
			t.Errorf("with the least rights: %v", err)
		}
	}
	for _, server := range servers {
		for _, d := range denials(t, server) {
			if !strings.HasPrefix(d, "command client|") {
				t.Errorf("%s refused: %s", server.Addr, d)
			}
		}
	}

	s := storeOn(t, client, nil)
	defer s.Close()
	var holds []store.Hold
	for i := range 60 {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint("name ", i))))
	}
	if len(s.lanes) != len(servers) {
		t.Errorf("%d lanes to %d servers", len(s.lanes), len(servers))
	}
	for i, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
	listed := map[string]bool{}
	for st, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed[st.Name] = true
	}
	for _, h := range holds {
		if !listed[h.Name] {
			t.Errorf("%q is not in the list of all names", h.Name)
		}
	}

	// One that hangs fails its own names, and holds up no other.
	servers[0].Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	failed := 0
	for i, r := range s.Renew(ctx, holds) {
		node, err := client.MasterForKey(t.Context(), s.key(holds[i].Name))
		if err != nil {
			t.Fatal(err)
		}
		switch frozen := node.Options().Addr == servers[0].Addr; {
		case frozen && errors.Is(r.Err, store.ErrUnavailable):
			failed++
		case frozen != (r.Err != nil):
			t.Errorf("renewal %d, its server frozen %v: %v", i, frozen, r.Err)
		}
	}
	if failed == 0 {
		t.Error("no name was on the frozen server")
	}
	servers[0].Thaw()
}

func TestAfterASentinelFailoverLocksGoOn(t *testing.T) {
	primary := testserver.Redis(t)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := testserver.Redis(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	sentinel := testserver.RedisSentinel(t, primary)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "primary", SentinelAddrs: []string{sentinel.Addr}})
	t.Cleanup(func() { client.Close() })
	s := storeOn(t, client, nil)
	defer s.Close()
	hints := make(chan store.Hint, 100)
	if err := s.Watch(t.Context(), me, func(h store.Hint) { hints <- h }); err != nil {
		t.Fatal(err)
	}
	h := mustHold(t, s, mutex("n"))
	if n, err := client.Wait(t.Context(), 1, patience).Result(); err != nil || n != 1 {
		t.Fatalf("the replica did not follow: %d, %v", n, err)
	}
	primary.Kill()
	until(t, "the replica has taken over", func() bool {
		return s.Renew(t.Context(), []store.Hold{h})[0].Err == nil
	})
	if role, err := clientOf(t, replica.Addr).Do(t.Context(), "ROLE").Slice(); err != nil || role[0] != "master" {
		t.Errorf("the replica's role is %v, %v", role, err)
	}
	w := mutex("n")
	mustAsk(t, s, w)
	until(t, "the mailbox is open at the new primary", func() bool {
		select {
		case got := <-hints:
			return got == store.Hint{}
		default:
			return false
		}
	})
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-hints:
		if got.ID != w.ID {
			t.Errorf("hint %+v, want one for %v", got, w.ID)
		}
	case <-time.After(patience):
		t.Errorf("no hint within %v", patience)
	}
}
