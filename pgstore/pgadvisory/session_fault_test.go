package pgadvisory

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// sessionOf returns the backend pid of the session that holds the name.
func sessionOf(t testing.TB, pool *pgxpool.Pool, name string) (pid int) {
	t.Helper()
	key, err := KeyOf(name)
	if err != nil {
		t.Fatal(err)
	}
	high, low := key.halves()
	err = pool.QueryRow(t.Context(), `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = $1::bigint::oid AND objid = $2::bigint::oid`,
		int64(high), int64(low)).Scan(&pid)
	if err != nil {
		t.Fatalf("the session that holds %q: %v", name, err)
	}
	return pid
}

func terminate(t testing.TB, pool *pgxpool.Pool, pid int) {
	t.Helper()
	var done bool
	if err := pool.QueryRow(t.Context(), "SELECT pg_terminate_backend($1)", pid).Scan(&done); err != nil || !done {
		t.Fatalf("pg_terminate_backend(%d): %v, %v", pid, done, err)
	}
}

func fresh() string { return "session/" + store.NewProcess().String() }

// B105, B141. No call is made: the store learns of the loss by itself.
func TestSession_AKilledBackendIsNoticedAtOnceAndPoisonsNothing(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	u, other := newUser(t, pool, nil), newUser(t, pool, nil)
	one, two, theirs := fresh(), fresh(), fresh()
	first, second, kept := u.take(one), u.take(two), other.take(theirs)
	released := u.take(fresh())
	u.release(released)
	terminate(t, pool, sessionOf(t, pool, one))
	u.reported(first, second)
	for _, r := range u.Renew(t.Context(), []store.Hold{first, second}) {
		if !errors.Is(r.Err, store.ErrLost) {
			t.Fatalf("renewal: got %+v, want ErrLost", r)
		}
	}
	if err := u.Release(t.Context(), first); !errors.Is(err, store.ErrLost) {
		t.Fatalf("release: %v, want ErrLost", err)
	}
	var h store.Hold
	until(t, "another claim is granted", func() bool { // the loss is noticed a little before the server releases the lock
		var a store.Answer
		h, a = other.ask(one, store.Full)
		return a.Granted
	})
	u.refused(one)
	other.release(h)
	again := u.take(one)
	if err := u.Release(t.Context(), first); !errors.Is(err, store.ErrLost) {
		t.Fatalf("second release of the lost hold: %v, want ErrLost", err)
	}
	other.refused(one)
	u.release(again)
	if r := other.Renew(t.Context(), []store.Hold{kept}); r[0].Err != nil {
		t.Fatalf("renewal of another store's hold: %v", r[0].Err)
	}
	select {
	case id := <-other.lost:
		t.Fatalf("another store reported the loss of %v", id)
	default:
	}
}

// B79. A plain session is the control.
func TestSession_OutlivesAServerThatEndsIdleSessions(t *testing.T) {
	pool := poolOn(t, sharedAddr(t), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["idle_session_timeout"] = "300" })
	u := newUser(t, pool, nil)
	h := u.take(fresh())
	plain, err := poolOn(t, sharedAddr(t)).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Release()
	if _, err := plain.Exec(t.Context(), "SELECT pg_advisory_lock(300); SET idle_session_timeout = 300", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	// Once the server has ended the plain session, it has ended an idle one.
	until(t, "the plain session is ended", func() bool {
		other := newUser(t, pool, nil)
		defer other.Close()
		_, a := other.ask("advisory:300", store.Full)
		return a.Granted
	})
	if r := u.Renew(t.Context(), []store.Hold{h}); r[0].Err != nil {
		t.Fatalf("renewal of the store's hold: %v", r[0].Err)
	}
	u.release(h)
}

