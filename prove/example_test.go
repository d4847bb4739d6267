package prove_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/prove"
)

// A history in which two processes hold a name at the same time, and the verdict on it. Times are in nanoseconds from
// the start of the run.
func ExampleCheck() {
	const lines = `{"holdfast_history":1,"store":"a store","ttl":500000000,"names":[{"name":"nightly","mode":"mutex","limit":1073741824}]}
{"at":0,"do":"started","proc":1}
{"at":0,"do":"started","proc":2}
{"at":10000000,"do":"ask","proc":1,"op":1,"name":"nightly","verb":"lock","weight":1073741824,"limit":1073741824}
{"at":11000000,"do":"got","proc":1,"op":1,"id":"1-1","token":1,"sent":10000000,"until":500000000}
{"at":12000000,"do":"ask","proc":2,"op":1,"name":"nightly","verb":"lock","weight":1073741824,"limit":1073741824}
{"at":16000000,"do":"got","proc":2,"op":1,"id":"2-1","token":2,"sent":12000000,"until":500000000}
{"at":20000000,"do":"release","proc":1,"op":1}
{"at":21000000,"do":"released","proc":1,"op":1}
{"at":30000000,"do":"release","proc":2,"op":1}
{"at":31000000,"do":"released","proc":2,"op":1}
`
	history, err := prove.Read(strings.NewReader(lines))
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict := prove.Check(history)
	fmt.Println("proved:", verdict.Proved)
	for _, v := range verdict.Violations {
		fmt.Println(v.Name+":", v.Text)
	}
	// Output:
	// proved: false
	// nightly: process 1, claim 1 (lock, token 1) and process 2, claim 1 (lock, token 2) held it at the same time for 4ms
	// nightly: no correct lock could give these 4 grants, ends and refusals in any order
}

// A lock of your own is proved by a program that is also all workers of the run. This lock is a mutex in each process
// and excludes no other process, so the proof fails.
func ExampleOwn() {
	var mu sync.Mutex
	mine := &prove.Own{Name: "a mutex of Go", Locks: func(string, time.Duration, prove.Dial) (*prove.Locks, error) {
		return &prove.Locks{Lock: func(ctx context.Context, _ string, try bool) (*prove.Lease, error) {
			for !mu.TryLock() {
				if try {
					return nil, holdfast.ErrHeld
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(time.Millisecond):
				}
			}
			return &prove.Lease{Release: func() error { mu.Unlock(); return nil }}, nil
		}}, nil
	}}
	mine.Worker() // does not return in a worker

	report, err := prove.Prove(context.Background(), &prove.Options{Own: mine, For: time.Minute, Stop: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	report.Print(os.Stdout)
}

// A program that proves a store is also every process of the run. It starts itself with an argument that tells it that
// it is one of them.
func ExampleProve() {
	if len(os.Args) == 2 && os.Args[1] == "child" {
		if err := prove.Child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	report, err := prove.Prove(context.Background(), &prove.Options{
		URL: "file:/tmp/locks", For: 30 * time.Second, Processes: 4, Names: 3, Mode: "mixed", Seed: 1,
		Out:     "/tmp/proof",
		Command: func() *exec.Cmd { return exec.Command(os.Args[0], "child") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	report.Print(os.Stdout)
}
