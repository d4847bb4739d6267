package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// couple is a primary and its replica.
type couple struct{ primary, replica *testserver.Server }

func newCouple(t testing.TB) *couple {
	t.Helper()
	return coupleOf(t, testserver.Redis)
}

// coupleOf is newCouple for another version of the server.
func coupleOf(t testing.TB, start func(testing.TB, ...string) *testserver.Server) *couple {
	t.Helper()
	primary := start(t, "--repl-diskless-sync-delay", "0")
	return &couple{primary, testserver.RedisReplica(t, primary)}
}

// cut stops replication: the replica gets nothing that is written from now on.
func (c *couple) cut(t testing.TB) {
	t.Helper()
	c.follow(t, "nobody", "wrong") // otherwise it would reconnect at once
	primary := clientOf(t, c.primary.Addr)
	if err := primary.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the replica is cut off", func() bool {
		info, err := primary.Info(t.Context(), "replication").Result()
		return err == nil && redisinfo.Field(info, "connected_slaves") == "0"
	})
}

// mend resumes replication.
func (c *couple) mend(t testing.TB) {
	t.Helper()
	c.follow(t, "", "")
}

// follow sets the user as which the replica connects to the primary from now on. If its login is refused it retries each second. If it may log
// in but not replicate, it retries without a pause.
func (c *couple) follow(t testing.TB, user, password string) {
	t.Helper()
	if err := clientOf(t, c.replica.Addr).Do(t.Context(), "CONFIG", "SET", "masteruser", user, "masterauth", password).Err(); err != nil {
		t.Fatal(err)
	}
}

// promote stops the primary and promotes the replica.
func (c *couple) promote(t testing.TB) {
	t.Helper()
	c.primary.Kill()
	if err := clientOf(t, c.replica.Addr).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
}

// follows waits until the replica has all that the primary has now. It does not wait for later writes: with Sentinels there are always some.
func follows(t testing.TB, primary, replica *testserver.Server) {
	t.Helper()
	from, to := clientOf(t, primary.Addr), clientOf(t, replica.Addr)
	of := func(c *redis.Client, name string) string {
		info, err := c.Info(t.Context(), "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		return redisinfo.Field(info, name)
	}
	offset := func(c *redis.Client, name string) int64 {
		n, err := strconv.ParseInt(of(c, name), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := offset(from, "master_repl_offset")
	until(t, "the replica has all writes", func() bool {
		return of(to, "master_link_status") == "up" && offset(to, "slave_repl_offset") >= all
	})
}

// This shows what the package comment says that asynchronous replication can lose, and what it cannot: two processes can hold a name, and the
// second has the larger token.
func TestAnUnreplicatedGrantCanBeGrantedAgainWithALargerToken(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	sentinel := testserver.RedisCalmSentinels(t, c.primary, 1)[0]
	s := openAt(t, "redis+sentinel://"+sentinel.Addr+"/primary")
	defer s.Close()
	long := mutex("kept")
	long.TTL = time.Hour
	kept := mustHold(t, s, long)
	follows(t, c.primary, c.replica)
	c.cut(t)
	first := mustHold(t, s, mutex("lost"))
	testserver.TakeOverSoon(sentinel)
	c.primary.Kill()

	second := mutex("lost")
	var a store.Answer
	until(t, "the replica has taken over, and another claim is granted", func() bool {
		var err error
		a, err = s.Ask(t.Context(), second)
		if err != nil && store.Definite(err) {
			t.Fatal(err)
		}
		return err == nil && a.Granted
	})
	if a.Token <= first.Token {
		t.Errorf("the second holder has token %d, the first had %d, want a larger one", a.Token, first.Token)
	}
	// The first holder does not know yet, and was promised a minute. It learns of the loss by its next renewal; replicated holds are
	// unaffected.
	r := s.Renew(t.Context(), []store.Hold{first, kept})
	if !errors.Is(r[0].Err, store.ErrLost) {
		t.Errorf("renewal by the first holder: %v, want ErrLost", r[0].Err)
	}
	if r[1].Err != nil {
		t.Errorf("renewal of the hold that the replica knew: %v", r[1].Err)
	}
}

// A fail-over makes the token smaller only if the name's record is lost and the new server's clock is behind as well.
func TestATokenDropsOnlyIfTheRecordIsLostAndTheClockBehind(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour / time.Microsecond)
	for _, recordLost := range []bool{false, true} {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("record lost %v, clock behind %v", recordLost, behind), func(t *testing.T) {
				t.Parallel()
				c := newCouple(t)
				now := time.Now().UnixMicro()
				before, err := newStore(clientOf(t, c.primary.Addr), nil, func() int64 { return now }, usual)
				if err != nil {
					t.Fatal(err)
				}
				defer before.Close()
				if recordLost {
					c.cut(t)
				}
				first := mustHold(t, before, mutex("n"))
				if err := before.Release(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				if !recordLost {
					follows(t, c.primary, c.replica)
				}
				c.promote(t)
				after, err := newStore(clientOf(t, c.replica.Addr), nil, func() int64 {
					if behind {
						return now - hour
					}
					return now + 1
				}, usual)
				if err != nil {
					t.Fatal(err)
				}
				defer after.Close()
				second := mustHold(t, after, mutex("n"))
				if down := second.Token <= first.Token; down != (recordLost && behind) {
					t.Errorf("got token %d after %d, want a larger one", second.Token, first.Token)
				}
			})
		}
	}
}

// confirmed returns a Store that requires n replicas.
func confirmed(t testing.TB, client redis.UniversalClient, n int) *Store {
	t.Helper()
	s := storeOn(t, client, &Options{Replicas: n})
	s.confirmTime = longAnswer // as long as the client itself waits: a busy replica takes long
	t.Cleanup(func() { s.Close() })
	return s
}

// soonHold repeats the ask until the replicas have confirmed it. They may be busy.
func soonHold(t testing.TB, s *Store, c store.Claim) store.Hold {
	t.Helper()
	var h store.Hold
	until(t, "replicas confirm", func() bool {
		a, err := s.Ask(t.Context(), c)
		h = store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}
		return err == nil && a.Granted
	})
	return h
}

