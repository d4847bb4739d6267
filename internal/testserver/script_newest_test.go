//go:build unix

package testserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withSuites makes a machine that has everything that apt-get installs. Its mirror has other suites, those in $SUITES,
// each with every package in version $VERSION. Its package sources name three suites at two places.
func withSuites(t *testing.T) *bare {
	t.Helper()
	b := newBare(t, "id", "go")
	for _, p := range strings.Fields(needed) {
		b.program(p, "")
	}
	// Called as "apt-get -q -c CONFIGURATION update|install …", except for indextargets.
	b.program("apt-get", `
if [ "$1" = indextargets ]; then
	echo "other other http://elsewhere.example/other/"
	echo "own-security own-security http://mirror.example/security/"
	echo "${CALLED:-own }own http://mirror.example/debian/"
	exit 0
fi
work=${3%/apt.conf}
cat "$3" >>"$BIN/configurations"
read -r source <"$work/sources.list"
source=${source#*] }
echo "$source" >>"$BIN/sources"
suite=${source#* } suite=${suite% *}
case " $SUITES " in *" $suite "*) ;; *) echo "W: a warning"; echo "E: Failed to fetch http://me:secret@mirror.example/debian/dists/$suite/InRelease  no route"; exit 100 ;; esac
[ "$4" != install ] || for last; do :; done
[ "$4" != install ] || for p in "$last" libc6; do echo "$VERSION" >"$work/cache/archives/${p}_1_amd64.deb"; done`)
	b.program("dpkg", `
case $1 in
--print-architecture) echo amd64 ;;
--compare-versions) [ "$2" = "$4" ] || [ "$2" = 99.1 ] || exit 1 ;;
esac`)
	b.program("dpkg-deb", `
if [ "$1" = -f ]; then cat "$2"; exit 0; fi
lib=$3/usr/lib/x86_64-linux-gnu
mkdir -p "$lib" "$3/usr/bin" "$3/usr/sbin" "$3/usr/lib/postgresql/18/bin"
for program in bin/redis-server bin/valkey-server sbin/mysqld lib/postgresql/18/bin/postgres lib/postgresql/18/bin/initdb; do echo xELF >"$3/usr/$program"; done
echo script >"$3/usr/lib/postgresql/18/bin/script"
printf '#!/bin/sh\necho "$@" >>"$BIN/started"; exit "${FAILS:-0}"\n' >"$lib/ld-linux-x86-64.so.2"
/bin/chmod 755 "$lib/ld-linux-x86-64.so.2"`)
	for _, program := range []string{"chmod", "rm"} { // these take effect, but only in its own directory
		if err := os.Remove(filepath.Join(b.bin, program)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/bin/"+program, filepath.Join(b.bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bare) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.bin, name))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return string(text)
}

// left returns what the script has left in its directory.
func (b *bare) left() string {
	b.t.Helper()
	all, err := os.ReadDir(filepath.Join(b.bin, ".cache/holdfast-test"))
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, entry := range all {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

func TestServersUnpacksNewerOnesOfOtherSuites(t *testing.T) {
	b := withSuites(t)
	printed, called, ok := b.run("SUITES=sid", "VERSION=5:99.1", "USER_ID=1000")
	if !ok || !strings.Contains(printed, "will unpack redis-8 (redis-server 8.0 or newer) of Debian's suite sid into "+b.bin) ||
		!strings.Contains(printed, "got redis-8: redis-server 5:99.1 of sid") {
		t.Errorf("the script does not say what it does: %s", printed)
	}
	if strings.Contains(called, "sudo") || strings.Contains(called, "apt-get install") || strings.Contains(called, "apt-get update") {
		t.Errorf("the script did more than download: %s", called)
	}
	if n := strings.Count(called, " install -y --download-only "); n != 3 {
		t.Errorf("got %d downloads, want 3: %s", n, called)
	}
	for _, line := range strings.Split(strings.TrimSpace(b.read("sources")), "\n") {
		if line != "http://mirror.example/debian/ sid main" {
			t.Errorf("the script read the source %q", line)
		}
	}
	// apt must not use a file of the machine, nor run the machine's hooks after an update.
	for _, line := range strings.Split(b.read("configurations"), "\n") {
		if strings.HasPrefix(line, "Dir::") && !strings.Contains(line, `"`+b.bin+"/.cache/holdfast-test/unfinished-") {
			t.Errorf("apt was configured outside of the directory: %s", line)
		}
	}
	if !strings.Contains(b.read("configurations"), "#clear APT::Update::Post-Invoke;") {
		t.Error("apt runs the hooks of the machine after an update")
	}
	if got, want := b.left(), "azurite dynalite mysql-9.7 nats redis-8 valkey-9 versitygw"; got != want {
		t.Errorf("the script left %s, want %s", got, want)
	}
	dir := filepath.Join(b.bin, ".cache/holdfast-test/redis-8")
	if started := b.read("started"); !strings.Contains(started, "--library-path "+filepath.Dir(dir)) || !strings.Contains(started, "/usr/bin/redis-server.elf --version") {
		t.Errorf("the script started\n%s", started)
	}
	if printed, again, ok := b.run(); !ok || !strings.Contains(printed, "all there") || strings.Count(again, "apt-get") != strings.Count(called, "apt-get") {
		t.Errorf("a second time: %s", printed)
	}
}

// A program that is called from its own directory, as initdb does, gets the same libraries. A file that is no program
// stays as it is.
func TestServersGetsWhatIsNamed(t *testing.T) {
	b := withSuites(t)
	b.newest()
	printed, _, ok := b.run("SUITES=sid", "VERSION=99.1", "WANTED=postgres-18")
	if !ok || !strings.Contains(printed, "got postgres-18: postgresql-18 99.1 of sid") || !strings.Contains(printed, "postgres-18: the table has 18.") {
		t.Errorf("%s", printed)
	}
	if got, want := b.left(), "azurite dynalite mysql-9.7 nats postgres-18 redis-8 valkey-9 versitygw"; got != want {
		t.Errorf("the script left %s, want %s", got, want)
	}
	for name, want := range map[string]string{"postgres": "#!/bin/sh", "initdb": "#!/bin/sh", "script": "script", "postgres.elf": "xELF", "initdb.elf": "xELF"} {
		if got := b.read(".cache/holdfast-test/postgres-18/usr/lib/postgresql/18/bin/" + name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %.20q, want %q", name, got, want)
		}
	}
}

func TestServersTakesTheFirstSuiteThatHasTheServer(t *testing.T) {
	b := withSuites(t)
	printed, _, ok := b.run("SUITES=trixie forky", "VERSION=99.1", "CALLED=stable ")
	if !ok || !strings.Contains(printed, "got redis-8: redis-server 99.1 of trixie") || !strings.Contains(printed, "got valkey-9: valkey-server 99.1 of forky") {
		t.Errorf("%s", printed)
	}
	if got, want := b.left(), "azurite dynalite mysql-9.7.unreachable nats redis-8 valkey-9 versitygw"; got != want {
		t.Errorf("the script left %s, want %s", got, want)
	}
}

func TestServersGoesOnWithoutASuiteAndLeavesTheReason(t *testing.T) {
	b := withSuites(t)
	for what, env := range map[string][]string{
		"no route":       {"SUITES="},
		"only 1.0":       {"SUITES=sid trixie forky", "VERSION=1.0"},
		"name no mirror": {"SUITES=sid", "VERSION=99.1", "HOLDFAST_TEST_RELEASE=/dev/null"},
	} {
		printed, _, ok := b.run(env...)
		if !ok || !strings.Contains(printed, "the tests that need mysql-9.7 run on the server that is installed, or are skipped") {
			t.Errorf("%s is a failure, want a note: %s", what, printed)
		}
		why := b.read(".cache/holdfast-test/mysql-9.7.unreachable")
		if !strings.HasPrefix(why, "the suite with mysql-9.7 cannot be reached: ") || !strings.Contains(why, strings.TrimPrefix(what, "name ")) || strings.Count(why, "\n") != 1 {
			t.Errorf("%s: the tests read the reason %q", what, why)
		}
		if strings.Contains(why+printed, "secret") {
			t.Errorf("the script shows a password: %s%s", why, printed)
		}
		if printed, _, ok := b.run("HOLDFAST_TEST_INSTALL=no"); !ok || !strings.Contains(printed, strings.TrimSpace(why)) {
			t.Errorf("%s, with HOLDFAST_TEST_INSTALL=no: %s", what, printed)
		}
		if got, want := b.left(), "azurite dynalite mysql-9.7.unreachable nats redis-8.unreachable valkey-9.unreachable versitygw"; got != want {
			t.Errorf("%s: the script left %s, want %s", what, got, want)
		}
	}
	if printed, _, ok := b.run("SUITES=sid", "VERSION=99.1"); !ok || b.left() != "azurite dynalite mysql-9.7 nats redis-8 valkey-9 versitygw" {
		t.Errorf("once the mirror can be reached again: %s, left %s", printed, b.left())
	}
}

func TestServersFailsWhenWhatItUnpackedDoesNotRun(t *testing.T) {
	b := withSuites(t)
	printed, _, ok := b.run("SUITES=sid", "VERSION=99.1", "FAILS=1")
	if ok || !strings.Contains(printed, "redis-server 99.1 of sid does not run here") || !strings.Contains(printed, "still missing: redis-8, valkey-9, mysql-9.7, nats") {
		t.Errorf("%s", printed)
	}
	if got := b.left(); got != "azurite dynalite" { // npm's need no libraries
		t.Errorf("the script left %s, want azurite and dynalite alone", got)
	}
}
