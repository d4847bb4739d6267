package mssqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// facts are what one look at the server tells.
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
	return []store.Finding{checkVersion(f), b.checkRole(f), b.checkDisk(f), checkReads(f), f.clock, b.checkRights(ctx, f)}
}

func (b *backend) facts(ctx context.Context) (f facts, err error) {
	statement, args := b.text("facts")
	for range 2 { // once before, so that to connect and log in is no part of the round trip by which the clock is read
		sent := time.Now()
		all, err := ask(ctx, b, statement, args, func(rows *sql.Rows) (f facts, err error) {
			err = rows.Scan(&f.now, &f.version, &f.edition, &f.user, &f.update, &f.delayed, &f.versions)
			return f, err
		})
		if err != nil {
			return f, err
		}
		if len(all) != 1 {
			return f, errors.New("it does not tell of its database")
		}
		f = all[0]
		f.clock = row.CheckClock(f.now, sent)
	}
	return f, nil
}

func checkVersion(f facts) store.Finding {
	switch f.edition {
	case 5:
		return store.Finding{About: "version", Found: "Azure SQL Database, " + f.version}
	case 8:
		return store.Finding{About: "version", Found: "Azure SQL Managed Instance, " + f.version}
	}
	found := store.Finding{About: "version", Found: "SQL Server " + f.version}
	text, _, _ := strings.Cut(f.version, ".")
	if major, err := strconv.Atoi(text); err == nil && major < 13 {
		found.Warning, found.Found = true, found.Found+": the oldest that is meant to do is 13 (SQL Server 2016)"
	}
	return found
}

func (b *backend) checkRole(f facts) store.Finding {
	if f.update != "READ_WRITE" {
		return store.Finding{About: "role", Found: f.update, Err: fmt.Errorf("%w: the database of %s takes no writes, as that of a replica: name the primary", store.ErrUnavailable, b.address)}
	}
	return store.Finding{About: "role", Found: "takes writes"}
}

func (b *backend) checkDisk(f facts) store.Finding {
	if f.delayed == 2 {
		return store.Finding{About: "disk", Warning: true, Run: "ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED;",
			Found: fmt.Sprintf("DELAYED_DURABILITY is FORCED: when %s or its machine fails it forgets who holds what, and two may hold a name until the TTL of the first is over; disable it", b.address)}
	}
	return store.Finding{About: "disk", Found: "waits for it"}
}

func checkReads(f facts) store.Finding {
	if f.versions == 0 {
		return store.Finding{About: "reading", Found: "READ_COMMITTED_SNAPSHOT is off: who reads a name waits for whoever has its row locked"}
	}
	return store.Finding{About: "reading", Found: "READ_COMMITTED_SNAPSHOT is on: who reads waits for nobody"}
}

// checkRights tells whether the tables are there and are ours, and whether this user may do what locks need.
func (b *backend) checkRights(ctx context.Context, f facts) store.Finding {
	const about = "table"
	schema, err := Schema(&b.o)
	name, grants, keeps, missing := b.o.quoted(&tables[0]), "", false, false
	for i := range tables {
		t := &tables[i]
		grants += "GRANT SELECT, INSERT, UPDATE, DELETE ON " + b.o.quoted(t) + " TO [" + strings.ReplaceAll(f.user, "]", "]]") + "];\n"
		var there bool
		if err == nil {
			there, err = b.checkTable(ctx, t)
		}
		statement, args := b.text("rights")
		if err == nil {
			var all [][]int64
			all, err = ask(ctx, b, statement, append(args, sql.Named("table", b.o.quoted(t)), sql.Named("schema", "["+b.o.Schema+"]")), numbers(7))
			if err == nil {
				err = mayUse(b.o.quoted(t), all[0], there)
				missing = missing || !there
				keeps = keeps || there && all[0][4] == 0
			}
		}
	}
	switch {
	case errors.Is(err, store.ErrDenied):
		return store.Finding{About: about, Err: err, Run: schema + grants}
	case err != nil:
		return store.Finding{About: about, Err: row.Known(err)}
	case missing:
		return store.Finding{About: about, Found: name + " is made at the first use, as this user may", Run: schema}
	case keeps:
		return store.Finding{About: about, Found: name + ": this user may not DELETE from it and from its sessions, so rows that are used no more stay", Run: grants}
	}
	return store.Finding{About: about, Found: name + ": there, and this user may do what locks need"}
}

// mayUse judges what sql/rights.sql told of a table.
func mayUse(table string, has []int64, there bool) error {
	switch {
	case !there && (has[0] != 0 || has[5] == 0 || has[6] == 0):
		return fmt.Errorf("%w: there is no table %s that this user may use, and it has no right to make it (CREATE TABLE, and ALTER on the schema): have somebody make it who may", store.ErrDenied, table)
	case there && (has[1] == 0 || has[2] == 0 || has[3] == 0):
		return fmt.Errorf("%w: this user may not SELECT, INSERT and UPDATE on %s", store.ErrDenied, table)
	}
	return nil
}
