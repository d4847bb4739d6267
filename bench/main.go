// Command bench measures holdfast against other lock libraries for Go and against the bare
// system call, all in one run on one machine.
//
//	go -C bench run . [-rounds N] [-slice DUR] [-on STORE,STORE] [-json] [SUITE]...
//	go -C bench run . [-rounds N] [-slice DUR] [-on STORE,STORE] compare COMMIT [SUITE]...
//	go -C bench run . chart FILE >FILE.svg
//
// The suites are memory, file, redis, poll, postgres, mysql, mysql9, redlock, fleet, etcd, zk,
// nats, mongo, s3, dynamodb, azblob, kubernetes, crowd, many, hot, scale, command and faults; without arguments, or with
// "all", all of them run. With -json the rows are written to standard output as one JSON object
// a line, and the tables to standard error. compare measures only holdfast, of this tree and of
// another commit in turns; chart draws the rows of a file.
//
// The command starts its own servers on free ports. The contenders take turns, in a different
// order each round, so that other load on the machine affects all alike. The printed figures
// are medians over the rounds. Only the ratios are meaningful: each is the median, over the
// rounds, of this contender's figure divided by the reference's figure in the same round, with
// the quartiles. All contenders get a cancelable context. Nothing here is a test, and no figure
// makes the command fail.
//
// It runs on Linux and macOS.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// A setup says how long and how often to measure.
type setup struct {
	rounds int
	asked  bool          // rounds was given, so slow suites run that many rounds too
	slice  time.Duration // how long each contender is measured in a round
	turns  int           // hand-offs a round
	held   int           // leases held at once, in the suites that measure that
	pairs  int           // lock-unlock pairs on one name, before the size of a table is reported
	hot    int           // processes that compete for one name
	comers []int         // how many clients come at once, one table after another; none: the defaults of each store
	on     []string      // the stores for suites that run on all stores; none: all
	each   int           // goroutines of each client, where several clients have several
	ttl    time.Duration // of the held leases: short, so that all are renewed during the measurement
	seeds  int           // runs of each library under faults
	// proveFor is how long each run under faults lasts.
	proveFor time.Duration
	write    string // the page to write the table of faults into; empty: none
	out      io.Writer
	rows     *json.Encoder // for programs; nil: not asked for
	ours     bool          // measure only holdfast
	suite    string        // the suite that runs
	server   string        // the server that it measures on, with version and settings
}

// atMost is for slow suites: they run n rounds, unless a number of rounds was given.
func (s setup) atMost(n int) setup {
	if !s.asked {
		s.rounds = min(s.rounds, n)
	}
	return s
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
	{"poll", pollSuite},
	{"postgres", postgresSuite},
	{"mysql", mariaDBSuite},
	{"mysql9", mySQLSuite},
	{"redlock", redlockSuite},
	{"fleet", fleetSuite},
	{"etcd", etcdSuite},
	{"zk", zooKeeperSuite},
	{"nats", natsSuite},
	{"mongo", mongoSuite},
	{"s3", s3Suite},
	{"dynamodb", dynamoSuite},
	{"azblob", azureSuite},
	{"kubernetes", kubernetesSuite},
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
	s := setup{hot: 8, each: 16, out: os.Stdout}
	logging.Disable() // go-redis logs each attempt to connect to a dead node
	flag.IntVar(&s.rounds, "rounds", 15, "how often to measure each contender; slow measurements run less often unless this is given")
	forPrograms := flag.Bool("json", false, "print the rows as JSON, and the tables on standard error")
	flag.BoolVar(&s.ours, "ours", false, "measure holdfast alone")
	flag.DurationVar(&s.slice, "slice", 300*time.Millisecond, "how long to measure a contender in a round")
	flag.IntVar(&s.turns, "turns", 30, "hand-offs between two processes in a round")
	flag.Func("comers", "clients that claim at the same time, `N,N` (default 300,1000; on the stores of the cloud 30,100)", s.setComers)
	flag.Func("on", "`STORES` for the suites many, hot and scale, with commas between them (default all)", func(text string) error {
		s.on = strings.Split(text, ",")
		return nil
	})
	flag.IntVar(&s.held, "held", 10_000, "leases held at once")
	flag.IntVar(&s.pairs, "pairs", 200_000, "pairs on one name after which the size of a table is reported; 0 for none")
	flag.DurationVar(&s.ttl, "ttl", 6*time.Second, "the TTL of those leases; each is held for one")
	flag.IntVar(&s.seeds, "seeds", 5, "runs of each library with faults")
	flag.DurationVar(&s.proveFor, "for", 20*time.Second, "how long each of those runs lasts")
	flag.StringVar(&s.write, "write", "", "`FILE` to write the table of the faults to, between its marks")
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { s.asked = s.asked || f.Name == "rounds" })
	if *forPrograms {
		s = s.forPrograms(os.Stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := do(ctx, s, flag.Args()); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// do carries out the arguments.
func do(ctx context.Context, s setup, args []string) error {
	switch {
	case len(args) > 1 && args[0] == "compare":
		return compare(ctx, s, args[1], args[2:])
	case len(args) == 2 && args[0] == "chart":
		return chartOf(args[1], os.Stdout)
	}
	return run(ctx, s, args...)
}

func (s *setup) setComers(text string) error {
	s.comers = nil
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < s.hot {
			return fmt.Errorf("%q is not a number of at least %d", word, s.hot)
		}
		s.comers = append(s.comers, n)
	}
	return nil
}

// run runs the named suites, or all if none are named.
func run(ctx context.Context, s setup, which ...string) error {
	if s.rounds < 1 || s.slice <= 0 || s.turns < 1 || s.held < 1 || s.hot < 1 || s.each < 1 || s.ttl <= 0 || s.seeds < 1 || s.proveFor <= 0 {
		return errors.New("rounds, slice, turns, held, ttl, seeds and for must be above zero")
	}
	var has []string
	for _, one := range stores {
		has = append(has, one.name)
	}
	for _, name := range s.on {
		if !slices.Contains(has, name) {
			return fmt.Errorf("unknown store %q: want one of %s", name, strings.Join(has, ", "))
		}
	}
	wanted, err := suitesNamed(which)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s, %d rounds, holdfast %s\n", machine(), s.rounds, commit())
	for _, suite := range wanted {
		s.suite = suite.name
		if err := suite.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", suite.name, err)
		}
	}
	return nil
}

// suitesNamed returns the suites with these names, in the order of the suites.
func suitesNamed(which []string) (some []suite, err error) {
	if len(which) == 0 || slices.Contains(which, "all") {
		return suites, nil
	}
	var names []string
	for _, suite := range suites {
		names = append(names, suite.name)
		if slices.Contains(which, suite.name) {
			some = append(some, suite)
		}
	}
	for _, name := range which {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown suite %q: want one of %s, or all", name, strings.Join(names, ", "))
		}
	}
	return some, nil
}
