package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestAModuleIsBuiltAloneWithTheOthersOfTheTree(t *testing.T) {
	repository(t)
	if err := run([]string{"alone", "a", "vet", "./..."}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("root.go", []byte("package holdfast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dirs := range []string{".,a", "oldest"} {
		if err := run([]string{"alone", dirs, "vet", "./..."}); err == nil || !strings.Contains(err.Error(), "fails in a") {
			t.Errorf("%s: got %v, want an error that names the module", dirs, err)
		}
	}
}

// Each adapter is tried with the newest version of its library.
func TestAModuleIsBuiltWithTheNewestLibraries(t *testing.T) {
	repository(t)
	others(t, "example.org/library")
	write(t, "a/go.mod", "module "+own+"/a\n\ngo 1.26.0\n\nrequire (\n\t"+own+" v0.0.0\n\texample.org/library v1.0.0\n)\n")
	write(t, "a/a.go", "package a\n\nimport (\n\tx \"example.org/library\"\n\t\""+own+"\"\n)\n\nvar N = x.N() + holdfast.N\n")
	is := func(version string) []string { // any other version is an error
		return []string{"list", "-m", "-f", `{{if ne .Version "` + version + `"}}{{index .Path 999}}{{end}}`, "example.org/library"}
	}
	for version, command := range map[string]string{"v1.0.0": "alone", "v1.1.0": "newest"} {
		if err := run(append([]string{command, "a"}, is(version)...)); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	t.Chdir("a")
	if text, err := os.ReadFile("go.mod"); err != nil || !strings.Contains(string(text), "library v1.0.0") {
		t.Errorf("its own go.mod was changed to\n%s (%v)", text, err)
	}
}

func TestTheAdaptersAreTriedWithTheNewestLibraries(t *testing.T) {
	t.Chdir("../../..")
	all, err := find(".")
	if err != nil {
		t.Fatal(err)
	}
	these, err := named(all, "adapters")
	if err != nil || len(these) < 12 {
		t.Errorf("got %d modules (%v), want the eleven adapters and holdfastprom", len(these), err)
	}
	parts, err := os.ReadFile("scripts/nightly-parts")
	if err != nil || !strings.Contains(string(parts), "modules newest adapters test ") {
		t.Errorf("make nightly does not test them (%v)", err)
	}
}

func TestAnUnknownModuleIsRefused(t *testing.T) {
	repository(t)
	for _, dirs := range []string{"b", ".,b", "", "a,"} {
		if err := run([]string{"alone", dirs, "vet", "./..."}); err == nil || !strings.Contains(err.Error(), "there is no module in") {
			t.Errorf("%q: got %v, want an error that names it", dirs, err)
		}
	}
}

// Only the modules that ask for the newest drivers are left out of the tests with the oldest.
func TestTheOldestDriversAreTriedInEachModuleThatAsksForThem(t *testing.T) {
	t.Chdir("../../..")
	all, err := find(".")
	if err != nil {
		t.Fatal(err)
	}
	these, err := named(all, "oldest")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if slices.Contains(these, m) == slices.Contains(newest, m.dir) {
			t.Errorf("%s: selected %v, want the opposite", m.dir, slices.Contains(these, m))
		}
	}
	for _, dir := range newest {
		if !slices.ContainsFunc(all, func(m *module) bool { return m.dir == dir }) {
			t.Errorf("no module is in %s", dir)
		}
	}
	parts, err := os.ReadFile("scripts/nightly-parts")
	if err != nil || !strings.Contains(string(parts), "modules alone oldest test ") {
		t.Errorf("make nightly does not test them (%v)", err)
	}
}

// The tests of guard are a module of their own. Built alone, it uses the oldest drivers that users of the stores can have.
func TestGuardIsTriedWithTheOldestDriversOfTheStores(t *testing.T) {
	t.Chdir("../../..")
	for store, driver := range map[string]string{"pgstore": "github.com/jackc/pgx/v5", "mysqlstore": "github.com/go-sql-driver/mysql"} {
		if have, want := requiredBy(t, "internal/guardtest")[driver], requiredBy(t, store)[driver]; have != want || want == "" {
			t.Errorf("it requires %s %s, but %s requires %s", driver, have, store, want)
		}
	}
}
