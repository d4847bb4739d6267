package mysqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	f, err := b.facts(ctx)
	if err != nil {
		return []store.Finding{{About: "server", Err: row.Known(b.failed(err))}}
	}
	if n := b.galera(ctx); n > 0 {
		f.nodes = n
	}
	all := []store.Finding{b.checkVersion(f), b.CheckRole(f.role()), b.CheckDisk(f.forgets()), b.checkConnection(f), f.clock, b.checkRights(ctx, f)}
	all = append(all, checkGalera(f.nodes)...)
	return append(all, b.CheckPool(b.db.Stats().MaxOpenConnections)...) //mutant:mysql-pool-warned
}

func (b *backend) facts(ctx context.Context) (f facts, err error) {
	// Once before, so that to connect and log in is no part of the round trip by
	// which the clock is read.
	if _, err := b.db.ExecContext(ctx, "DO 1"); err != nil {
		return f, err
	}
	sent := time.Now()
	err = b.db.QueryRowContext(ctx, "SELECT @@version, CURRENT_USER(), "+b.now()+", @@read_only, @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, "+fit).
		Scan(&f.version, &f.user, &f.now, &f.readOnly, &f.flush, &f.binlog, &f.sync, &f.fit)
	f.clock = row.CheckClock(f.now, sent)
	return f, err
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

// checkRights tells whether the tables are there and are ours, and whether this user may do what locks need. Statements
// that touch no row ask for the rights.
func (b *backend) checkRights(ctx context.Context, f facts) store.Finding {
	const about = "table"
	name, host, _ := strings.Cut(f.user, "@")
	grants, schema := "", ""
	for i := range tables {
		grants += "GRANT SELECT, INSERT, UPDATE, DELETE ON " + b.o.quoted(&tables[i]) + " TO '" + name + "'@'" + host + "';\n"
		schema += tables[i].schema(&b.o) + ";\n"
	}
	keeps := false
	for i := range tables {
		table := b.o.quoted(&tables[i])
		err := b.checkTable(ctx, &tables[i])
		switch {
		case is(err, noSuchTable) && b.mayCreate(ctx, b.o.Table+tables[i].suffix):
			return row.CheckTable(b.o.Table, false, false, grants)
		case is(err, noSuchTable), is(err, tableDenied):
			return store.Finding{About: about, Run: schema + grants,
				Err: fmt.Errorf("%w: there is no table %s on %s that this user may use, or it has no right to make it (CREATE) that could be found: have somebody make it who may", store.ErrDenied, table, b.Address)}
		case err != nil:
			return store.Finding{About: about, Err: row.Known(b.failed(err))}
		}
		column := tables[i].columns[0].name
		for _, statement := range []string{"INSERT INTO " + table + " SELECT * FROM " + table + " WHERE 1=0", "UPDATE " + table + " SET " + column + "=" + column + " WHERE 1=0"} {
			if _, err := b.db.ExecContext(ctx, statement); err != nil {
				found := store.Finding{About: about, Err: row.Known(b.failed(err))}
				if is(err, tableDenied, columnDenied) {
					found.Run = grants
				}
				return found
			}
		}
		_, err = b.db.ExecContext(ctx, "DELETE FROM "+table+" WHERE 1=0")
		keeps = keeps || is(err, tableDenied)
	}
	return row.CheckTable(b.o.Table, true, keeps, grants)
}

// mayCreate reports whether the user has a right to make the table that can be found. One by a role is not.
func (b *backend) mayCreate(ctx context.Context, table string) bool {
	database := "DATABASE()"
	if b.o.Database != "" {
		database = "'" + b.o.Database + "'"
	}
	var n int
	err := b.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE') + "+
		"(SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE' AND "+database+" LIKE TABLE_SCHEMA) + "+
		"(SELECT COUNT(*) FROM information_schema.TABLE_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE' AND TABLE_SCHEMA = "+database+" AND TABLE_NAME = '"+table+"')").Scan(&n)
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
