// Package pgstore keeps locks in PostgreSQL. It has three modes; which one to
// choose:
//
//   - Table ([New], [Open]), unless you know why not: leases in a table, with
//     everything that holdfast has. A queue, tokens, slots, locks that outlive
//     a broken connection, through any pooler.
//   - Session: advisory locks on connections of our own. The lock of a process
//     that dies comes free at once, and no lease can run out under one that
//     lives; but no order, no slots, and the loss of a connection is noticed,
//     not foreseen.
//   - Transaction: advisory locks in a transaction of your own, held until it
//     ends.
package pgstore
