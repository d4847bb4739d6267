package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestSessionStore(t *testing.T) {
	t.Parallel()
	pool := poolOn(t, sharedAddr(t))
	storetest.Run(t, func(t *testing.T) store.Store { return mustSession(t, pool, nil) })
}

// All names share one sequence. So each promise has a schema of its own, or the tokens of another promise would come in between.
func TestSessionStoreWithTokens(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	pool := poolOn(t, addr)
	storetest.Run(t, func(t *testing.T) store.Store {
		sum := fnv.New64a()
		sum.Write([]byte(t.Name()))
		schema := fmt.Sprintf("test_tokens_%x", sum.Sum64())
		if _, err := pool.Exec(t.Context(), "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil && store.SQLState(err) != "23505" {
			t.Fatal(err)
		}
		return mustSession(t, pool, &Options{Tokens: true, Schema: schema})
	})
}

func mustSession(t testing.TB, pool *pgxpool.Pool, o *Options) *Store {
	t.Helper()
	s, err := New(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// user is a Store with the losses that it has reported.
type user struct {
	*Store
	t    testing.TB
	id   store.Process
	lost chan store.ID
}

func newUser(t testing.TB, pool *pgxpool.Pool, o *Options) *user {
	t.Helper()
	u := &user{Store: mustSession(t, pool, o), t: t, id: store.NewProcess(), lost: make(chan store.ID, 1000)}
	u.TellLosses(func(id store.ID, why error) {
		if !errors.Is(why, store.ErrLost) {
			t.Errorf("got a loss with %v, want ErrLost", why)
		}
		u.lost <- id
	})
	t.Cleanup(func() { u.Close() })
	return u
}

func (u *user) claim(name string, weight int64) store.Claim {
	owner := store.Owner{Host: "web-3", PID: 4711, Program: "backup sh"}
	return store.Claim{Name: name, ID: u.id.NewID(), Limit: store.Full, Weight: weight, Try: true, PositionTTL: store.MaxPositionTTL, Owner: owner.Stored()}
}

// ask repeats the ask until there is an answer.
func (u *user) ask(name string, weight int64) (store.Hold, store.Answer) {
	u.t.Helper()
	c := u.claim(name, weight)
	var a store.Answer
	until(u.t, "the ask is answered", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		var err error
		a, err = u.Ask(ctx, c)
		return err == nil
	})
	return store.Hold{Name: name, ID: c.ID, Token: a.Token}, a
}

func (u *user) take(name string) store.Hold {
	u.t.Helper()
	h, a := u.ask(name, store.Full)
	if !a.Granted {
		u.t.Fatalf("%q: got refusal %+v", name, a)
	}
	return h
}

func (u *user) refused(name string) store.Answer {
	u.t.Helper()
	_, a := u.ask(name, store.Full)
	if a.Granted {
		u.t.Fatalf("%q: got a grant, want a refusal", name)
	}
	return a
}

func (u *user) release(h store.Hold) {
	u.t.Helper()
	if err := u.Release(context.Background(), h); err != nil {
		u.t.Fatalf("release %q: %v", h.Name, err)
	}
}

// reported waits until exactly the losses of these holds have been reported.
func (u *user) reported(holds ...store.Hold) {
	u.t.Helper()
	want := map[store.ID]bool{}
	for _, h := range holds {
		want[h.ID] = true
	}
	for len(want) > 0 {
		select {
		case id := <-u.lost:
			if !want[id] {
				u.t.Fatalf("got the loss of %v reported", id)
			}
			delete(want, id)
		case <-time.After(patience):
			u.t.Fatalf("after %v %d losses were not reported", patience, len(want))
		}
	}
}
