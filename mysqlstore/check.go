package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// facts are the results of one query of the server's state.
type facts struct {
	version, user                 string
	now                           int64
	readOnly, flush, binlog, sync int
	fit                           int64
	nodes                         sql.NullInt64 // of a Galera cluster; 0: not a cluster
	group                         int           // 2: Group Replication with many primaries
	clock                         store.Finding
}

// seenFor is how long the first check may use what prepare has found out about the tables. Each process checks after its
// first operation.
const seenFor = 5 * time.Second

// Check implements [record.Backend].
func (b *backend) Check(ctx context.Context) []store.Finding {
	f, err := b.facts(ctx)
	all := b.seen.Swap(nil)
	old := all == nil || store.Now() > all.at.Add(seenFor) //mutant:mysql-seen-long-ago
	if err == nil && (old || all.of == nil && !b.mayWrite(ctx)) {
		all, err = b.look(ctx)
	}
	if err != nil {
		return []store.Finding{{About: "server", Err: row.Known(b.failed(err))}}
	}
	found := []store.Finding{b.checkVersion(f), b.CheckRole(f.role()), b.CheckDisk(f.forgets()), b.checkConnection(f), f.clock, b.checkRights(ctx, f, all)}
	found = append(found, checkGalera(int(f.nodes.Int64))...)
	found = append(found, b.checkGroup(f.group)...)
	return append(found, b.CheckPool(b.db.Stats().MaxOpenConnections)...) //mutant:mysql-pool-warned
}

// facts queries the server's state. MariaDB and MySQL have some counters under different names, so each gets the other's
// in a comment that it ignores.
func (b *backend) facts(ctx context.Context) (f facts, err error) {
	conn, err := b.db.Conn(ctx) // connects first, so that this does not count in the round trip that measures the clock
	if err != nil {
		return f, err
	}
	defer conn.Close()
	sent := time.Now()
	err = conn.QueryRowContext(ctx, "SELECT @@version,CURRENT_USER(),"+b.now()+",@@read_only,@@innodb_flush_log_at_trx_commit,@@log_bin,@@sync_binlog,"+fit+
		",(SELECT CAST(MAX(VARIABLE_VALUE) AS SIGNED) FROM /*!80001 performance_schema *//*M! information_schema */.global_status WHERE VARIABLE_NAME='wsrep_cluster_size')"+
		",/*M! 0*//*!80001 (SELECT COUNT(*) FROM performance_schema.global_variables WHERE VARIABLE_NAME='group_replication_group_name' AND VARIABLE_VALUE<>''"+
		" OR VARIABLE_NAME='group_replication_single_primary_mode' AND VARIABLE_VALUE='OFF')*/").
		Scan(&f.version, &f.user, &f.now, &f.readOnly, &f.flush, &f.binlog, &f.sync, &f.fit, &f.nodes, &f.group)
	f.clock = row.CheckClock(f.now, sent)
	return f, err
}

// checkGroup refuses a group with many primaries.
func (b *backend) checkGroup(group int) []store.Finding {
	if group < 2 { //mutant:mysql-many-primaries
		return nil
	}
	return []store.Finding{{About: "Group Replication", Err: fmt.Errorf("%w: %s is of a group with many primaries, which was never tested with locks: "+
		"have one primary (group_replication_switch_to_single_primary_mode)", store.ErrUnsupported, b.Address)}}
}

// checkGalera warns of a Galera cluster. nodes is its size, 0 if there is none.
func checkGalera(nodes int) []store.Finding {
	if nodes == 0 { //mutant:mysql-galera
		return nil
	}
	return []store.Finding{{About: "Galera", Warning: true, Found: fmt.Sprintf("a node of a Galera cluster of %d: each node judges by its own clock what has expired, so two that differ can let two hold a lock: "+
		"have all users of a lock connect to the same node, and check the token", nodes)}}
}

func (b *backend) checkVersion(f facts) store.Finding {
	kind := "MySQL "
	if strings.Contains(strings.ToLower(f.version), "mariadb") {
		kind = "MariaDB "
	}
	found := store.Finding{About: "version", Found: kind + f.version}
	if need := tooOld(f.version); need != "" {
		found.Warning = true
		found.Found += ": the oldest version known to work is " + need
	}
	return found
}

