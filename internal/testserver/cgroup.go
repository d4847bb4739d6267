package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Cgroup is a control group of Linux whose processes can be frozen, all at once.
type Cgroup struct {
	Dir   string // of the group
	Above string // of the group that it was made in, which is our own

	file, on, off string
}

// NewCgroup makes one in our own group, in the hierarchy of that version, 1 or 2. An error says
// that this machine has none of it, or lets nobody make one.
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

// Freeze stops all processes of the group and of those below it.
func (g *Cgroup) Freeze() error { return g.set(g.file, g.on) }

// Thaw lets them go on.
func (g *Cgroup) Thaw() error { return g.set(g.file, g.off) }

// Take puts a process into the group; 0 is our own. What the process starts from then on is in it, too.
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
