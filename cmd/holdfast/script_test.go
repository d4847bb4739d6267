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
	"slices"
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
	"github.com/holdfast-go/holdfast/redisstore/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// Each file of testdata tests one promise of the command. On files all of them are
// run. On the other stores only those that depend on the store are run: the rest of
// the command does not know which store it has.

var (
	// Scripts about what every store keeps and shows, each in its own form.
	kept = []string{"break-now-frees-at-once", "break-takes-a-hold-away", "check-reports-whether-it-is-held", "first-come-first-served", "ls-and-show", "refused-says-who"}
	// Scripts about what all stores show, except Redlock, which is like Redis.
	shown = []string{"doctor-says-whether-a-store-is-fit", "json-is-one-object-a-line", "names-are-completed", "slots-are-counted", "tokens-grow"}
	// Scripts about holds that a separate process keeps, and that end with it.
	dies = []string{"killed-holder-frees-the-name", "stopped-past-the-ttl-is-lost"}
	// Scripts in which many processes use the store at once.
	raced = []string{"no-count-is-lost", "one-of-twenty-runs-it", "racing-runs-never-overlap"}
)

// programs are in the PATH of the tests, besides those of the machine.
var programs = map[string]func(){"holdfast": command, "beat": beat, "stubborn": stubborn, "outside": outside}

// impatientEnv makes the command wait for a silent store no longer than it does for users, as the test is about that.
const impatientEnv = "HOLDFAST_TEST_IMPATIENT"

func command() {
	waitsForReports = patience
	if os.Getenv(impatientEnv) == "" {
		tryFor, leavesFor, lookTime = patience, patience, patience
	}
	main()
}

func TestMain(m *testing.M) {
	testscript.Main(heeding{testserver.Main{M: m}}, programs)
}

// heeding runs the tests with no signal ignored, even if they were started by nohup
// or in the background of a script. holdfast leaves ignored signals ignored, and a test
// that sends one would wait for ever.
type heeding struct{ testserver.Main }

func (h heeding) Run() int {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // then the processes that we start have the default
		}
	}
	defer func() { os.RemoveAll(plainCommandDir) }()
	flag.Set("test.parallel", "8")           // most of the scripts wait most of the time
	os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise the race detector adds a second to each run
	return h.Main.Run()
}

// stubborn FILE is a program that no other user can kill, if it is set-uid. It ends
// when the file exists.
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

// outside FILE is a program that leaves its process group for that of its parent,
// makes the file, and then does nothing for long.
func outside() {
	signal.Ignore(syscall.SIGHUP) // that group becomes an orphan when the parent is killed
	group, err := syscall.Getpgid(os.Getppid())
	if err == nil {
		err = syscall.Setpgid(0, group)
	}
	if err == nil {
		err = os.WriteFile(os.Args[1], nil, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(time.Hour)
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
	}, slices.Concat(kept, shown, dies, raced, []string{"a-holder-is-asked-to-give-up", "at-least-for-keeps-the-name", "password-is-never-shown", "prove-needs-faults-and-enough-to-see", "readers-share",
		"redis-of-several-servers", "run-json-reports-what-happens", "several-names", "store-cut-ends-the-command", "the-command-gets-its-leases", "wait-takes-nothing",
		"waiting-is-bounded", "a-skip-is-silent", "wiped-store-ends-the-command"})...)
}

func TestCommandOnPostgres(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t, "-c", "fsync=on", "-c", "max_connections=300") // without fsync there is a warning
	runScripts(t, "postgres", func(env *testscript.Env) {
		server := server
		if freezes := "store-cut-ends-the-command"; strings.HasSuffix(env.T().(testing.TB).Name(), "/"+freezes) {
			server = testserver.Postgres(env.T().(testing.TB)) // others go on
			env.Values["server"] = server
		}
		// Without a user name, as a command below would not get it.
		env.Setenv("PGUSER", "postgres")
		env.Setenv("HOLDFAST_STORE", "postgres://"+server.Addr+"/postgres?sslmode=disable&table=locks_"+store.NewProcess().String())
	}, slices.Concat(kept, shown, dies, raced, []string{"at-least-for-keeps-the-name", "readers-share", "run-json-reports-what-happens", "several-names", "store-cut-ends-the-command",
		"wait-takes-nothing", "wiped-store-ends-the-command"})...)
}

func TestCommandOnEtcd(t *testing.T) {
	t.Parallel()
	runScripts(t, "etcd", func(env *testscript.Env) {
		addr := testserver.SharedEtcd(env.T().(testing.TB))
		env.Setenv("HOLDFAST_STORE", "etcd://"+addr+"?prefix="+store.NewProcess().String()+"/")
	}, slices.Concat(kept, shown, dies, []string{"at-least-for-keeps-the-name", "several-names"})...)
}

func TestCommandOnZooKeeper(t *testing.T) {
	t.Parallel()
	runScripts(t, "zk", func(env *testscript.Env) {
		addr := testserver.SharedZooKeeper(env.T().(testing.TB))
		env.Setenv("HOLDFAST_STORE", "zk://"+addr+"/"+store.NewProcess().String())
	}, slices.Concat(kept, shown, dies)...)
}

// The server is a stand-in: see package mongosim.
func TestCommandOnMongoDB(t *testing.T) {
	t.Parallel()
	runScripts(t, "mongodb", func(env *testscript.Env) {
		s := mongosim.Start(env.T().(testing.TB), mongosim.Options{})
		env.Setenv("HOLDFAST_STORE", s.URI())
	}, slices.Concat(kept, shown)...)
}

