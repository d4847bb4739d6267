package redlock

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	logging.Disable()               // the driver logs each attempt to connect, into the output of any test
	flag.Set("test.parallel", "10") // most tests wait most of the time
	// This is a goroutine of the driver. It ends within a second of its pool.
	goleak.VerifyTestMain(testserver.Main{M: m}, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// clientsOf returns a client of each address. The test closes them at its end.
func clientsOf(t testing.TB, addrs ...string) []*redis.Client {
	t.Helper()
	all := make([]*redis.Client, len(addrs))
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: longAnswer, ReadTimeout: longAnswer})
		t.Cleanup(func() { c.Close() })
		all[i] = c
	}
	return all
}

// apart sets a prefix that nobody else uses.
func apart() *Options { return &Options{Prefix: "test-" + store.NewProcess().String() + ":"} }

// trusting returns a Store that believes that its nodes have lost nothing, though they have just started. It waits long for their answers: the
// machine is loaded.
func trusting(t testing.TB, clients []*redis.Client, o *Options) *Store {
	t.Helper()
	with := Options{Timeout: longAnswer}
	if o != nil {
		with = *o
		if with.Timeout == 0 {
			with.Timeout = longAnswer
		}
	}
	s, err := New(clients, &with)
	if err != nil {
		t.Fatal(err)
	}
	s.trusts = true
	s.straggle = min(time.Second, patience)
	return s
}

// patience is how long a test waits for a condition that must come true.
var patience = testwait.Patience

// longAnswer is how long the code under test waits for an answer of a server that stalls.
var longAnswer = min(patience, 30*time.Second)

var me = store.NewProcess()

// mutex is a claim of a whole name that may wait.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, listed = storetest.MustAsk, storetest.MustHold, storetest.MustList

// rights returns those that the package comment lists, in its words.
func rights(t *testing.T) (all []any) {
	t.Helper()
	b, err := os.ReadFile("redlock.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "// # Rights\n")
	text, _, _ = strings.Cut(text, "// The clients also need")
	for _, word := range strings.Fields(text) {
		if word == "resetkeys" || word == "resetchannels" || strings.ContainsRune("~&+-", rune(word[0])) && len(word) > 1 {
			all = append(all, word)
		}
	}
	if len(all) < 10 {
		t.Fatalf("the package comment lists the rights %q", all)
	}
	return all
}

// patient is a Store for the suite on a slow machine. Its least TTL, which the suite uses for all claims that must expire, is a second. A
// claim's TTL starts on each node when the request arrives there, so if one node is slow a short TTL has already expired on the others.
// patient repeats an ask if the answers took longer than that. It also waits until all nodes have got a loss or a release, as those continue
// after the call returns: if one node is dead the next owner needs both others.
type patient struct {
	*Store
	t testing.TB
}

func slowly(t testing.TB, s *Store) patient {
	s.minTTL = time.Second
	return patient{s, t}
}

func (p patient) Ask(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	for begun := time.Now(); time.Since(begun) < patience; {
		asked := time.Now()
		a, err = p.Store.Ask(ctx, c)
		// An ask ends after the claim's TTL, or after a second if that is longer, if the nodes are slower than that. One that failed sooner
		// has another reason.
		unanswered := errors.Is(err, store.ErrUnavailable) && time.Since(asked) >= max(c.TTL, time.Second)
		if err == nil || ctx.Err() != nil || !unanswered && !strings.Contains(err.Error(), "took longer than the TTL") {
			break
		}
	}
	if errors.Is(err, store.ErrLost) {
		idle(p.t, p.Store)
	}
	return a, err
}

func (p patient) Release(ctx context.Context, h store.Hold) error {
	err := p.Store.Release(ctx, h)
	idle(p.t, p.Store)
	return err
}

func (p patient) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := p.Store.ReleaseAll(ctx, holds)
	idle(p.t, p.Store)
	return out
}

func (p patient) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	all := p.Store.Renew(ctx, holds)
	for _, r := range all {
		if errors.Is(r.Err, store.ErrLost) {
			idle(p.t, p.Store)
		}
	}
	return all
}

// This runs the whole contract, as a user with the rights that the package comment lists.
func TestStore(t *testing.T) {
	t.Parallel()
	var clients []*redis.Client
	var admins []*redis.Client
	for range 3 {
		addr := testserver.Redis(t).Addr
		admin := clientsOf(t, addr)[0]
		if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", "locks", "reset", "on", ">secret"}, rights(t)...)...).Err(); err != nil {
			t.Fatal(err)
		}
		c := redis.NewClient(&redis.Options{Addr: addr, Username: "locks", Password: "secret", MaxRetries: -1, DialTimeout: longAnswer, ReadTimeout: longAnswer})
		t.Cleanup(func() { c.Close() })
		clients, admins = append(clients, c), append(admins, admin)
	}
	storetest.Run(t, func(t *testing.T) store.Store { return slowly(t, trusting(t, clients, nil)) })
	s := trusting(t, clients, nil)
	defer s.Close()
	for _, f := range s.Check(t.Context()) {
		if f.Level() != store.LevelOK {
			t.Errorf("%+v", f)
		}
	}
	for _, admin := range admins {
		log, err := admin.ACLLog(t.Context(), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range log {
			if !strings.HasPrefix(e.Object, "client|") { // the driver tries to set its name and version
				t.Errorf("a node refused %s %s", e.Reason, e.Object)
			}
		}
	}
}
