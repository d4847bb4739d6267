package testserver

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// servers is the table of servers; the file explains its format.
//
//go:embed servers.txt
var servers string

// ServersEnv is the variable that names servers of the table, separated by spaces. The tests
// run on these instead of the first ones of their kinds.
const ServersEnv = "HOLDFAST_TEST_SERVERS"

// A Listed is a server of the table in servers.txt, which explains the fields.
type Listed struct {
	Name, Kind string
	Installed  bool // with this machine's own package
	Day        bool // make servers gets it
	programs   []string
}

// Table returns all servers that tests run on, grouped by kind.
func Table() (all []Listed) {
	for line := range strings.Lines(servers) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			all = append(all, Listed{Name: f[0], Kind: f[1], Day: f[2] == "day", Installed: f[3] == "installed", programs: f[7:]})
		}
	}
	return all
}

// ErrUnreachable says that no Debian suite that has the server could be reached.
var ErrUnreachable = errors.New("the server is not available here")

// Chosen returns the server that tests of the kind run on. If the first one of the table could not be reached,
// instead says why another is used. The error says that a needed server is missing.
func Chosen(kind string) (l Listed, instead string, err error) {
	var of []Listed
	for _, l := range Table() {
		if l.Kind != kind {
			continue
		}
		if slices.Contains(strings.Fields(os.Getenv(ServersEnv)), l.Name) {
			_, err := l.path()
			return l, "", err
		}
		of = append(of, l)
	}
	l = of[0]
	_, err = l.path()
	if i := slices.IndexFunc(of, func(l Listed) bool { return l.Installed }); i > 0 && errors.Is(err, ErrUnreachable) {
		instead = err.Error()
		l = of[i]
		_, err = l.path()
	}
	return l, instead, err
}

// chosen returns the chosen server and the path of its program.
func chosen(kind string) (l Listed, program string, err error) {
	if l, _, err = Chosen(kind); err != nil {
		return l, "", err
	}
	program, err = l.path()
	return l, program, err
}

// named returns the program of the server with this name. It skips the test if the server
// cannot be reached, and fails it if the server is missing for any other reason.
func named(t testing.TB, name string) string {
	t.Helper()
	l := listed(name)
	program, err := l.path()
	if errors.Is(err, ErrUnreachable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func listed(name string) Listed {
	all := Table()
	return all[slices.IndexFunc(all, func(l Listed) bool { return l.Name == name })]
}

// dir is the directory of what scripts/servers has unpacked or built.
func (l *Listed) dir() string { return filepath.Join(cached(), l.Name) }

// path returns the path of the server's program.
func (l *Listed) path() (string, error) {
	switch {
	case l.Kind == "postgres" && l.Installed:
		bin, err := postgresBin()
		return filepath.Join(bin, "postgres"), err
	case l.Kind == "zookeeper" && l.Installed:
		if jar := filepath.Join(zooJars, l.programs[0]); exists(jar) {
			return jar, nil
		}
		return "", fmt.Errorf("%s is needed by this test and is not in %s: run \"make servers\"", l.programs[0], zooJars)
	case l.Installed:
		return find(l.programs[0])
	case exists(filepath.Join(l.dir(), "version")):
		return filepath.Join(l.dir(), l.programs[0]), nil
	}
	why, err := os.ReadFile(l.dir() + ".unreachable")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s is needed by this test and is not in %s: run \"make servers\", or \"scripts/servers %s\"", l.Name, l.dir(), l.Name)
	case err != nil:
		return "", err
	}
	return "", unreachable(strings.TrimSpace(string(why)))
}

// unreachable says why the script could not reach a server when it last tried.
type unreachable string

func (u unreachable) Error() string      { return string(u) }
func (unreachable) Is(target error) bool { return target == ErrUnreachable }

// Version returns the version of the server on this machine.
func (l *Listed) Version() (string, error) {
	program, err := l.path()
	if err != nil {
		return "", err
	}
	var said []byte
	switch {
	case !l.Installed:
		if said, err = os.ReadFile(filepath.Join(l.dir(), "version")); err == nil {
			_, after, epoch := strings.Cut(string(said), ":")
			if epoch {
				said = []byte(after)
			}
		}
	case l.Kind == "zookeeper":
		var jars []string
		jars, err = filepath.Glob(filepath.Join(zooJars, "zookeeper-[0-9]*.jar"))
		said = []byte(strings.Join(jars, " "))
	default:
		said, err = exec.Command(program, "--version").CombinedOutput()
	}
	version := regexp.MustCompile(`[0-9]+(\.[0-9]+)+`).Find(said)
	if err == nil && version == nil {
		err = fmt.Errorf("%s has no version in %q", program, said)
	}
	return string(version), err
}

// Report says which servers the tests run on here, and which of them replace another.
func Report() (lines []string) {
	var kinds, on []string
	for _, l := range Table() {
		if slices.Contains(kinds, l.Kind) || !l.Day && !Nightly() {
			continue
		}
		kinds = append(kinds, l.Kind)
		l, instead, err := Chosen(l.Kind)
		version := ""
		if err == nil {
			version, err = l.Version()
		}
		if err != nil {
			lines = append(lines, fmt.Sprintf("servers: no %s: %v", l.Name, err))
			continue
		}
		on = append(on, l.Name+" "+version)
		if instead != "" {
			lines = append(lines, fmt.Sprintf("servers: the tests of %s ran on the installed one, %s %s: %s", l.Kind, l.Name, version, instead))
		}
	}
	return append(lines, "servers: "+strings.Join(on, ", "))
}

// cached is the directory in which the scripts keep what they fetched. Root's can be read by
// the users that some servers run as.
func cached() string {
	cache := os.Getenv("XDG_CACHE_HOME")
	switch {
	case cache != "":
	case os.Geteuid() == 0:
		cache = "/var/cache"
	default:
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "holdfast-test")
}
