package front

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A relative is a descendant as it was at one instant. If it is equal at a later instant, it has
// not changed in between, and its pid was not reused.
type relative struct {
	pid, parent, group, session int
	start                       string // of the process, since boot
}

// relativeOf reads what the kernel reports of a process.
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

// The bounds of how many groups are guarded, and how many processes are read for that: the
// supervisor does nothing else meanwhile.
const (
	mostGuarded   = 64
	mostRelatives = 1000
)

// relatives returns our descendants, at most about mostRelatives. It may miss some while others
// start and end.
func relatives() (all []relative) {
	below := map[int][]int{os.Getpid(): Children()}
	for len(below) > 0 && len(all) < mostRelatives {
		next := map[int][]int{}
		for parent, pids := range below {
			for _, pid := range pids {
				// With another parent it is another process, or an orphan by now.
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

// groupsBelow returns the process groups that our descendants have made, each with one of its
// members. It omits a group of our own session whose leader is not a descendant: a descendant can
// have joined a group of others.
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

// GuardBelow does what Guard does for the groups that the command's descendants have made so far.
// Call it now and then while the command runs. The front kills what cannot be guarded. A group
// stays guarded for one more call, as a call can miss a group while others end.
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
		// The guard is on the group that has this number now. That is the right one
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

// unguardBelow undoes GuardBelow: what the command leaves running in groups of its own may
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
