package pgadvisory

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
)

// ParseURL parses the URL of a Store, for callers that change the settings of the pool:
// postgres+session://user:password@host:port/database, or postgresql+session://, and without
// +session the schemes of package pgstore. Its query may have the settings of libpq and of
// [pgxpool.ParseConfig], and schema=… and tokens=1 of the Options. The error matches
// store.ErrInvalid and does not show the URL, which may hold a password.
func ParseURL(rawURL string) (*pgxpool.Config, *Options, error) {
	c, own, err := connect.ParseURL(rawURL, []string{"postgres", "postgresql", "postgres+session", "postgresql+session"}, "schema", "tokens")
	if err != nil {
		return nil, nil, err
	}
	o := &Options{Schema: own["schema"]}
	switch tokens := own["tokens"]; tokens {
	case "", "0":
	case "1":
		o.Tokens = true
	default:
		return nil, nil, fmt.Errorf("%w: PostgreSQL URL: tokens=%.20s: write 1 or 0", store.ErrInvalid, tokens)
	}
	return c, o, nil
}
