package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A passed is a server on which the complete suites of its kind have passed.
type passed struct {
	server, kind, version, commit string
}

func isUnreachable(err error) bool { return errors.Is(err, testserver.ErrUnreachable) }

// read reads lines with a server, its kind, its version, and the commit.
func read(file string) (all []passed, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 4 || suites[f[1]] == "" {
			return nil, fmt.Errorf("%s: want a server, its kind, its version and a commit, got %q", file, line)
		}
		all = append(all, passed{f[0], f[1], f[2], f[3]})
	}
	return all, nil
}

func write(file string, all []passed) error {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", p.server, p.kind, p.version, p.commit)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// merge combines both lists in the order of the table. A fresh entry replaces an old one of the same server. Servers
// that are no longer in the table are left out.
func merge(old, fresh []passed) (all []passed) {
	of := map[string]passed{}
	for _, p := range slices.Concat(old, fresh) {
		of[p.server] = p
	}
	for _, l := range testserver.Table() {
		if p, ok := of[l.Name]; ok {
			all = append(all, p)
		}
	}
	return all
}

// products are the product names of the servers, by the first part of the server's name.
var products = map[string]string{
	"redis": "Redis", "valkey": "Valkey", "redict": "Redict", "postgres": "PostgreSQL", "pgbouncer": "PgBouncer", "mariadb": "MariaDB",
	"mysql": "MySQL", "etcd": "etcd", "zookeeper": "ZooKeeper", "nats": "NATS", "versitygw": "versitygw", "dynalite": "dynalite", "kubernetes": "Kubernetes", "azurite": "Azurite",
}

// stores are the packages that the suites of each kind test.
var stores = map[string]string{
	"redis": "redisstore, redlock", "postgres": "pgstore, pgadvisory", "pgbouncer": "pgstore, behind PgBouncer", "mysql": "mysqlstore",
	"etcd": "etcdstore", "zookeeper": "zkstore", "nats": "natsstore", "s3": "s3store", "dynamodb": "dynamostore", "kubernetes": "k8sstore", "azblob": "azblobstore",
}

// The lines of the page before and after the table.
const (
	begin = "<!-- The table is made by go generate ./internal/tested from docs/tested.tsv, the report of make nightly PART=servers. -->\n"
	end   = "<!-- Here it ends. -->\n"
)

// table formats the servers for people.
func table(all []passed) string {
	b := &strings.Builder{}
	fmt.Fprint(b, "\n| | passes its whole suite on | at commit |\n|---|---|---|\n")
	var kinds []string
	of := map[string][]string{}
	commits := map[string]map[string]bool{}
	for _, p := range all {
		if of[p.kind] == nil {
			kinds, commits[p.kind] = append(kinds, p.kind), map[string]bool{}
		}
		product, _, _ := strings.Cut(p.server, "-")
		of[p.kind] = append(of[p.kind], products[product]+" "+p.version)
		commits[p.kind]["`"+p.commit[:min(len(p.commit), 12)]+"`"] = true
	}
	for _, kind := range kinds {
		fmt.Fprintf(b, "| %s | %s | %s |\n", stores[kind], strings.Join(of[kind], ", "), strings.Join(slices.Sorted(maps.Keys(commits[kind])), ", "))
	}
	b.WriteString("\n")
	return b.String()
}

// withTable returns the page with the table replaced.
func withTable(text, table string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("the page has no place for the table: want the lines\n%s%s", begin, end)
	}
	return before + begin + table + end + after, nil
}

func writePage() error {
	all, err := read(taken)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	made, err := withTable(string(text), table(all))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(made), 0o644)
}
