package row

import (
	"net/url"
	"slices"
	"strings"
)

// ParseURL parses the URL of one server, with one of these schemes. bad makes its errors, which do not show the URL: it
// may hold a password.
func ParseURL(rawURL string, bad func(format string, args ...any) error, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return nil, bad("it cannot be read")
	case !slices.Contains(schemes, strings.ToLower(u.Scheme)):
		return nil, bad("it does not begin with %s://", strings.Join(schemes, ":// or "))
	case u.Hostname() == "":
		return nil, bad("it has no host")
	case strings.Contains(u.Host, ","):
		return nil, bad("it has several hosts, and a store is one server")
	case u.Fragment != "":
		return nil, bad("write # as %%23")
	}
	return u, nil
}
