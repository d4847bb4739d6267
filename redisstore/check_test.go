package redisstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// found returns the finding of the check about a subject.
func found(t *testing.T, s *Store, about string) store.Finding {
	t.Helper()
	all := s.Check(t.Context())
	for _, f := range all {
		if f.About == about {
			return f
		}
	}
	t.Fatalf("no finding about %s in %+v", about, all)
	return store.Finding{}
}

func TestTheCheckWarnsOfAPolicyThatDropsKeys(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	for policy, want := range map[string]store.Level{
		"noeviction": store.LevelOK, "allkeys-lru": store.LevelWarning, "volatile-ttl": store.LevelWarning, "allkeys-random": store.LevelWarning,
	} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		f := found(t, s, "eviction")
		if f.Level() != want || !strings.Contains(f.Text(), policy) {
			t.Errorf("%s: got %s %q", policy, f.Level(), f.Text())
		}
		if (f.Run != "") != f.Warning {
			t.Errorf("%s: got a command to run: %q", policy, f.Run)
		}
	}
}

func TestTheCheckFindsThatTheMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, start := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := clientOf(t, start(t).Addr)
			s := storeOn(t, client, nil)
			defer s.Close()
			for _, c := range []struct {
				set, says string
				want      store.Level
			}{
				{"0", "without a limit", store.LevelOK}, {"1gb", " of 1024 MiB", store.LevelOK}, {"1", "its memory is full", store.LevelFailure},
			} {
				if err := client.ConfigSet(t.Context(), "maxmemory", c.set).Err(); err != nil {
					t.Fatal(err)
				}
				f := found(t, s, "memory")
				if f.Level() != c.want || !strings.Contains(f.Text(), c.says) || f.Err != nil && !errors.Is(f.Err, store.ErrUnavailable) {
					t.Errorf("maxmemory %s: got %s %q, want %s, %q", c.set, f.Level(), f.Text(), c.want, c.says)
				}
				_, err := s.Ask(t.Context(), mutex("x"+c.set))
				if (err != nil) != (c.want == store.LevelFailure) {
					t.Errorf("maxmemory %s: Ask: %v, but Check reports %q", c.set, err, f.Text())
				}
			}
		})
	}
}

func TestTheCheckReportsVersionRolePersistenceAndClock(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	info, err := client.Info(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	version := "Redis " + redisinfo.Field(info, "redis_version")
	if v := redisinfo.Field(info, "valkey_version"); v != "" {
		version = "Valkey " + v
	}
	for about, want := range map[string]string{"version": version, "role": "master, 0 replicas", "clock": "this host's, to within"} {
		if f := found(t, s, about); f.Level() != store.LevelOK || !strings.Contains(f.Text(), want) {
			t.Errorf("%s: got %s %q, want %q", about, f.Level(), f.Text(), want)
		}
	}
	if f := found(t, s, "persistence"); f.Level() != store.LevelWarning || !strings.Contains(f.Text(), "no snapshots") { // test servers take none
		t.Errorf("persistence: got %s %q", f.Level(), f.Text())
	}
	if err := client.ConfigSet(t.Context(), "save", "3600 1").Err(); err != nil {
		t.Fatal(err)
	}
	if f := found(t, s, "persistence"); f.Level() != store.LevelOK || !strings.Contains(f.Text(), "after the last snapshot") {
		t.Errorf("persistence with snapshots: got %s %q", f.Level(), f.Text())
	}
	if err := client.ConfigSet(t.Context(), "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if f := found(t, s, "persistence"); !strings.HasPrefix(f.Text(), "an append-only file") {
		t.Errorf("persistence: got %q", f.Text())
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("Check wrote %d keys", n)
	}
	client.ConfigSet(t.Context(), "appendonly", "no") // a server that is writing its first one does not shut down
}

func TestAReplicaIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := clientOf(t, server.Addr)
	s := storeOn(t, client, nil)
	defer s.Close()
	if err := client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if f := found(t, s, "role"); !errors.Is(f.Err, store.ErrUnavailable) || !strings.Contains(f.Text(), server.Addr) {
		t.Errorf("got %s: %q", f.Level(), f.Text())
	}
}

