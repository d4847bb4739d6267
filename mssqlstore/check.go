package mssqlstore

import (
	"cmp"
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
	now                   int64
	version, user, update string
	edition               int // 5: Azure SQL Database, 8: Azure SQL Managed Instance
	delayed, versions     int
	clock                 store.Finding
}

// Check implements [record.Backend].
func (b *backend) Check(ctx context.Context) []store.Finding {
	f, err := b.facts(ctx)
	if err != nil {
		return []store.Finding{{About: "server", Err: row.Known(err)}}
	}
	all := []store.Finding{checkVersion(f), b.CheckRole(f.readOnly()), b.CheckDisk(f.forgets()), checkReads(f), f.clock, b.checkRights(ctx, f)}
	return append(all, b.CheckPool(b.db.Stats().MaxOpenConnections)...) //mutant:mssql-pool-warned
}

func (f *facts) readOnly() string {
	if f.update == "READ_WRITE" {
		return ""
	}
	return cmp.Or(f.update, "read-only")
}

func (f *facts) forgets() (setting, run string) {
	if f.delayed == 2 {
		return "DELAYED_DURABILITY is FORCED", "ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED;"
	}
	return "", ""
}

func (b *backend) facts(ctx context.Context) (f facts, err error) {
	statement, args := b.text("facts")
	for range 2 { // the first time makes a connection, so that connecting does not count in the round trip that measures the clock
		sent := time.Now()
		if f, err = one(send(ctx, b, statement, args, func(rows *sql.Rows) (f facts, err error) {
			err = rows.Scan(&f.now, &f.version, &f.edition, &f.user, &f.update, &f.delayed, &f.versions)
			return f, err
		})); err != nil {
			return f, err
		}
		f.clock = row.CheckClock(f.now, sent)
	}
	return f, nil
}

func checkVersion(f facts) store.Finding {
	found := store.Finding{About: "version", Found: "SQL Server " + f.version}
	major, _, _ := strings.Cut(f.version, ".")
	if n, err := strconv.Atoi(major); f.edition == 5 || f.edition == 8 {
		found.Found = "Azure SQL " + f.version
	} else if err == nil && n < 13 {
		found.Warning, found.Found = true, found.Found+": holdfast is written for 13 (SQL Server 2016) and newer"
	}
	return found
}

func checkReads(f facts) store.Finding {
	if f.versions == 0 {
		return store.Finding{About: "reading", Found: "READ_COMMITTED_SNAPSHOT is off: a read waits for any transaction that has the row locked"}
	}
	return store.Finding{About: "reading", Found: "READ_COMMITTED_SNAPSHOT is on: reads wait for nobody"}
}

// checkRights reports whether the tables exist and are holdfast's, and whether this user has the rights that locks
// need.
func (b *backend) checkRights(ctx context.Context, f facts) store.Finding {
	schema, grants := b.o.schema(), ""
	for _, table := range []string{b.o.locks(), b.o.sessions()} {
		grants += "GRANT SELECT, INSERT, UPDATE, DELETE ON " + table + " TO [" + strings.ReplaceAll(f.user, "]", "]]") + "];\n"
	}
	there, err := b.checkTables(ctx)
	statement, args := b.text("rights")
	var has [][]int64
	if err == nil {
		has, err = send(ctx, b, statement, append(append(args, b.o.named()...), sql.Named("schema", "["+b.o.Schema+"]")), numbers(7))
	}
	if err != nil {
		return store.Finding{About: "table", Err: row.Known(err)}
	}
	if err := mayUse(b.Address, has); err != nil {
		return store.Finding{About: "table", Err: err, Run: schema + grants}
	}
	keeps := slices.ContainsFunc(has, func(r []int64) bool { return r[0] != 0 && r[4] == 0 })
	return row.CheckTable(b.o.locks(), there, keeps, grants)
}

// mayUse checks the results of sql/rights.sql for each table.
func mayUse(address string, has [][]int64) error {
	for _, r := range has { // exists, SELECT, INSERT, UPDATE, DELETE, CREATE TABLE, ALTER on the schema
		switch {
		case r[0] == 0 && (r[5] == 0 || r[6] == 0):
			return fmt.Errorf("%w: a table of %s is not there for this user, who may not create it (CREATE TABLE, and ALTER on the schema): ask an administrator to create it", store.ErrDenied, address)
		case r[0] != 0 && (r[1] == 0 || r[2] == 0 || r[3] == 0):
			return fmt.Errorf("%w: this user may not SELECT, INSERT and UPDATE on the tables of %s", store.ErrDenied, address)
		}
	}
	return nil
}
