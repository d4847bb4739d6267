package filestore

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// fileNames is lower-case base32: a name has only one form, even on a file system that
// does not distinguish case.
var fileNames = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// The limit for a file name is 255 bytes nearly everywhere.
const (
	maxEncoded = 200 // a longer one is cut, and its hash appended
	keptOfLong = 100
)

// fileName returns the file name of a lock's state file. Two lock names share a file name
// only if SHA-256 collides, which is noticed: the record has the whole name.
func fileName(name string) string {
	enc := fileNames.EncodeToString([]byte(name))
	if len(enc) <= maxEncoded {
		return enc
	}
	sum := sha256.Sum256([]byte(name))
	return enc[:keptOfLong] + "-" + fileNames.EncodeToString(sum[:])
}

// isFileName reports whether s looks like a result of fileName.
func isFileName(s string) bool {
	return s != "" && len(s) <= maxEncoded && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567-") == ""
}
