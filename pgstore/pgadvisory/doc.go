// Package pgadvisory keeps locks as PostgreSQL's advisory locks. It has two modes:
//
//   - Session ([New], [NewDB], [Open]): a store, whose locks are those of one
//     connection. The lock of a process that dies comes free at once, and no lease
//     can run out under one that lives; but there is no order and there are no
//     slots, and the loss of a connection is noticed, not foreseen.
//   - Transaction ([LockTx]): in a transaction of your own, held until it ends.
//
// The two exclude each other, as they are of the same locks. Package pgstore above
// keeps leases in a table and knows nothing of either: use that unless you know
// why not.
//
// # Session mode
//
// All names of the process are advisory locks of one session: a connection of the
// Store's own, opened at the first claim and closed after half a minute in which
// nothing is held. It takes nothing out of the user's pool.
//
// Choose it where a lock must come free the moment its process dies, and where
// a lease must not run out under a process that is slow; and where nobody needs
// what it lacks: order (who waits tries again and again, in pauses that grow to
// Options.PollMax, and readers can keep a writer waiting for ever), slots,
// upgrades, minimum holds, hand-over, and any look at who waits.
//
// # Transaction mode
//
// [LockTx], [TryLockTx], [RLockTx] and [TryRLockTx] take an advisory lock in a
// transaction of the caller's, of which it is then a part: it ends with that, and
// so with all that the transaction has done. Choose it where the work is that
// transaction: then nothing can be written without the lock, and no token is
// needed. There is no lease. It goes through any pooler and needs no rights.
//
// # Stored form
//
// Nothing is stored but the sequence of the tokens, where there are tokens
// (Options.Tokens). What a name is to the server says [KeyOf]; with a name like
// "advisory:1234" it is a lock that other programs take too.
//
// # Guarantees
//
// A lease of session mode has no deadline: it ends when it is released or lost. A
// loss is whatever ends the session: pg_terminate_backend, a restart or a
// fail-over of the server, a network that breaks. Where somebody tells of it, the
// server or an operating system, the lease is lost at once; where nobody does,
// within 15 seconds, and the server is told to keep such a session for 25. But it
// is noticed and not foreseen. In the moments until then, and for as long as the
// process takes to stop what it does, somebody else may have the name. Tokens that
// the resource checks are what protects there (Options.Tokens).
//
// # Requirements
//
// For session mode pgx, and a connection that is the server's own: a pooler in
// between, PgBouncer in whatever mode, is found out and refused
// (store.ErrUnsupported), and so is a standby. For transaction mode any driver and
// any pooler.
//
// # Rights
//
// It needs no rights but to connect. Whoever may connect may take any advisory
// lock of the database, and see in pg_locks which are taken: they are no secret,
// and no protection against one's own users. With tokens:
//
//	GRANT USAGE ON SCHEMA public TO locks
//	GRANT USAGE, SELECT ON SEQUENCE public.holdfast_tokens TO locks
//
// To make the sequence the role needs CREATE on the schema, or somebody else runs
// the SQL that [Schema] returns.
package pgadvisory
