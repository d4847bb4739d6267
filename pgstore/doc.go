// Package pgstore stores locks in two PostgreSQL tables. Its leases have all features of holdfast,
// such as a queue, tokens and slots. They survive a broken connection and work through any pooler.
// Use it unless you have a reason not to.
//
// Its subpackage pgadvisory uses PostgreSQL's advisory locks instead, in a session or in a transaction of your
// own. The two do not see each other's locks.
//
// # Stored form
//
// Each name has a row, in a table that is created at the first use, or with the SQL that [Schema]
// returns. Its columns are
//
//	name      bytea, as it is
//	form      the version of the form: 2
//	kept      until when the row is kept at least
//	last      the newest token
//
// and arrays with one element per entry, in queue order. They are empty when the name is idle: id,
// lim (the limit), weight, want (above weight while an upgrade is pending), turn (a counter of the
// owner: changes of weight, or tokens used of a block), n (the size of the block of tokens; for a
// waiter, the size it wants), shown, token (0 while waiting), upgrade token, since, expires, keep,
// delay, broken (why; empty if the hold is not broken; a byte 1 before the reason means that it was
// broken with now and blocks no claim), owner, session and asks (why it asks the other holders to
// give up; it counts only while the entry waits or its upgrade is pending). Instants are
// microseconds since 1970 on the server's clock, durations microseconds.
//
// An entry with a session lasts as long as the session, and its expires is 2⁶². The sessions are
// rows of a second table, which has the suffix "_sessions": id, when the session expires (0 once
// its owner has ended it), its TTL, and how often its owner was called. If another process has made
// its end final, expires is the negated time at which it expired. Ended sessions are deleted in
// batches, the latter kind after a day.
//
// A later user of the table deletes rows that were unused for a day, in batches and in the
// background, as fast as it finds such rows. Notifications are sent on the channel "holdfast_" plus
// the first half of the waiter's id. The payload is the token and the size of its block (0 and 0
// for an upgrade, 0 and 1 for a holder that is asked to give up), the id, and the name in
// hexadecimal.
//
// Changes by elections (claims and holds with Announce, see package store) are sent without a
// payload on the channel "holdfast_" plus the first 16 bytes of the name's SHA-256 in hexadecimal.
// So are each break with now, and the removal of a dead process's entry.
//
// # Guarantees
//
// The whole contract of package [github.com/holdfast-go/holdfast/store]: order, minimum hold, lock
// delay, slots, upgrades, blocks of tokens. A TTL is from 100 ms to 365 days. Each operation is one
// statement that changes one row, and so a transaction of its own; an operation on a contended name
// may need a second statement. Time is the server's (clock_timestamp). A claim that is refused at
// once writes nothing.
//
// A free name is granted with an expiry of its own. A session of the process keeps its waiters, and
// its holds from their first renewal on. There is one session per TTL, and one of at most ten
// seconds for waiters. One small statement renews a session for all that it keeps. A hold under
// NoRenew keeps an expiry of its own. So ten thousand leases cost a few statements a second, and a
// waiter writes nothing. The deadline of a lease counts from when the session's last answered
// renewal was sent. A process removes its own unrenewed claims; the entries of a dead process end
// with its session. Every half TTL a process reads the rows of the names that it renews. An expired
// session blocks until a statement on its row has made its end final.
//
// Hundreds may wait for one name. A short statement appends each waiter, and a notification reports
// its grant. The server delivers each notification to every process that waits for anything in the
// database.
//
// Grants and renewals survive a crash of the server: their statements wait for the disk, even if
// synchronous_commit is off. The release of a hold that was never renewed and has no waiters may be
// lost: after a crash the name may stay taken until its TTL has passed.
//
// A promoted replica lacks everything that it had not received. Unless it is synchronous, two
// processes can then hold a name until the TTL of the first has passed, and if its clock is behind,
// tokens can be smaller than the lost ones. Check the token where that matters. Each process
// notices the new server with its first answered renewal: it writes its holds into a session begun
// there, or reports them lost. Released entries that reappear end with their old session, some TTLs
// later. A restarted server counts as a new one.
//
// A transaction that stays open in the same database, or on a replica with hot_standby_feedback,
// keeps the server from removing old row versions, and locks become slower from hour to hour. Keep
// long transactions out of the database of the locks.
//
// # Requirements
//
// PostgreSQL 14 or newer; pgx, or any other database/sql driver. Poolers work, including PgBouncer
// in transaction mode: connections have no state, and once a prepared statement of pgx turns out to
// be on another connection, the Store stops preparing statements. LISTEN does not work through such
// a pooler: waiters and observers of elections poll, unless Options.Listen names the server itself.
//
// You can share the pool with the rest of a program. When all its connections are in use, renewals
// and releases use up to two connections of the Store's own. That is not possible with a
// database/sql driver other than pgx, and [Store.Check] warns if such a pool is bounded.
//
// # Rights
//
// These rights are enough, here for the default tables:
//
//	GRANT USAGE ON SCHEMA public TO locks
//	GRANT SELECT, INSERT, UPDATE ON public.holdfast_locks, public.holdfast_locks_sessions TO locks
//	GRANT DELETE ON public.holdfast_locks, public.holdfast_locks_sessions TO locks
//
// DELETE is for old rows; without it they stay. To create the tables, the role needs CREATE on the
// schema. LISTEN and NOTIFY need no right.
package pgstore
