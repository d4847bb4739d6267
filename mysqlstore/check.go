package mysqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// facts are what one look at the server tells.
type facts struct {
	version, user                 string
	now                           int64
	readOnly, flush, binlog, sync int
	fit                           int64
	nodes                         int // of a Galera cluster; 0: it is none
	clock                         store.Finding
}

// Check implements [record.Backend].
func (b *backend) Check(ctx context.Context) []store.Finding {
	f, seen, err := b.inspect(ctx)
	if err != nil {
		return []store.Finding{{About: "server", Err: row.Known(b.failed(err))}}
	}
	if n := b.galera(ctx); n > 0 {
		f.nodes = n
	}
	all := []store.Finding{b.checkVersion(f), b.CheckRole(f.role()), b.CheckDisk(f.forgets()), b.checkConnection(f), f.clock, b.checkRights(ctx, f, seen)}
	all = append(all, checkGalera(f.nodes)...)
	return append(all, b.CheckPool(b.db.Stats().MaxOpenConnections)...) //mutant:mysql-pool-warned
}

// galera is how many nodes the Galera cluster has that the server is one of, or 0.
func (b *backend) galera(ctx context.Context) (nodes int) {
	var name string
	err := b.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'").Scan(&name, &nodes)
	if err != nil { // most servers have no such row
		return 0
	}
	return nodes
}

// checkGalera warns of a cluster whose nodes all take writes.
func checkGalera(nodes int) []store.Finding {
	if nodes == 0 { //mutant:mysql-galera
		return nil
	}
	return []store.Finding{{About: "Galera", Warning: true, Found: fmt.Sprintf("a node of a Galera cluster of %d: this was never tested; a node can read an older state than another has written (wsrep_sync_wait), "+
		"so have all who lock use one and the same node, and check the token", nodes)}}
}

func (b *backend) checkVersion(f facts) store.Finding {
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

// checkRights tells whether the tables are there and are ours, and whether this user may do what locks need. A statement
// that touches no row asks for the right to delete, which no column has.
func (b *backend) checkRights(ctx context.Context, f facts, seen []tableSeen) store.Finding {
	const about = "table"
	name, host, _ := strings.Cut(f.user, "@")
	grants, schema := "", ""
	var all []string
	for i := range tables {
		all = append(all, b.o.quoted(&tables[i]))
		grants += "GRANT SELECT, INSERT, UPDATE, DELETE ON " + all[i] + " TO '" + name + "'@'" + host + "';\n"
		schema += tables[i].schema(&b.o) + ";\n"
	}
	missing, err := b.ours(seen)
	switch {
	case err != nil:
		return store.Finding{About: about, Err: err}
	case missing != nil && b.mayCreate(ctx, b.o.Table+missing.suffix):
		return row.CheckTable(b.o.Table, false, false, grants)
	case missing != nil && b.hasRole(ctx): //mutant:mysql-role-is-not-seen
		return store.Finding{About: about, Warning: true, Run: schema + grants,
			Found: fmt.Sprintf("there is no table %s on %s, and whether a role of this user may make it (CREATE) was not seen: the first claim tells; if it is refused, have somebody make it who may", b.o.quoted(missing), b.Address)}
	case missing != nil:
		return store.Finding{About: about, Run: schema + grants,
			Err: fmt.Errorf("%w: there is no table %s on %s that this user may use, or it has no right to make it (CREATE) that could be found: have somebody make it who may", store.ErrDenied, b.o.quoted(missing), b.Address)}
	}
	for i := range seen {
		for _, right := range []string{"SELECT", "INSERT", "UPDATE"} {
			if !slices.Contains(strings.Split(seen[i].rights, ","), right) {
				return store.Finding{About: about, Run: grants, Err: fmt.Errorf("%w: this user has no right to %s in the table %s of %s", store.ErrDenied, right, all[i], b.Address)}
			}
		}
	}
	from := strings.Join(all, ",")
	_, err = b.db.ExecContext(ctx, "DELETE "+from+" FROM "+from+" WHERE 1=0")
	return row.CheckTable(b.o.Table, true, is(err, tableDenied), grants)
}

// mayCreate reports whether the user has a right to make the table that can be found. One by a role is not: see hasRole.
func (b *backend) mayCreate(ctx context.Context, table string) bool {
	var n int
	err := b.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE') + "+
		"(SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE' AND "+b.database()+" LIKE TABLE_SCHEMA) + "+
		"(SELECT COUNT(*) FROM information_schema.TABLE_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE' AND TABLE_SCHEMA = "+b.database()+" AND TABLE_NAME = '"+table+"')").Scan(&n)
	return err == nil && n > 0
}

// hasRole reports whether the user has a role that is active.
func (b *backend) hasRole(ctx context.Context) bool {
	var role *string
	err := b.db.QueryRowContext(ctx, "SELECT NULLIF(CURRENT_ROLE(),'NONE')").Scan(&role)
	return err == nil && role != nil
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
