package pgstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

type traceKey struct{}

func traced(ctx context.Context, trace string) context.Context {
	return context.WithValue(ctx, traceKey{}, trace)
}

// queryTracer traces the driver. Of each statement that calls one of our functions it records the trace in its context, and the traces linked
// to it.
type queryTracer struct {
	mu    sync.Mutex
	trace []string
}

func (q *queryTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "holdfast") {
		all := []string{fmt.Sprint(ctx.Value(traceKey{}))}
		for _, claim := range store.Claims(ctx) {
			all = append(all, fmt.Sprint(claim.Value(traceKey{})))
		}
		slices.Sort(all[1:])
		q.mu.Lock()
		defer q.mu.Unlock()
		q.trace = append(q.trace, fmt.Sprint(all))
	}
	return ctx
}

func (q *queryTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// since returns what was recorded since the last call.
func (q *queryTracer) since() (trace []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	trace, q.trace = q.trace, nil
	return trace
}

// A statement for one claim reaches pgx with the values of that claim. One that renews many holds is linked to each.
func TestTheValuesOfAClaimReachTheTracerOfThePool(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	q := &queryTracer{}
	pool := poolOn(t, addr, func(c *pgxpool.Config) { c.ConnConfig.Tracer = q })
	s := tableOn(t, pool, &Options{Schema: apart(t, addr), NoListen: true})
	s.next.Store(math.MaxInt64) // it sweeps no old rows
	l, err := holdfast.New(s, &holdfast.Options{Logger: pgtest.Quiet(t), NoRenew: holdfast.On})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Mutex("first").TryLock(t.Context()); err != nil { // creates the table
		t.Fatal(err)
	}
	q.since()
	only := func(what, want string) {
		t.Helper()
		if got := slices.Compact(q.since()); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: the statements got %q, want %q", what, got, want)
		}
	}
	one, err := l.Mutex("a").Lock(traced(t.Context(), "one"))
	if err != nil {
		t.Fatal(err)
	}
	only("a lock", "[one]")
	two, err := l.Mutex("b").TryLock(traced(t.Context(), "two"))
	if err != nil {
		t.Fatal(err)
	}
	only("a try", "[two]")
	if err := one.Renew(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	only("a renewal", "[<nil> one]")
	if err := two.Release(); err != nil {
		t.Fatal(err)
	}
	only("a release", "[two]")
	set := l.All(l.Mutex("c"), l.Mutex("d"))
	all, err := set.Lock(traced(t.Context(), "a set"))
	if err != nil {
		t.Fatal(err)
	}
	only("a set", "[a set]")
	if err := all.Renew(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	only("a renewal of two", "[<nil> a set a set]")
}
