//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redlockstore"
	"github.com/holdfast-go/holdfast/store"
)

// Each file of testdata holds one promise of the command, and is run on each
// store.

func TestMain(m *testing.M) {
	testscript.Main(heeding{testserver.Main{M: m}}, map[string]func(){"holdfast": main, "beat": beat, "stubborn": stubborn})
}

// heeding runs the tests with no signal ignored, though they were started by
// nohup or in the background of a script: what holdfast finds ignored it leaves
// ignored, and a test that sends it that would wait for ever.
type heeding struct{ testserver.Main }

func (h heeding) Run() int {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // what we start has the default then
		}
	}
	defer func() { os.RemoveAll(plainCommandDir) }()
	flag.Set("test.parallel", "16")            // most of them wait most of the time
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else the race detector adds a second to each run
	return h.Main.Run()
}

// stubborn FILE is a program that no other user can kill, if it is set-uid. It
// ends when the file is there.
func stubborn() {
	if err := syscall.Setreuid(0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(os.Args[1]); err == nil {
			return
		}
	}
}

func TestCommandOnFiles(t *testing.T) {
	t.Parallel()
	runScripts(t, "file", func(env *testscript.Env) {
		env.Setenv("HOLDFAST_STORE", "file:"+env.WorkDir+"/.locks")
	})
}

func TestCommandOnRedis(t *testing.T) {
	t.Parallel()
	runScripts(t, "redis", func(env *testscript.Env) {
		s := testserver.Redis(env.T().(testing.TB))
		env.Setenv("HOLDFAST_STORE", "redis://"+s.Addr)
		env.Values["server"] = s
	})
}

func TestCommandOnPostgres(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t, "-c", "fsync=on", "-c", "max_connections=300")
	runScripts(t, "postgres", func(env *testscript.Env) {
		server := server
		if freezes := "store-cut-ends-the-command"; strings.HasSuffix(env.T().(testing.TB).Name(), "/"+freezes) {
			server = testserver.Postgres(env.T().(testing.TB)) // others go on
			env.Values["server"] = server
		}
		// Without a user, whom a command below would not be told.
		env.Setenv("PGUSER", "postgres")
		env.Setenv("HOLDFAST_STORE", "postgres://"+server.Addr+"/postgres?sslmode=disable&table=locks_"+store.NewProcess().String())
	})
}

func TestCommandOnEtcd(t *testing.T) {
	t.Parallel()
	runScripts(t, "etcd", func(env *testscript.Env) {
		s := testserver.Etcd(env.T().(testing.TB))
		env.Setenv("HOLDFAST_STORE", "etcd://"+s.Addr)
		env.Values["server"] = s
	}, "at-least-for-keeps-the-name", "break-now-frees-at-once", "break-takes-a-hold-away", "check-tells-whether-it-is-held", "doctor-tells-whether-a-store-will-do",
		"first-come-first-served", "json-is-one-object-a-line", "killed-holder-frees-the-name", "ls-and-show", "names-are-completed", "refused-says-who",
		"several-names", "slots-are-counted", "stopped-past-the-ttl-is-lost", "tokens-grow", "wiped-store-ends-the-command")
}

func TestCommandOnZooKeeper(t *testing.T) {
	t.Parallel()
	runScripts(t, "zk", func(env *testscript.Env) {
		s := testserver.ZooKeeper(env.T().(testing.TB))
		env.Setenv("HOLDFAST_STORE", "zk://"+s.Addr)
		env.Values["server"] = s
	}, "break-now-frees-at-once", "break-takes-a-hold-away", "check-tells-whether-it-is-held", "doctor-tells-whether-a-store-will-do",
		"first-come-first-served", "json-is-one-object-a-line", "killed-holder-frees-the-name", "ls-and-show", "refused-says-who",
		"slots-are-counted", "stopped-past-the-ttl-is-lost", "tokens-grow")
}

