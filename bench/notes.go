package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A note has what you must know about a contender to judge its figures.
type note struct {
	// module says whose version is reported: a Go module, or one of the words below. Empty: not
	// a library, but what users write themselves.
	module   string
	settings string
	lacks    string // what it does not do that holdfast does; empty: nothing
}

// Things with a version that are not Go modules.
const (
	kernel    = "kernel"
	goItself  = "go"
	ourselves = "holdfast"
)

func (n note) String() string {
	var parts []string
	if v := n.version(); v != "" && n.module != ourselves { // the first line of a run already has that one
		parts = append(parts, v)
	}
	if n.settings != "" {
		parts = append(parts, n.settings)
	}
	if n.lacks != "" {
		parts = append(parts, "does not have: "+n.lacks)
	}
	return strings.Join(parts, "; ")
}

// version returns the name and version of the contender; empty: it has none.
func (n note) version() string {
	switch n.module {
	case "":
		return ""
	case ourselves:
		return "holdfast " + commit()
	case goItself:
		return runtime.Version()
	case kernel:
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			panic(err) // every kernel has this call
		}
		return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	if program, ok := strings.CutPrefix(n.module, "program:"); ok {
		return programVersion(program)
	}
	return moduleVersion(n.module)
}

// moduleVersion returns the version of a module that this program is built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return path + " " + m.Version
			}
		}
	}
	return path + ", version unknown"
}

// programVersion returns the version that a system program reports.
func programVersion(program string) string {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return program + ", version unknown"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

// commitEnv names the commit of a tree that is not a git work tree.
const commitEnv = "HOLDFAST_BENCH_COMMIT"

// commit is the commit of holdfast in this directory, with "-dirty" if files differ.
var commit = sync.OnceValue(func() string {
	if known := os.Getenv(commitEnv); known != "" {
		return known
	}
	out, err := exec.CommandContext(context.Background(), "git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*").Output()
	if err != nil {
		return "of an unknown commit"
	}
	return strings.TrimSpace(string(out))
})

// nothingMore lists what the simplest locks lack.
const nothingMore = "fencing tokens, order, readers, renewal, wake-up"

// noteOf returns the note of a contender, or false if it has none. A variant of holdfast
// without a note gets one with only its version.
func noteOf(contender string) (n note, ok bool) {
	n, ok = contenderNotes[contender]
	if !ok && isOurs(contender) {
		return note{module: ourselves}, true
	}
	return n, ok
}

// contenderNotes has a note for each contender of each table.
var contenderNotes = map[string]note{
	"holdfast":                       {ourselves, "its defaults, a TTL of 30 s", ""},
	"holdfast, context.Background()": {ourselves, "as holdfast, with a context that cannot be canceled, which few callers have", ""},
	"holdfast with tokens":           {ourselves, "pgadvisory.Options.Tokens", ""},
	"holdfast, 10 waiters":           {ourselves, "polls of redisstore in a queue that never moves", ""},
	"holdfast, 1000 waiters":         {ourselves, "polls of redisstore in a queue that never moves", ""},
	"holdfast, LockTx":               {ourselves, "pgadvisory.LockTx on a pgx.Tx", ""},

	"redislock":   {"github.com/bsm/redislock", "tries again each 10 ms (LinearBackoff); on go-redis", nothingMore},
	"redsync":     {"github.com/go-redsync/redsync/v4", "its own delays between tries, tries without end, a timeout factor of 0.2; on go-redis", nothingMore},
	"rueidislock": {"github.com/redis/rueidis", "KeyMajority 1, NoLoopTracking, TryNextAfter 5 s", "fencing tokens, order, readers"},
	bare:          {"", "SET NX PX and a script that compares and deletes; tries again each 10 ms", nothingMore},
	leaseAlone:    {"", "a map, a mutex, two readings of the clock", "order, readers, renewal, waiting"},
	twoAlone:      {"", "a Go program that starts itself, and then the command, and does nothing else", "locks"},
	theWrites:     {"", "takes a free name with the next token, and frees it, on the same driver; a name that is taken is an error", "order, readers, renewal, wake-up"},
	ping:          {"", "a round trip to the server, by go-redis", "locks"},

	"flock(2)": {kernel, "LOCK_EX on a file that is open already", "a TTL, fencing tokens, order, other hosts, waits that can be canceled"},

	tableLease:      {"", "INSERT and DELETE of a row; tries again each 10 ms, and at once after error 1213 of MySQL", nothingMore + ", the end of a lease whose holder died"},
	"advisory lock": {"", "pg_advisory_lock on a connection of a pool, by pgx", "a TTL, fencing tokens, a queue that can be seen, many locks on one connection"},
	"GET_LOCK":      {"", "GET_LOCK on a connection of a pool", "a TTL, fencing tokens, order, readers, many locks on one connection"},
	bareSession:     {"", "pg_try_advisory_lock and pg_advisory_unlock on one connection, by pgx; tries again each 10 ms", nothingMore + ", several goroutines"},
	bareTxLock:      {"", "pg_advisory_xact_lock(hashtextextended(name, 0)) on a pgx.Tx", "ErrDeadlock if the transaction has the lock already, waits that end with the context and leave the transaction usable"},

	etcdMutex:       {"go.etcd.io/etcd/client/v3", "sessions used again, a Mutex each time", "readers, a hand-over inside the process"},
	barePut:         {"go.etcd.io/etcd/client/v3", "Put and Delete", "locks: no caller is refused"},
	zkLock:          {"github.com/go-zookeeper/zk", "a zk.Lock each time, on one connection", "fencing tokens, readers, waits that can be canceled"},
	bareCreate:      {"", "creates a key or an ephemeral node, and deletes it; asks again without a pause if it is there", nothingMore},
	bareInsert:      {"", "InsertOne and DeleteOne, in the journal of a majority", nothingMore},
	bareConditional: {"github.com/aws/aws-sdk-go-v2/service/s3", "PutObject with If-None-Match, and DeleteObject; asks again without a pause if it is there", nothingMore},
	barePutItem:     {"github.com/aws/aws-sdk-go-v2/service/dynamodb", "PutItem with attribute_not_exists, and DeleteItem; asks again without a pause if it is there", nothingMore},
	barePutBlob:     {"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob", "Put Blob with If-None-Match, and Delete Blob; asks again without a pause if it is there", nothingMore},
	bareLease:       {"k8s.io/client-go", "creates a Lease and deletes it, without client-go's limit of requests; asks again without a pause if it is there", nothingMore},

	"sync.Mutex": {goItself, "", "other processes, a TTL, fencing tokens, waits that can be canceled"},
	oneSlot:      {goItself, "a send and a receive, not within select", "other processes, a TTL, fencing tokens"},

	runLean:          {ourselves, "as packages install it: -tags holdfast_lean, -s -w; two processes", ""},
	runWhole:         {ourselves, "the full program, with all drivers; two processes", ""},
	"flock … true":   {"program:flock", "on a file that is there", "a TTL, fencing tokens, order, other hosts, an end of the command when the lock is lost"},
	"timeout … true": {"program:timeout", "", "locks"},
	"true":           {"program:true", "", "locks"},
}
