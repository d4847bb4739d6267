//go:build unix

package testserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the script looks for, and the packages that contain it.
const (
	needed   = "redis-server initdb pgbouncer mariadbd etcd zookeeper.jar node npm libfaketimeMT.so.1 chromium gcc"
	packages = "redis-server postgresql pgbouncer mariadb-server etcd-server zookeeper nodejs npm libfaketime chromium gcc"
)

// A bare is a machine on which nothing is installed except what the script may expect. Whatever the script does there
// only adds a line to a log.
type bare struct {
	t   *testing.T
	bin string
}

func newBare(t *testing.T, programs ...string) *bare {
	t.Helper()
	b := &bare{t: t, bin: t.TempDir()}
	for _, real := range []string{"sh", "env", "mkdir", "mktemp", "mv", "cat", "grep", "head", "cut", "sed"} {
		path, err := exec.LookPath(real)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(b.bin, real)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(programs, "tee", "chmod", "rm") {
		body := ""
		switch name {
		case "apt-get": // installs by making the programs
			body = `[ "$1" = install ] && for p in ` + needed + `; do echo '#!/bin/sh' >"$BIN/$p"; /bin/chmod 755 "$BIN/$p"; done`
		case "sudo":
			body = `exec "$@"`
		case "id":
			body = `echo "$USER_ID"`
		case "tee":
			body = `while read -r line; do :; done`
		case "go":
			body = `case $1 in env) echo gcc ;; build) echo '#!/bin/sh' >"$3" ;; mod) echo >go.mod; echo >go.sum ;; get) [ -z "${FAILS:-}" ] || { echo no such version; exit 1; } ;; esac`
		}
		b.program(name, body)
	}
	return b
}

func (b *bare) program(name, body string) {
	b.t.Helper()
	text := "#!/bin/sh\necho \"" + name + " $*\" >>\"$BIN/log\"\n" + body + "\n:\n"
	if err := os.WriteFile(filepath.Join(b.bin, name), []byte(text), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// release is a file that names the Debian release.
func (b *bare) release() string {
	b.t.Helper()
	file := filepath.Join(b.bin, "os-release")
	if err := os.WriteFile(file, []byte("ID=debian\nVERSION_CODENAME=\"own\"\n"), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// newest installs the servers that newest-servers would get by day, except these.
func (b *bare) newest(but ...string) {
	b.t.Helper()
	for _, name := range []string{"azurite", "dynalite", "mysql-9.7", "nats", "redis-8", "valkey-9", "versitygw"} {
		dir := filepath.Join(b.bin, ".cache/holdfast-test", name)
		if slices.Contains(but, name) {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "version"), []byte("1\n"), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// run returns what the script printed, what it called, and whether it succeeded.
func (b *bare) run(env ...string) (printed, called string, ok bool) {
	b.t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "exec /bin/sh ../../scripts/servers $WANTED")
	cmd.Env = append([]string{"PATH=" + b.bin, "BIN=" + b.bin, "USER_ID=0", "HOLDFAST_TEST_ELSEWHERE=", "HOME=" + b.bin, "XDG_CACHE_HOME=" + filepath.Join(b.bin, ".cache"), "HOLDFAST_TEST_RELEASE=" + b.release()}, env...)
	out, err := cmd.CombinedOutput()
	log, lerr := os.ReadFile(filepath.Join(b.bin, "log"))
	if lerr != nil && !os.IsNotExist(lerr) {
		b.t.Fatal(lerr)
	}
	return string(out), string(log), err == nil
}

func TestServersAnnouncesAndInstallsWhatIsMissing(t *testing.T) {
	for who, env := range map[string]string{"root": "USER_ID=0", "a plain user": "USER_ID=1000"} {
		b := newBare(t, "apt-get", "id", "sudo", "go")
		b.newest()
		printed, called, ok := b.run(env)
		if !ok {
			t.Errorf("as %s: %s", who, printed)
		}
		if !strings.Contains(printed, "will install by apt-get: "+packages) {
			t.Errorf("as %s: the script does not say what it will install: %s", who, printed)
		}
		update, install := strings.Index(called, "apt-get update\n"), strings.Index(called, "apt-get install -y")
		if update < 0 || install < update || !strings.Contains(called[install:], "redis-server") {
			t.Errorf("as %s: it called\n%s", who, called)
		}
		if sudo := strings.Contains(called, "sudo apt-get update"); sudo != (who != "root") {
			t.Errorf("as %s: it called\n%s", who, called)
		}
		if printed, _, ok := b.run(env, "HOLDFAST_TEST_INSTALL=no"); !ok || !strings.Contains(printed, "all there") {
			t.Errorf("as %s, with everything installed: %s", who, printed)
		}
	}
}

// npm gets one of the servers.
func TestServersInstallsNpmBeforeItIsUsed(t *testing.T) {
	b := newBare(t, "apt-get", "id", "go")
	b.newest("dynalite")
	printed, called, ok := b.run()
	if !ok || !strings.Contains(printed, "got dynalite: dynalite ") || strings.Contains(printed, "not found") || strings.Count(called, "apt-get install") != 1 {
		t.Errorf("%s%s", printed, called)
	}
}

func TestServersFindsWhatIsOutsideThePath(t *testing.T) {
	b, dir := newBare(t, "id", "go"), filepath.Join(t.TempDir(), "lib/15/bin")
	b.newest()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range strings.Fields(needed) {
		if err := os.WriteFile(filepath.Join(dir, p), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if printed, _, ok := b.run("HOLDFAST_TEST_INSTALL=no", "HOLDFAST_TEST_ELSEWHERE=/none "+filepath.Join(dir, "../../*/bin")); !ok {
		t.Errorf("the script does not find what is outside the PATH: %s", printed)
	}
}

func TestServersOnlyChecksWhenAskedTo(t *testing.T) {
	b := newBare(t, "apt-get", "id", "sudo", "go")
	printed, called, ok := b.run("HOLDFAST_TEST_INSTALL=no")
	if ok || !strings.Contains(printed, needed) || !strings.Contains(printed, "missing: redis-8, valkey-9, mysql-9.7, nats") {
		t.Errorf("the script does not fail with the missing programs: %s", printed)
	}
	if strings.Contains(called, "apt-get") || strings.Contains(called, "sudo") {
		t.Errorf("the script called\n%s", called)
	}
}

func TestServersNamesWhatToInstallWhereItCannot(t *testing.T) {
	for what, b := range map[string]*bare{
		"without apt-get": newBare(t, "id", "sudo", "go"),
		"without sudo":    newBare(t, "apt-get", "id", "go"),
	} {
		b.newest()
		printed, called, ok := b.run("USER_ID=1000")
		if ok || !strings.Contains(printed, "redis-server") {
			t.Errorf("%s: the script does not fail with the missing programs: %s", what, printed)
		}
		if strings.Contains(called, "install") {
			t.Errorf("%s: it called\n%s", what, called)
		}
	}
}

func TestServersBuildsWhatNoPackageHas(t *testing.T) {
	b := newBare(t, "apt-get", "id", "go")
	b.newest("nats")
	for _, p := range strings.Fields(needed) {
		b.program(p, "")
	}
	if printed, called, ok := b.run("HOLDFAST_TEST_INSTALL=no"); ok || !strings.Contains(printed, "missing: nats") || strings.Contains(called, "go get") {
		t.Errorf("with HOLDFAST_TEST_INSTALL=no: %s%s", printed, called)
	}
	if printed, _, ok := b.run("FAILS=1"); ok || !strings.Contains(printed, "nats was not built: no such version") || !strings.Contains(printed, "still missing: nats") {
		t.Errorf("a program that cannot be built: %s", printed)
	}
	printed, called, ok := b.run()
	if !ok || !strings.Contains(printed, "will build nats (github.com/nats-io/nats-server/v2 ") || strings.Count(called, "go build -o ./nats-server github.com/nats-io/nats-server/v2") != 1 {
		t.Errorf("%s%s", printed, called)
	}
	if strings.Contains(called, "apt-get") {
		t.Errorf("the script called\n%s", called)
	}
	if printed, called, ok := b.run(); !ok || !strings.Contains(printed, "all there") || strings.Count(called, "go build") != 1 {
		t.Errorf("a second time: %s%s", printed, called)
	}
}