// B104: it takes no connection from the pool.
func TestSession_ManyNamesUseOneConnectionOutsideThePool(t *testing.T) {
	pool := poolOn(t, sharedAddr(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	mine, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Release()
	u := newUser(t, pool, nil)
	names := make([]string, 20)
	for i := range names {
		names[i] = fresh()
	}
	held := map[string]store.Hold{}
	for range 1000 {
		name := names[rand.IntN(len(names))]
		if h, ok := held[name]; ok {
			u.release(h)
			delete(held, name)
			continue
		}
		held[name] = u.take(name)
	}
	for _, h := range held {
		u.release(h)
	}
}

// B103.
func TestSession_OneForAllRoundsAndNoneWhenUnused(t *testing.T) {
	pool := poolOn(t, sharedAddr(t), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = t.Name() })
	sessions := func() (pids string) {
		if err := pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()", t.Name()).Scan(&pids); err != nil {
			t.Fatal(err)
		}
		return pids
	}
	u := newUser(t, pool, nil)
	u.idle = time.Hour
	own, pids := fresh(), ""
	for range 30 {
		h, more := u.take(own), u.take(fresh())
		if now := sessions(); pids != "" && now != pids || strings.Contains(now, " ") || now == "" {
			t.Fatalf("got sessions %q, then %q", pids, now)
		} else {
			pids = now
		}
		u.release(h)
		u.release(more)
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the session is closed", func() bool { return sessions() == "" })
	u = newUser(t, pool, nil)
	u.idle = 200 * time.Millisecond
	u.release(u.take(own))
	until(t, "the idle session is closed", func() bool { return sessions() == "" })
	h := u.take(own)
	if sessions() == "" {
		t.Fatal("no session holds the lock")
	}
	other := newUser(t, pool, nil) // its session is idle for a shorter time
	other.idle = u.idle
	held := sessions()
	other.release(other.take(fresh()))
	until(t, "the session of the other is closed, and the session with the hold is open", func() bool { return sessions() == held })
	u.release(h)
	u.take(own)
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the session is closed", func() bool { return sessions() == "" })
}

// A wait on one name does not block other names.
func TestSession_ManyWaitersDelayNoOtherName(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	holder, u := newUser(t, pool, nil), newUser(t, pool, nil)
	h := holder.take(fresh())
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, a := u.ask(h.Name, store.Full); a.Granted {
					t.Error("granted beside the holder")
				}
			}
		})
	}
	for range 100 {
		u.release(u.take(fresh()))
	}
	close(stop)
	all.Wait()
	if a := u.refused(h.Name); len(a.Holders) != 1 || a.Holders[0].Owner.Host != "web-3" || a.Holders[0].Owner.PID != 4711 || a.Holders[0].Owner.Program != "backup sh" {
		t.Fatalf("got refusal %+v", a)
	}
}

func TestSession_AnAbandonedAskIsReleasedByTheLast(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	u, other := newUser(t, pool, nil), newUser(t, pool, nil)
	u.release(u.take(fresh()))
	for i := range 200 {
		name := fresh()
		c := u.claim(name, store.Full)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*3*time.Microsecond)
		_, err := u.Ask(ctx, c)
		cancel()
		if err != nil && store.Definite(err) {
			t.Fatalf("abandoned ask: %v", err)
		}
		if err := u.Release(t.Context(), store.Hold{Name: name, ID: c.ID}); err != nil {
			t.Fatalf("withdrawal: %v", err)
		}
		other.release(other.take(name))
	}
}

// Nobody else may use the store's session. If somebody does, the store must not report that it held the name to the end.
func TestSession_AReleaseThatFindsTheLockGoneIsLost(t *testing.T) {
	u := newUser(t, poolOn(t, sharedAddr(t)), nil)
	h := u.take(fresh())
	u.mu.Lock()
	have := u.holds[h.ID]
	u.holds[h.ID] = &sessionHold{key: Key{n: have.key.n + 1}, write: true, token: have.token}
	u.use(Key{n: have.key.n + 1}).holders = []*sessionHold{u.holds[h.ID]}
	u.mu.Unlock()
	if err := u.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
		t.Fatalf("release of an unlocked name: %v, want ErrLost", err)
	}
}

