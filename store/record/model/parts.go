package main

// A part is a group of related runs, and the laws that they are for.
type part struct {
	about string
	runs  []run // small: also in the test
	more  []run // only in the command
	wide  []run // only with -wide
	laws  law   // if one is dropped, one of the runs must go wrong
}

// A run is a machine within bounds.
type run interface {
	without(l law) run
	explore() result
	String() string
}

// bound is the most states that a run may have.
const bound = 100_000_000

// with returns base with this scheme, number of claims and bounds.
func with(base rules, scheme scheme, n int, bounds faults) run {
	base.scheme, base.n, base.bounds = scheme, n, bounds
	if base.limit == 0 {
		base.weight, base.limit = [maxClaims]int8{1, 1, 1}, 1
	}
	if base.totals == [maxClaims]int8{} {
		base.totals = [maxClaims]int8{base.limit, base.limit, base.limit}
	}
	base.keep = all
	return locks{&base}
}

// parts returns all runs. Each feature that a switch adds has runs of its own.
func parts() []part {
	one := faults{silent: 1}
	small := faults{silent: 1, lapses: 1}
	usual := faults{silent: 1, lapses: 1, deaths: 1}
	twice := faults{silent: 2, lapses: 1}
	many := faults{silent: 2, lapses: 2, deaths: 1}
	totals := rules{weight: [maxClaims]int8{1, 1, 1}, totals: [maxClaims]int8{2, 2, 1}, limit: 2}
	both := rules{weight: [maxClaims]int8{2, 1, 1}, totals: [maxClaims]int8{2, 2, 1}, limit: 2, patient: true} // A wants both
	asks := rules{giveUp: true, patient: true}
	asksMoves := rules{giveUp: true, patient: true, moves: true}
	return []part{
		{
			about: "One session: A renews it, B asks whether it lives",
			runs:  []run{lives{keep: all, ttl: 2, life: byServer}, lives{keep: all, ttl: 2, life: byServerClock}, lives{keep: all, ttl: 2, life: byOwnClock}},
			more:  []run{lives{keep: all, ttl: 4, life: byServer}, lives{keep: all, ttl: 4, life: byServerClock}, lives{keep: all, ttl: 3, life: byOwnClock}},
			wide:  []run{lives{keep: all, ttl: 5, life: byOwnClock}},
			laws:  fromSending | finalEnd | renewRefused | closeSame | sinceAnswer,
		},
		{
			about: "… and a reply that is lost costs no session",
			runs:  []run{lives{keep: all, ttl: 6, prompt: true, lost: 1}},
			laws:  renewsAgain,
		},
		{
			about: "A replica takes the place of the server, and has not received all, or a session cannot be renewed (law 15)",
			runs:  []run{replaced{keep: all, left: 1}, replaced{keep: all, locked: 2}},
			more:  []run{replaced{keep: all, left: 1, locked: 2}, replaced{keep: all, left: 2}},
			laws:  beginTells | suspectMoves | suspectTakesNoMore | suspectEnds,
		},
		{
			about: "One name",
			runs:  []run{with(rules{}, byCall, 2, small), with(rules{}, byMark, 2, small), with(rules{}, noJoin, 2, usual)},
			more:  []run{with(rules{}, byCall, 2, usual), with(rules{}, byMark, 2, usual), with(rules{}, byCall, 2, twice), with(rules{}, byMark, 2, twice), with(rules{}, byCall, 3, one), with(rules{}, byMark, 3, one)},
			wide:  []run{with(rules{}, byCall, 2, many), with(rules{}, byMark, 2, many), with(rules{}, byCall, 3, small), with(rules{}, byMark, 3, small)},
			laws:  rebind | force | void | voidFirst | final | keepMark,
		},
		{
			about: "A call that is not answered",
			runs:  []run{with(rules{}, byCall, 2, faults{silent: 2})},
			more:  []run{with(rules{}, byCall, 2, faults{silent: 3}), with(rules{shared: true}, byCall, 2, faults{silent: 2})},
			wide:  []run{with(rules{}, byCall, 2, faults{silent: 3, lapses: 1})},
			laws:  callAgain,
		},
		{
			about: "A note comes twice",
			runs:  []run{with(rules{}, byMark, 2, faults{copies: 1})},
			more:  []run{with(rules{}, byMark, 2, faults{copies: 2}), with(rules{}, byMark, 2, faults{copies: 1, silent: 1})},
			wide:  []run{with(rules{}, byMark, 2, faults{copies: 1, silent: 1, lapses: 1, deaths: 1})},
			laws:  markTaken,
		},
		{
			about: "Nobody gives up, and who waits reads only when it must (law 9)",
			runs:  []run{with(rules{patient: true}, byCall, 2, usual), with(rules{patient: true}, byMark, 2, usual), with(rules{patient: true}, byMark, 3, faults{deaths: 1})},
			more:  []run{with(rules{patient: true}, byCall, 3, faults{deaths: 1}), with(rules{patient: true}, byCall, 3, one)},
			wide:  []run{with(rules{patient: true}, byCall, 3, faults{silent: 1, deaths: 1})},
			laws:  lookOn | watchAhead,
		},
		{
			about: "… and watches the session directly ahead only",
			runs:  []run{with(rules{patient: true, next: true}, noJoin, 3, faults{deaths: 1}), with(rules{patient: true, next: true}, byCall, 3, faults{deaths: 1})},
			more:  []run{with(rules{patient: true, next: true}, byMark, 3, faults{deaths: 1}), with(rules{patient: true, next: true}, noJoin, 3, faults{deaths: 1, lapses: 1})},
			wide:  []run{with(rules{patient: true, next: true}, byCall, 3, faults{deaths: 1, lapses: 1})},
			laws:  tellBehind | heedBusy,
		},
		{
			about: "… and who has joined is told that its note was taken in, and need not read",
			runs:  []run{with(rules{patient: true, reported: true}, byCall, 2, small), with(rules{patient: true, next: true, reported: true, unasked: true}, byCall, 3, faults{deaths: 1})},
			more:  []run{with(rules{patient: true, reported: true}, byMark, 2, usual), with(rules{patient: true, next: true, reported: true, unasked: true}, byMark, 3, faults{deaths: 1}), with(rules{patient: true, reported: true}, byCall, 3, faults{lapses: 1})},
			wide:  []run{with(rules{patient: true, next: true, reported: true, unasked: true}, byCall, 3, faults{deaths: 1, lapses: 1})},
			laws:  toldSession,
		},
		{
			about: "Who waits is in a short session, a hold moves to a long one (law 10)",
			runs:  []run{with(rules{moves: true}, noJoin, 2, usual), with(rules{moves: true}, noJoin, 2, faults{silent: 1, lapses: 2})},
			more:  []run{with(rules{moves: true}, byCall, 2, usual), with(rules{moves: true}, byMark, 2, usual), with(rules{moves: true}, noJoin, 2, many)},
			wide:  []run{with(rules{moves: true}, byCall, 2, faults{silent: 2, lapses: 2})},
			laws:  countShort | countLong | takeOut | force,
		},
		{
			about: "… and an ask may be made in the long one, and again in the short",
			runs:  []run{with(rules{moves: true, either: true}, noJoin, 2, small), with(rules{moves: true, either: true}, byMark, 2, one)},
			more:  []run{with(rules{moves: true, either: true}, byCall, 2, small), with(rules{moves: true, either: true}, byMark, 2, small)},
			wide:  []run{with(rules{moves: true, either: true}, byMark, 2, twice)},
			laws:  unsure,
		},
		{
			about: "A notification comes late, twice or never (law 6)",
			runs:  []run{with(rules{notifications: true}, noJoin, 2, small), with(rules{notifications: true}, noJoin, 3, faults{lapses: 1}), with(rules{notifications: true}, noJoin, 3, one)},
			more:  []run{with(rules{notifications: true}, byMark, 2, small), with(rules{notifications: true}, byCall, 2, usual), with(rules{notifications: true}, byMark, 3, one)},
			wide:  []run{with(rules{notifications: true, moves: true}, byCall, 2, usual)},
			laws:  hintSession | hintWaits,
		},
		{
			about: "… and nobody gives up",
			runs:  []run{with(rules{notifications: true, patient: true}, noJoin, 2, faults{silent: 1, drops: 1, deaths: 1})},
			more:  []run{with(rules{notifications: true, patient: true}, byCall, 2, faults{silent: 1, drops: 1, deaths: 1}), with(rules{notifications: true, patient: true}, byMark, 3, faults{drops: 1})},
			wide:  []run{with(rules{notifications: true, patient: true}, byCall, 3, faults{drops: 1, deaths: 1})},
			laws:  polls,
		},
		{
			about: "Two claims of one process",
			runs:  []run{with(rules{shared: true}, byCall, 2, small), with(rules{shared: true}, byMark, 2, one), with(rules{shared: true}, noJoin, 3, faults{lapses: 1})},
			more:  []run{with(rules{shared: true}, byCall, 3, one), with(rules{shared: true}, byMark, 2, usual)},
			wide:  []run{with(rules{shared: true}, byCall, 3, small)},
			laws:  together | ownRead,
		},
		{
			about: "A grant that one operation sees is kept for a later ask of another",
			runs:  []run{with(rules{shared: true, keeps: true}, noJoin, 3, faults{lapses: 1})},
			more:  []run{with(rules{shared: true, keeps: true}, noJoin, 3, small), with(rules{shared: true, keeps: true}, noJoin, 3, usual), with(rules{shared: true, keeps: true}, byCall, 2, small)},
			wide:  []run{with(rules{shared: true, keeps: true}, byMark, 3, faults{lapses: 1})},
			laws:  keptFrom,
		},
		{
			about: "The join is a request of its own, and the inbox is read in one (ZooKeeper)",
			runs:  []run{with(rules{apart: true, halves: true}, byCall, 2, one)},
			more:  []run{with(rules{apart: true, halves: true}, byCall, 2, small)},
			wide:  []run{with(rules{apart: true, halves: true}, byCall, 2, usual), with(rules{apart: true, halves: true}, byCall, 2, twice)},
			laws:  inboxFirst | takeInOnly,
		},
		{
			about: "The inbox is passed by a watermark (NATS)",
			runs:  []run{with(rules{water: true, halves: true}, byMark, 2, one)},
			more:  []run{with(rules{water: true, halves: true}, byMark, 2, small)},
			wide:  []run{with(rules{water: true, halves: true}, byMark, 2, usual), with(rules{water: true, halves: true}, byMark, 2, twice)},
			laws:  inboxFirst | keepMark,
		},
		{
			about: "An idle record is deleted, and made again",
			runs:  []run{with(rules{}, noJoin, 2, faults{silent: 1, deletes: 1}), with(rules{}, byMark, 2, faults{silent: 1, deletes: 1}), with(rules{water: true}, byMark, 2, faults{deletes: 1})},
			more:  []run{with(rules{}, noJoin, 3, faults{silent: 1, deletes: 2}), with(rules{}, byCall, 2, faults{silent: 1, deletes: 1}), with(rules{water: true}, byMark, 2, faults{silent: 1, deletes: 1})},
			wide:  []run{with(rules{}, noJoin, 3, faults{silent: 2, deletes: 2, lapses: 1})},
			laws:  newVersion | retain | purgeFirst,
		},
		{
			about: "A process ends its sessions",
			runs:  []run{with(rules{leased: true}, byCall, 2, faults{silent: 1, ends: 1}), with(rules{}, byMark, 2, faults{silent: 1, ends: 1})},
			more:  []run{with(rules{}, byCall, 2, faults{silent: 1, ends: 1, lapses: 1}), with(rules{}, byMark, 2, faults{silent: 1, ends: 1, lapses: 1})},
			wide:  []run{with(rules{}, byCall, 3, faults{silent: 1, ends: 1}), with(rules{}, byMark, 3, faults{silent: 1, ends: 1})},
			laws:  endLast,
		},
		{
			about: "Readers and a writer: A and B weigh 1, C all",
			runs:  []run{with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2}, noJoin, 3, faults{lapses: 1}), with(rules{weight: [maxClaims]int8{1, 2, 2}, limit: 3}, noJoin, 3, faults{deaths: 1})},
			more:  []run{with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2}, noJoin, 3, usual), with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2}, byCall, 3, faults{deaths: 1}), with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2}, byMark, 3, faults{deaths: 1})},
			wide:  []run{with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2}, byCall, 3, one), with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2}, byMark, 3, one)},
			laws:  final,
		},
		{
			about: "A semaphore that C has in use with 1 slot, and A and B with 2",
			runs:  []run{with(both, noJoin, 3, faults{deaths: 1}), with(totals, noJoin, 3, faults{deaths: 1})},
			more:  []run{with(totals, noJoin, 3, usual), with(totals, byCall, 3, faults{deaths: 1}), with(totals, byMark, 3, faults{deaths: 1}), with(both, byMark, 3, faults{deaths: 1})},
			wide:  []run{with(totals, byCall, 3, one), with(totals, byMark, 3, one)},
			laws:  heldTotals | ownTotal | waitTotals | holdsStay,
		},
		{
			about: "A upgrades its read lock, and goes back",
			runs:  []run{with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2, upgrades: true}, noJoin, 2, usual), with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2, upgrades: true, patient: true, hogs: true}, noJoin, 3, faults{deaths: 1, drops: 1})},
			more:  []run{with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2, upgrades: true}, noJoin, 3, small), with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2, upgrades: true}, byCall, 2, small)},
			wide:  []run{with(rules{weight: [maxClaims]int8{1, 1, 2}, limit: 2, upgrades: true}, noJoin, 3, many)},
			laws:  downFirst | wantReads | force,
		},
		{
			about: "A hands its hold to B",
			runs:  []run{with(rules{detaches: true}, noJoin, 3, one)},
			more:  []run{with(rules{detaches: true}, noJoin, 3, small), with(rules{detaches: true}, noJoin, 3, usual), with(rules{detaches: true}, byCall, 3, faults{}), with(rules{detaches: true}, noJoin, 3, twice)},
			wide:  []run{with(rules{detaches: true}, noJoin, 3, many)},
			laws:  handFirst | adoptSession | force | final,
		},
		{
			about: "An operator breaks the hold of A, which keeps it otherwise",
			runs:  []run{with(rules{patient: true, hogs: true}, noJoin, 2, faults{silent: 1, breaks: 1}), with(rules{patient: true, hogs: true}, byCall, 2, faults{silent: 1, breaks: 1})},
			more:  []run{with(rules{patient: true, hogs: true, apart: true}, byCall, 2, faults{silent: 1, breaks: 1}), with(rules{patient: true, hogs: true}, byMark, 2, faults{silent: 1, breaks: 1})},
			wide:  []run{with(rules{patient: true, hogs: true}, byCall, 3, faults{silent: 1, breaks: 1})},
			laws:  callAfter | onceJoined,
		},
		{
			about: "Who waits asks the holders to give up, which keep what they have until they are told",
			runs:  []run{with(asks, noJoin, 2, small), with(asks, byMark, 2, one), with(asks, noJoin, 3, faults{deaths: 1}), with(asksMoves, noJoin, 2, one)},
			more:  []run{with(asks, noJoin, 2, usual), with(asks, byCall, 2, usual), with(asks, byMark, 2, usual), with(asks, noJoin, 3, one), with(asks, byCall, 3, faults{deaths: 1}), with(asksMoves, noJoin, 3, faults{}), with(asksMoves, noJoin, 2, many)},
			wide:  []run{with(asks, byCall, 3, one), with(asks, byMark, 3, faults{deaths: 1}), with(asks, noJoin, 3, usual), with(asksMoves, noJoin, 3, one)},
			laws:  markFirst | callAgain | callHeard | grantTells | noticeTells | moveTells,
		},
		{
			about: "… and A keeps it for good, but is told what is",
			runs:  []run{with(rules{giveUp: true, hogs: true}, noJoin, 2, faults{deaths: 1}), with(rules{giveUp: true, hogs: true}, byMark, 2, faults{deaths: 1})},
			more:  []run{with(rules{giveUp: true, hogs: true}, noJoin, 2, usual), with(rules{giveUp: true, hogs: true}, byCall, 2, usual), with(rules{giveUp: true, hogs: true}, byMark, 2, usual), with(rules{giveUp: true, hogs: true}, noJoin, 3, faults{deaths: 1})},
			wide:  []run{with(rules{giveUp: true, hogs: true}, noJoin, 3, usual)},
			laws:  readsOn | livingAsk,
		},
		{
			about: "Order",
			runs:  []run{with(rules{order: true}, byCall, 2, one), with(rules{order: true, shared: true}, byMark, 3, faults{})},
			more:  []run{with(rules{order: true, shared: true}, byCall, 2, usual), with(rules{order: true, shared: true}, byMark, 3, faults{lapses: 1})},
			wide:  []run{with(rules{order: true, shared: true}, byCall, 3, one)},
			laws:  behind | tells,
		},
		{
			about: "… and who asks reads the record alone (NATS)",
			runs:  []run{with(rules{order: true, shared: true, peeks: true}, byMark, 3, faults{})},
			more:  []run{with(rules{order: true, shared: true, peeks: true}, byCall, 3, faults{}), with(rules{order: true, shared: true, peeks: true, water: true, halves: true}, byMark, 2, one)},
			wide:  []run{with(rules{order: true, shared: true, peeks: true, water: true, halves: true}, byMark, 3, faults{lapses: 1})},
			laws:  takeFirst,
		},
	}
}
