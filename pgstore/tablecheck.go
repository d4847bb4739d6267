package pgstore

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// least is the oldest server that will do.
const least = 140000

// Check implements [store.Checker]. It warns of settings under which the server
// forgets what it has granted, and refuses a server that is too old, with an
// error that matches store.ErrUnsupported.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	settings := map[string]string{}
	err = s.db.query(ctx, `SELECT name::text, setting::text FROM pg_settings WHERE name IN ('server_version_num', 'server_version', 'fsync', 'full_page_writes', 'transaction_read_only')`,
		nil, false, func(scan func(...any) error) error {
			var name, setting string
			if err := scan(&name, &setting); err != nil {
				return err
			}
			settings[name] = setting
			return nil
		})
	if err != nil {
		return nil, s.failed("look at the server", err)
	}
	var version int
	if fmt.Sscan(settings["server_version_num"], &version); version > 0 && version < least {
		return nil, fmt.Errorf("%w: %s is PostgreSQL %s: %d or newer is needed", store.ErrUnsupported, s.address, settings["server_version"], least/10000)
	}
	if settings["fsync"] == "off" {
		warnings = append(warnings, s.address+" has fsync off: when its machine fails it forgets who holds what, and two may hold a name until the TTL of the first is over; set it on")
	}
	if settings["transaction_read_only"] == "on" {
		warnings = append(warnings, s.address+" is read-only, a standby or by its default_transaction_read_only: nothing can be locked there")
	}
	return warnings, nil
}
