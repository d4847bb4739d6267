package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// What an operation on a name costs the server with few and with many in the
// queue: microseconds of the scripts, by its own count, and the ratio of them.
//
//	go test -run - -bench Crowd -benchtime 500x ./redisstore
func BenchmarkCrowd(b *testing.B) {
	for _, c := range []struct {
		what      string
		few, many int
		weight    int64 // of those in the queue; behind one that holds it all, unless it is 1
		f         func(b *testing.B, c *crowd, i int)
	}{
		{"poll", 10, 1000, store.Full, func(b *testing.B, c *crowd, i int) { c.asks(b, i) }},
		{"try", 10, 1000, store.Full, func(b *testing.B, c *crowd, i int) { c.tries(b) }},
		{"read", 10, 1000, store.Full, func(b *testing.B, c *crowd, i int) { c.reads(b, i) }},
		{"turn", 10, 1000, store.Full, func(b *testing.B, c *crowd, i int) { c.turns(b, i) }},
		{"renewal", 10, 10000, 1, func(b *testing.B, c *crowd, i int) { c.renews(b, i) }},
	} {
		b.Run(c.what, func(b *testing.B) {
			client := clientOf(b, testserver.Redis(b).Addr)
			s := storeOn(b, client, nil)
			b.Cleanup(func() { s.Close() })
			few, many := gather(b, s, "few", c.few, c.weight), gather(b, s, "many", c.many, c.weight)
			took, calls := map[*crowd]float64{}, map[*crowd]float64{}
			for i := 0; b.Loop(); i++ {
				for _, of := range []*crowd{few, many} {
					us, n := scripts2(b, client)
					c.f(b, of, i)
					us2, n2 := scripts2(b, client)
					took[of] += us2 - us
					calls[of] += n2 - n
				}
			}
			one, other := took[few]/calls[few], took[many]/calls[many]
			b.ReportMetric(one, "few-µs/script")
			b.ReportMetric(other, "many-µs/script")
			b.ReportMetric(other/one, "many/few")
		})
	}
}

// scripts2 is how many microseconds the server has spent on scripts, and on how
// many.
func scripts2(b *testing.B, c *redis.Client) (us, calls float64) {
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

// A crowd is a name and those who have it or wait for it.
type crowd struct {
	s    *Store
	name string
	hold store.Hold // that the others wait for
	all  []store.Claim
	has  []store.Hold // of those that were granted
}

func gather(b *testing.B, s *Store, name string, n int, weight int64) *crowd {
	c := &crowd{s: s, name: name}
	if weight > 1 {
		first := mutex(name)
		first.TTL = time.Hour
		c.hold = mustHold(b, s, first)
	}
	for range n {
		one := mutex(name)
		one.Weight, one.TTL = weight, time.Hour
		one.PositionTTL = time.Hour // the engine's is 10 s: nobody is to lapse here
		one.PositionTTL = store.MaxPositionTTL
		c.all = append(c.all, one)
		a := mustAsk(b, s, one)
		c.has = append(c.has, store.Hold{Name: name, ID: one.ID, Token: a.Token, TTL: time.Hour})
	}
	return c
}

func (c *crowd) asks(b *testing.B, i int) { mustAsk(b, c.s, c.all[i*7%len(c.all)]) }

func (c *crowd) tries(b *testing.B) {
	try := mutex(c.name)
	try.Try = true
	mustAsk(b, c.s, try)
}

func (c *crowd) reads(b *testing.B, i int) {
	if _, err := c.s.Poll(b.Context(), c.all[i*7%len(c.all)]); err != nil {
		b.Fatal(err)
	}
}

// turns gives back and lets the next in, who asks, and comes again behind all.
func (c *crowd) turns(b *testing.B, i int) {
	if err := c.s.Release(b.Context(), c.hold); err != nil {
		b.Fatal(err)
	}
	next := c.all[i%len(c.all)]
	a := mustAsk(b, c.s, next)
	if !a.Granted {
		b.Fatalf("turn %d: %+v", i, a)
	}
	c.hold = store.Hold{Name: c.name, ID: next.ID, Token: a.Token}
	next.ID = me.NewID()
	c.all[i%len(c.all)] = next
	mustAsk(b, c.s, next)
}

func (c *crowd) renews(b *testing.B, i int) {
	if r := c.s.Renew(b.Context(), c.has[i*7%len(c.has):][:1])[0]; r.Err != nil {
		b.Fatal(r.Err)
	}
}
