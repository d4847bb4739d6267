package connect

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// Quote quotes an identifier that has passed CheckIdentifier, so that case matters.
func Quote(identifier string) string { return `"` + identifier + `"` }

// CheckIdentifier returns an error unless s can be the name of a schema or table.
func CheckIdentifier(what, s string) error {
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' }
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	bad := slices.ContainsFunc([]rune(s), func(r rune) bool { return !letter(r) && !digit(r) })
	if s == "" || len(s) > 63 || bad || digit(rune(s[0])) {
		return fmt.Errorf("%w: %s %.80q: it may have letters, digits and underscores, not first a digit, and at most 63 of them", store.ErrInvalid, what, s)
	}
	return nil
}