// These dangers must not be reported as ok: a primary with replicas that may restart empty, and a server that cannot write to its disk.
func TestDangersOfPersistenceAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		info, says string
		want       store.Level
	}{
		"nothing is kept":           {"never saves\nrole:master\naof_enabled:0\nconnected_slaves:0\nrdb_last_bgsave_status:ok\n", "no snapshots", store.LevelWarning},
		"a replica keeps nothing":   {"never saves\nrole:slave\naof_enabled:0\nconnected_slaves:0\nrdb_last_bgsave_status:ok\n", "no append-only file", store.LevelOK},
		"alone":                     {"role:master\naof_enabled:0\nconnected_slaves:0\nrdb_last_bgsave_status:ok\n", "no append-only file", store.LevelOK},
		"with a replica":            {"role:master\naof_enabled:0\nconnected_slaves:1\nrdb_last_bgsave_status:ok\n", "comes back empty", store.LevelWarning},
		"with a replica and a file": {"role:master\naof_enabled:1\nconnected_slaves:1\naof_last_write_status:ok\n", "an append-only file", store.LevelOK},
		"a full disk":               {"role:master\naof_enabled:1\nconnected_slaves:0\naof_last_write_status:err\n", "full disk", store.LevelFailure},
		"a full disk for snapshots": {"role:master\naof_enabled:0\nconnected_slaves:0\nrdb_last_bgsave_status:err\n", "full disk", store.LevelWarning},
		"no information":            {"role:master\n", "not checked", store.LevelWarning},
	} {
		if f := (&Store{}).persistence(c.info, strings.HasPrefix(c.info, "never saves")); f.Level() != c.want || !strings.Contains(f.Text(), c.says) {
			t.Errorf("%s: got %s %q, want %s with %q", name, f.Level(), f.Text(), c.want, c.says)
		}
	}
}

func TestACheckWithoutRightsIsNoFailure(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	less := slices.DeleteFunc(rights(t), func(r string) bool { return r == "+info" })
	s := storeOn(t, user(t, server, "less", less...), nil)
	defer s.Close()
	for _, f := range s.Check(t.Context()) {
		if f.Level() == store.LevelFailure || (f.About == "server") != f.Warning {
			t.Errorf("for a user without the right to INFO: got %s: %s: %q", f.About, f.Level(), f.Text())
		}
	}
	blind := storeOn(t, user(t, server, "blind", "-@all", "+ping"), nil)
	defer blind.Close()
	if f := found(t, blind, "server"); !errors.Is(f.Err, store.ErrDenied) || strings.Contains(f.Text(), "package") {
		t.Errorf("for a user without the right to lock: got %q", f.Text())
	}
}

// The check reports a user without the right to lock, and changes nothing to find that out.
func TestAUserWithoutLockRightsIsFound(t *testing.T) {
	t.Parallel()
	for name, start := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			for who, c := range map[string]struct {
				rights    []string
				want      store.Level
				says, run string
			}{
				"all":       {rights(t), store.LevelOK, "may run", ""},
				"reader":    {[]string{"~*", "&*", "-@all", "+@read", "+time", "+info"}, store.LevelFailure, "+eval ", "ACL SETUSER reader +del +eval "},
				"few":       {append(rights(t), "-set", "-hdel"), store.LevelFailure, "+hdel +set", "ACL SETUSER few +hdel +set"},
				"some":      {append(rights(t), "resetkeys", "~holdfast:{jobs*"), store.LevelWarning, "holdfast:*", ""},
				"it's":      {append(rights(t), "resetchannels"), store.LevelOK, "waiters poll", `ACL SETUSER 'it'\''s' +publish '&holdfast:*'`},
				"clockless": {append(rights(t), "-time", "-publish"), store.LevelFailure, "lacks +time", "ACL SETUSER clockless +time"},
			} {
				s := storeOn(t, user(t, server, who, c.rights...), nil)
				defer s.Close()
				about := "rights"
				if who == "clockless" { // the check can find nothing else
					about = "server"
				}
				f := found(t, s, about)
				if f.Level() != c.want || !strings.Contains(f.Text(), c.says) {
					t.Errorf("%s: got %s %q, want %s with %q", who, f.Level(), f.Text(), c.want, c.says)
				}
				if (c.want == store.LevelFailure) != errors.Is(f.Err, store.ErrDenied) || (f.Run != "") != (c.run != "") || !strings.Contains(f.Run, c.run) {
					t.Errorf("%s: got %v, and to run: %q", who, f.Err, f.Run)
				}
			}
			if n := clientOf(t, server.Addr).DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("Check wrote %d keys", n)
			}
		})
	}
}

// A user without the right to subscribe gets the command for an administrator when it subscribes.
func TestAUserThatCannotSubscribeGetsAdviceFromWatch(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := storeOn(t, user(t, server, "deaf", append(rights(t), "-subscribe")...), nil)
	defer s.Close()
	if f := found(t, s, "rights"); f.Level() != store.LevelOK || f.Run != "" {
		t.Errorf("rights: got %+v", f)
	}
	err := s.Watch(t.Context(), me, func(store.Notification) {})
	var deaf *deafError
	if !errors.Is(err, store.ErrDenied) || !errors.As(err, &deaf) || deaf.Run() != "redis-cli ACL SETUSER deaf +subscribe +ping '&holdfast:*'" {
		t.Errorf("got %v, %+v", err, deaf)
	}
}

