package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// aclAttr holds the POSIX ACL of a file, in the format of linux/posix_acl_xattr.h:
// a version of four bytes, then entries with a tag and rights of two bytes each and
// an id of four bytes.
const aclAttr = "system.posix_acl_access"

const (
	aclVersion = 2
	aclUser    = 0x02 // a named user
	aclGroup   = 0x08 // a named group
	aclWrite   = 0x02
)

// namedWriter describes the first user or group that the ACL of a directory names and
// lets write, and that trustedUser or trustedGroup does not accept; "" if there is
// none. The directory must have group write: in a file with an ACL, the group bits of
// the mode are the mask, which limits the rights of all named users and groups.
func namedWriter(path string, trustedUser, trustedGroup func(id int) bool) (string, error) {
	var acl []byte
	for room := 256; ; room *= 4 {
		acl = make([]byte, room)
		n, err := unix.Getxattr(path, aclAttr, acl)
		switch {
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
			return "", nil // it has no ACL, or the file system supports none
		case errors.Is(err, unix.ERANGE) && room < 1<<16: // longer values do not exist
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
