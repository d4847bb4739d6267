package redisguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/redisstore/redisguard"
)

func TestMain(m *testing.M) {
	// This is a goroutine of the driver. It ends within a second of its pool.
	goleak.VerifyTestMain(testserver.Main{M: m}, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// made is a lease that a test has made up.
type made struct {
	name  string
	token int64
	mode  holdfast.Mode
}

func (m made) Name() string        { return m.name }
func (m made) Token() int64        { return m.token }
func (m made) Mode() holdfast.Mode { return m.mode }

func writer(t testing.TB, token int64) made { return made{t.Name(), token, holdfast.ModeWrite} }
func reader(t testing.TB, token int64) made { return made{t.Name(), token, holdfast.ModeRead} }

// connect returns a client of the server that all these tests share. It empties the server at the end of the test.
func connect(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: testserver.SharedRedis(t)})
	t.Cleanup(func() {
		fine(t, client.FlushDB(context.Background()).Err())
		client.Close()
	})
	return client
}

func fine(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stale checks that err refuses the token because of that fence.
func stale(t testing.TB, err error, token, fence int64) {
	t.Helper()
	var s *guard.StaleError
	if !errors.As(err, &s) || s.Token != token || s.Fence != fence || !errors.Is(err, holdfast.ErrLost) {
		t.Fatalf("got %v, want token %d to be stale behind %d", err, token, fence)
	}
}

func same[T comparable](t testing.TB, what string, have, want T) {
	t.Helper()
	if have != want {
		t.Fatalf("%s: got %v, want %v", what, have, want)
	}
}

// This is what the guard is for. A holder reads, is paused for longer than its TTL, and writes what it computed from the old value. Without
// the guard that overwrites what the next holder wrote; with the guard it never does.
func TestGuard_APausedHolderWritesLate(t *testing.T) {
	client := connect(t)
	// deposit reads the balance, pauses, and writes it back plus one.
	deposit := func(l *holdfast.Lease, key, by string, guarded bool, pause func()) error {
		do := func(command string, args ...any) *redis.Cmd {
			if guarded {
				return redisguard.Do(t.Context(), client, l, command, key, args...)
			}
			return client.Do(t.Context(), append([]any{command, key}, args...)...)
		}
		balance, err := do("HGET", "balance").Int()
		if err != nil {
			return err
		}
		pause()
		return do("HSET", "by", by, "balance", balance+1).Err()
	}
	for _, c := range []struct {
		guarded bool
		want    string
	}{{false, "the late one 1"}, {true, "the next one 1"}} {
		t.Run(fmt.Sprint("guarded ", c.guarded), func(t *testing.T) {
			key := t.Name()
			fine(t, client.HSet(t.Context(), key, "by", "nobody", "balance", 0).Err())
			mem := memstore.New()
			late, next := twoLockers(t, mem)
			l, err := late.Mutex("account").Lock(t.Context())
			fine(t, err)
			err = deposit(l, key, "the late one", c.guarded, func() {
				// Its renewals do not arrive, and it does not check its lease.
				mem.Fail(func(op, name string) error {
					if op == "renew" {
						return io.ErrUnexpectedEOF
					}
					return nil
				})
				n, err := next.Mutex("account").Lock(t.Context())
				fine(t, err)
				fine(t, deposit(n, key, "the next one", c.guarded, func() {}))
			})
			if l.Valid() {
				t.Fatal("two claims hold the lock")
			}
			if !c.guarded {
				fine(t, err)
			} else if !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got %v, want a refusal that matches ErrLost", err)
			}
			all := client.HGetAll(t.Context(), key).Val()
			same(t, "stored", all["by"]+" "+all["balance"], c.want)
		})
	}
}

