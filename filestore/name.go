package filestore

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Lower-case base32 has no two forms of one name, not even on a file system
// that takes A for a.
var fileNames = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// The longest file name is 255 bytes nearly everywhere.
const (
	maxEncoded = 200 // a longer one is cut, and distinguished by its hash
	keptOfLong = 100
)

// fileName is the name of the state file of a lock name. No two lock names
// have the same one, short of a collision of SHA-256, which would be seen: the
// whole name is in the record.
func fileName(name string) string {
	enc := fileNames.EncodeToString([]byte(name))
	if len(enc) <= maxEncoded {
		return enc
	}
	sum := sha256.Sum256([]byte(name))
	return enc[:keptOfLong] + "-" + fileNames.EncodeToString(sum[:])
}

// isFileName reports whether fileName could have made it.
func isFileName(s string) bool {
	return s != "" && len(s) <= maxEncoded && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567-") == ""
}
