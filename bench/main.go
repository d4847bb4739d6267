// Command bench measures holdfast against other lock libraries for Go and
// against the bare system call, all in one run on one machine.
//
//	go -C bench run . [-rounds N] [-slice DUR] [-on STORE,STORE] [memory | file | redis | redlock | fleet | etcd | zk | nats | mongo | postgres | mysql | crowd | many | hot | scale | command | faults | all]
//
// It starts its own servers on free ports. The contenders take turns, in
// another order each round, so that whatever else the machine does hits all
// alike; what is printed are medians over the rounds. Only the ratios say
// something: each is the median over the rounds of this contender's figure
// divided by that of the reference in the same round. Nothing here is a test,
// and no figure makes it fail.
//
// It runs on Linux and macOS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// A setup is how long and how often to measure.
type setup struct {
	rounds int
	slice  time.Duration // how long each contender is measured in a round
	turns  int           // hand-offs in a round
	held   int           // leases held at once, where that is measured
	pairs  int           // on one name, after which the size of a table is told
	hot    int           // processes that want one name at once
	comers []int         // clients of them that come at once, one table after another
	on     []string      // the stores of the suites of all stores; none: all
	each   int           // goroutines of each of several clients that do
	ttl    time.Duration // theirs: short, so that all are renewed while we look
	seeds  int           // runs of each library under faults
	// proveFor is how long each of those lasts.
	proveFor time.Duration
	write    string // the page that their table is written into; empty: none
	out      io.Writer
}

// A suite is what one argument of the command runs.
type suite struct {
	name string
	run  func(ctx context.Context, s setup) error
}

var suites = []suite{
	{"memory", memory},
	{"file", file},
	{"redis", redisSuite},
	{"postgres", postgresSuite},
	{"mysql", mysqlSuite},
	{"redlock", redlockSuite},
	{"fleet", fleetSuite},
	{"etcd", etcdSuite},
	{"zk", zooKeeperSuite},
	{"nats", natsSuite},
	{"mongo", mongoSuite},
	{"crowd", crowds},
	{"many", many},
	{"hot", hot},
	{"scale", scale},
	{"command", command},
	{"faults", faults},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		if err := child(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench: child:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == faultyArg {
		if err := faultyChild(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	s := setup{hot: 8, each: 16, comers: []int{300, 1000}, out: os.Stdout}
	logging.Disable() // go-redis tells each attempt to connect to a dead node
	flag.IntVar(&s.rounds, "rounds", 15, "how often each contender is measured")
	flag.DurationVar(&s.slice, "slice", 300*time.Millisecond, "how long a contender is measured in a round")
	flag.IntVar(&s.turns, "turns", 30, "hand-offs between two processes in a round")
	flag.Func("comers", "clients that come at once, `N,N` (default 300,1000)", s.setComers)
	flag.Func("on", "`STORES` for the suites many, hot and scale, with commas between them (default all)", func(text string) error {
		s.on = strings.Split(text, ",")
		return nil
	})
	flag.IntVar(&s.held, "held", 10_000, "leases held at once")
	flag.IntVar(&s.pairs, "pairs", 200_000, "pairs on one name after which the size of a table is told; 0 for none")
	flag.DurationVar(&s.ttl, "ttl", 6*time.Second, "the TTL of those leases; each is held for one")
	flag.IntVar(&s.seeds, "seeds", 5, "runs of each library under faults")
	flag.DurationVar(&s.proveFor, "for", 20*time.Second, "how long each of those lasts")
	flag.StringVar(&s.write, "write", "", "`FILE` to write the table of the faults into, between its marks")
	flag.Parse()
	which := flag.Arg(0)
	if which == "" {
		which = "all"
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, which); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (s *setup) setComers(text string) error {
	s.comers = nil
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < s.hot {
			return fmt.Errorf("%q is no number of at least %d", word, s.hot)
		}
		s.comers = append(s.comers, n)
	}
	return nil
}

func run(ctx context.Context, s setup, which string) error {
	if s.rounds < 1 || s.slice <= 0 || s.turns < 1 || s.held < 1 || s.hot < 1 || s.each < 1 || s.ttl <= 0 || s.seeds < 1 || s.proveFor <= 0 {
		return errors.New("rounds, slice, turns, held, ttl, seeds and for must be above zero")
	}
	var names, has []string
	for _, one := range stores {
		has = append(has, one.name)
	}
	for _, name := range s.on {
		if !slices.Contains(has, name) {
			return fmt.Errorf("no store %q: there are %s", name, strings.Join(has, ", "))
		}
	}
	for _, suite := range suites {
		names = append(names, suite.name)
	}
	if which != "all" && !slices.Contains(names, which) {
		return fmt.Errorf("no suite %q: there are %s and all", which, strings.Join(names, ", "))
	}
	fmt.Fprintf(s.out, "%s, %s/%s, %d processors, %d rounds\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.rounds)
	for _, suite := range suites {
		if which != "all" && which != suite.name {
			continue
		}
		if err := suite.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", suite.name, err)
		}
	}
	return nil
}
