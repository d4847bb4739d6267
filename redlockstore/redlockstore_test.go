package redlockstore

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	logging.Disable()              // go-redis writes each attempt to connect
	flag.Set("test.parallel", "4") // most of them wait most of the time
	// The driver's own, which ends within a second of its pool.
	goleak.VerifyTestMain(testserver.Main{M: m}, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// clientsOf returns a client of each address, closed when the test ends.
func clientsOf(t testing.TB, addrs ...string) []*redis.Client {
	t.Helper()
	all := make([]*redis.Client, len(addrs))
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: patience})
		t.Cleanup(func() { c.Close() })
		all[i] = c
	}
	return all
}

// apart is a prefix that nobody else uses.
func apart() *Options { return &Options{Prefix: "test-" + store.NewProcess().String() + ":"} }

// trusting returns a Store that takes its nodes for ones that have forgotten
// nothing, young as they are, and waits long for them: the machine is loaded.
func trusting(t testing.TB, clients []*redis.Client, o *Options) *Store {
	t.Helper()
	with := Options{Timeout: patience}
	if o != nil {
		with = *o
		if with.Timeout == 0 {
			with.Timeout = patience
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

// patience bounds every waiting here. It is long because a loaded machine is no
// failure; a search for mutants cannot wait that long for each of them.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HOLDFAST_TEST_PATIENCE")); err == nil {
		return d
	}
	return 30 * time.Second
}()

var me = store.NewProcess()

// mutex is a claim of all of a name, to be waited for.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, listed = storetest.MustAsk, storetest.MustHold, storetest.MustList

func TestStore(t *testing.T) {
	clients := clientsOf(t, testserver.SharedRedises(t, 3)...)
	storetest.Run(t, func(t *testing.T) store.Store { return trusting(t, clients, nil) })
}
