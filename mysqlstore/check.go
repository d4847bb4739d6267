package mysqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Check implements [store.Checker]. It makes the table if it is not there.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	const what = "look at the server"
	if err := s.prepare(ctx, what); err != nil {
		return nil, err
	}
	var version string
	var flush, binlog, sync int
	if err := s.db.QueryRowContext(ctx, "SELECT @@version, @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog").Scan(&version, &flush, &binlog, &sync); err != nil {
		return nil, s.failed(what, err)
	}
	if need := tooOld(version); need != "" {
		warnings = append(warnings, fmt.Sprintf("%s is on %s: the oldest server that is known to do is %s", s.address, version, need))
	}
	if flush != 1 {
		warnings = append(warnings, fmt.Sprintf("%s has innodb_flush_log_at_trx_commit=%d: a crash of the server or its machine can forget locks that are held; set it to 1", s.address, flush))
	}
	if binlog != 0 && sync != 1 {
		warnings = append(warnings, fmt.Sprintf("%s has sync_binlog=%d: a crash of its machine can forget locks that are held; set it to 1", s.address, sync))
	}
	return warnings, nil
}

// tooOld is the oldest version that does, if this one is older, else empty. It
// is empty too of a version that it cannot read.
func tooOld(version string) string {
	kind, major, minor := "MySQL 8.0", 8, 0
	if strings.Contains(strings.ToLower(version), "mariadb") {
		kind, major, minor = "MariaDB 10.6", 10, 6
	}
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	haveMajor, err := strconv.Atoi(a)
	haveMinor, _ := strconv.Atoi(b)
	if err == nil && (haveMajor < major || haveMajor == major && haveMinor < minor) {
		return kind
	}
	return ""
}
