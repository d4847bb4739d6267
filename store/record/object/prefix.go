package object

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"

// PrefixOf returns a user's prefix of keys with the slash at its end; standard if there is none. The error matches
// store.ErrInvalid.
func PrefixOf(given, standard string) (string, error) {
	if given == "" {
		return standard, nil
	}
	prefix := strings.TrimSuffix(given, "/") + "/"
	if len(prefix) > 200 || strings.HasPrefix(prefix, "/") || strings.Contains(prefix, "//") || strings.Contains("/"+prefix, "/./") || strings.Contains("/"+prefix, "/../") || strings.Trim(prefix, letters) != "" {
		return "", fmt.Errorf("%w: %.80q as a prefix of keys: want at most 200 letters, digits, and -_./, none of its parts empty, or only dots", store.ErrInvalid, prefix)
	}
	return prefix, nil
}