// The server is a stand-in: see package mongosim.
func TestCommandOnMongoDB(t *testing.T) {
	t.Parallel()
	runScripts(t, "mongodb", func(env *testscript.Env) {
		s := mongosim.Start(env.T().(testing.TB), mongosim.Options{})
		env.Setenv("HOLDFAST_STORE", s.URI())
	}, "break-now-frees-at-once", "break-takes-a-hold-away", "check-tells-whether-it-is-held", "doctor-tells-whether-a-store-will-do", "first-come-first-served",
		"json-is-one-object-a-line", "ls-and-show", "names-are-completed", "refused-says-who", "slots-are-counted", "tokens-grow")
}

func TestCommandOnNATS(t *testing.T) {
	t.Parallel()
	runScripts(t, "nats", func(env *testscript.Env) {
		s := testserver.NATS(env.T().(testing.TB), "")
		env.Setenv("HOLDFAST_STORE", "nats://"+s.Addr)
		env.Values["server"] = s
	}, "at-least-for-keeps-the-name", "break-now-frees-at-once", "break-takes-a-hold-away", "check-tells-whether-it-is-held", "doctor-tells-whether-a-store-will-do",
		"first-come-first-served", "json-is-one-object-a-line", "killed-holder-frees-the-name", "ls-and-show", "names-are-completed", "refused-says-who",
		"several-names", "slots-are-counted", "stopped-past-the-ttl-is-lost", "store-cut-ends-the-command", "tokens-grow")
}

// Where a store differs from others is in what it keeps; the rest of the command
// is the same.
func TestCommandOnMariaDB(t *testing.T) {
	t.Parallel()
	runScripts(t, "mysql", func(env *testscript.Env) {
		addr := testserver.SharedMariaDB(env.T().(testing.TB))
		env.Setenv("HOLDFAST_STORE", "mysql://root@"+addr+"/locks?table=cli_"+store.NewProcess().String())
	}, "break-now-frees-at-once", "break-takes-a-hold-away", "check-tells-whether-it-is-held", "first-come-first-served", "json-is-one-object-a-line",
		"ls-and-show", "names-are-completed", "refused-says-who", "slots-are-counted", "tokens-grow")
}

// Three nodes a script, of which one can be killed. The timeout is long because a
// loaded machine is no dead node.
func TestCommandOnRedlock(t *testing.T) {
	t.Parallel()
	runScripts(t, "redlock", func(env *testscript.Env) {
		var nodes []*testserver.Server
		var clients []*redis.Client
		var urls []string
		for range 3 {
			s := testserver.Redis(env.T().(testing.TB))
			c := redis.NewClient(&redis.Options{Addr: s.Addr})
			defer c.Close()
			nodes, clients, urls = append(nodes, s), append(clients, c), append(urls, "redis://"+s.Addr)
		}
		if err := redlockstore.Trust(context.Background(), clients, &redlockstore.Options{Timeout: patience}); err != nil {
			env.T().Fatal(err)
		}
		env.Setenv("HOLDFAST_STORE", "redlock:"+strings.Join(urls, ",")+"?timeout=10s")
		env.Values["nodes"] = nodes
	}, "break-now-frees-at-once", "break-takes-a-hold-away", "check-tells-whether-it-is-held", "first-come-first-served", "killed-holder-frees-the-name",
		"ls-and-show", "readers-share", "redlock-of-three-nodes", "refused-says-who", "stopped-past-the-ttl-is-lost")
}

// patience bounds every waiting here. It is long because a loaded machine is no
// failure; a search for mutants cannot wait that long for each of them.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HOLDFAST_TEST_PATIENCE")); err == nil {
		return d
	}
	return time.Minute
}()

