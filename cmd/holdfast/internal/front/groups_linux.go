package front

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A relative is a process below us, as it was at one instant. One that is the same
// at a later instant has not changed in between, and its pid was nobody else's.
type relative struct {
	pid, parent, group, session int
	start                       string // of the process, since the boot
}

// relativeOf reads what the kernel says of a process.
func relativeOf(pid int) (r relative, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return r, false
	}
	// PID (NAME) STATE PPID PGRP SESSION …, the start is the 22nd, and the name may
	// have anything in it.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return r, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(f[i])); return n }
	return relative{pid, number(1), number(2), number(3), string(f[19])}, true
}

// What is guarded, and what is looked at for it, is bounded: for so long the
// supervisor does nothing else.
const (
	mostGuarded   = 64
	mostRelatives = 1000
)

// relatives are the processes below us, at most about mostRelatives. Some may be
// missing while others begin and end.
func relatives() (all []relative) {
	below := map[int][]int{os.Getpid(): Children()}
	for len(below) > 0 && len(all) < mostRelatives {
		next := map[int][]int{}
		for parent, pids := range below {
			for _, pid := range pids {
				// One with another parent is another process, or an orphan by now.
				if r, ok := relativeOf(pid); ok && r.parent == parent {
					all = append(all, r)
					next[pid], _ = childrenOf(strconv.Itoa(pid))
				}
			}
		}
		below = next
	}
	return all
}

// groupsBelow are the process groups that those below us have made, each with one
// of its members. A group of our own session that has lost its leader may be
// somebody else's: a descendant can have joined it.
func groupsBelow() map[int]relative {
	all := relatives()
	pids := map[int]bool{}
	for _, r := range all {
		pids[r.pid] = true
	}
	session, _ := unix.Getsid(0)
	groups := map[int]relative{}
	for _, r := range all {
		if r.session != session || pids[r.group] {
			groups[r.group] = r
		}
	}
	return groups
}

// GuardBelow does what Guard does for the groups that the command's descendants
// have made until now. It is to be called now and then while the command runs; what
// cannot be guarded is left to the front. What it has found stays guarded for one
// time more: a group can be missed while others end.
func (l *Link) GuardBelow() {
	var releases []func()
	for group, member := range groupsBelow() {
		if group == int(l.board.group.Load()) {
			continue
		}
		if len(releases) == mostGuarded {
			break
		}
		release, err := killGroupWithUs(group)
		if err != nil {
			continue
		}
		// What we have now is the group of that number. It is the one that we mean
		// if the member was in it all the time.
		if now, ok := relativeOf(member.pid); !ok || now != member {
			release()
			continue
		}
		releases = append(releases, release)
	}
	unguard(l.before)
	l.before, l.below = l.below, releases //mutant:front-groups-guarded
}

// unguardBelow ends that: what the command leaves running in groups of its own may
// outlive us.
func (l *Link) unguardBelow() {
	unguard(l.before)
	unguard(l.below)
	l.before, l.below = nil, nil
}

func unguard(releases []func()) {
	for _, release := range releases {
		release()
	}
}
