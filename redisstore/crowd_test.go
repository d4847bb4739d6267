package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// This measures what an operation on a name costs the server with a short and with a long queue: microseconds per script, as the server counts
// them, the median of batches.
//
//	go test -run - -bench Crowd -benchtime 50x ./redisstore
func BenchmarkCrowd(b *testing.B) {
	for _, c := range []struct {
		what      string
		few, many int
		weight    int64 // of each claim in the queue; unless it is 1, they wait behind a hold of the full weight
		f         func(b *testing.B, c *crowd)
	}{
		{"poll", 10, 1000, store.Full, func(b *testing.B, c *crowd) { c.asks(b) }},
		{"try", 10, 1000, store.Full, func(b *testing.B, c *crowd) { c.tries(b) }},
		{"read", 10, 1000, store.Full, func(b *testing.B, c *crowd) { c.reads(b) }},
		{"turn", 10, 1000, store.Full, func(b *testing.B, c *crowd) { c.turns(b) }},
		{"renewal", 10, 10000, 1, func(b *testing.B, c *crowd) { c.renews(b) }},
	} {
		b.Run(c.what, func(b *testing.B) {
			client := clientOf(b, testserver.Redis(b).Addr)
			s := storeOn(b, client, nil)
			b.Cleanup(func() { s.Close() })
			few, many := gather(b, s, "few", c.few, c.weight), gather(b, s, "many", c.many, c.weight)
			costs := map[*crowd][]float64{}
			for b.Loop() {
				for _, of := range []*crowd{few, many} {
					us, n := scriptTime(b, client)
					for range batch {
						c.f(b, of)
					}
					us2, n2 := scriptTime(b, client)
					costs[of] = append(costs[of], (us2-us)/(n2-n))
				}
			}
			one, other := median(costs[few]), median(costs[many])
			b.ReportMetric(one, "few-µs/script")
			b.ReportMetric(other, "many-µs/script")
			b.ReportMetric(other/one, "many/few")
		})
	}
}

// scriptTime returns how many microseconds the server has spent on scripts, and how many scripts it has run.
func scriptTime(b *testing.B, c *redis.Client) (us, calls float64) {
	b.Helper()
	info, err := c.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, line, _ := strings.Cut(info, "cmdstat_evalsha:")
	if _, err := fmt.Sscanf(line, "calls=%f,usec=%f,", &calls, &us); err != nil {
		b.Fatal(err)
	}
	return us, calls
}

const batch = 20

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// crowd is a name with its holders and waiters.
type crowd struct {
	s    *Store
	name string
	hold store.Hold // the hold for which the others wait
	all  []store.Claim
	i    int          // counts the operations
	has  []store.Hold // the holds of those that were granted
}

func gather(b testing.TB, s *Store, name string, n int, weight int64) *crowd {
	c := &crowd{s: s, name: name}
	if weight > 1 {
		first := mutex(name)
		first.TTL = time.Hour
		c.hold = mustHold(b, s, first)
	}
	for range n {
		one := mutex(name)
		one.Weight, one.TTL = weight, time.Hour
		c.all = append(c.all, one)
		a := mustAsk(b, s, one)
		c.has = append(c.has, store.Hold{Name: name, ID: one.ID, Token: a.Token, TTL: time.Hour})
	}
	return c
}

// step visits the whole queue, back and forth.
func (c *crowd) step() int {
	c.i++
	return c.i * 7 % len(c.all)
}

func (c *crowd) next() store.Claim { return c.all[c.step()] }

func (c *crowd) asks(b testing.TB) { mustAsk(b, c.s, c.next()) }

func (c *crowd) tries(b testing.TB) {
	try := mutex(c.name)
	try.Try = true
	mustAsk(b, c.s, try)
}

func (c *crowd) reads(b testing.TB) {
	if _, err := c.s.Poll(b.Context(), c.next()); err != nil {
		b.Fatal(err)
	}
}

// turns releases and so grants the next waiter, which asks. The released one comes again behind all.
func (c *crowd) turns(b testing.TB) {
	if err := c.s.Release(b.Context(), c.hold); err != nil {
		b.Fatal(err)
	}
	i := c.i % len(c.all)
	c.i++
	next := c.all[i]
	a := mustAsk(b, c.s, next)
	if !a.Granted {
		b.Fatalf("turn %d: %+v", c.i, a)
	}
	c.hold = store.Hold{Name: c.name, ID: next.ID, Token: a.Token}
	next.ID = me.NewID()
	c.all[i] = next
	mustAsk(b, c.s, next)
}

func (c *crowd) renews(b testing.TB) {
	if r := c.s.Renew(b.Context(), []store.Hold{c.has[c.step()]})[0]; r.Err != nil {
		b.Fatal(r.Err)
	}
}
