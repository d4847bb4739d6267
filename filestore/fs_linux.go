package filestore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// localFS are the file systems that belong to one host.
var localFS = map[uint32]string{
	0xEF53: "ext", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x01021994: "tmpfs", 0x858458F6: "ramfs",
	0x794C7630: "overlay", 0xF2F52010: "f2fs", 0x2FC12FC1: "zfs", 0xCA451A4E: "bcachefs",
}

// sharedFS are file systems that hosts may share, for error messages. A file system in
// neither table is refused, and named by its number.
var sharedFS = map[uint32]string{
	0x6969: "NFS", 0xFF534D42: "CIFS", 0xFE534D42: "SMB2", 0x517B: "SMB", 0x65735546: "FUSE", 0x01021997: "9p",
	0x00C36400: "Ceph", 0x5346414F: "AFS", 0x6B414653: "AFS", 0x0BD00BD0: "Lustre", 0x47504653: "GPFS",
	0x7461636F: "OCFS2", 0x01161970: "GFS2", 0x786F4256: "vboxsf",
}

func kindOfFS(dir string) (kind string, local bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", false, err
	}
	kind, local = fsKind(uint32(st.Type)) // the type of st.Type differs between architectures
	return kind, local, nil
}

// roomOnFS returns how many more bytes and files this user can store in dir. Tests replace
// it to simulate a full disk.
var roomOnFS = func(dir string) (bytes, files uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	files = st.Ffree
	if st.Files == 0 { // the file system does not count files
		files = enoughFiles
	}
	return st.Bavail * uint64(st.Bsize), files, nil
}

func fsKind(magic uint32) (kind string, local bool) {
	if kind, local = localFS[magic]; local {
		return kind, true
	}
	if kind = sharedFS[magic]; kind == "" {
		kind = fmt.Sprintf("%#x, which is not known", magic)
	}
	return kind, false
}
