// Command model explores every history of the protocol of packages store/record and store/session within bounds:
// all orders of steps, unanswered requests that are done late or never, joins that are done twice, sessions that
// expire, processes that are killed. It runs the protocol with all of its laws, and then with each law dropped,
// and prints a shortest history that goes wrong without that law.
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
//   - There are never more holders than fit, under the total of any holder: "MORE INSIDE THAN FIT".
//   - From every state the name becomes free again without a further fault: "THE NAME
//     STAYS TAKEN".
//   - If no claim gives up, every claim is granted: "SOMEBODY WAITS FOREVER".
//   - No entry is overtaken, and a note at most once. If asks read the record alone, a note is overtaken by at
//     most one claim that is granted at once; other waiters may be granted before it, until it is taken in.
//   - A request to give up reaches each holder: they keep their holds until then, so otherwise "SOMEBODY WAITS
//     FOREVER". A request of a claim that has left, or has died, is not reported forever: "A HOLDER IS ASKED BY
//     NOBODY".
//   - If a replica replaces the server, in part 3: no hold is renewed that the new server does not have ("A HOLD
//     IS RENEWED THAT IS NOT THERE"), and the name becomes free again.
//   - For one session, in parts 1 and 2: it is not skipped while its owner relies on it, a dead owner is
//     skipped, and one lost reply costs no session.
//
// # How to read a history
//
// A line is a step: the claim, the action, and the server's state after it. A, B and C are claims, each of a
// process of its own unless the part says otherwise.
//
//	A:  swaps, and hears nothing           record B1!; inbox C2; inside B
//
// A has sent a swap, and no reply comes. The record has B, in the first session of B's process, granted. C's
// note is in the inbox, under the second session of C's process. B believes that it holds. After an entry ! is
// granted, !! upgraded to the whole limit, ^ an upgrade pending, x broken by an operator, ? waits and asks the
// holders to give up; – is a detached entry that was not adopted yet. A note that is void by mark has a number:
// A1#2 is A's second; void:A1#2 says that all up to that one are void. v3 is the version, where it matters.
// "Late" is an unanswered request that is done, or not, now.
//
// "Reads" is Load and Left together, and the next step is decided on that. "Swaps" without "hears nothing" is
// the request and its answer, done or refused; if refused, it joins.
//
// # What is in it
//
// The rule (rule.go): order, weights, two totals, upgrades. The server (server.go): the swap by version, the
// join, the call counter, ends of sessions, deletes of idle records. A claim (claim.go, operation.go): void,
// read, decide, swap or join, until it is done; waiting by watching the session ahead, by notifications or by
// reading. A holder (hold.go): the move from the short session to the long one, upgrades and the way back,
// detaching and adopting, breaks. Asking the holders to give up (giveup.go): the mark in the record, the call of
// each, and what a holder learns. One session with its time (lives.go): renewals, and the three kinds of life. A
// server that is replaced by one that has not received everything, and a session that alone cannot be renewed
// (replaced.go). The parts and their bounds: parts.go. The search: explore.go, breadth-first; then back from
// all states at rest.
//
// Time is only in lives.go. Elsewhere a session expires by its owner's clock at any time, and is ended by the
// server at any time after that: lives.go proves this order.
//
// # What is not in it
//
// Minimum holds, lock delays and tokens. A server that loses data, together with anything but late answers to
// renewals; one that loses data and cannot be distinguished from before. More than three claims, or than three
// requests under way. Two names, and so batches of several operations in one write: here each is a write of its
// own, with all steps in between. An inbox that is read in part (Record.More). A release that leaves the inbox
// unread, because its process has just read it and met no other since: a note is then overtaken by a few holds
// more. A record that is too large. Back-off, and starvation by an unending stream of others. A break that drops
// the hold at once, which admits two by design. An operator process that is killed between a break and its call.
// The adoption of a hold that was not detached. Two totals together with upgrades. Of asking to give up: the
// notification that a holder gets in addition to the call; failed reads of a holder; a waiter that begins to ask
// later, or stops; several that ask; an upgrade that asks, which is written and then calls as a waiter does.
package main
