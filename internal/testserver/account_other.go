//go:build !unix

package testserver

import (
	"bytes"
	"fmt"
	"os/exec"
)

// An account is the user that a server runs as. Here that is always our own user.
type account struct{}

func unprivileged(string) (*account, error) { return nil, nil }
func (*account) own(string) error           { return nil }
func (*account) lend(*exec.Cmd)             {}

func (*account) run(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}
