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
	logging.Disable()               // the driver writes each attempt to connect, into the output of any test
	flag.Set("test.parallel", "16") // most of them wait most of the time
	// The driver's own, which ends within a second of its pool.
	goleak.VerifyTestMain(testserver.Main{M: m}, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// versions are servers that differ in what they answer to scripts.
var versions = map[string]func(testing.TB, ...string) *testserver.Server{
	"Redis":    testserver.Redis7,
	"Redis 8":  testserver.Redis8,
	"Valkey 9": testserver.Valkey9,
}

// clientOf returns a client of the server at addr, closed when the test ends.
func clientOf(t testing.TB, addr string, edit ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: addr, ReadTimeout: time.Minute, DialTimeout: time.Minute} // the machine may stand still
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

// apart is a prefix that nobody else uses.
func apart() *Options { return &Options{Prefix: "test-" + store.NewProcess().String() + ":"} }

// hasty is a client that gives up a server which hangs.
func hasty(o *redis.Options) { o.ReadTimeout = 500 * time.Millisecond }

// newShared returns a Store on the shared server, closed when the test ends.
func newShared(t testing.TB) *Store {
	t.Helper()
	s := storeOn(t, clientOf(t, testserver.SharedRedis(t)), apart())
	t.Cleanup(func() { s.Close() })
	return s
}

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// longAnswer is how long what is tested waits for an answer of a server that stands still.
var longAnswer = min(patience, 30*time.Second)

// slack is by how much a time that was to last for an hour or more may have passed meanwhile.
const slack = 30 * time.Second

// until waits for what must happen.
var until = testwait.Until

var me = store.NewProcess()

// mutex is a claim of all of a name, to be waited for.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, state = storetest.MustAsk, storetest.MustHold, storetest.MustList

// The whole contract, by a user with the rights that are listed.
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
	// The driver tries to introduce itself and goes on without.
	for _, d := range denials(t, server) {
		if !strings.HasPrefix(d, "command client|") {
			t.Errorf("the server refused: %s", d)
		}
	}
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	// Trees that are high with few entries; those of users, with few entries too; and
	// what users have, which are strings here, without sessions and with them.
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
							few = append(few, fmt.Sprintf("%d times a %s was compared: too few to say anything", forms[form], form))
						}
					}
					return few
				},
			})
			t.Log(forms)
		})
	}
}
