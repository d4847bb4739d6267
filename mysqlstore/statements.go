package mysqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// statements are the SQL of a Store. They have no parameters: a driver that
// prepares those would need two more round trips, and one that does not would
// depend on sql_mode and character set. Numbers are written as such and bytes in
// hexadecimal.
//
// All assignments of a statement read only columns that the same or a later one
// assigns to, so it is the same whether the server makes them one after another
// or, as a sql_mode has it, all at once. Nothing is written on a connection that
// would not commit it.
type statements struct {
	table string
	clock func() int64 // nil but in tests: the server's clock
}

// commits is a condition of every write.
const commits = "@@autocommit=1"

// undisturbed is commits for who has no turn, and keeps out of the way of who
// has.
func (s *statements) undisturbed(name string) string {
	return commits + //mutant:mysql-commits
		" AND IS_FREE_LOCK(" + s.turn(name) + ")=1"
}

// turn is what the turn at a name is called: the server allows 64 characters.
func (s *statements) turn(name string) string {
	sum := sha256.Sum256([]byte(s.table + " " + name))
	return "'holdfast " + hex.EncodeToString(sum[:16]) + "'"
}

// now is the server's clock, in SQL: the instant at which the statement began.
// One that waited for a row is a little behind then, which drops less and lets
// expire earlier than could be.
func (s *statements) now() string {
	if s.clock != nil {
		return number(s.clock())
	}
	return "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// text is bytes in SQL; none at all are NULL.
func text[S string | []byte](s S) string {
	if len(s) == 0 {
		return "NULL"
	}
	return "x'" + hex.EncodeToString([]byte(s)) + "'"
}

func texts(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(text(name))
	}
	return b.String()
}

// newRev returns a number that no row has had.
func newRev() int64 { return rand.Int64()>>1 | 1 }

// granted is what a claim makes of an idle row, but for the tokens.
func (s *statements) granted(c *store.Claim, now string) []assignment {
	return []assignment{
		{"rev", number(newRev())}, {"since", now}, {"expires", now + "+" + number(micros(c.TTL))},
		{"lim", number(c.Limit)}, {"id", text(c.ID[:])}, {"weight", number(c.Weight)}, {"want", number(c.Weight)},
		{"turn", "0"}, {"block", number(int64(c.Tokens()))}, {"flags", number(flagGranted)}, {"fence", "0"},
		{"keep", number(micros(c.Keep))}, {"delay", number(micros(c.Delay))},
		{"broken", "NULL"}, {"owner", text(c.Owner)}, {"rest", "NULL"}, {"total", "1"},
	}
}

// An assignment is of a column, in SQL.
type assignment struct{ column, value string }

// drawn are the tokens of a claim, of which it tells the newest.
func (s *statements) drawn(c *store.Claim, now string) (token, newest string) {
	token = "GREATEST(newest+1," + //mutant:mysql-token
		now + ")"
	return token, "LAST_INSERT_ID(" + token + "+" + number(int64(c.Tokens())-1) + ")"
}

// take grants the claim if the name is idle, and tells the newest token, else 0.
func (s *statements) take(c *store.Claim, may string) string {
	now := s.now()
	token, newest := s.drawn(c, now)
	var b strings.Builder
	b.WriteString("UPDATE " + s.table + " SET token=" + token + ",newest=" + newest)
	for _, a := range s.granted(c, now) {
		b.WriteString("," + a.column + "=" + a.value)
	}
	b.WriteString(" WHERE name=" + text(c.Name) +
		" AND total=0" + //mutant:mysql-idle
		" AND " + may)
	return b.String()
}

