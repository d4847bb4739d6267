package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
)

// least is the oldest supported version of the server.
const least = 14

// facts are the results of one read of the server's state.
type facts struct {
	version, synchronous  string
	number, now, replicas int64
	fsync, readOnly       string
	isolation, user       string
	standby, schema       bool
	mayUse, mayCreate     bool
	table                 bool
	lacks                 string // rights on the tables
	clockAhead, clockHalf time.Duration
}

const factsSQL = `SELECT current_setting('server_version'), current_setting('server_version_num')::bigint, ` + serverNow + `,
	current_setting('fsync'), current_setting('transaction_read_only'), current_setting('default_transaction_isolation'), current_user::text,
	pg_is_in_recovery(), current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_get_wal_senders()), n.oid IS NOT NULL,
	coalesce(has_schema_privilege(n.oid, 'USAGE'), false), coalesce(has_schema_privilege(n.oid, 'CREATE'), false), c.oid IS NOT NULL AND d.oid IS NOT NULL,
	coalesce((SELECT string_agg(r, ', ') FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) r WHERE NOT (has_table_privilege(c.oid, r) AND has_table_privilege(d.oid, r))), '')
FROM (SELECT) x LEFT JOIN pg_namespace n ON n.nspname = $1::text LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = $2::text
	LEFT JOIN pg_class d ON d.relnamespace = n.oid AND d.relname = $2::text || '` + sessionsSuffix + `'`

// Check implements [store.Checker].
func (s *Store) Check(ctx context.Context) []store.Finding {
	f, err := s.facts(ctx)
	if err != nil {
		return []store.Finding{{About: "server", Err: s.failed("look at the server", err)}}
	}
	all := []store.Finding{s.checkVersion(f), s.checkRole(f), s.checkDisk(f), checkReplicas(f), checkIsolation(f), store.ClockFinding(f.clockAhead, f.clockHalf), s.checkTable(f)}
	if n := s.db.bounded(); n > 0 { //mutant:pg-pool-warned
		all = append(all, store.Finding{About: "pool", Warning: true, Found: fmt.Sprintf("this pool has at most %d connections (SetMaxOpenConns), and its driver lets "+
			"holdfast open none beside it: when others keep all of them in use for longer than a TTL, every lease of this process is lost; give the locks a pool of their own, or use the driver of pgx", n)})
	}
	return all
}

func (s *Store) facts(ctx context.Context) (f facts, err error) {
	// A first statement, so that connecting and logging in are not part of the round trip that
	// measures the clock. It also detects a pooler in between.
	none := func(func(...any) error) error { return nil }
	if err := s.send(ctx, "SELECT 1", nil, func() {}, none); err != nil { //mutant:pg-check-behind-pooler
		return f, err
	}
	var sent time.Time
	err = s.send(ctx, factsSQL, []any{s.schema, s.table}, func() { sent = time.Now() }, func(scan func(...any) error) error {
		return scan(&f.version, &f.number, &f.now, &f.fsync, &f.readOnly, &f.isolation, &f.user,
			&f.standby, &f.synchronous, &f.replicas, &f.schema, &f.mayUse, &f.mayCreate, &f.table, &f.lacks)
	})
	f.clockHalf = time.Since(sent) / 2
	f.clockAhead = time.UnixMicro(f.now).Sub(sent.Add(f.clockHalf))
	return f, err
}

func (s *Store) checkVersion(f facts) store.Finding {
	found := store.Finding{About: "version", Found: "PostgreSQL " + f.version}
	if f.number < least*10000 {
		found.Err = fmt.Errorf("%w: %s is too old: PostgreSQL %d or newer is needed", store.ErrUnsupported, s.address, least)
	}
	return found
}