func indeterminate(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
		t.Errorf("%s: %v, want indeterminate", what, err)
		return
	}
	if !strings.Contains(err.Error(), "replicas that must confirm") {
		t.Errorf("%s: the error does not report the missing replicas: %v", what, err)
	}
}

func TestAGrantWithTooFewReplicasIsNotReported(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	client := clientOf(t, c.primary.Addr)
	s := confirmed(t, client, 1)
	upgradeable := mutex("upgradeable")
	upgradeable.Weight = store.Upgradeable
	held, up, waits := soonHold(t, s, mutex("held")), soonHold(t, s, upgradeable), mutex("held")
	if a := mustAsk(t, s, waits); a.Granted {
		t.Fatal("two claims hold the lock")
	}
	holds := []store.Hold{held, up}
	until(t, "replicas confirm renewals", func() bool {
		r := s.Renew(t.Context(), holds)
		return r[0].Err == nil && r[1].Err == nil
	})

	c.cut(t)
	s.confirmTime = 100 * time.Millisecond // no replica will confirm, however long this is
	c1, c2 := mutex("one"), mutex("two")
	c2.Try = true
	for _, claim := range []store.Claim{c1, c2} {
		_, err := s.Ask(t.Context(), claim)
		indeterminate(t, fmt.Sprintf("an ask, try %v", claim.Try), err)
		_, err = s.Ask(t.Context(), claim)
		indeterminate(t, "the repeated ask", err)
	}
	for _, r := range s.Renew(t.Context(), holds) {
		indeterminate(t, "a renewal in a batch", r.Err)
	}
	indeterminate(t, "a renewal", s.Renew(t.Context(), []store.Hold{held})[0].Err)
	_, err := s.Change(t.Context(), up, 1, store.Full)
	indeterminate(t, "an upgrade", err)

	// Answers that give the caller nothing are returned as usual, and so are losses.
	if a, err := s.Ask(t.Context(), waits); err != nil || a.Granted {
		t.Errorf("a refusal: got %+v, %v", a, err)
	}
	if _, err := s.Poll(t.Context(), mutex("held")); err != nil {
		t.Errorf("Poll: %v", err)
	}
	if err := s.Renew(t.Context(), []store.Hold{{Name: "held", ID: me.NewID(), Token: 1, TTL: time.Minute}})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("renewal of no hold: %v, want ErrLost", err)
	}
	for _, claim := range []store.Claim{c1, c2} {
		if err := s.Release(t.Context(), store.Hold{Name: claim.Name, ID: claim.ID}); err != nil {
			t.Errorf("withdrawal: %v", err)
		}
	}
	if err := s.Release(t.Context(), held); err != nil {
		t.Errorf("release: %v", err)
	}
	_, err = s.Ask(t.Context(), waits)
	indeterminate(t, "the ask of the next waiter", err)

	// One replica that confirms counts as one, not as two.
	more := confirmed(t, clientOf(t, c.primary.Addr), 2)
	c.mend(t)
	until(t, "the replica is back, and confirms", func() bool {
		a, err := s.Ask(t.Context(), waits)
		return err == nil && a.Granted
	})
	until(t, "one replica confirms while two are required", func() bool {
		_, err = more.Ask(t.Context(), mutex("two replicas"))
		indeterminate(t, "an ask for two replicas of one", err)
		return !strings.Contains(fmt.Sprint(err), "0 of the 2")
	})
	if !strings.Contains(fmt.Sprint(err), "1 of the 2") {
		t.Errorf("the error does not report how many confirmed: %v", err)
	}
}

