package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "10") // most of them wait most of the time
	debug.SetGCPercent(400)
	if os.Getenv("HOLDFAST_TEST_STEPS") == "" {
		os.Setenv("HOLDFAST_TEST_STEPS", "2000") // each step takes a few requests
	}
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// clientOf returns a client of the servers. The test closes it at its end.
func clientOf(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	return clientWith(t, clientv3.Config{Endpoints: addrs})
}

func clientWith(t testing.TB, c clientv3.Config) *clientv3.Client {
	t.Helper()
	c.Logger = zap.NewNop()
	c.DialKeepAliveTime = 10 * time.Second
	c.DialKeepAliveTimeout = cmp.Or(c.DialKeepAliveTimeout, patience) // a slow server is not a dead one
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// opened opens the store of the URL. It waits for a login however long that takes.
func opened(url string) (*Store, error) {
	for deadline := time.Now().Add(patience); ; {
		s, err := Open(url)
		if !errors.Is(err, store.ErrUnavailable) || time.Now().After(deadline) {
			return s, err
		}
	}
}

// openURL returns the store of the URL. The test closes it at its end.
func openURL(t testing.TB, url string) *Store {
	t.Helper()
	s, err := opened(url)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, s)
}

func storeOn(t testing.TB, client *clientv3.Client, o *Options) *Store {
	t.Helper()
	s, err := New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apart is a prefix that no other test uses.
func apart() *Options { return &Options{Prefix: "test-" + store.NewProcess().String() + "/"} }

func closing(t testing.TB, s *Store) *Store {
	t.Cleanup(func() { s.Close() })
	return s
}

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// until waits for what must happen.
var until = testwait.Until

var me = store.NewProcess()

// mutex is a claim of the whole name, to be waited for.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, entriesOf = storetest.MustAsk, storetest.MustHold, storetest.MustList

func TestStore(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.SharedEtcd(t))
	storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, client, nil) })
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			client, o := clientOf(t, testserver.SharedEtcd(t)), apart()
			return func() store.Store { return storeOn(t, client, o) }
		},
		End: func(t *testing.T, s store.Store) error { return endSessions(t, s.(*Store)) },
	})
}

// endSessions does what etcd does with leases that were not renewed, and waits until the store knows.
func endSessions(t testing.TB, s *Store) error {
	t.Helper()
	revoke(t, s)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	return s.Settle(ctx)
}

// revoke is endSessions without the wait: the store does not know yet.
func revoke(t testing.TB, s *Store) {
	t.Helper()
	client := clientOf(t, testserver.SharedEtcd(t))
	for _, id := range s.Sessions() {
		if _, err := client.Revoke(context.WithoutCancel(t.Context()), leaseOf(id)); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			t.Fatal(err)
		}
	}
}

func mutexTry(name string) store.Claim {
	c := mutex(name)
	c.Try = true
	return c
}
