// Package pgadvisory uses PostgreSQL's advisory locks. It has two modes:
//
//   - Session ([New], [NewDB], [Open]): a store, whose locks are those of one
//     connection. The locks of a dead process are freed at once, and no lease
//     expires under a live one. But there is no order and there are no slots, and
//     the loss of a connection is noticed only after it has happened.
//   - Transaction ([LockTx]): in a transaction of your own, held until it ends.
//
// The two modes exclude each other, as they use the same locks. Package pgstore
// keeps leases in a table and does not see these locks: use that unless you have a
// reason not to.
//
// # Session mode
//
// All names of a process are advisory locks of one session: a connection that the Store opens at
// the first claim and closes after half a minute in which nothing is held. It takes no connection
// of your pool.
//
// Choose it if a lock must be freed the moment its process dies, or a lease must not expire under a
// slow process, and if you do not need what it lacks: order (a waiter tries again after pauses that
// grow to Options.PollMax, and readers can keep a writer waiting forever), slots, upgrades, minimum
// holds, hand-over, and a list of waiters.
//
// # Transaction mode
//
// [LockTx], [TryLockTx], [RLockTx] and [TryRLockTx] take an advisory lock in a transaction of
// yours. The lock is then a part of the transaction, and ends with it. Choose it if the work is
// that transaction: then nothing can be written without the lock, and no token is needed. There is
// no lease. It works through any pooler and needs no rights.
//
// # Stored form
//
// Only the sequence of the tokens is stored, with Options.Tokens. [KeyOf] returns the server's key
// of a name. A name like "advisory:1234" is a lock that other programs may take too.
//
// # Guarantees
//
// A lease of session mode has no deadline: it ends when it is released or lost. It is lost when the
// session ends: by pg_terminate_backend, a restart or a failover of the server, or a broken
// network. If the server or an operating system reports that, the lease is lost at once; otherwise
// within 15 seconds, and the server is configured to keep such a session for 25. But the loss is
// noticed only after it has happened. Until then, and until the process has stopped its work,
// another process may have the name. During that time, only tokens that the resource checks protect
// it (Options.Tokens).
//
// # Requirements
//
// Session mode needs pgx and a direct connection to the server. It detects and refuses
// (store.ErrUnsupported) a pooler in between, such as PgBouncer in any mode, and a standby.
// Transaction mode works with any driver and any pooler.
//
// # Rights
//
// The right to connect is enough. Any user that may connect may take any advisory lock of the
// database, and see in pg_locks which are taken: the locks are not secret, and do not protect
// against such users. With tokens:
//
//	GRANT USAGE ON SCHEMA public TO locks
//	GRANT USAGE, SELECT ON SEQUENCE public.holdfast_tokens TO locks
//
// To create the sequence the role needs CREATE on the schema, or an administrator
// runs the SQL that [Schema] returns.
package pgadvisory
