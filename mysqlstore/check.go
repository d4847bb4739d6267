package mysqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// facts are what one look at the server tells.
type facts struct {
	version, user                             string
	now                                       int64
	readOnly, flush, binlog, sync, autocommit int
	clockAhead, clockHalf                     time.Duration
}

// Check implements [store.Checker].
func (s *Store) Check(ctx context.Context) []store.Finding {
	f, err := s.facts(ctx)
	if err != nil {
		return []store.Finding{{About: "server", Err: s.failed("look at the server", err)}}
	}
	return []store.Finding{s.checkVersion(f), s.checkRole(f), s.checkDisk(f), s.checkConnection(f), checkClock(f), s.checkRights(ctx, f)}
}

func (s *Store) facts(ctx context.Context) (f facts, err error) {
	// Once before, so that to connect and log in is no part of the round trip by
	// which the clock is read.
	if _, err := s.db.ExecContext(ctx, "DO 1"); err != nil {
		return f, err
	}
	sent := time.Now()
	err = s.db.QueryRowContext(ctx, "SELECT @@version, CURRENT_USER(), "+s.sql.now()+", @@read_only, @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, @@autocommit").
		Scan(&f.version, &f.user, &f.now, &f.readOnly, &f.flush, &f.binlog, &f.sync, &f.autocommit)
	f.clockHalf = time.Since(sent) / 2
	f.clockAhead = time.UnixMicro(f.now).Sub(sent.Add(f.clockHalf))
	return f, err
}

func (s *Store) checkVersion(f facts) store.Finding {
	kind := "MySQL "
	if strings.Contains(strings.ToLower(f.version), "mariadb") {
		kind = "MariaDB "
	}
	found := store.Finding{About: "version", Found: kind + f.version}
	if need := tooOld(f.version); need != "" {
		found.Warning = true
		found.Found += ": the oldest that is known to do is " + need
	}
	return found
}

func (s *Store) checkRole(f facts) store.Finding {
	if f.readOnly != 0 {
		return store.Finding{About: "role", Found: "read-only, as a replica is", Err: fmt.Errorf("%w: %s takes no writes: name the primary", store.ErrUnavailable, s.address)}
	}
	return store.Finding{About: "role", Found: "takes writes"}
}

func (s *Store) checkDisk(f facts) store.Finding {
	switch {
	case f.flush != 1:
		return store.Finding{About: "disk", Warning: true, Run: "SET GLOBAL innodb_flush_log_at_trx_commit = 1;",
			Found: fmt.Sprintf("innodb_flush_log_at_trx_commit is %d: when %s or its machine fails it forgets who holds what, and two may hold a name until the TTL of the first is over; set it to 1", f.flush, s.address)}
	case f.binlog != 0 && f.sync != 1:
		return store.Finding{About: "disk", Warning: true, Run: "SET GLOBAL sync_binlog = 1;",
			Found: fmt.Sprintf("sync_binlog is %d: when the machine of %s fails it may forget who holds what, and two may hold a name until the TTL of the first is over; set it to 1", f.sync, s.address)}
	}
	return store.Finding{About: "disk", Found: "waits for it"}
}

func (s *Store) checkConnection(f facts) store.Finding {
	if f.autocommit != 1 {
		return store.Finding{About: "autocommit", Err: s.noCommit()}
	}
	return store.Finding{About: "autocommit", Found: "1"}
}

// checkClock tells how far the server's clock is from this host's, which was
// read to within half a round trip.
func checkClock(f facts) store.Finding {
	ahead, within := f.clockAhead.Round(100*time.Microsecond), max(f.clockHalf.Round(100*time.Microsecond), 100*time.Microsecond)
	found := fmt.Sprintf("%v ahead of this host's, to within %v", ahead, within)
	switch {
	case ahead.Abs() <= within:
		found = fmt.Sprintf("as this host's, to within %v", within)
	case ahead < 0:
		found = fmt.Sprintf("%v behind this host's, to within %v", -ahead, within)
	}
	return store.Finding{About: "clock", Found: found}
}

// checkRights tells whether the table is there and is ours, and whether this
// user may do what locks need. Statements that touch no row ask for the rights.
func (s *Store) checkRights(ctx context.Context, f facts) store.Finding {
	const about, what = "table", "look at the table"
	table := s.o.quoted()
	name, host, _ := strings.Cut(f.user, "@")
	grant := "GRANT SELECT, INSERT, UPDATE, DELETE ON " + table + " TO '" + name + "'@'" + host + "';"
	err := s.checkTable(ctx)
	switch {
	case is(err, noSuchTable) && s.mayCreate(ctx):
		return store.Finding{About: about, Found: s.o.Table + " is made at the first use, as this user may", Run: s.o.schema() + ";"}
	case is(err, noSuchTable), is(err, tableDenied):
		return store.Finding{About: about, Run: s.o.schema() + ";\n" + grant,
			Err: fmt.Errorf("%w: there is no table %s on %s that this user may use, or it has no right to make it (CREATE) that could be found: have somebody make it who may", store.ErrDenied, s.o.Table, s.address)}
	case err != nil:
		return store.Finding{About: about, Err: s.failed(what, err)}
	}
	for _, statement := range []string{"INSERT INTO " + table + " SELECT * FROM " + table + " WHERE 1=0", "UPDATE " + table + " SET total=total WHERE 1=0"} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			found := store.Finding{About: about, Err: s.failed(what, err)}
			if is(err, tableDenied, columnDenied) {
				found.Run = grant
			}
			return found
		}
	}
	if _, err := s.db.ExecContext(ctx, "DELETE FROM "+table+" WHERE 1=0"); is(err, tableDenied) {
		return store.Finding{About: about, Found: s.o.Table + ": this user may not DELETE from it, so rows of names that are used no more stay", Run: grant}
	}
	return store.Finding{About: about, Found: s.o.Table + ": there, and this user may do what locks need"}
}

// mayCreate reports whether the user has a right to make the table that can be
// found. One that he has by a role is not.
func (s *Store) mayCreate(ctx context.Context) bool {
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE') + "+
		"(SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE' AND "+s.o.database()+" LIKE TABLE_SCHEMA) + "+
		"(SELECT COUNT(*) FROM information_schema.TABLE_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE' AND TABLE_SCHEMA = "+s.o.database()+" AND TABLE_NAME = '"+s.o.Table+"')").Scan(&n)
	return err == nil && n > 0
}

// tooOld is the oldest version that is known to do, if this one is older, else
// empty. It is empty too of a version that it cannot read.
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