// beat FILE is a program that writes into the file the time since the boot when
// it began, and then, for as long as it runs, the present one. It does not end
// by TERM.
func beat() {
	signal.Ignore(syscall.SIGTERM)
	f, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_WRONLY, 0o600)
	for first := int64(clock.Boot()); err == nil; time.Sleep(2 * time.Millisecond) {
		_, err = f.WriteAt(fmt.Appendf(nil, "%020d %020d\n", first, int64(clock.Boot())), 0)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func runScripts(t *testing.T, kind string, setup func(*testscript.Env), some ...string) {
	dir, files := "testdata", []string(nil)
	for _, name := range some {
		dir, files = "", append(files, filepath.Join("testdata", name+".txtar"))
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Files:               files,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SHELL", "/bin/sh")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else the race detector adds a second to each run
			env.Setenv(mutant.AliveEnv, os.Getenv(mutant.AliveEnv))
			env.Values[testKey{}] = env.T()
			if kind != "file" {
				dir, err := plainCommand()
				if err != nil {
					return err
				}
				env.Setenv("PATH", dir+string(filepath.ListSeparator)+env.Getenv("PATH"))
			}
			setup(env)
			return nil
		},
		Condition: func(cond string) (bool, error) { return cond == kind, nil },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":       code,
			"eventually": eventually,
			"events":     events,
			"server":     server,
		},
	})
}

// code N PROGRAM ARG... runs the program, which must exit with N.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("%q: exit code %d, want %d", args[1:], got, want)
	}
}

// eventually PROGRAM ARG... runs the program until it exits with 0.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	for end, pause := time.Now().Add(patience), 5*time.Millisecond; ; time.Sleep(pause) {
		pause = min(2*pause, 50*time.Millisecond)
		got := exitCode(ts, ts.Exec(args[0], args[1:]...))
		if got == 0 {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%q: exit code %d still after %v", args, got, patience)
		}
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return ended.ExitCode()
	}
	ts.Check(err)
	return 0
}

// server freeze|thaw stops the script's own server from running, or lets it go
// on. server password WORD starts another, which asks for the password; its
// address is in $LOCKED. server evicting starts another, which drops keys when
// its memory is full; its address is in $EVICTING. server cluster starts one of
// three, whose addresses are in $CLUSTER; server sentinel a primary, a replica
// and a Sentinel, whose address is in $SENTINEL. server kill N kills one of the
// script's own nodes, from 1 on; server young starts three that have been up for
// no time, whose store is in $YOUNG.
func server(ts *testscript.TestScript, _ bool, args []string) {
	switch args[0] {
	case "freeze":
		ts.Value("server").(*testserver.Server).Freeze()
	case "thaw":
		ts.Value("server").(*testserver.Server).Thaw()
	case "password":
		s := testserver.Redis(ts.Value(testKey{}).(testing.TB), "--requirepass", args[1])
		ts.Setenv("LOCKED", s.Addr)
	case "evicting":
		s := testserver.Redis(ts.Value(testKey{}).(testing.TB), "--maxmemory-policy", "allkeys-lru")
		ts.Setenv("EVICTING", s.Addr)
	case "cluster":
		var hosts []string
		for _, s := range testserver.RedisCluster(ts.Value(testKey{}).(testing.TB), 3) {
			hosts = append(hosts, s.Addr)
		}
		ts.Setenv("CLUSTER", strings.Join(hosts, ","))
	case "sentinel":
		t := ts.Value(testKey{}).(testing.TB)
		primary := testserver.Redis(t, "--repl-diskless-sync-delay", "0")
		testserver.RedisReplica(t, primary)
		ts.Setenv("SENTINEL", testserver.RedisSentinel(t, primary).Addr)
	case "kill":
		i, err := strconv.Atoi(args[1])
		ts.Check(err)
		ts.Value("nodes").([]*testserver.Server)[i-1].Kill()
	case "young":
		var urls []string
		for range 3 {
			urls = append(urls, "redis://"+testserver.Redis(ts.Value(testKey{}).(testing.TB)).Addr)
		}
		ts.Setenv("YOUNG", "redlock:"+strings.Join(urls, ",")+"?timeout=10s")
	default:
		ts.Fatalf("server %q: freeze, thaw, kill, password, evicting, cluster, sentinel or young", args)
	}
}

type testKey struct{}
