package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// aclAttr has the POSIX ACL of a file, as in linux/posix_acl_xattr.h: a version in
// four bytes, then entries of a tag and rights, in two bytes each, and an id in
// four.
const aclAttr = "system.posix_acl_access"

const (
	aclVersion = 2
	aclUser    = 0x02 // a named one
	aclGroup   = 0x08 // a named one
	aclWrite   = 0x02
)

// namedWriter returns whom the ACL of a directory lets write by name, for people:
// the first user that trustedUser, or group that trustedGroup, does not accept; or
// "". The directory's mode lets its group write: these bits are the ACL's mask, the
// most that a named one may.
func namedWriter(path string, trustedUser, trustedGroup func(id int) bool) (string, error) {
	var acl []byte
	for room := 256; ; room *= 4 {
		acl = make([]byte, room)
		n, err := unix.Getxattr(path, aclAttr, acl)
		switch {
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
			return "", nil // it has no ACL, or the file system supports none
		case errors.Is(err, unix.ERANGE) && room < 1<<16: // the kernel has no longer ones
			continue
		case err != nil:
			return "", fmt.Errorf("its ACL cannot be read: %w", err)
		}
		acl = acl[:n]
		break
	}
	if len(acl) < 4 || binary.LittleEndian.Uint32(acl) != aclVersion || len(acl)%8 != 4 {
		return "", errors.New("its ACL is of a form that is not known")
	}
	acl = acl[4:]
	for ; len(acl) > 0; acl = acl[8:] {
		may, id := binary.LittleEndian.Uint16(acl[2:]), int(binary.LittleEndian.Uint32(acl[4:]))
		switch tag := binary.LittleEndian.Uint16(acl); {
		case may&aclWrite == 0: //mutant:file-acl-write
		case tag == aclUser && !trustedUser(id): //mutant:file-acl-user
			return fmt.Sprint("user ", id), nil
		case tag == aclGroup && !trustedGroup(id): //mutant:file-acl-group
			return fmt.Sprint("group ", id), nil
		}
	}
	return "", nil
}
