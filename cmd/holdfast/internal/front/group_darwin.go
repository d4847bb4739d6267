package front

import "golang.org/x/sys/unix"

// Orphans are launchd's: what has left the command's group is not found.

// AdoptOrphans does nothing here.
func AdoptOrphans() {}

// Children finds none.
func Children() []int { return nil }

func duplicate(from, to int) { unix.Dup2(from, to) }
