//go:build linux || darwin

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// plainCommand is the directory of the command as users have it. It is built in the
// same way as by `make check`, whose packages may still be in the cache.
var plainCommand = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "holdfast-plain-"); err == nil {
		plainCommandDir = dir
		err = buildCommand("", filepath.Join(dir, "holdfast"))
	}
	return dir, err
})

// plainCommandDir is the directory to remove at the end, if any.
var plainCommandDir string

// buildCommand builds the command with the build tag, if there is one, and linker
// flags. It has longer timeouts than the released command, for slow machines.
func buildCommand(tag, file string, link ...string) error {
	cmd := exec.Command("go", "build", "-ldflags=-w "+strings.Join(link, " "), "-tags", tag+",holdfast_patient", "-o", file, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// The test binary is also the command, and has the race detector if the tests have:
// then each start takes three times as long. So the scripts use the test binary on
// files, where all of them run. On other stores, where they test what is stored, they
// use the command as users have it. It is "" if that is the same.
func quickCommand() (dir string, err error) {
	info, ok := debug.ReadBuildInfo()
	if !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return "", nil
	}
	return plainCommand()
}
