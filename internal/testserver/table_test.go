package testserver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// emptyCache makes an empty cache. It returns functions that put a server there, or the reason why it is missing.
func emptyCache(t *testing.T) (got, unreached func(name, text string)) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(ServersEnv, "")
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name, version string) { write(filepath.Join(cached(), name, "version"), version) },
		func(name, why string) { write(filepath.Join(cached(), name)+".unreachable", why) }
}

func TestTheTestsRunOnTheFirstServerOfTheTable(t *testing.T) {
	got, _ := emptyCache(t)
	if _, _, err := Chosen("redis"); err == nil || errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "make servers") {
		t.Errorf("a server that was never tried: got %v, want an error that names make servers", err)
	}
	got("redis-8", "5:8.0.6-3")
	l, instead, err := Chosen("redis")
	if err != nil || instead != "" || l.Name != "redis-8" {
		t.Errorf("%+v, %q, %v", l, instead, err)
	}
	if version, err := l.Version(); err != nil || version != "8.0.6" {
		t.Errorf("got version %q, %v", version, err)
	}
}

func TestAnUnreachableServerIsReplacedAndReported(t *testing.T) {
	got, unreached := emptyCache(t)
	reason := "the suite with redis-8 cannot be reached: sid: no route"
	unreached("redis-8", reason)
	l, instead, err := Chosen("redis")
	if err != nil || instead != reason || !l.Installed {
		t.Errorf("%+v, %q, %v", l, instead, err)
	}
	if version, err := l.Version(); err != nil || version == "" {
		t.Errorf("got version %q, %v", version, err)
	}
	want := "servers: the tests of redis ran on the installed one, redis "
	if all := Report(); !slices.ContainsFunc(all, func(line string) bool { return strings.HasPrefix(line, want) && strings.HasSuffix(line, reason) }) {
		t.Errorf("the report has no line %q … %q: %q", want, reason, all)
	}
	unreached("mysql-9.7", "the suite with mysql-9.7 cannot be reached: sid: no route")
	mysql := listed("mysql-9.7")
	if _, err := mysql.path(); !errors.Is(err, ErrUnreachable) {
		t.Errorf("with its own name: got %v, want ErrUnreachable", err)
	}
	got("redis-8", "5:8.0.6-3")
	if l, instead, err := Chosen("redis"); err != nil || instead != "" || l.Name != "redis-8" {
		t.Errorf("once it is installed: got %+v, %q, %v", l, instead, err)
	}
}

// No other server replaces one that is asked for by its name.
func TestAServerThatIsNamedIsTheOneThatTheTestsRunOn(t *testing.T) {
	got, unreached := emptyCache(t)
	t.Setenv(ServersEnv, "etcd-3.5 redis-6")
	got("redis-8", "5:8.0.6-3")
	unreached("redis-6", "the suite with redis-6 cannot be reached: no route")
	if l, instead, err := Chosen("redis"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a named server that cannot be reached: got %+v, %q, %v", l, instead, err)
	}
	got("etcd-3.5", "3.5.30-2")
	if l, _, err := Chosen("etcd"); err != nil || l.Name != "etcd-3.5" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestEachKindOfServersHasAnInstalledOneOrOneForTheDay(t *testing.T) {
	first := map[string]Listed{}
	var names []string
	for _, l := range Table() {
		if _, has := first[l.Kind]; !has {
			first[l.Kind] = l
		}
		if slices.Contains(names, l.Name) || len(l.programs) == 0 {
			t.Errorf("%+v is in the table twice, or has no program", l)
		}
		names = append(names, l.Name)
	}
	for kind, l := range first {
		if !l.Day && kind != "kubernetes" { // its tests run at night only
			t.Errorf("the tests of %s run on %s, which make servers does not install", kind, l.Name)
		}
	}
	for _, name := range []string{"redis-8", "valkey-8", "valkey-9", "redict-7.3", "postgres-17", "postgres-18", "mariadb-11.8", "mysql-9.7", "pgbouncer-1.26", "etcd-3.5", "etcd-3.7", "zookeeper-3.9", "nats"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not in the table", name)
		}
	}
}
