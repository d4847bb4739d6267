package redisstore

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	logging.Disable()               // the driver logs each attempt to connect, into the output of any test
	flag.Set("test.parallel", "16") // most tests wait most of the time
	// This is a goroutine of the driver. It ends within a second of its pool.
	goleak.VerifyTestMain(testserver.Main{M: m}, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// versions are servers whose answers to scripts differ.
var versions = map[string]func(testing.TB, ...string) *testserver.Server{
	"Redis":    testserver.Redis7,
	"Redis 8":  testserver.Redis8,
	"Valkey 9": testserver.Valkey9,
}

// clientOf returns a client of the server at addr. The test closes it at its end.
func clientOf(t testing.TB, addr string, edit ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: addr, ReadTimeout: time.Minute, DialTimeout: time.Minute} // the machine may stall
	for _, f := range edit {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func storeOn(t testing.TB, client redis.UniversalClient, o *Options) *Store {
	t.Helper()
	s, err := New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apart sets a prefix that nobody else uses.
func apart() *Options { return &Options{Prefix: "test-" + store.NewProcess().String() + ":"} }

// hasty makes a client give up early on a server that hangs.
func hasty(o *redis.Options) { o.ReadTimeout = 500 * time.Millisecond }

// newShared returns a Store on the shared server. The test closes it at its end.
func newShared(t testing.TB) *Store {
	t.Helper()
	s := storeOn(t, clientOf(t, testserver.SharedRedis(t)), apart())
	t.Cleanup(func() { s.Close() })
	return s
}

// patience is how long a test waits for a condition that must come true.
var patience = testwait.Patience

// longAnswer is how long the code under test waits for an answer of a server that stalls.
var longAnswer = min(patience, 30*time.Second)

// slack is how far a time of an hour or more may be off because time passes during the test.
const slack = 30 * time.Second

// until waits for a condition that must come true.
var until = testwait.Until

var me = store.NewProcess()

// mutex is a claim of a whole name that may wait.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, state = storetest.MustAsk, storetest.MustHold, storetest.MustList

// This runs the whole contract, as a user with the rights that the package comment lists.
func TestStore(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := user(t, server, "locks", rights(t)...)
	storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, client, nil) })
	s := storeOn(t, client, nil)
	defer s.Close()
	for _, f := range s.Check(t.Context()) {
		if f.Level() != store.LevelOK {
			t.Errorf("Check: %s: %q", f.About, f.Text())
		}
	}
	// The driver tries to set its name and version, is denied, and goes on.
	for _, d := range denials(t, server) {
		if !strings.HasPrefix(d, "command client|") {
			t.Errorf("the server refused %s", d)
		}
	}
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	// The shapes: high trees with few entries; the usual trees, also with few entries; and the usual names, which are strings here, without
	// and with sessions.
	for _, c := range []struct {
		shape
		fewest int
	}{{shape{2, 1}, fewestTogether}, {shape{usual.fanout, 2}, fewestTogether}, {usual, fewestTogether}, {usual, 1}} {
		t.Run(fmt.Sprint(c.shape, " ", c.fewest), func(t *testing.T) {
			t.Parallel()
			forms := map[string]int{}
			wanted := map[string]float64{"string": 1, "string with what is freed": 0.2} // in hundredths of the steps
			if c.shape != usual {
				wanted["hash"], wanted["hash with what is freed"] = 1, 0.2
			}
			if c.fewest == 1 {
				wanted["string in a session"] = 1
			}
			storetest.Differential(t, storetest.Clocked{
				Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
					client := clientOf(t, testserver.Redis(t).Addr)
					return func() store.Store {
						s, err := newStore(client, nil, func() int64 { return clock().Clock }, c.shape)
						if err != nil {
							t.Fatal(err)
						}
						s.sessions.fewest = c.fewest
						return s
					}
				},
				Stored: func(t *testing.T, s store.Store, name string) queue.Queue {
					q, form := stored(t, s.(*Store), name, c.shape)
					forms[form]++
					return q
				},
				TooRare: func(steps int) (few []string) {
					for form, least := range wanted {
						if float64(forms[form]) < least/100*float64(steps) {
							few = append(few, fmt.Sprintf("%d times a %s was compared: too few", forms[form], form))
						}
					}
					return few
				},
			})
			t.Log(forms)
		})
	}
}
