package pgstore

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/embedded"
)

//go:embed sql
var sqlFiles embed.FS

var sqlDir = embedded.Dir(sqlFiles, "sql")

// entryColumns are the arrays of a row. Each has one element per entry.
var entryColumns = []string{"id", "lim", "weight", "want", "turn", "n", "shown", "token", "fence", "since", "expires", "keep", "delay", "broken", "owner", "session", "asks"}

var entryTypes = map[string]string{"id": "bytea", "broken": "bytea", "owner": "bytea", "session": "bytea", "asks": "bytea", "shown": "boolean", "lim": "int", "weight": "int", "want": "int", "turn": "int", "n": "int"}

// unending is the stored expiry of an entry that a session keeps. The lock delay can be added to it
// without overflow.
const unending = 1 << 62

// statements are the operations as the server runs them.
type statements struct {
	create, createSessions              string
	askFast, askIdle, askBehind         string
	askMove                             string
	releaseFast, releaseNext, renewFast string
	releaseAll                          string
	ask, renew, change, release, breaks string
	ahead, held, list, sweep            string
	stands                              string
	session                             sessions
}

// sessions are the statements about sessions.
type sessions struct{ begin, renew, call, end, left, held, sweep string }

// serverNow is the time in µs. It is clock_timestamp and not now, because it must advance while a
// statement waits for a row.
const serverNow = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// all returns the texts, for work on each of them.
func (s *statements) all() []*string {
	return []*string{&s.create, &s.createSessions, &s.askFast, &s.askIdle, &s.askBehind, &s.askMove, &s.releaseFast, &s.releaseNext, &s.renewFast, &s.releaseAll,
		&s.ask, &s.renew, &s.change, &s.release, &s.breaks, &s.ahead, &s.held, &s.list, &s.sweep, &s.stands,
		&s.session.begin, &s.session.renew, &s.session.call, &s.session.end, &s.session.left, &s.session.held, &s.session.sweep}
}

// schema returns the SQL that creates the tables.
func (s *statements) schema() string { return s.create + ";\n" + s.createSessions + ";\n" }

// urgent reports whether a lease is lost, or a name stays taken, if the statement waits for long:
// it renews or releases.
func (s *statements) urgent(statement string) bool {
	switch statement {
	case s.renewFast, s.renew, s.releaseFast, s.releaseNext, s.release, s.releaseAll, s.change, s.stands, s.session.begin, s.session.renew: //mutant:pg-urgent-statements
		return true
	}
	return false
}

// load returns the statements for a table. Clocked ones take the time, in µs, as their last
// argument instead of the server's: for tests that compare them with package queue.
func load(schema, table string, clocked bool) *statements {
	of := plain
	if clocked {
		of = withClock
	}
	s := *of()
	name := connect.Quote(schema) + "." + connect.Quote(table)
	in := strings.NewReplacer("{table}", name, "{sessions}", connect.Quote(schema)+"."+connect.Quote(table+sessionsSuffix), "{regclass}", "'"+name+"'::regclass")
	for _, text := range s.all() {
		*text = in.Replace(*text)
	}
	return &s
}

// The statements without the name of their table, assembled once: a program may create many Stores,
// and assembling takes longer than creating a Store.
var (
	plain     = sync.OnceValue(func() *statements { return assemble(false) })
	withClock = sync.OnceValue(func() *statements { return assemble(true) })
)