// twoLockers returns two processes that use one store.
func twoLockers(t testing.TB, mem *memstore.Store) (a, b *holdfast.Locker) {
	t.Helper()
	var both [2]*holdfast.Locker
	for i := range both {
		var err error
		both[i], err = holdfast.New(mem, &holdfast.Options{TTL: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
		fine(t, err)
		t.Cleanup(func() { both[i].Close() })
	}
	return both[0], both[1]
}

func TestGuard_TheFenceIsRaisedBeforeTheHolderReads(t *testing.T) {
	client, key := connect(t), t.Name()
	fine(t, redisguard.Do(t.Context(), client, writer(t, 10), "SET", key, "older").Err())
	value, err := redisguard.Do(t.Context(), client, writer(t, 11), "GET", key).Text()
	fine(t, err)
	same(t, "value", value, "older")
	stale(t, redisguard.Do(t.Context(), client, writer(t, 10), "SET", key, "late").Err(), 10, 11)
	fine(t, redisguard.Check(t.Context(), client, writer(t, 12), key)) // it reads by other means
	stale(t, redisguard.Do(t.Context(), client, writer(t, 11), "SET", key, "late").Err(), 11, 12)
	fine(t, redisguard.Do(t.Context(), client, writer(t, 12), "SET", key, "newer").Err()) // as often as it likes
	same(t, "value", client.Get(t.Context(), key).Val(), "newer")
}

func TestGuard_AReadLeaseIsCheckedAndNeverRaises(t *testing.T) {
	client, key := connect(t), t.Name()
	check := func(l guard.Lease) error { return redisguard.Check(t.Context(), client, l, key) }
	fine(t, check(reader(t, 9))) // the fence does not exist yet
	same(t, "keys", client.Exists(t.Context(), "holdfast:fence:{"+key+"}:"+key).Val(), 0)
	fine(t, check(writer(t, 10)))
	fine(t, check(reader(t, 12)))
	fine(t, check(reader(t, 11))) // beside the other: the order of readers does not matter
	fine(t, check(writer(t, 10)))
	stale(t, check(reader(t, 9)), 9, 10)
}

func TestGuard_AnUpgradeShutsOutEarlierReaders(t *testing.T) {
	client, key := connect(t), t.Name()
	check := func(l guard.Lease) error { return redisguard.Check(t.Context(), client, l, key) }
	fine(t, check(reader(t, 10))) // the upgradeable one
	fine(t, check(reader(t, 11))) // beside it
	fine(t, check(writer(t, 12))) // upgraded
	stale(t, check(reader(t, 11)), 11, 12)
	fine(t, check(reader(t, 12))) // downgraded
	fine(t, check(reader(t, 13))) // a new one beside it
}

// As numbers of Lua these would be equal.
func TestGuard_TokensAreComparedExactly(t *testing.T) {
	client, key := connect(t), t.Name()
	for _, pair := range [][2]int64{{9, 10}, {1<<53 - 1, 1 << 53}, {1 << 53, 1<<53 + 1}, {1<<63 - 2, 1<<63 - 1}} {
		older, newer := writer(t, pair[0]), writer(t, pair[1])
		fine(t, redisguard.Check(t.Context(), client, older, key))
		fine(t, redisguard.Check(t.Context(), client, newer, key))
		stale(t, redisguard.Check(t.Context(), client, older, key), pair[0], pair[1])
	}
}

// A refused script does nothing at all, and a script that fails has raised the fence.
func TestGuard_ARefusedScriptDoesNothing(t *testing.T) {
	client, key := connect(t), t.Name()
	both := redisguard.NewScript(`
		redis.call('SET', KEYS[1], ARGV[1])
		redis.call('SET', KEYS[2], ARGV[2])
		return {#KEYS, #ARGV, KEYS[2], ARGV[2]}`)
	keys := []string{"{" + key + "}:one", "{" + key + "}:two"}
	given, args := append(make([]string, 0, 8), keys...), append(make([]any, 0, 8), "x", "y")
	got, err := both.Run(t.Context(), client, writer(t, 11), given, args...).Slice()
	fine(t, err)
	same(t, "what the script saw", fmt.Sprint(got), fmt.Sprint([]any{2, 2, keys[1], "y"}))
	same(t, "the caller's own array of keys", given[:3][2], "")
	stale(t, both.Run(t.Context(), client, writer(t, 10), keys, "late", "late").Err(), 10, 11)
	same(t, "stored", fmt.Sprint(client.MGet(t.Context(), keys...).Val()), "[x y]")

	fails := redisguard.NewScript(`return redis.error_reply('MINE it failed')`)
	err = fails.Run(t.Context(), client, writer(t, 12), keys).Err()
	if err == nil || err.Error() != "MINE it failed" {
		t.Fatalf("got %v, want the script's own error", err)
	}
	stale(t, both.Run(t.Context(), client, writer(t, 11), keys, "late", "late").Err(), 11, 12)
}

// Nothing happens between the check and the write: writes land in the order of the tokens, however many writers there are.
func TestGuard_WhatLandsIsInTheOrderOfTheTokens(t *testing.T) {
	client, key := connect(t), t.Name()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 100 {
				token := int64(1 + (i*37+g*11)%200)
				err := redisguard.Do(t.Context(), client, writer(t, token), "RPUSH", key, token).Err()
				if err != nil && !errors.Is(err, holdfast.ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var landed []int64
	fine(t, client.LRange(t.Context(), key, 0, -1).ScanSlice(&landed))
	for i := range landed {
		if i > 0 && landed[i] < landed[i-1] {
			t.Fatalf("token %d was written after %d", landed[i], landed[i-1])
		}
	}
	if len(landed) == 0 || len(landed) == 800 {
		t.Fatalf("got %d of 800 writes", len(landed))
	}
}

// The fence is in the slot of the keys that it guards, whichever server has that.
func TestGuard_OnAClusterTheFenceIsInTheSlotOfItsKeys(t *testing.T) {
	servers := testserver.RedisCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{servers[0].Addr}})
	defer client.Close()
	l := made{"{other}:name", 11, holdfast.ModeWrite} // braces in its name do not matter
	both := redisguard.NewScript(`for _, key in ipairs(KEYS) do redis.call('SET', key, 'x') end return #KEYS`)
	nodes := map[string]bool{}
	for i := range 20 {
		for _, keys := range [][]string{
			{fmt.Sprint("plain", i)},
			{fmt.Sprint("open{", i)},
			{fmt.Sprintf("{tag%d}:a", i), fmt.Sprintf("b:{tag%d}:{x}", i)},
		} {
			n, err := both.Run(t.Context(), client, l, keys).Int()
			fine(t, err)
			same(t, "keys", n, len(keys))
			late := l
			late.token--
			stale(t, both.Run(t.Context(), client, late, keys).Err(), 10, 11)
			node, err := client.MasterForKey(t.Context(), keys[0])
			fine(t, err)
			nodes[node.Options().Addr] = true
		}
	}
	same(t, "servers", len(nodes), 3)
}

func TestGuard_KeysThatOneFenceCannotGuard(t *testing.T) {
	client := connect(t)
	script := redisguard.NewScript(`return 1`)
	for _, keys := range [][]string{
		{}, {""}, {"a}b"}, {"{}a"}, {"a}{b"}, {"a", "b"}, {"{a}", "{b}"}, {"{a}:1", "b}"},
	} {
		if err := script.Run(t.Context(), client, writer(t, 1), keys).Err(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", keys, err)
		}
	}
	for _, keys := range [][]string{{"a", "a"}, {"{a}", "a"}, {"{a", "{a"}, {"{a}}:1", "{a}:2"}, {"x{a}", "a"}} {
		fine(t, script.Run(t.Context(), client, writer(t, 1), keys).Err())
	}
}

func TestGuard_WhatCannotBeGuardedIsAnError(t *testing.T) {
	client, key := connect(t), t.Name()
	err := redisguard.Check(t.Context(), client, made{key, 1, holdfast.ModeSlots}, key)
	if !errors.Is(err, holdfast.ErrUnsupported) || !strings.Contains(err.Error(), "several hold at a time") {
		t.Errorf("got %v, want an error that says why slots have no fence", err)
	}
	if err := redisguard.Check(t.Context(), client, made{key, 0, holdfast.ModeWrite}, key); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	if err := redisguard.Check(t.Context(), client.Pipeline(), writer(t, 1), key); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	fence := "holdfast:fence:{" + key + "}:" + key
	for _, bad := range []string{"", "x", "12x", "-1"} {
		fine(t, client.Set(t.Context(), fence, bad, 0).Err())
		if err := redisguard.Do(t.Context(), client, writer(t, 1), "SET", key, "x").Err(); !errors.Is(err, holdfast.ErrCorrupt) || !strings.Contains(err.Error(), fence) {
			t.Errorf("%q as a fence: %v, want ErrCorrupt", bad, err)
		}
	}
	same(t, "keys written", client.Exists(t.Context(), key).Val(), 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := redisguard.Check(ended, client, writer(t, 1), key); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// The rights that the package lists suffice.
func TestGuard_LeastRights(t *testing.T) {
	server := testserver.Redis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	fine(t, admin.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">secret", "~holdfast:fence:*", "~invoice:*",
		"+evalsha", "+eval", "+get", "+set", "+incr").Err())
	// With a short timeout the client would repeat a request that got no answer.
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "app", Password: "secret", DisableIdentity: true, ReadTimeout: time.Minute})
	defer client.Close()
	fine(t, redisguard.Do(t.Context(), client, writer(t, 11), "INCR", "invoice:42").Err())
	stale(t, redisguard.Do(t.Context(), client, writer(t, 10), "INCR", "invoice:42").Err(), 10, 11)
	same(t, "value", admin.Get(t.Context(), "invoice:42").Val(), "1")
}

func TestGuard_ADeletedKeyStartsWithoutAFence(t *testing.T) {
	client, key := connect(t), t.Name()
	check := func(token int64) error {
		return redisguard.Check(t.Context(), client, made{key, token, holdfast.ModeWrite}, "{"+key+"}:state")
	}
	fine(t, check(20))
	if err := check(19); !errors.Is(err, holdfast.ErrLost) {
		t.Fatal(err)
	}
	for range 2 { // the second one finds no fence, which is fine
		fine(t, redisguard.Forget(t.Context(), client, key, "{"+key+"}:log"))
	}
	fine(t, check(1))
	if err := redisguard.Forget(t.Context(), client, key, "a}b"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Error(err)
	}
}
