// Package pgstore keeps locks in two tables of PostgreSQL: leases with all features of holdfast, such as a
// queue, tokens and slots, which survive a broken connection and work through any pooler. Use it unless you have
// a reason not to.
//
// Its subpackage pgadvisory uses PostgreSQL's advisory locks instead, in a session or in a transaction of your
// own. The two do not see each other's locks.
//
// # Stored form
//
// A row per name, in a table that is created at the first use, or with the SQL that [Schema] returns. Its
// columns are
//
//	name      bytea, as it is
//	form      the version of the form: 2
//	kept      until when the row is kept at least
//	last      the newest token
//
// and arrays with one element for each entry, in their order, all empty when the name is idle: id, lim (the
// limit), weight, want (above weight while an upgrade is pending), turn (counted by the owner: changes of
// weight, or tokens used of a block), n (the size of the block of tokens; while waiting, how many are wanted),
// shown, token (0 while waiting), upgrade token, since, expires, keep, delay, broken (why; empty if it is not
// broken; with a byte 1 before it the hold was broken with now, and blocks no claim), owner, session and asks
// (why it asks the other holders to give up; it counts while it waits, or its upgrade is pending). Instants are
// microseconds of the server's clock since 1970, durations microseconds.
//
// An entry with a session lasts as long as the session, and its expires is 2⁶². The sessions are rows of a
// second table, with "_sessions" behind its name: id, when it expires, or 0 once its owner has ended it, its
// TTL, and how often its owner was called. If another process has made its end final, expires is the negated
// time at which it expired. Ended sessions are deleted, some at a time, the latter kind after a day.
//
// A row that was not used for a day is deleted by a later user of the table, some at a time and in the
// background, as fast as such rows are found. Notifications are sent on the channel "holdfast_" and the first
// half of the waiter's id, and have the token and the size of its block (0 and 0 of an upgrade, 0 and 1 to a
// holder that is asked to give up), the id, and the name in hexadecimal.
//
// Changes by elections (claims and holds with Announce, see package store) are sent, with no text, on the
// channel "holdfast_" and the first 16 bytes of the SHA-256 of the name in hexadecimal. So are each break with
// now, and the removal of a dead process's entry.
//
// # Guarantees
//
// The whole rule of package [github.com/holdfast-go/holdfast/store]: order, minimum hold, lock delay, slots,
// upgrades, blocks of tokens. A TTL is from 100 ms to 365 days. Each operation is one statement that changes one
// row, and so a transaction of its own; an operation on a contended name may need a second one. Time is the
// server's (clock_timestamp). A claim that is refused at once writes nothing.
//
// A free name is granted with an expiry of its own. A waiter, and a hold from its first renewal on, is kept by a
// session of its process: one session for each TTL, and one of ten seconds at most for waiters, each renewed by
// one small statement for all that it keeps. A hold under NoRenew keeps an expiry of its own. So ten thousand
// leases cost a few statements a second, and a waiter writes nothing. The deadline of a lease counts from the
// sending of the session's last answered renewal. An unrenewed claim is removed by its own process; the entries
// of a dead process end with its session. Every half of a TTL the rows of the names that it renews are read. A
// session that has expired blocks until a statement on its row has made its end final.
//
// Hundreds may wait for one name: each is appended by a short statement, and learns of its grant by a
// notification, which the server delivers to every process that waits for anything in the database.
//
// Grants and renewals survive a crash of the server: such statements wait for the disk, even if
// synchronous_commit is off. The release of a hold that was never renewed and has no waiters may not survive:
// after a crash the name may still be taken, until its TTL.
//
// A promoted replica has lost all that it had not received. Unless it is synchronous, two can then hold a name
// until the TTL of the first has passed, and if its clock is behind, tokens can be smaller than the lost ones.
// Check the token where that matters. With the first answered renewal each process notices the new server: its
// holds are written into a session that was begun there, or are reported lost. Released entries that are back
// end with their old session, some TTLs later. A restarted server counts as a new one.
//
// A transaction that stays open in the same database, or on a replica with hot_standby_feedback, keeps the
// server from removing old versions of rows, and locks become slower from hour to hour: keep long transactions
// out of the database of the locks.
//
// # Requirements
//
// PostgreSQL 14 or newer; pgx, or any other driver by database/sql. Poolers are fine, including PgBouncer in
// transaction mode: sessions have no state, and if a prepared statement of pgx turns out to be on another
// connection, statements are no longer kept prepared. LISTEN does not work through such a pooler: waiters and
// observers of elections poll, unless Options.Listen names the server itself.
//
// A pool may be shared with the rest of a program. When all its connections are in use, renewals and releases
// use up to two connections of the Store's own. That is not possible with a driver of database/sql other than
// pgx, and [Store.Check] warns if such a pool is bounded.
//
// # Rights
//
// These rights are enough, here for the default tables:
//
//	GRANT USAGE ON SCHEMA public TO locks
//	GRANT SELECT, INSERT, UPDATE ON public.holdfast_locks, public.holdfast_locks_sessions TO locks
//	GRANT DELETE ON public.holdfast_locks, public.holdfast_locks_sessions TO locks
//
// DELETE is for old rows; without it they stay. To make the tables the role needs
// CREATE on the schema. LISTEN and NOTIFY need no right.
package pgstore
