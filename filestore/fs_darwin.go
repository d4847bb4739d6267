package filestore

import "golang.org/x/sys/unix"

func kindOfFS(dir string) (kind string, local bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", false, err
	}
	kind = unix.ByteSliceToString(st.Fstypename[:])
	return kind, kind == "apfs" || kind == "hfs", nil
}

var roomOnFS = func(dir string) (bytes, files uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return st.Bavail * uint64(st.Bsize), st.Ffree, nil
}