func assemble(clocked bool) *statements {
	each := func(separator string, f func(column string) string) string {
		var all []string
		for _, c := range entryColumns {
			all = append(all, f(c))
		}
		return strings.Join(all, separator)
	}
	columns := func(alias string) string { return each(", ", func(c string) string { return alias + "." + c }) }
	unnest := func(alias string) string {
		return "unnest(" + columns(alias) + ") WITH ORDINALITY AS u(" + strings.Join(entryColumns, ", ") + ", o)"
	}
	// Without an entry the id is NULL, and everything else is zero.
	entry := func(alias string) string {
		return each(", ", func(c string) string {
			switch entryTypes[c] {
			case "bytea":
				return alias + "." + c
			case "boolean":
				return "coalesce(" + alias + "." + c + ", false)"
			}
			return "coalesce(" + alias + "." + c + ", 0)"
		})
	}
	sane := func(alias string) string {
		return fmt.Sprintf("coalesce(%s.form = %d AND 0 < ALL (%s.n) AND ", alias, form, alias) + each(" AND ", func(c string) string {
			return fmt.Sprintf("cardinality(%s.%s) = cardinality(%s.id)", alias, c, alias)
		}) + ", false)"
	}
	// Whether a hold was broken with now: its reason begins with byte 1.
	freed := func(alias string) string {
		return "(" + alias + ".broken >= '\\x01' AND " + alias + ".broken < '\\x02')"
	}
	// The channel of a name, as in nameChannel.
	announceTo := func(name string) string { return "'holdfast_' || encode(substr(sha256(" + name + "), 1, 16), 'hex')" }
	var tails []string // what shifts when the first entry goes
	for _, c := range entryColumns {
		if c != "token" && c != "since" {
			tails = append(tails, c+" = "+c+"[2:]")
		}
	}
	one := func(file string, args int) string {
		text := strings.TrimSuffix(embedded.Text(file+".sql", sqlDir), "\n")
		now := serverNow
		if clocked {
			now = fmt.Sprintf("$%d::bigint", args+1)
		}
		return strings.NewReplacer(
			"{now}", now,
			"{full}", strconv.Itoa(store.Full),
			"{unending}", fmt.Sprintf("%d::bigint", int64(unending)),
			"{started}", "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint",
			"{ended}", fmt.Sprintf("$%d::text::bytea[]", args-1),
			"{ago}", fmt.Sprintf("$%d::text::bigint[]", args),
			"{over}", "CASE WHEN expires < 0 THEN greatest("+now+" + expires, 0) ELSE 0 END", // how long ago an ended session expired
			"{day}", fmt.Sprintf("%d::bigint", store.TokenRetention.Microseconds()),
			"{durable}", "CASE WHEN current_setting('synchronous_commit') = 'off' THEN"+
				" set_config('synchronous_commit', "+
				"'on'"+ //mutant:pg-durable
				", true) END",
			"{freed a}", freed("a"), "{freed c}", freed("c"), "{freed e}", freed("e"),
			"{channel $1}", announceTo("$1::bytea"), "{channel h.name}", announceTo("h.name"),
			"{sane}", sane("found"), "{sane t}", sane("t"),
			"{entry u}", entry("u"), "{entry x}", entry("x"),
			"{unnest t}", unnest("t"),
			// Of many waiters, only the first one, and the number of others ahead, must be known.
			"{ahead}", "($2::bytea = '' OR u.token <> 0 OR u.session = '' OR u.id = $2::bytea OR u.o = w.first)",
			"{columns}", strings.Join(entryColumns, ", "), "{w columns}", columns("w"),
			"{tails}", strings.Join(tails, ", "),
			"{arrays}", each(",\n", func(c string) string {
				return fmt.Sprintf("coalesce(array_agg(x.%s ORDER BY x.o) FILTER (WHERE x.o IS NOT NULL), '{}') AS %s", c, c)
			}),
			"p(t.id, h.id)", "array_position(t.id, h.id)", "p(t.id, $2)", "array_position(t.id, $2::bytea)",
		).Replace(text)
	}
	return &statements{
		create: one("table", 0), createSessions: one("session_table", 0),
		askFast: one("ask_fast", 11), askIdle: one("ask_idle", 11), askBehind: one("ask_behind", 9), askMove: one("ask_move", 4), releaseFast: one("release_fast", 6), releaseNext: one("release_next", 6), renewFast: one("renew_fast", 8), releaseAll: one("release_all", 6),
		ask: one("ask", 17), renew: one("renew", 13), change: one("change", 8), release: one("release", 7), breaks: one("break", 7),
		ahead: one("ahead", 2), held: one("held", 1), list: one("list", 2), sweep: one("sweep", 2), stands: one("stands", 4),
		session: sessions{
			begin: one("session_begin", 2), renew: one("session_renew", 1), call: one("session_call", 1), end: one("session_end", 2),
			left: one("session_left", 1), held: one("session_held", 1), sweep: one("session_sweep", 0),
		},
	}
}
