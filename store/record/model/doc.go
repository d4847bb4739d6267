// Command model explores every history of the protocol of packages store/record
// and store/session within bounds: all orders of steps, requests that are not
// answered and land late or never, joins that land twice, sessions that run out,
// processes that are killed. It runs the protocol with all of its laws, and then with
// each law dropped, and prints a shortest history that goes wrong without it.
//
//	go run ./store/record/model            # some minutes
//	go run ./store/record/model -small     # the bounds of the test
//	go run ./store/record/model -wide      # tens of millions of states: much time and memory
//	go run ./store/record/model -part 5    # one part
//
// The test visits 4.6 million states with all laws, in some 30 seconds of CPU
// together with the laws that it drops; the command, without flags, tens of millions.
//
// It exits with 1 if a run with all laws goes wrong, or one without a law does not.
//
// # What must hold
//
//   - Never are more inside than fit, under the total of any that is inside: "MORE INSIDE THAN FIT".
//   - From every state the name becomes free again without a further fault: "THE NAME
//     STAYS TAKEN".
//   - Where nobody gives up, everybody gets in: "SOMEBODY WAITS FOREVER".
//   - No entry is overtaken, and a note once at most. Where who asks reads the record alone,
//     a note is overtaken by one at most that is granted as it comes; others that come to wait may get
//     in before it, until it is taken in.
//   - Whoever asks the holders to give up is heard by each: they keep what they have until
//     then, so else "SOMEBODY WAITS FOREVER". Nobody is told for good that somebody asks who has left, or has
//     died: "A HOLDER IS ASKED BY NOBODY".
//   - Where a replica takes the place of the server, in part 3: no hold is renewed that the new server does not
//     have ("A HOLD IS RENEWED THAT IS NOT THERE"), and the name becomes free again.
//   - Of one session, in parts 1 and 2: nobody passes over it while its owner counts
//     on it, an owner that died is passed over, and one reply that is lost costs
//     no session.
//
// # How to read a history
//
// A line is a step: who, what, and what the server has after it. A, B and C are claims, each
// of a process of its own unless the part says otherwise.
//
//	A:  swaps, and hears nothing           record B1!; inbox C2; inside B
//
// A has sent a swap, and no reply comes. The record has B, in the first session of B's
// process, granted. C's note is in the inbox, under the second session of C's
// process. B believes that it holds. After an entry ! is granted, !! upgraded to the
// whole limit, ^ an upgrade pending, x broken by an operator, ? waits and asks the holders to give up; – is an entry that was handed
// on and not adopted yet. A note that is void by mark has a number: A1#2 is A's
// second; void:A1#2 says that all up to that one are void. v3 is the version, where it
// matters. "Late" is a request that was not answered and is done, or not, now.
//
// "Reads" is Load and Left together, and what follows is decided on that. "Swaps" without
// "hears nothing" is the request and its answer, done or refused; refused, it joins.
//
// # What is in it
//
// The rule (rule.go): order, weights, two totals, upgrades. The server (server.go): the swap by version,
// the join, the call counter, ends of sessions, deletes of idle records. A claim
// (claim.go, operation.go): void, read, decide, swap or join, as long as it takes;
// waiting by watching the session ahead, by notifications or by reading. A holder
// (hold.go): the move from the short session to the long one, upgrades and the way back,
// handing on and adopting, breaks. Asking the holders to give up (giveup.go): the mark in the
// record, the call of each, and what a holder is told. One session with its time (lives.go): renewals,
// and the three kinds of life. A server that is replaced by one that has not received all, and a
// session that alone cannot be renewed (replaced.go). The parts and their bounds: parts.go. The search:
// explore.go, by breadth; then back from all states at rest.
//
// Time is only in lives.go. Elsewhere a session runs out by its owner's clock at any
// time, and is ended by the server at any time after that: that this is the order is what
// lives.go shows.
//
// # What is not in it
//
// Minimum holds, lock delays and tokens. A server that loses data, together with anything but renewals that are answered late; one that
// loses them and cannot be told from before. More than three claims, or than three
// requests under way. Two names, and so batches of several operations in one write: here each
// is a write of its own, with all that comes between. An inbox that is read in part
// (Record.More). That a record is too large. Back-off, and starvation by an unending
// stream of others. A break that drops the hold at once, which lets two in by
// design. An operator who is killed between a break and its call. The adoption of a
// hold that was not handed on. Two totals together with upgrades. Of asking to give up: the
// notification that a holder gets besides the call; readings of a holder that fail; one who waits and begins
// to ask later, or stops; several who ask; an upgrade that asks, which is written and then calls as a waiter does.
package main