func TestCommandOnNATS(t *testing.T) {
	t.Parallel()
	runScripts(t, "nats", func(env *testscript.Env) {
		t := env.T().(testing.TB)
		if strings.HasSuffix(t.Name(), "/store-cut-ends-the-command") {
			s := testserver.NATS(t, "")
			env.Setenv("HOLDFAST_STORE", "nats://"+s.Addr)
			env.Values["server"] = s
			return
		}
		env.Setenv("HOLDFAST_STORE", "nats://"+testserver.SharedNATS(t)+"?bucket="+store.NewProcess().String())
	}, slices.Concat(kept, shown, dies, []string{"at-least-for-keeps-the-name", "several-names", "store-cut-ends-the-command"})...)
}

func TestCommandOnMariaDB(t *testing.T) {
	t.Parallel()
	runScripts(t, "mysql", func(env *testscript.Env) {
		addr := testserver.SharedMariaDB(env.T().(testing.TB))
		env.Setenv("HOLDFAST_STORE", "mysql://root@"+addr+"/locks?table=cli_"+store.NewProcess().String())
	}, slices.Concat(kept, shown)...)
}

func TestCommandOnSQLServer(t *testing.T) {
	t.Parallel()
	testserver.SQLServer(t)
	runScripts(t, "sqlserver", func(env *testscript.Env) {
		env.Setenv("HOLDFAST_STORE", testserver.SQLServer(env.T().(testing.TB), "table", "cli_"+store.NewProcess().String()))
	}, slices.Concat(kept, shown)...)
}

// Three nodes for each script, of which one can be killed. The timeout is long, as a
// loaded machine must not look like a dead node.
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
		if err := redlock.Trust(context.Background(), clients, &redlock.Options{Timeout: time.Minute}); err != nil {
			env.T().Fatal(err)
		}
		env.Setenv("HOLDFAST_STORE", "redlock:"+strings.Join(urls, ",")+"?timeout=10s")
		env.Values["nodes"] = nodes
	}, slices.Concat(kept, dies, []string{"readers-share", "redlock-of-three-nodes"})...)
}

// beat FILE is a program that writes into the file the time since boot at which it
// began, and then, as long as it runs, the present time. It ignores
// TERM.
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
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv(mutant.AliveEnv, os.Getenv(mutant.AliveEnv))
			env.Values[testKey{}] = env.T()
			if kind != "file" {
				dir, err := quickCommand()
				if err != nil {
					return err
				}
				if dir != "" {
					env.Setenv("PATH", dir+string(filepath.ListSeparator)+env.Getenv("PATH"))
				}
			}
			setup(env)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "reasons" { // the store keeps the reason of a break --now
				return kind != "redlock", nil
			}
			return cond == kind, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":       code,
			"eventually": eventually,
			"events":     events,
			"inTime":     inTime,
			"server":     server,
		},
	})
}

// code N PROGRAM ARG... runs the program, which must exit with N.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("%q: got exit code %d, want %d", args[1:], got, want)
	}
}

// withSeconds is the exit code of a waiter that must be refused after its time. On a slow machine more seconds are needed to get
// an answer of the store at all. Without an answer the exit code differs, and it waits for longer.
func withSeconds(run func(seconds string) (code int)) (code int) {
	code = exitUnavailable
	for _, seconds := range []string{"4", "16", "50"} {
		if code == exitUnavailable {
			code = run(seconds)
		}
	}
	return code
}

// inTime N PROGRAM ARG... is like code, for a program that waits for the time that replaces the word SECONDS in its arguments.
func inTime(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := withSeconds(func(seconds string) int {
		line := strings.Split(strings.ReplaceAll(strings.Join(args[1:], "\x00"), "SECONDS", seconds), "\x00")
		return exitCode(ts, ts.Exec(line[0], line[1:]...))
	})
	if got != want {
		ts.Fatalf("%q: got exit code %d, want %d", args[1:], got, want)
	}
}

// eventually PROGRAM ARG... runs the program until it exits with 0.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	there := len(args) == 3 && args[0] == "test" && args[1] == "-e" // no process for each read
	for end, pause := time.Now().Add(patience), 5*time.Millisecond; ; time.Sleep(pause) {
		pause = min(2*pause, 100*time.Millisecond)
		got := 1
		if !there {
			got = exitCode(ts, ts.Exec(args[0], args[1:]...))
		} else if _, err := os.Stat(ts.MkAbs(args[2])); err == nil {
			got = 0
		}
		if got == 0 {
			return
		}
		if time.Now().After(end) {
			tellFiles(ts)
			ts.Fatalf("%q: still exit code %d after %v", args, got, patience)
		}
	}
}

// tellFiles logs the files in the script's directory.
func tellFiles(ts *testscript.TestScript) {
	files, err := os.ReadDir(ts.MkAbs("."))
	ts.Check(err)
	for _, f := range files {
		if f.Type().IsRegular() {
			ts.Logf("%s:\n%s", f.Name(), ts.ReadFile(f.Name()))
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

// server freeze|thaw stops the script's own server, or continues it. server
// password WORD starts another, which asks for the password; its
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
		ts.Fatalf("server %q: want freeze, thaw, kill, password, evicting, cluster, sentinel or young", args)
	}
}

type testKey struct{}