// The engine runs the check at the first claim of each process: a subscription would cost each process a connection.
func TestACheckDoesNotSubscribe(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := storeOn(t, clientOf(t, server.Addr), nil)
	defer s.Close()
	for _, f := range s.Check(t.Context()) {
		if f.Err != nil {
			t.Error(f.Err)
		}
	}
	if text := clientOf(t, server.Addr).Info(t.Context(), "commandstats").Val(); !strings.Contains(text, "cmdstat_publish") || strings.Contains(text, "cmdstat_subscribe") {
		t.Errorf("Check subscribes, or tries no command: %s", text)
	}
}

func TestAServerThatIsAwayIsFound(t *testing.T) {
	t.Parallel()
	s := storeOn(t, clientOf(t, "127.0.0.1:1"), nil)
	defer s.Close()
	if f := found(t, s, "server"); !errors.Is(f.Err, store.ErrUnavailable) || !strings.Contains(f.Text(), "127.0.0.1:1") {
		t.Errorf("%q", f.Text())
	}
}

func TestTheCheckReadsEachClusterServerAndItsClock(t *testing.T) {
	t.Parallel()
	masters, replicas := testserver.RedisCalmClusterWithReplicas(t, 3)
	s := storeOn(t, clusterClient(t, masters), nil)
	defer s.Close()
	for _, m := range masters {
		if f := found(t, s, "role of "+m.Addr); f.Level() != store.LevelWarning || !strings.HasPrefix(f.Text(), "master, 1 replica;") || !strings.Contains(f.Text(), "?replicas=1") {
			t.Errorf("got %s %q", f.Level(), f.Text())
		}
	}
	confirmed := storeOn(t, clusterClient(t, masters), &Options{Replicas: 1})
	defer confirmed.Close()
	if f := found(t, confirmed, "role of "+masters[0].Addr); f.Level() != store.LevelOK {
		t.Errorf("with a confirming replica: got %s %q", f.Level(), f.Text())
	}
	for i, r := range replicas {
		if f := found(t, s, "role of "+r.Addr); f.Level() != store.LevelOK || f.Text() != "replica of "+masters[i].Addr {
			t.Errorf("got %s %q", f.Level(), f.Text())
		}
		if f := found(t, s, "clock of "+r.Addr); f.Level() != store.LevelOK {
			t.Errorf("got %s %q", f.Level(), f.Text())
		}
	}
	if f := found(t, s, "clocks"); f.Level() != store.LevelOK || !strings.Contains(f.Text(), "agree") {
		t.Errorf("got %s %q", f.Level(), f.Text())
	}
	masters[0].Kill()
	until(t, "Check reports the replica that follows no server", func() bool {
		for _, f := range s.Check(t.Context()) {
			if f.About == "role of "+replicas[0].Addr {
				return f.Warning && strings.Contains(f.Text(), "does not follow") || strings.HasPrefix(f.Text(), "master")
			}
		}
		return false
	})
}

func TestClocksOfServersThatAreApartAreWarnedOf(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		clocks []reading
		warns  bool
		says   string
	}{
		{[]reading{{0, ms}, {40 * ms, ms}}, false, "agree, to within 40ms"},
		{[]reading{{0, ms}, {52 * ms, ms}}, false, "agree"},
		{[]reading{{0, ms}, {-53 * ms, ms}}, true, "51ms apart"},
		{[]reading{{time.Hour, 0}, {time.Hour + time.Minute, 0}, {time.Hour, 0}}, true, "1m0s apart"},
		{[]reading{{0, time.Second}, {time.Second, time.Second}}, false, "agree, to within 2s"},
	} {
		if f := besideEachOther(c.clocks); f.Warning != c.warns || !strings.Contains(f.Text(), c.says) {
			t.Errorf("%v: got %v %q, want %q", c.clocks, f.Warning, f.Text(), c.says)
		}
	}
}

func TestAServerThatIsTooOldIsFound(t *testing.T) {
	for version, old := range map[string]bool{
		"2.8.24": true, "5.0.14": true, "6.0.0": false, "6.2.14": false, "7.0.15": false, "10.1": false, "255.255.255": false, "": false, "unstable": false,
	} {
		if redisinfo.TooOld(version, needMajor, needMinor) != old {
			t.Errorf("%q: got too old: %v", version, !old)
		}
	}
}