// insert is take for a name that may have no row yet, and costs a little more.
func (s *statements) insert(c *store.Claim, may string) string {
	now := s.now()
	token, newest := s.drawn(c, now)
	first := "LAST_INSERT_ID(" + now + "+" + number(int64(c.Tokens())-1) + ")"
	var columns, values, updates strings.Builder
	columns.WriteString("name,form,token,newest")
	values.WriteString(text(c.Name) + "," + number(form) + "," + now + "," + first)
	idle := "total=0" //mutant:mysql-insert-idle
	updates.WriteString("token=IF(" + idle + "," + token + ",token),newest=IF(" + idle + "," + newest + ",newest" +
		// What the insertion would have told is taken back if it was none.
		"+LAST_INSERT_ID(0)" + //mutant:mysql-insert-tells
		")")
	for _, a := range s.granted(c, now) {
		columns.WriteString("," + a.column)
		values.WriteString("," + a.value)
		updates.WriteString("," + a.column + "=IF(" + idle + "," + a.value + "," + a.column + ")")
	}
	return "INSERT INTO " + s.table + " (" + columns.String() + ") SELECT " + values.String() +
		" FROM DUAL WHERE " + may + " ON DUPLICATE KEY UPDATE " + updates.String()
}

// sole is the condition that the hold is there, alone and alive.
func (s *statements) sole(h *store.Hold, now, may string) string {
	return " WHERE name=" + text(h.Name) +
		" AND total=1" + //mutant:mysql-sole-total
		" AND id=" + text(h.ID[:]) +
		" AND token=" + //mutant:mysql-sole-token
		number(h.Token) + " AND flags&" + number(flagGranted) + "<>0" +
		" AND expires>" + //mutant:mysql-sole-expires
		now + " AND " + may
}

// free gives back a hold that nobody waits for, and tells the row's new number,
// else 0: if there is anything else to be thought of.
func (s *statements) free(h *store.Hold, may string) string {
	now, used := s.now(), number(h.Used)
	end := "token+block-1"
	return "UPDATE " + s.table + " SET newest=IF(" + used + ">=token AND " + used +
		"<" + end + " AND newest=" + end + //mutant:mysql-free-block
		"," + used + ",newest)" +
		",expires=" + now + ",total=0,rev=LAST_INSERT_ID(" + number(newRev()) + ")" + s.sole(h, now, may) +
		" AND since+keep<=" + //mutant:mysql-free-keep
		now
}

// push renews a hold that nobody waits for, and tells its weight, else 0.
func (s *statements) push(h *store.Hold, may string) string {
	now, used := s.now(), number(h.Used)
	owner := ""
	if h.Owner != "" {
		owner = ",owner=" + text(h.Owner)
	}
	return "UPDATE " + s.table + " SET turn=IF(" + used + ">token AND " + used + "<token+block," +
		"GREATEST(turn," + //mutant:mysql-push-turn
		used + "-token),turn)," + shown() + ",rev=" + number(newRev()) + owner +
		",weight=LAST_INSERT_ID(weight)," + later(now, micros(h.TTL)) + s.sole(h, now, may) +
		" AND broken IS NULL" + //mutant:mysql-push-broken
		" AND fence=0" //mutant:mysql-push-fence
}

// shown and later are what every renewal assigns.
func shown() string {
	return "flags=flags|" + number(flagShown) //mutant:mysql-shown
}

func later(now string, ttl int64) string {
	return "expires=GREATEST(" +
		"expires" + //mutant:mysql-later
		"," + now + "+" + number(ttl) + ")"
}

// atOnce and unlocked begin a statement on many rows; names is their list in SQL.
// The statement does not wait for a row that somebody else has locked: meanwhile
// it would keep all the others locked, even after its client has gone.
//
// MariaDB fails at once. MySQL knows no such setting for one statement. There the
// statement first locks the rows that are free, in a derived table, and then
// finds just those by their key. The LIMIT keeps the server from merging that
// table into the statement, which would then wait again. For each server the
// part of the other is a comment; without both it is the same statement, but it
// waits.
const atOnce = "/*M!100301 SET STATEMENT innodb_lock_wait_timeout=0 FOR*/ "

func (s *statements) unlocked(names string, n int) string {
	return "/*!80001 (SELECT name AS n FROM " + s.table + " FORCE INDEX (PRIMARY) WHERE name IN (" + names + ")" +
		" LIMIT " + number(int64(n)) + //mutant:mysql-unlocked-limit
		" FOR UPDATE SKIP LOCKED" + //mutant:mysql-unlocked-skip
		") AS free STRAIGHT_JOIN */ " + s.table + " /*!80001 FORCE INDEX (PRIMARY)" +
		" ON name=n" + //mutant:mysql-unlocked-key
		" */"
}