func (s *Store) checkRole(f facts) store.Finding {
	switch {
	case f.standby:
		return store.Finding{About: "role", Found: "a standby", Err: fmt.Errorf("%w: %s is a standby, which takes no writes: name the primary (of several hosts target_session_attrs=read-write finds it)", store.ErrUnavailable, s.address)}
	case f.readOnly == "on":
		return store.Finding{About: "role", Err: fmt.Errorf("%w: transactions on %s are read-only: set default_transaction_read_only off for this user", store.ErrUnavailable, s.address),
			Run: "ALTER ROLE " + quoteAny(f.user) + " SET default_transaction_read_only = off;"}
	}
	return store.Finding{About: "role", Found: "takes writes"}
}

func (s *Store) checkDisk(f facts) store.Finding {
	if f.fsync == "off" {
		return store.Finding{About: "disk", Warning: true, Run: "ALTER SYSTEM SET fsync = on;\nSELECT pg_reload_conf();",
			Found: "fsync is off: when the machine of " + s.address + " fails it forgets who holds what, and two may hold a name until the first one's TTL has passed; set it on"}
	}
	return store.Finding{About: "disk", Found: "grants wait for the disk (fsync is on)"}
}

// checkReplicas reports what the promotion of a replica loses.
func checkReplicas(f facts) store.Finding {
	found := store.Finding{About: "replicas", Found: "none is connected"}
	switch {
	case f.replicas > 0 && f.synchronous == "": //mutant:pg-replicas-asynchronous
		found.Warning = true
		found.Found = fmt.Sprintf("%d replicas, none of them synchronous: one that is promoted lacks what it had not received, and two may hold a name until the first one's TTL has passed; set synchronous_standby_names, or check the token", f.replicas)
	case f.replicas > 0:
		found.Found = fmt.Sprintf("%d replicas, synchronous: %s", f.replicas, f.synchronous)
	}
	return found
}

func checkIsolation(f facts) store.Finding {
	if f.isolation != "read committed" {
		return store.Finding{About: "isolation", Found: f.isolation + " by default: an operation that conflicts with another takes two more round trips"}
	}
	return store.Finding{About: "isolation", Found: f.isolation}
}

// checkTable reports whether the table exists, whether this user has the
// rights that locks need, and what to run.
func (s *Store) checkTable(f facts) store.Finding {
	const about = "table"
	who := quoteAny(f.user)
	use := "GRANT USAGE ON SCHEMA " + connect.Quote(s.schema) + " TO " + who + ";\n"
	grant := func(rights string) string {
		return "GRANT " + rights + " ON " + connect.Quote(s.schema) + "." + connect.Quote(s.table) + ", " + connect.Quote(s.schema) + "." + connect.Quote(s.table+sessionsSuffix) + " TO " + who + ";\n"
	}
	if f.mayUse {
		use = ""
	}
	const all = "SELECT, INSERT, UPDATE, DELETE"
	switch {
	case !f.schema:
		return store.Finding{About: about, Err: fmt.Errorf("%w: there is no schema %s on %s: create it, or name another", store.ErrInvalid, s.schema, s.address),
			Run: "CREATE SCHEMA " + connect.Quote(s.schema) + ";\n" + use + s.do.schema() + grant(all)}
	case !f.table && f.mayCreate && f.mayUse:
		return store.Finding{About: about, Found: s.where() + " does not exist yet; the first use creates it, which this user may do"}
	case !f.table:
		return store.Finding{About: about, Err: fmt.Errorf("%w: there is no table %s on %s, and this user may not create it: ask an administrator to create it", store.ErrDenied, s.where(), s.address),
			Run: use + s.do.schema() + grant(all)}
	case f.lacks == "DELETE" && f.mayUse:
		return store.Finding{About: about, Found: s.where() + ": this user may not DELETE from it, so rows of unused names are never deleted", Run: grant("DELETE")}
	case f.lacks != "" || !f.mayUse:
		return store.Finding{About: about, Err: fmt.Errorf("%w: this user may not use %s on %s", store.ErrDenied, s.where(), s.address), Run: use + grant(all)}
	}
	return store.Finding{About: about, Found: s.where() + ": exists, and this user has the rights that locks need"}
}

// quoteAny quotes any identifier.
func quoteAny(identifier string) string { return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"` }
