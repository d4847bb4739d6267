// Command tested runs the complete suites of the stores on the servers of
// internal/testserver/servers.txt, and writes into docs/stores.md which servers they passed on.
//
//	go run ./internal/tested run [NAME]...  the suites on all servers, or on those, as make nightly does
//	go run ./internal/tested take           put what that wrote, .tests/servers.tsv, into docs/tested.tsv, and write the page
//	go run ./internal/tested write          write the page from docs/tested.tsv, as go generate does
//
// A server whose suites have passed at a commit is not tested again at that commit. A server
// that cannot be reached is named, and is not a failure. The suites run as in a nightly run,
// except for the mutants.
package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

//go:generate go -C ../.. run ./internal/tested write

const (
	report = ".tests/servers.tsv"
	taken  = "docs/tested.tsv"
	page   = "docs/stores.md"
)

func main() {
	if err := do(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tested:", err)
		os.Exit(1)
	}
}

func do(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want run, take or write")
	}
	switch args[0] {
	case "run":
		return run(args[1:])
	case "take":
		fresh, err := read(report)
		if err != nil {
			return err
		}
		old, err := read(taken)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := write(taken, merge(old, fresh)); err != nil {
			return err
		}
		return writePage()
	case "write":
		return writePage()
	}
	return fmt.Errorf("unknown command %q: want run, take or write", args[0])
}

// suites are the packages to test on a server of each kind.
var suites = map[string]string{
	"redis": "./redisstore/...", "postgres": "./pgstore/...", "pgbouncer": "./pgstore/...", "mysql": "./mysqlstore/...",
	"etcd": "./etcdstore/...", "zookeeper": "./zkstore/...", "nats": "./natsstore/...", "s3": "./s3store/...", "dynamodb": "./dynamostore/...", "kubernetes": "./k8sstore/...", "azblob": "./azblobstore/...",
}

// run runs the suites on each server, and records the servers on which they passed.
func run(names []string) error {
	commit := cmp.Or(os.Getenv("NIGHTLY_COMMIT"), "uncommitted")
	done, err := read(report)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var failed []string
	for _, l := range testserver.Table() {
		if len(names) > 0 && !slices.Contains(names, l.Name) {
			continue
		}
		version, err := l.Version()
		if err != nil {
			fmt.Printf("tested: not on %s: %v\n", l.Name, err)
			if !isUnreachable(err) {
				failed = append(failed, l.Name)
			}
			continue
		}
		row := passed{l.Name, l.Kind, version, commit}
		if commit != "uncommitted" && slices.Contains(done, row) {
			fmt.Printf("tested: %s %s: done for this commit\n", l.Name, version)
			continue
		}
		fmt.Printf("tested: %s on %s %s\n", suites[l.Kind], l.Name, version)
		cmd := exec.Command("go", "run", "./internal/runtests", "-strict", "-json", filepath.Join(".tests", l.Name), "-packages", suites[l.Kind],
			"--", "-p", "1", "-vet=off", "-ldflags=-w", "-timeout", "60m", "-count=1", "-skip", "EachMutant")
		cmd.Env = append(os.Environ(), testserver.NightlyEnv+"=1", testserver.ServersEnv+"="+l.Name)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			failed = append(failed, l.Name)
			continue
		}
		done = merge(done, []passed{row})
		if err := write(report, done); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed on %s", strings.Join(failed, ", "))
	}
	return nil
}
