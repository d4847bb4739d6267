//go:build linux || darwin

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
)

// The test binary is the command as well, and has the race detector if we have:
// then each start of it takes three times as long. So the scripts have it on
// files, where all of them run, and on other stores, where they are about what
// is kept there, the command as users have it.
var plainCommand = sync.OnceValues(func() (dir string, err error) {
	info, ok := debug.ReadBuildInfo()
	if !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return "", nil // it is the same
	}
	if dir, err = os.MkdirTemp("", "holdfast-plain-"); err != nil {
		return "", err
	}
	plainCommandDir = dir
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(dir, "holdfast"), ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

// plainCommandDir is what is to be removed at the end, if anything.
var plainCommandDir string