// The replica is still connected, and has confirmed earlier writes.
func TestAReplicaThatHangsConfirmsNothing(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	s := confirmed(t, clientOf(t, c.primary.Addr), 1)
	soonHold(t, s, mutex("before"))
	c.replica.Freeze()
	defer c.replica.Thaw()
	claim := mutex("n")
	_, err := s.Ask(t.Context(), claim)
	indeterminate(t, "an ask", err)
	c.replica.Thaw()
	until(t, "the replica answers again, and confirms", func() bool {
		a, err := s.Ask(t.Context(), claim)
		return err == nil && a.Granted
	})
}

// A notification that carried the grant would report a grant that no replica may have.
func TestANotificationCarriesNoGrantWhereReplicasMustConfirm(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	for n, carries := range []bool{true, false} {
		s := confirmed(t, clientOf(t, c.primary.Addr), n)
		s.pingEvery = longAnswer // the first message is the waiter's
		notifications := make(chan store.Notification, 10)
		p := store.NewProcess()
		if err := s.Watch(t.Context(), p, func(h store.Notification) { notifications <- h }); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("name ", n)
		h, w := soonHold(t, s, mutex(name)), mutex(name)
		w.ID = p.NewID()
		mustAsk(t, s, w)
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-notifications:
			if got.ID != w.ID || got.Name != name || (got.Token != 0) != carries || (got.N != 0) != carries {
				t.Errorf("%d replicas: got notification %+v", n, got)
			}
		case <-time.After(patience):
			t.Fatal("got no notification")
		}
	}
}

// A primary that has restarted, and does not know yet that it was replaced, has no replica: it confirms no hold to anybody.
func TestAPrimaryWithoutReplicasGrantsNothingThatNeedsThem(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	sentinel := testserver.RedisCalmSentinels(t, c.primary, 1)[0]
	s, err := Open("redis+sentinel://"+sentinel.Addr+"/primary?replicas=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	soonHold(t, s, mutex("before"))
	testserver.TakeOverSoon(sentinel)
	c.primary.Kill()
	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr})
	defer watcher.Close()
	until(t, "the replica has taken over", func() bool {
		addr, err := watcher.GetMasterAddrByName(t.Context(), "primary").Result()
		return err == nil && net.JoinHostPort(addr[0], addr[1]) == c.replica.Addr
	})
	sentinel.Kill() // or it would tell the old primary
	c.primary.Restart()
	stale := confirmed(t, clientOf(t, c.primary.Addr), 1)
	_, err = stale.Ask(t.Context(), mutex("n"))
	indeterminate(t, "an ask of the stale primary", err)
	careless := confirmed(t, clientOf(t, c.primary.Addr), 0)
	mustHold(t, careless, mutex("m")) // the option exists to prevent this

	// The old primary now learns that it is a replica, and refuses to write.
	sentinel.Restart()
	old := clientOf(t, c.primary.Addr)
	until(t, "the old primary follows the new one", func() bool {
		role, err := old.Do(t.Context(), "ROLE").Slice()
		return err == nil && role[0] == "slave"
	})
	if _, err := careless.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("Ask of the old primary: %v, want READONLY", err)
	}
	until(t, "the store works with a primary and its new replica", func() bool {
		_, err := s.Ask(t.Context(), mutex("after"))
		return err == nil
	})
}

// The wait for replicas must end before the client's own timeout.
func TestTheWaitForReplicasEndsBeforeTheClientGivesUp(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	c.cut(t)
	s := confirmed(t, clientOf(t, c.primary.Addr, func(o *redis.Options) { o.ReadTimeout = longAnswer / 4 }), 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := s.Ask(ctx, mutex("n"))
	indeterminate(t, "an ask", err)
}

func TestWithoutTheRightToWaitGrantsAreDenied(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	without := confirmed(t, user(t, c.primary, "locks", rights(t)...), 1)
	if _, err := without.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("without +wait: %v, want ErrDenied", err)
	}
	with := confirmed(t, user(t, c.primary, "more", append(rights(t), "+wait")...), 1)
	soonHold(t, with, mutex("m"))
}

func TestTheCheckWarnsOfMissingReplicas(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	for n, want := range []store.Level{store.LevelWarning, store.LevelOK, store.LevelWarning} {
		f := found(t, confirmed(t, clientOf(t, c.primary.Addr), n), "role")
		if f.Level() != want || !strings.Contains(f.Text(), c.replica.Addr+" is online") {
			t.Errorf("%d replicas: got %s %q", n, f.Level(), f.Text())
		}
	}
}
