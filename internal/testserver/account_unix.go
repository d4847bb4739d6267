//go:build unix

package testserver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// An account is the user that a server runs as if it refuses to run as root. Nil is our own
// user.
type account struct{ uid, gid int }

// unprivileged returns the account with this name if we are root, otherwise nil.
func unprivileged(name string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("this server does not run as root, and no other user exists: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return &account{uid, gid}, err
}

// own gives the account ownership of a test's private directory, and lets it traverse the
// private parent directory.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	return os.Chown(dir, a.uid, a.gid)
}

// lend makes a command run as the account.
func (a *account) lend(cmd *exec.Cmd) {
	if a == nil {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// run runs a program to its end as the account.
func (a *account) run(program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	a.lend(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}
