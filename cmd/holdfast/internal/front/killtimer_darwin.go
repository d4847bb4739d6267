package front

import "time"

// A killTimer does not exist here: if both our processes are stopped, the command runs on.
type killTimer struct{}

func newKillTimer() (*killTimer, error) { return nil, nil }

func (*killTimer) set(time.Duration) {}

func killGroupWithUs(int) (release func(), err error) { return func() {}, nil }

func died(int) bool { return false }

func frozenV1() bool { return false }

// GuardBelow does nothing here.
func (*Link) GuardBelow() {}

func (*Link) unguardBelow() {}
