package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/windows"
)

// DefaultDir returns the directory that holdfast uses by default: holdfast in the
// user's local application data. The error matches store.ErrInvalid if the user has
// no such directory.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: this user has no directory for local data (%w): name a directory", store.ErrInvalid, err)
	}
	return filepath.Join(dir, "holdfast"), nil
}

// whoWrites says who can write to a directory that is not shared.
const whoWrites = "who can write to it is for its access list to say"

// checkDir refuses anything but a directory. The access list, which a new directory
// inherits from its parent, decides who may write there.
func checkDir(dir string, _ bool) (shared bool, err error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return false, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if !info.IsDir() {
		return false, fmt.Errorf("%w: %s is not a directory", store.ErrInvalid, dir)
	}
	return false, nil
}

// checkParents checks nothing: access lists decide here, too.
func checkParents(string) error { return nil }

// makeDir creates a part of the directory if it is missing.
func makeDir(path string, _ bool) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func denied(err error) bool { return errors.Is(err, fs.ErrPermission) }

// kindOfFS accepts NTFS and ReFS on local fixed, removable and RAM drives.
func kindOfFS(dir string) (kind string, local bool, err error) {
	root := filepath.VolumeName(dir) + `\`
	p, err := windows.UTF16PtrFromString(root)
	if err != nil {
		return "", false, err
	}
	switch windows.GetDriveType(p) {
	case windows.DRIVE_FIXED, windows.DRIVE_REMOVABLE, windows.DRIVE_RAMDISK:
	default:
		return "network or unknown drive", false, nil
	}
	name := make([]uint16, windows.MAX_PATH+1)
	if err := windows.GetVolumeInformation(p, nil, 0, nil, nil, nil, &name[0], uint32(len(name))); err != nil {
		return "", false, err
	}
	kind = windows.UTF16ToString(name)
	return kind, kind == "NTFS" || kind == "ReFS", nil
}

// roomOnFS does not know the free space on Windows.
var roomOnFS = func(string) (bytes, files uint64, err error) { return enoughBytes, enoughFiles, nil }
