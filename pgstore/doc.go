// Package pgstore keeps locks in two tables of PostgreSQL: leases with everything
// that holdfast has, a queue, tokens, slots, and locks that outlive a broken
// connection, through any pooler. Use it unless you know why not.
//
// Package pgadvisory below it keeps locks as PostgreSQL's advisory locks instead,
// in a session or in a transaction of your own. The two know nothing of each
// other's locks.
//
// # Stored form
//
// A row a name, in a table that is made at the first use, or from the SQL that
// [Schema] returns. Its columns are
//
//	name      bytea, as it is
//	form      the version of the form: 2
//	kept      until when the row is kept at least
//	last      the newest token
//
// and arrays with one element for each entry, in their order, all empty when
// the name is idle: id, lim (the limit), weight, want (above weight while an upgrade is pending),
// turn (counted by the owner: changes of weight, or tokens used of a block), n
// (the size of the block of tokens; while waiting, how many are wanted), shown,
// token (0 while waiting), upgrade token, since, expires, keep, delay, broken (why;
// empty if it is not; with a byte 1 before it the hold was broken with now, and is in nobody's way), owner, session and asks (why it asks the other holders to give
// up; it counts while it waits, or its upgrade is pending). Instants are microseconds of the server's clock
// since 1970, durations microseconds.
//
// An entry with a session lasts as long as that, and its expires is 2⁶². The sessions are
// rows of a second table, with "_sessions" behind its name: id, when it expires, or 0
// once its owner has ended it, its TTL, and how often its owner was called. When somebody
// else has made its end final, expires is below 0: that long after 1970 it expired. Those
// that have ended are deleted, some at a time, and the latter after a day.
//
// A row that nobody has used for a day is deleted by whoever uses the table later, some at
// a time and beside other work, as fast as such rows are found. Notifications are sent
// on the channel "holdfast_" and the first half of the waiter's id, and have the
// token and the size of its block (0 and 0 of an upgrade, 0 and 1 to a holder that is
// asked to give up), the id, and the name in hexadecimal.
//
// What an election changes (the claims and holds with Announce, see package store) is sent, with no text, on the
// channel "holdfast_" and the first 16 bytes of the SHA-256 of the name in hexadecimal. So is each break with now, and what is taken
// out for one that has died.
//
// # Guarantees
//
// The whole rule of package [github.com/holdfast-go/holdfast/store]: order, minimum hold,
// lock delay, slots, upgrades, blocks of tokens. A TTL is from 100 ms to 365 days. Each
// operation is one statement that changes one row, and so a
// transaction of its own; one on a name that somebody else uses may need a
// second. Time is the server's (clock_timestamp). A claim that is refused at
// once writes nothing.
//
// A name that is free is granted with an expiry of its own. What waits, and a hold from
// its first renewal on, is kept by a session of its process: one for each TTL, and one of
// ten seconds at most for what waits, each renewed by one small statement for all that it
// keeps. A hold that its owner renews by hand (NoRenew) keeps an expiry of its own. So ten
// thousand leases cost a few statements a second, and who waits writes nothing. The
// deadline of a lease counts from the sending of the session's last answered renewal. A
// claim that is not renewed is taken out by its own process; what a dead process had goes
// with its session. Every half of a TTL the rows of the names that it renews are read. A
// session that has expired blocks until a statement on its row has made its end final.
//
// Hundreds may wait for one name: each comes by a short statement that appends it, and
// learns of its grant by a notification, which the server delivers to every process that
// waits for anything in the database.
//
// What was granted or renewed survives a crash of the server: such statements
// wait for the disk, also where synchronous_commit is off. A release of a hold that was
// never renewed, beside which nobody waits, does not: after a crash of the server the
// name may still be taken, until its TTL.
//
// A replica that is promoted has lost what it had not received. Unless it is a
// synchronous one, two can then hold a name until the TTL of the first is over,
// and if its clock is behind, tokens can be smaller than those that were lost.
// Check the token where that matters. With the first renewal that it answers each
// process notices that this is another server: what it holds is written into a
// session that was begun there, or is reported lost. What had been given back, and is
// there again, goes with the session that it was in, some TTLs later. A server that was
// started again counts as another one.
//
// A transaction of somebody else that stays open in the same database, or on a
// replica with hot_standby_feedback, keeps the server from clearing away the old
// versions of rows, and locks become slower from hour to hour: keep long
// transactions out of the database of the locks.
//
// # Requirements
//
// PostgreSQL 14 or newer; pgx, or any other driver by database/sql. Poolers are
// fine, PgBouncer in transaction mode too: there is no state in a session, and
// when a statement that pgx has kept prepared turns out to be on another
// connection, none is kept from then on. Through such a pooler nobody can
// listen: waiters and observers of elections poll, unless Options.Listen names the server itself.
//
// A pool may be shared with the rest of a program. When every connection of it is
// in use, renewals and releases have up to two connections of the Store's own;
// a driver of database/sql other than that of pgx has none to give, and
// [Store.Check] warns if its pool is bounded.
//
// # Rights
//
// A role that may do just this can do all of it, here for the default tables:
//
//	GRANT USAGE ON SCHEMA public TO locks
//	GRANT SELECT, INSERT, UPDATE ON public.holdfast_locks, public.holdfast_locks_sessions TO locks
//	GRANT DELETE ON public.holdfast_locks, public.holdfast_locks_sessions TO locks
//
// DELETE is for old rows; without it they stay. To make the tables the role needs
// CREATE on the schema. LISTEN and NOTIFY need no right.
package pgstore
