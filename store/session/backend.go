// Package session keeps a process alive in a store: one session for each TTL,
// renewed once for all that the process holds or waits for.
//
// An entry of a lock names the session that keeps it, and lives as long as
// that session. So ten thousand holds cost one small write each third of a TTL.
//
// A store gives a [Backend]: five requests and, where its server reports the end
// of a session, a sixth. Package store/record builds locks on it, and so does pgstore.
//
// Numbered laws are those of docs/design.md, "Records and sessions".
package session

import (
	"context"
	"encoding/hex"
	"time"
)

// An ID names a session. It is random and never used again. The zero ID
// belongs to no session.
type ID [8]byte

// String is the ID in lower-case hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// A Life says how a session comes to its end when its owner does not renew it.
type Life int

// The kinds of Life.
const (
	// ByServer: the server ends the session by itself (etcd, ZooKeeper, NATS).
	ByServer Life = iota + 1
	// ByServerClock: the session has an expiry on the server's clock. Left compares
	// it and makes the end final by a conditional write (SQL, MongoDB).
	ByServerClock
	// ByOwnClock: the only clock is this process's. Left reports a session as ended after it saw the session's record
	// unchanged for its TTL on the monotonic clock of this process, and has then closed it by a conditional write. See
	// [Unchanged], which does that, and [Doubter]. A process gets what a dead process held only if it runs for that
	// long: one that asks once and exits finds it taken each time.
	ByOwnClock
)

// Traits are the properties of a Backend. They never change.
type Traits struct {
	Life Life // who judges whether a session has ended

	// MinTTL and MaxTTL are the range of TTLs that Begin takes, each a multiple of
	// Tick. The caller rounds up. All are positive, and MinTTL and MaxTTL are
	// multiples of Tick.
	MinTTL, MaxTTL, Tick time.Duration

	// ReportsEnd says that Await works: the server reports the end of a session.
	// Without it the caller asks Left now and then.
	ReportsEnd bool
}

// A Backend keeps sessions on a server. It sends each request once (Renew may go to several members of a
// cluster), and never retries, sleeps or logs. Its methods are safe for concurrent use, and return when ctx
// ends.
//
// A definite error ([store.Definite]) says that nothing was or will be done. Any other error says that the
// request may have been done, or may yet be done.
//
// What a Backend promises, each sentence a test of recordtest:
//
//  1. A session that was begun and is renewed in time goes on.
//  2. A session that is not renewed ends. It ends no earlier than what Begin
//     returned, counted from before the sending of the last Renew (or Begin) that
//     was answered, and no later than its TTL and some seconds after the server
//     received that.
//  3. Begin of an ID takes TTLs of MinTTL, MaxTTL and each multiple of Tick between.
//     What it returns is positive and at most the TTL.
//  4. A session is independent of others: the end of one ends no other.
//  5. Renew of a session that has ended returns store.ErrLost, and so does each
//     Renew after it.
//  6. Renew of an ID that was never begun returns store.ErrLost, and begins nothing.
//  7. A Renew whose reply was lost does no harm: the next Renew is answered as if
//     it had not been sent.
//  8. Renew returns how many Calls of the session were done before it, as a number
//     that never decreases. It is 0 before the first Call.
//  9. A Call that was answered without error, to a session that lives, is counted
//     by every Renew sent after that answer.
//  10. A Call does not renew: however many come, the session ends when 2 says.
//  11. A Call of a session that has ended, or was never begun, is no error and begins nothing.
//  12. Left returns as many durations as it is given IDs, in that order.
//  13. Left above 0 is the least time that the session goes on unless it is ended, or a small positive
//     duration if the server does not report it. It is above 0 for as long as a Renew can still be
//     answered with nil.
//  14. Left at or below 0 is final, and was made final before Left returned: no Renew of the session is
//     answered with nil after that, even one that was sent before and was delayed. How far it is below 0
//     is the least time since the session ended, if the server reports that.
//  15. Once Left has been at or below 0 for a session, it stays so for every process.
//  16. Left of an ID that was never begun, or ended long ago, is at or below 0.
//  17. When a session has come to its end by 2, Left says so soon (ByOwnClock: after
//     at most twice its TTL since the first Left of this process that saw it).
//  18. End ends the session at once: Left is at or below 0 after it was answered.
//  19. End of a session that has ended is no error.
//  20. A late Begin (its reply was lost) leaves a session that ends by itself.
//  21. Await returns nil soon after the session has ended, at once if it had
//     ended before. It may also return nil early, so the caller asks Left. It
//     returns when its context ends, with an error. Without ReportsEnd it returns
//     store.ErrUnsupported at once.
//  22. A server that is frozen answers nothing: each call returns when its context ends.
type Backend interface {
	// Begin begins a session, which ends if it is not renewed for its TTL, a
	// multiple of Tick. lasts is for how long from the sending of an answered Begin or
	// Renew its owner may count on it. An ID is begun once; one whose
	// Begin returned an error is not used.
	Begin(ctx context.Context, id ID, ttl time.Duration) (lasts time.Duration, err error)

	// Renew renews a session that this process began. store.ErrLost: it has ended.
	Renew(ctx context.Context, id ID) (calls int64, err error)

	// Call adds one to the call counter of any session. So its owner learns, with its next renewal, that it
	// has to read its holds: one was broken, adopted or upgraded, or is asked to be given up. In a store
	// whose joins a call makes void, it also makes void each join that depends on the counter's previous
	// value.
	Call(ctx context.Context, id ID) error

	// Left returns for how long each session goes on at least.
	Left(ctx context.Context, ids []ID) ([]time.Duration, error)

	// End ends a session of this process at once.
	End(ctx context.Context, id ID) error

	// Await waits for the end of any session.
	Await(ctx context.Context, id ID) error

	// SessionTraits does no I/O.
	SessionTraits() Traits
}

// A Doubter is a Backend that may have to watch a session until it knows whether the session lives, as the only clock
// is this process's: see [Unchanged]. Until then Left is above 0.
type Doubter interface {
	// Doubt returns for how long at most the session must still be watched: the caller asks about it now and then, and
	// once more after that time. 0: this process knows whether the session lives, or was never asked about it. It does
	// no I/O.
	Doubt(id ID) time.Duration
}

// A Replaceable is a Backend whose server can be replaced by one that has lost some answered writes: a promoted
// replica, or the server itself after a crash. The new server must not use the versions of its records again, because a
// process may write, based on what it has read from the old server, before it learns of the replacement.
type Replaceable interface {
	// Server returns a number that identifies the server that last answered a Begin or a Renew. It is 0 only before
	// the first of these answers, and it stays the same as long as nothing can have been forgotten. It does no I/O,
	// and it costs no request.
	Server() int64
}
