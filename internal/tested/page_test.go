package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The page has the table of docs/tested.tsv, and nothing that was added by hand.
func TestThePageSaysWhatTheReportSays(t *testing.T) {
	all, err := read("../../" + taken)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := withTable(string(text), table(all)); err != nil || want != string(text) {
		t.Errorf("%s does not match %s: call go generate ./internal/tested (%v)", page, taken, err)
	}
	if !reflect.DeepEqual(merge(nil, all), all) {
		t.Errorf("%s has servers that are not in the table, or are in another order", taken)
	}
	said := string(text)
	changed := strings.Replace(said, "Redis ", "Redis 9, ", -1)
	if made, err := withTable(changed, table(all)); err != nil || !strings.Contains(made, table(all)) {
		t.Errorf("withTable does not replace a table that was edited: %v", err)
	}
	if _, err := withTable("no place", ""); err == nil {
		t.Error("a page without a place for the table is no error")
	}
}

func TestAReportReplacesWhatIsOlderAndNothingElse(t *testing.T) {
	old := []passed{{"redis-8", "redis", "8.0.1", "a"}, {"gone-1", "redis", "1.0", "a"}, {"etcd", "etcd", "3.4.23", "a"}}
	fresh := []passed{{"redis-6", "redis", "6.0.16", "b"}, {"redis-8", "redis", "8.0.6", "b"}}
	want := []passed{fresh[1], fresh[0], old[2]}
	if got := merge(old, fresh); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	file := filepath.Join(t.TempDir(), "new", "f")
	if err := write(file, want); err != nil {
		t.Fatal(err)
	}
	if got, err := read(file); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read again: got %+v, %v", got, err)
	}
	if made := table(want); !strings.Contains(made, "| redisstore, redlock | Redis 8.0.6, Redis 6.0.16 | `b` |\n") || !strings.Contains(made, "| etcdstore | etcd 3.4.23 | `a` |\n") {
		t.Errorf("got the table %s", made)
	}
}

func TestEachServerOfTheTableHasSuitesAndAName(t *testing.T) {
	for _, l := range testserver.Table() {
		product, _, _ := strings.Cut(l.Name, "-")
		if suites[l.Kind] == "" || stores[l.Kind] == "" || products[product] == "" {
			t.Errorf("%s, %s: got suites %q, stores %q, product %q, want all three", l.Name, l.Kind, suites[l.Kind], stores[l.Kind], products[product])
		}
	}
}
