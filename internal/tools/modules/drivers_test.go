package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// write writes a file, and makes its directories.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// others is a proxy with modules of others, each in the versions 1.0.0 and 1.1.0. From then on it is the only proxy.
func others(t *testing.T, paths ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, path := range paths {
		mod := "module " + path + "\n\ngo 1.26.0\n"
		at := filepath.Join(dir, path, "@v")
		for _, version := range []string{"v1.0.0", "v1.1.0"} {
			source := t.TempDir()
			write(t, filepath.Join(source, "go.mod"), mod)
			write(t, filepath.Join(source, "x.go"), "package x\n\nfunc N() int { return 1 }\n")
			write(t, filepath.Join(at, version+".mod"), mod)
			write(t, filepath.Join(at, version+".info"), `{"Version":"`+version+`","Time":"2026-01-02T15:04:05Z"}`)
			archive, err := os.Create(filepath.Join(at, version+".zip"))
			if err != nil {
				t.Fatal(err)
			}
			defer archive.Close()
			if err := zip.CreateFromDir(archive, modpath.Version{Path: path, Version: version}, source); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(at, "list"), "v1.0.0\nv1.1.0\n")
	}
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(dir))
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOFLAGS", "-modcacherw")
	t.Setenv("GOMODCACHE", t.TempDir())
}

// onDriver makes the root module of a repository require a version of a driver, and its test the old version of a
// library.
func onDriver(t *testing.T, version string) {
	t.Helper()
	write(t, "go.mod", "module "+own+"\n\ngo 1.26.0\n\nrequire (\n\texample.org/driver "+version+"\n\texample.org/tested v1.0.0\n)\n")
	write(t, "root.go", "package holdfast\n\nimport x \"example.org/driver\"\n\nvar N = x.N()\n")
	write(t, "root_test.go", "package holdfast\n\nimport (\n\t\"testing\"\n\n\tx \"example.org/tested\"\n)\n\nfunc TestN(t *testing.T) { x.N() }\n")
	write(t, "a/a.go", "package a\n\nimport \""+own+"\"\n\nvar N = holdfast.N\n")
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Env = append(os.Environ(), "GOWORK=off")
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := run([]string{"tidy"}); err != nil && !strings.Contains(err.Error(), "in: ") {
		t.Fatal(err)
	}
}

// What users get is tried with the newest version of its imports. Imports of its tests do not count.
func TestAnOlderDriverThanThereIsIsFound(t *testing.T) {
	repository(t)
	if err := run([]string{"behind"}); err == nil || !strings.Contains(err.Error(), "no module imports a driver") {
		t.Errorf("without any driver: got %v", err)
	}
	others(t, "example.org/driver", "example.org/tested")
	onDriver(t, "v1.0.0")
	err := run([]string{"behind"})
	if err == nil || !strings.HasSuffix(err.Error(), ":\nexample.org/driver v1.0.0; the newest is v1.1.0") {
		t.Errorf("got %v, want an error that names this driver alone", err)
	}
	onDriver(t, "v1.1.0")
	if err := run([]string{"behind"}); err != nil {
		t.Error(err)
	}
}

// A module that calls code with a known hole is found, and named.
func TestAKnownHoleIsFound(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	repository(t)
	if err := run([]string{"holes"}); err == nil || !strings.Contains(err.Error(), "make tools") {
		t.Errorf("without the program: got %v", err)
	}
	at, err := filepath.Abs(".tests/bin/govulncheck")
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "-C", dir, "build", "-o", at, "golang.org/x/vuln/cmd/govulncheck")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	others(t, "example.org/driver", "example.org/tested")
	known := t.TempDir()
	write(t, filepath.Join(known, "GO-2026-9999.json"), `{
		"schema_version": "1.3.1", "id": "GO-2026-9999", "modified": "2026-01-02T15:04:05Z", "published": "2026-01-02T15:04:05Z",
		"summary": "a hole", "details": "a hole", "database_specific": {"url": "https://example.org"},
		"affected": [{
			"package": {"name": "example.org/driver", "ecosystem": "Go"},
			"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "1.1.0"}]}],
			"ecosystem_specific": {"imports": [{"path": "example.org/driver", "symbols": ["N"]}]}
		}]
	}`)
	const found = "calls example.org/driver@v1.0.0, which has GO-2026-9999"
	was := accepted
	defer func() { accepted = was }()
	for _, c := range []struct {
		driver   string
		accepted map[string]string
		want     string
	}{
		{"v1.0.0", nil, ". " + found + "\na " + found},
		{"v1.0.0", map[string]string{"GO-2026-9999": "it is a test"}, ""},
		{"v1.1.0", nil, ""},
		{"v1.1.0", map[string]string{"GO-2026-9999": "it is a test"}, "GO-2026-9999 is accepted, but no module has it any more"},
	} {
		onDriver(t, c.driver)
		accepted = c.accepted
		if err := run([]string{"holes", known}); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s, accepted %v: got %v, want %q", c.driver, c.accepted, err, c.want)
		}
	}
}
