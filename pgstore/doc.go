// Package pgstore keeps locks in PostgreSQL. It has three modes; which one to
// choose:
//
//   - Table ([New], [NewDB], [Open]), unless you know why not: leases in a
//     table, with everything that holdfast has: a queue, tokens, slots, locks
//     that outlive a broken connection, through any pooler.
//   - Session ([NewSession]): advisory locks on a connection of our own. The lock of a process
//     that dies comes free at once, and no lease can run out under one that
//     lives; but no order, no slots, and the loss of a connection is noticed,
//     not foreseen.
//   - Transaction ([LockTx]): advisory locks in a transaction of your own, held until it
//     ends.
//
// What follows is about the table; behind it are sections on the other modes.
//
// # Stored form
//
// A row a name, in a table that is made at the first use, or from the SQL that
// [Schema] returns. Its columns are
//
//	name      bytea, as it is
//	form      the version of the form: 1
//	kept      until when the row is kept at least
//	last      the newest token
//	lim       the limit of the entries
//
// and arrays with one element for each entry, in their order, all empty when
// the name is idle: id, weight, want (above weight while an upgrade is pending),
// turn (counted by the owner: changes of weight, or tokens used of a block), n
// (the size of the block of tokens; while waiting, how many are wanted), shown,
// token (0 while waiting), fence, since, expires, keep, delay, broken (why;
// empty if it is not) and owner. Instants are microseconds of the server's clock
// since 1970, durations microseconds.
//
// A row that nobody has used for a day is deleted by whoever uses the table
// later, some at a time and beside other work, as fast as such rows are found. Hints are notifications on the
// channel "holdfast_" and the first half of the waiter's id: the token and the
// size of its block (0 and 0 of an upgrade), the id, and the name in
// hexadecimal.
//
// # Guarantees
//
// The whole rule: order, minimum hold, lock delay, slots, upgrades, blocks of
// tokens. Each operation is one statement that changes one row, and so a
// transaction of its own; one on a name that somebody else uses may need a
// second. Time is the server's (clock_timestamp). A claim that is refused at
// once writes nothing.
//
// What was granted or renewed survives a crash of the server: such statements
// wait for the disk, also where synchronous_commit is off. A release beside
// which nobody waits does not: after a crash of the server the name may still be
// taken, until its TTL.
//
// A replica that is promoted has lost what it had not received. Unless it is a
// synchronous one, two can then hold a name until the TTL of the first is over,
// and if its clock is behind, tokens can be smaller than those that were lost.
// Check the token where that matters.
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
// listen: waiters poll, unless Options.Listen names the server itself.
//
// A pool may be shared with the rest of a program. When every connection of it is
// in use, renewals and releases have up to two connections of the Store's own;
// a driver of database/sql other than that of pgx has none to give, and
// [Store.Check] warns if its pool is bounded.
//
// # Rights
//
// A role that may do just this can do all of it, here for the default table:
//
//	GRANT USAGE ON SCHEMA public TO locks
//	GRANT SELECT, INSERT, UPDATE ON public.holdfast_locks TO locks
//	GRANT DELETE ON public.holdfast_locks TO locks
//
// DELETE is for old rows; without it they stay. To make the table the role needs
// CREATE on the schema.
//
// # Session mode
//
// [NewSession], [NewSessionDB] and [OpenSession] keep locks as advisory locks of
// one session: a connection of their own, opened at the first claim, for all
// names of the process, and closed after half a minute in which nothing is held.
// It takes nothing out of the user's pool.
//
// Choose it where a lock must come free the moment its process dies, and where
// a lease must not run out under a process that is slow; and where nobody needs
// what it lacks: order (who waits tries again and again, in pauses that grow to
// Options.PollMax, and readers can keep a writer waiting for ever), slots,
// upgrades, minimum holds, hand-over, and any look at who waits.
//
// A lease has no deadline there: it ends when it is released or lost. A loss is
// whatever ends the session: pg_terminate_backend, a restart or a fail-over of
// the server, a network that breaks. Where somebody tells of it, the server or
// an operating system, the lease is lost at once; where nobody does, within 15
// seconds, and the server is told to keep such a session for 25. But it is
// noticed and not foreseen. In the moments until then, and for as long as the
// process takes to stop what it does, somebody else may have the name. Tokens that the
// resource checks are what protects there (SessionOptions.Tokens).
//
// The session must be the server's own: a pooler in between, PgBouncer in
// whatever mode, is found out and refused (store.ErrUnsupported), and so is a
// standby. What a name is to the server says [KeyOf]; with a name like
// "advisory:1234" it is a lock that other programs take too. Whoever may connect
// may take any advisory lock of the database, and see in pg_locks which are
// taken: they are no secret, and no protection against one's own users.
//
// It needs no rights but to connect. With tokens:
//
//	GRANT USAGE ON SCHEMA public TO locks
//	GRANT USAGE, SELECT ON SEQUENCE public.holdfast_tokens TO locks
//
// To make the sequence the role needs CREATE on the schema, or somebody else runs
// the SQL that [SessionSchema] returns.
//
// # Transaction mode
//
// [LockTx], [TryLockTx], [RLockTx] and [TryRLockTx] take an advisory lock in a
// transaction of the caller's, of which it is then a part: it ends with that, and
// so with all that the transaction has done. Choose it where the work is that
// transaction: then nothing can be written without the lock, and no token is
// needed. There is no lease. It goes through any pooler, needs no rights, and
// excludes session mode, as both are of the same locks; table mode knows nothing of
// either.
package pgstore