// pushAll renews the holds, of which nothing is to be kept but that they are
// renewed for so long, and gives their rows the number rev. What somebody has
// locked it leaves out, or it fails at once.
func (s *statements) pushAll(holds []store.Hold, ttl int64, rev int64) string {
	now := s.now()
	names := make([]string, len(holds))
	for i := range holds {
		names[i] = holds[i].Name
	}
	of := texts(names)
	var b strings.Builder
	b.WriteString(atOnce) //mutant:mysql-push-all-at-once
	b.WriteString("UPDATE " + s.unlocked(of, len(names)) + " SET " + shown() + ",rev=" + number(rev) + "," + later(now, ttl) +
		" WHERE name IN (" + of + ")")
	b.WriteString(" AND (name,id,token) IN (") //mutant:mysql-push-all-own
	for i := range holds {
		if i > 0 {
			b.WriteByte(',')
		}
		h := &holds[i]
		b.WriteString("(" + text(h.Name) + "," + text(h.ID[:]) + "," + number(h.Token) + ")")
	}
	b.WriteString(") AND total=1 AND flags&" + number(flagGranted) + "<>0" +
		" AND expires>" + //mutant:mysql-push-all-expires
		now +
		" AND broken IS NULL" + //mutant:mysql-push-all-broken
		" AND " + commits)
	return b.String()
}

// all is every column, as scan reads them, behind the server's clock.
func (s *statements) all() string {
	var b strings.Builder
	b.WriteString("SELECT " + s.now() + ",@@autocommit")
	for _, c := range columns {
		b.WriteString("," + c.name)
	}
	b.WriteString(" FROM " + s.table)
	return b.String()
}

func (s *statements) read(names ...string) string {
	if len(names) == 1 {
		return s.all() + " WHERE name=" + text(names[0])
	}
	return s.all() + " WHERE name IN (" + texts(names) + ")"
}

// page reads the next rows behind a name, in their order.
func (s *statements) page(after, where string, n int) string {
	q := s.all() + " WHERE " + where
	if after != "" {
		q += " AND name>" + text(after)
	}
	return q + " ORDER BY name LIMIT " + number(int64(n))
}

// write writes the queue of a name if its row still has the number rev, and
// tells its new one, else 0.
func (s *statements) write(name string, rev int64, q *queue.Queue, rest []byte, may string) string {
	var b strings.Builder
	b.WriteString("UPDATE " + s.table + " SET newest=" + number(q.Last) + ",total=" + number(int64(len(q.Entries))))
	if len(q.Entries) == 0 {
		b.WriteString(",expires=" + s.now())
	} else {
		e := &q.Entries[0]
		for _, a := range []assignment{
			{"lim", number(int64(q.Limit))}, {"id", text(e.ID[:])}, {"weight", number(int64(e.Weight))}, {"want", number(int64(e.Want))},
			{"turn", number(int64(e.Turn))}, {"block", number(int64(e.N))}, {"flags", number(flags(e))}, {"token", number(e.Token)},
			{"fence", number(e.Fence)}, {"since", number(e.Since)}, {"expires", number(e.Expires)}, {"keep", number(e.Keep)},
			{"delay", number(e.Delay)}, {"broken", text(e.Reason())}, {"owner", text(e.Owner)}, {"rest", text(rest)},
		} {
			b.WriteString("," + a.column + "=" + a.value)
		}
	}
	b.WriteString(",rev=LAST_INSERT_ID(" + number(newRev()) + ") WHERE name=" + text(name) +
		" AND rev=" + //mutant:mysql-write-rev
		number(rev) + " AND " + may)
	return b.String()
}

// remove deletes rows that still have the numbers they were read with. What
// somebody has locked it leaves out, or it fails at once.
func (s *statements) remove(names []string, revs []int64) string {
	var b strings.Builder
	for i, rev := range revs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(number(rev))
	}
	of := texts(names)
	return atOnce + "DELETE /*!80001 " + s.table + " */ FROM " + s.unlocked(of, len(names)) + " WHERE name IN (" + of + ") AND rev IN (" + b.String() + ") AND " + commits
}