// The store reads the settings of database/sql pools and leaves them unchanged.
func TestSession_OfDatabaseSQL(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	s, err := NewDB(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	u, other := &user{Store: s, t: t, id: store.NewProcess(), lost: make(chan store.ID, 1)}, newUser(t, pool, nil)
	defer u.Close()
	name := fresh()
	h := u.take(name)
	other.refused(name)
	u.release(h)
	other.take(name)
	if open := db.Stats().InUse; open != 0 {
		t.Errorf("got %d connections of the pool in use, want none", open)
	}
}

func TestSession_NeverTwoInsideUnderKills(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	schema := apart(t, sharedAddr(t))
	name := fresh()
	var mu sync.Mutex
	var tokens []int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		u := newUser(t, pool, &Options{Tokens: true, Schema: schema})
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h, a := u.ask(name, store.Full)
				if !a.Granted {
					time.Sleep(time.Millisecond)
					continue
				}
				mu.Lock()
				tokens = append(tokens, h.Token)
				mu.Unlock()
				if rand.IntN(4) == 0 {
					var done bool
					_ = pool.QueryRow(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = $1::bigint::oid", lowOf(name)).Scan(&done)
				}
				if err := u.Release(context.Background(), h); err != nil && store.Definite(err) && !errors.Is(err, store.ErrLost) {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	until(t, "enough claims were granted", func() bool { mu.Lock(); defer mu.Unlock(); return len(tokens) > 150 })
	close(stop)
	all.Wait()
	for i := 1; i < len(tokens); i++ {
		if tokens[i] == tokens[i-1] {
			t.Fatalf("got token %d twice", tokens[i])
		}
	}
	last := newUser(t, pool, &Options{Tokens: true, Schema: schema})
	until(t, "one more claim is granted", func() bool { // a killed session takes a while to end
		_, a := last.ask(name, store.Full)
		return a.Granted
	})
}

func lowOf(name string) int64 {
	k, _ := KeyOf(name)
	_, low := k.halves()
	return int64(low)
}

// Tests that damage a server have a server of their own. They share one, as it takes seconds to start.
func TestSession_OnAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	settings := []string{"-c", "max_locks_per_transaction=10", "-c", "max_connections=30", "-c", "fsync=on", "-c", "wal_writer_delay=10s"}
	server := testserver.Postgres(t, settings...)
	t.Run("ARestartOfTheServerLosesAllAndIsSurvived", func(t *testing.T) {
		pool := poolOn(t, server.Addr)
		u := newUser(t, pool, &Options{Tokens: true})
		var holds []store.Hold
		newest := int64(0)
		for range 20 {
			holds = append(holds, u.take(fresh()))
			newest = max(newest, holds[len(holds)-1].Token)
		}
		server.Restart()
		u.reported(holds...)
		if h := u.take(holds[0].Name); h.Token <= newest {
			t.Fatalf("got token %d after %d, want a larger one", h.Token, newest)
		}
	})
	// Values of the sequence that the server had drawn but not yet logged are not drawn again.
	t.Run("NoTokenIsDrawnAgainAfterACrash", func(t *testing.T) {
		pool := poolOn(t, server.Addr)
		newest := int64(0)
		for range 3 {
			var all sync.WaitGroup
			var mu sync.Mutex
			for range 6 {
				u := newUser(t, pool, &Options{Tokens: true})
				all.Go(func() {
					for range 40 {
						_, a := u.ask(fresh(), 1)
						mu.Lock()
						newest = max(newest, a.Token)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			server.Kill()
			server.Restart()
			if h := newUser(t, pool, &Options{Tokens: true}).take(fresh()); h.Token <= newest {
				t.Fatalf("got token %d after %d, want a larger one", h.Token, newest)
			}
		}
	})
	t.Run("AServerWithoutRoomForMoreLocksLosesNone", func(t *testing.T) {
		u := newUser(t, poolOn(t, server.Addr), nil)
		var holds []store.Hold
		for {
			c := u.claim(fresh(), store.Full)
			a, err := u.Ask(t.Context(), c)
			if err != nil {
				if store.Definite(err) || !strings.Contains(err.Error(), "max_locks_per_transaction") {
					t.Fatalf("lock %d: %v, want max_locks_per_transaction", len(holds), err)
				}
				break
			}
			holds = append(holds, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
		}
		for i, r := range u.Renew(t.Context(), holds) {
			if r.Err != nil {
				t.Fatalf("lock %d of %d: %v", i, len(holds), r.Err)
			}
		}
		for _, h := range holds {
			u.release(h)
		}
		u.release(u.take(fresh()))
		select {
		case id := <-u.lost:
			t.Fatalf("got the loss of %v reported", id)
		default:
		}
	})
	// Between two statements a pooler gives our session to others. The store detects that before it takes a lock.
	t.Run("APoolerIsRefused", func(t *testing.T) {
		u := newUser(t, poolOn(t, testserver.PgBouncer(t, server.Addr, 3).Addr), nil)
		_, err := u.Ask(t.Context(), u.claim("a", store.Full))
		if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "there is a pooler on the way") {
			t.Fatalf("through a pooler: %v, want ErrUnsupported", err)
		}
		if found := u.Check(t.Context()); len(found) != 1 || !errors.Is(found[0].Err, store.ErrUnsupported) {
			t.Fatalf("Check: got %+v", found)
		}
		newUser(t, poolOn(t, server.Addr), nil).take("a")
	})
	// A session that is still being opened has no results yet.
	t.Run("ACheckBesideOneThatIsBeingOpenedOpensItsOwn", func(t *testing.T) {
		var dials atomic.Int32
		opening, opened := make(chan struct{}), make(chan struct{})
		u := newUser(t, poolOn(t, server.Addr, func(c *pgxpool.Config) {
			dial := c.ConnConfig.DialFunc
			c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials.Add(1) == 1 {
					close(opening)
					<-opened
				}
				return dial(ctx, network, addr)
			}
		}), nil)
		answered := make(chan error, 1)
		go func() {
			_, err := u.Ask(t.Context(), u.claim(fresh(), store.Full))
			answered <- err
		}()
		<-opening
		found := u.Check(t.Context())
		close(opened)
		if len(found) != 2 || found[0].Err != nil || dials.Load() != 2 {
			t.Errorf("got %d dials, Check: %+v", dials.Load(), found)
		}
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		if found := u.Check(t.Context()); len(found) != 2 || found[0].Err != nil || dials.Load() != 2 {
			t.Errorf("with an open session: got %d dials, Check: %+v", dials.Load(), found)
		}
	})
	t.Run("AStandbyIsRefused", func(t *testing.T) {
		u := newUser(t, poolOn(t, testserver.PostgresReplica(t, server, settings...).Addr), nil)
		_, err := u.Ask(t.Context(), u.claim("a", store.Full))
		if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "standby") {
			t.Fatalf("on a standby: %v, want ErrUnsupported", err)
		}
	})
	// A cut cable, or a firewall that has dropped the connection: nothing reports it.
	t.Run("OneThatSaysNothingIsGivenUpAndAllThatItHeldIsLost", func(t *testing.T) {
		u := newUser(t, poolOn(t, server.Addr), nil)
		h := u.take("a")
		u.patience = 300 * time.Millisecond // to take the lock may take longer than this
		server.Freeze()
		defer server.Thaw()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if r := u.Renew(ctx, []store.Hold{h}); r[0].Err == nil || store.Definite(r[0].Err) && !errors.Is(r[0].Err, store.ErrLost) {
			t.Errorf("renewal: got %+v", r)
		}
		u.reported(h)
	})
	t.Run("AServerThatIsAwayIsToldAndComesBack", func(t *testing.T) {
		u := newUser(t, poolOn(t, server.Addr), nil)
		h := u.take("a")
		server.Kill()
		u.reported(h)
		_, err := u.Ask(t.Context(), u.claim("a", store.Full))
		if err == nil || store.Definite(err) || !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("without the server: %v, want ErrUnavailable", err)
		}
		server.Restart()
		u.take("a")
	})
}
