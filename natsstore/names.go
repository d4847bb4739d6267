package natsstore

import (
	"strings"

	"github.com/holdfast-go/holdfast/store/session"
)

// The keys of the bucket are those of a name, its notes (see noteKeys), a session and its calls.

func sessionKey(id session.ID) string { return "s." + id.String() }
func callKey(id session.ID) string    { return "c." + id.String() }

const hexDigits = "0123456789ABCDEF"

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// keyOf returns the key of a name.
func keyOf(name string) string { return "n." + escape(name) }

// noteKeys matches the keys of the notes of a name.
func noteKeys(name string) string { return "j." + escape(name) + ".*" }

// noteKey returns the key of a join, given the key of its first note.
func noteKey(name, key string) string { return "j." + escape(name) + "." + key }

func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'=', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

// nameOf returns the name of a key.
func nameOf(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, "n.")
	b := make([]byte, 0, len(rest))
	for i := 0; ok && i < len(rest); i++ {
		c := rest[i]
		if c == '=' && i+2 < len(rest) {
			high, low := strings.IndexByte(hexDigits, rest[i+1]), strings.IndexByte(hexDigits, rest[i+2])
			ok = high >= 0 && low >= 0
			c = byte(high<<4 | low&15)
			i += 2
		}
		b = append(b, c)
	}
	return string(b), ok && len(b) > 0 && keyOf(string(b)) == key
}
