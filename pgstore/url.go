package pgstore

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
)

// ParseURL parses the URL of a Store, for callers that change the settings of the pool:
// postgres://user:password@host:port/database, or postgresql://. Its query may have the settings of
// libpq and of [pgxpool.ParseConfig], and schema=…, table=… and listen=… of the Options. The error
// matches store.ErrInvalid and does not show the URL, which may hold a password.
func ParseURL(rawURL string) (*pgxpool.Config, *Options, error) {
	c, own, err := connect.ParseURL(rawURL, []string{"postgres", "postgresql"}, "schema", "table", "listen")
	if err != nil {
		return nil, nil, err
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "holdfast"
	}
	return c, &Options{Schema: own["schema"], Table: own["table"], Listen: own["listen"]}, nil
}