func (f *facts) role() string {
	if f.readOnly != 0 {
		return "read-only"
	}
	return ""
}

func (f *facts) forgets() (setting, run string) {
	switch {
	case f.flush != 1:
		return fmt.Sprint("innodb_flush_log_at_trx_commit is ", f.flush, ", not 1"), "SET GLOBAL innodb_flush_log_at_trx_commit = 1;"
	case f.binlog != 0 && f.sync != 1:
		return fmt.Sprint("sync_binlog is ", f.sync, ", not 1"), "SET GLOBAL sync_binlog = 1;"
	}
	return "", ""
}

func (b *backend) checkConnection(f facts) store.Finding {
	if err := b.unfit(f.fit); err != nil {
		return store.Finding{About: "autocommit", Err: err}
	}
	return store.Finding{About: "autocommit", Found: "1"}
}

// checkRights reports whether the tables exist and are holdfast's, and whether this user has the rights that locks
// need.
func (b *backend) checkRights(ctx context.Context, f facts, seen *look) store.Finding {
	const about = "table"
	name, host, _ := strings.Cut(f.user, "@")
	grants, schema := "", ""
	var all []string
	for i := range tables {
		all = append(all, b.o.quoted(&tables[i]))
		grants += "GRANT SELECT, INSERT, UPDATE, DELETE ON " + all[i] + " TO '" + name + "'@'" + host + "';\n"
		schema += tables[i].schema(&b.o) + ";\n"
	}
	if seen.of == nil {
		return row.CheckTable(b.o.Table, true, false, grants)
	}
	missing, err := b.ours(seen)
	switch {
	case err != nil:
		return store.Finding{About: about, Err: err}
	case missing != nil && b.mayCreate(ctx, b.o.Table+missing.suffix):
		return row.CheckTable(b.o.Table, false, false, grants)
	case missing != nil && b.hasRole(ctx): //mutant:mysql-role-is-not-seen
		return store.Finding{About: about, Warning: true, Run: schema + grants,
			Found: fmt.Sprintf("there is no table %s on %s, and whether a role of this user may create it (CREATE) is unknown: the first claim will show; if that is refused, ask an administrator to create it", b.o.quoted(missing), b.Address)}
	case missing != nil:
		return store.Finding{About: about, Run: schema + grants,
			Err: fmt.Errorf("%w: there is no table %s on %s that this user may use, and no right to create it (CREATE) was found: ask an administrator to create it", store.ErrDenied, b.o.quoted(missing), b.Address)}
	}
	for i := range seen.of {
		for _, right := range []string{"SELECT", "INSERT", "UPDATE"} {
			if !slices.Contains(strings.Split(seen.of[i].rights, ","), right) {
				return store.Finding{About: about, Run: grants, Err: fmt.Errorf("%w: this user has no right to %s in the table %s of %s", store.ErrDenied, right, all[i], b.Address)}
			}
		}
	}
	return row.CheckTable(b.o.Table, true, is(b.deleteNothing(ctx, all), tableDenied), grants)
}

// mayCreate reports whether the user is known to have the right to create the table. It does not see rights of a role:
// see hasRole.
func (b *backend) mayCreate(ctx context.Context, table string) bool {
	var n int
	err := b.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE') + "+
		"(SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE' AND "+b.database()+" LIKE TABLE_SCHEMA) + "+
		"(SELECT COUNT(*) FROM information_schema.TABLE_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE' AND TABLE_SCHEMA = "+b.database()+" AND TABLE_NAME = '"+table+"')").Scan(&n)
	return err == nil && n > 0
}

// hasRole reports whether the user has an active role.
func (b *backend) hasRole(ctx context.Context) bool {
	var role *string
	err := b.db.QueryRowContext(ctx, "SELECT NULLIF(CURRENT_ROLE(),'NONE')").Scan(&role)
	return err == nil && role != nil
}

// tooOld returns the oldest version known to work if this version is older, otherwise "". It also returns "" for a version
// that it cannot read.
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
