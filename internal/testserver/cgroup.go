package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Cgroup is a Linux control group. All its processes can be frozen at once.
type Cgroup struct {
	Dir   string // of the group
	Above string // of the group that it was made in: our own

	file, on, off string
}

// NewCgroup makes a group inside our own, in the hierarchy of cgroup version 1 or 2. It fails
// if this machine has no such hierarchy, or does not let us make a group.
func NewCgroup(version int) (*Cgroup, error) {
	g := &Cgroup{file: "cgroup.freeze", on: "1", off: "0"}
	kind, line, option := "cgroup2", "0::", ""
	if version == 1 {
		g.file, g.on, g.off = "freezer.state", "FROZEN", "THAWED"
		kind, line, option = "cgroup", ":freezer:", "freezer"
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var below string
	for l := range strings.Lines(string(own)) {
		if _, after, ok := strings.Cut(strings.TrimSpace(l), line); ok {
			below = after
		}
	}
	err = fmt.Errorf("no such hierarchy is mounted")
	for l := range strings.Lines(string(mounts)) {
		f := strings.Fields(l)
		if f[2] != kind || option != "" && !strings.Contains(","+f[3]+",", ","+option+",") {
			continue
		}
		g.Above = filepath.Join(f[1], below)
		if g.Dir, err = os.MkdirTemp(g.Above, "holdfast-test-"); err != nil {
			continue
		}
		if err = g.Thaw(); err == nil {
			return g, nil
		}
		os.Remove(g.Dir)
	}
	return nil, fmt.Errorf("no %s can be made here: %w", strings.TrimSpace(kind+" "+option), err)
}

// Freeze stops all processes of the group and of its subgroups.
func (g *Cgroup) Freeze() error { return g.set(g.file, g.on) }

// Thaw resumes them.
func (g *Cgroup) Thaw() error { return g.set(g.file, g.off) }

// Take puts a process into the group; pid 0 is our own process. Processes that it starts later
// are in the group too.
func (g *Cgroup) Take(pid int) error { return g.set("cgroup.procs", fmt.Sprint(pid)) }

// Leave puts our own process back into the group above.
func (g *Cgroup) Leave() error {
	return os.WriteFile(filepath.Join(g.Above, "cgroup.procs"), []byte("0"), 0o600)
}

func (g *Cgroup) set(file, value string) error {
	return os.WriteFile(filepath.Join(g.Dir, file), []byte(value), 0o600)
}

// Remove removes the group. It fails while a process is in it.
func (g *Cgroup) Remove() error { return os.Remove(g.Dir) }
