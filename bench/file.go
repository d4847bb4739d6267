package main

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
)

var onFiles = []contender{
	onStore(openOnFiles),
	{name: "flock(2)", open: openFlock},
}

func openOnFiles(dir string, o *holdfast.Options) (ours, error) {
	s, err := filestore.Open(filepath.Join(dir, "store"), nil)
	return oursOn(s, err, o, nil)
}

// flock is the bare system call on an open file: no TTL, no token, no order, no cancelable
// waiting.
type flock struct{ f *os.File }

func openFlock(dir string) (locks, error) {
	f, err := os.OpenFile(filepath.Join(dir, "flock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &flock{f}, nil
}

func (p *flock) lock(context.Context, string) (func() error, error) {
	if err := flockOn(p.f, unix.LOCK_EX); err != nil {
		return nil, err
	}
	return func() error { return flockOn(p.f, unix.LOCK_UN) }, nil
}

func flockOn(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

func (p *flock) close() error { return p.f.Close() }

func file(ctx context.Context, s setup) error {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	s = s.at("files in " + dir)
	runners, stop, err := pairRunners(ctx, s, besideWrites(onFiles, openFileWrites), dir, 1)
	if err != nil {
		return err
	}
	err = rounds(ctx, s, "Files: uncontended lock and unlock", "flock(2)",
		[]column{rate("pairs/s"), elapsed("p50").beside()}, runners)
	stop()
	if err != nil {
		return err
	}

	runners, stop, err = handoffRunners(ctx, s, "file", onFiles, dir)
	if err != nil {
		return err
	}
	defer stop()
	return rounds(ctx, s, "Files: hand-off between two processes, from the call of unlock to the return of lock", "flock(2)",
		handoffColumns, runners)
}
