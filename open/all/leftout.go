package all

import (
	"slices"
	"strings"
)

// leftOut lists the schemes of the stores whose drivers were left out.
var leftOut []string

// LeftOut reports whether the driver for a URL was left out of this program by a build tag, or because a tag
// was not given.
func LeftOut(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return slices.ContainsFunc(leftOut, func(s string) bool { return strings.EqualFold(scheme, s) })
}
