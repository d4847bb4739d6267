package holdfast

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// one is a broken engine that differs in one place.
func one(name, test, file, old, new string) mutant.Broken {
	return mutant.Broken{Name: name, Test: test, Edits: []mutant.Edit{{File: file, Old: old, New: new}}}
}

// hanging is one that asks without end at one instant, or waits for itself.
func hanging(name, test, file, old, new string) mutant.Broken {
	b := one(name, test, file, old, new)
	b.Hangs = true
	return b
}

const unclearNotYet = "case errors.Is(r.Err, ErrLost):\n\t\treturn r.Err\n\t}"

var engineMutants = []mutant.Broken{
	// Rule 1.
	one("the deadline of a grant counts from the reply", "TestRule1_ClockBeforeTheCall", "ask.go",
		"out.sent = o.e.now()\n\t\tout.answer, err = o.e.store.Ask(ctx, o.claim)\n",
		"out.answer, err = o.e.store.Ask(ctx, o.claim)\n\t\tout.sent = o.e.now()\n"),
	one("the deadline of a renewal counts from the reply", "TestRule1_ARenewalCountsFromItsSending", "renew.go",
		"answers = s.e.store.Renew(ctx, asked)\n", "answers = s.e.store.Renew(ctx, asked)\n\t\tsent = s.e.now()\n"),
	one("no one percent", "TestRule1_ClockBeforeTheCall", "hold.go", "from.Add(ttl - ttl/100 - margin)", "from.Add(ttl - margin)"),
	one("no margin", "TestRule1_ClockBeforeTheCall", "hold.go", "from.Add(ttl - ttl/100 - margin)", "from.Add(ttl - ttl/100)"),
	one("the TTL of an answer is not used", "TestRule1_TheAnswerCarriesTheInstantAndTheTTL", "renew.go", "h.e.deadlineOf(sent, r.TTL)", "h.e.deadlineOf(sent, h.s.TTL)"),
	one("the instant of an answer is not used", "TestRule1_TheAnswerCarriesTheInstantAndTheTTL", "acquire.go", "if out.answer.From != 0 {", "if false {"),
	one("a grant that comes too late is handed out", "TestRule1_AGrantAnsweredAfterItsOwnDeadlineIsAskedForAgain", "acquire.go",
		"if !r.e.desc.InProcess && r.e.deadlineOf(", "if false && r.e.deadlineOf("),
	one("the time suspended does not count", "TestRule1_TheTimeSuspendedCounts", "engine.go", "now: clock.Now,", "now: clock.Awake,"),
	one("the clock is negative in a bubble", "TestRule1_TheBootClockStandsStillInABubble", "internal/clock/clock.go", "return early + Instant(", "return Instant("),

	// Rule 2.
	one("a renewal that hangs keeps the lease", "TestRule2_ATimerEndsTheLeaseThoughARenewalHangs", "renew.go",
		"if h.flight == nil {\n\t\tat = min(at, h.renewAt)\n", "if h.flight != nil {\n\t\tat = at.Add(time.Hour)\n\t} else {\n\t\tat = min(at, h.renewAt)\n"),
	one("an answer after the deadline revives", "TestRule2_TheClockIsReadBeforeTheAnswer", "renew.go", "case h.deadline <= now:", "case false:"),
	one("the boot clock is not looked at", "TestRule2_AfterASuspendTheLossIsToldWithinASecond", "renew.go", "at = min(at, now.Add(bootCheck))", ""),

	// Rule 3.
	one("renewed at half of the TTL", "TestRule3_RenewedAtAThirdOfTheTTL", "options.go", "cmp.Or(s.RenewEvery, s.TTL/3)", "cmp.Or(s.RenewEvery, s.TTL/2)"),
	one("what is granted for less is renewed as seldom", "TestRule3_WhatIsGrantedForLessIsRenewedSooner", "options.go", "if ttl == 0 || ttl >= s.TTL {", "if true {"),
	one("not ours is asked for again", "TestRule3_NotYoursIsLostAtOnce", "renew.go", unclearNotYet, "case false:\n\t\treturn r.Err\n\t}"),
	one("an unclear renewal is a loss", "TestRule3_AnUnclearRenewalIsRetriedUntilTheDeadline", "renew.go", unclearNotYet, "default:\n\t\treturn ErrLost\n\t}"),
	one("an unclear renewal is tried again a renewal later", "TestRule3_AnUnclearRenewalIsRetriedUntilTheDeadline", "renew.go",
		"h.renewAt = now.Add(jitter(pause))", "h.renewAt = now.Add(h.s.RenewEvery + 0*pause)"),
	one("MaxHold is ignored", "TestMaxHold_IsLostAndGivenBackAtItsEnd", "renew.go", "if h.s.MaxHold > 0 {", "if false {"),

	one("each lease warns of an outage", "TestRule3_AnOutageIsOneWarning", "renew.go", "s.away[log], level = true, slog.LevelWarn", "level = slog.LevelWarn"),
	one("one warning for ever", "TestRule3_AnOutageIsOneWarning", "renew.go", "if log := h.s.Logger; err == nil {\n\t\t\tclear(s.away)\n", "if log := h.s.Logger; err == nil {\n"),
	one("a grant is no answer", "TestRule3_AnOutageIsOneWarning", "renew.go", "\tclear(s.away)\n\tif s.e.endless {", "\tif s.e.endless {"),

	// Rule 4.
	one("a call for each lease", "TestRule4_LeasesAreRenewedInBatches", "renew.go", "batchSize = 1000", "batchSize = 1"),
	one("what is nearly due waits", "TestRule4_WhatIsNearlyDueGoesWithTheRest", "renew.go", "by = now.Add(h.s.RenewEvery / 16)", "by = now"),
	one("one name's failure fails the batch", "TestRule4_OneNamesFailureDoesNotTouchAnothers", "renew.go",
		"\t\terr := answers[i].Err\n", "\t\tfor _, a := range answers {\n\t\t\tif a.Err != nil {\n\t\t\t\tanswers[i] = a\n\t\t\t}\n\t\t}\n\t\terr := answers[i].Err\n"),
	one("what has ended is renewed", "TestRule4_WhatEndsBeforeItsBatchIsSentIsNotRenewed", "renew.go", "return h.index < 0 })", "return false })"),

	// Rule 5.
	one("asked before it is subscribed", "TestRule5_SubscribeThenLook", "acquire.go", "r.e.hints.subscribe(ctx, r.s)", "r.e.hints.begin(r.s)"),
	one("nobody can listen, and it is tried again at once", "TestRule5_WhereNobodyCanListenItIsSaidOnceAndTriedSeldom", "hints.go", "h.again = h.e.now().Add(deafFor)", "_ = deafFor"),
	one("nobody can listen, and it is tried first", "TestRule5_WhereNobodyCanListenThePlaceIsAskedForAtOnce", "hints.go", "(h.under != nil || h.e.now() >= h.again)", "true"),
	one("nobody can listen, and it is said again and again", "TestRule5_WhereNobodyCanListenItIsSaidOnceAndTriedSeldom", "hints.go", "told = told && h.deaf", "told = false"),
	one("subscribed again and not looked", "TestRule5_ASubscriptionThatFailedIsTriedAgainAndThenLooked", "hints.go", "put(ch, store.Hint{})", "_ = ch"),
	one("a hint with an old token grants", "TestRule5_AHintWithAnOldTokenIsOnlyALook", "acquire.go", "h.Token > r.refused.answer.Last", "h.Token > 0"),
	one("a hint counts from its arrival", "TestRule5_AHintMayCarryTheGrant", "acquire.go", "r.lease(h.Token, h.N, r.sent, r.s.place,", "r.lease(h.Token, h.N, r.e.now(), r.s.place,"),
	one("a hint grants the whole TTL", "TestRule5_AHintMayCarryTheGrant", "acquire.go", "r.lease(h.Token, h.N, r.sent, r.s.place,", "r.lease(h.Token, h.N, r.sent, r.s.TTL,"),
	one("a hint is used until the place ends", "TestRule5_AHintIsUsedWithoutALookOnlyWhileHalfThePlaceIsLeft", "acquire.go",
		"r.e.now() < r.sent.Add(r.s.place/2)", "r.e.now() < r.sent.Add(r.s.place)"),
	one("a minimum hold is not shown", "TestRule5_MinHoldIsShownBeforeTheCallerHasTheLease", "ask.go", "|| o.claim.Keep == 0 || o.part {", "|| o.claim.Keep >= 0 || o.part {"),
	one("a hint spares the minimum hold its renewal", "TestRule5_AHintDoesNotSpareTheMinHoldItsRenewal", "acquire.go",
		"|| !fresh || r.claim.Keep > 0 ||", "|| !fresh ||"),
	one("no safety look", "TestRule5_TheSafetyLookIsAtAThirdOfThePlace", "pace.go", "at := p.e.together(p.sent.Add(p.s.place/3), p.s.place/30)", "at := p.sent.Add(time.Hour)"),
	one("each keeps its place by itself", "TestRule5_PlacesAreKeptTogether", "engine.go", "return at.Add(grain - past)", "return at"),
	one("no look at the end of the obstacle", "TestRule5_LooksAtTheEndOfTheObstacleAhead", "pace.go", "answer.Until; until > 0 {", "answer.Until; until < 0 {"),
	one("an unclear ask is not withdrawn", "TestRule5_AnUnclearAskIsRepeatedThenWithdrawn", "acquire.go",
		"if r.placed || r.claim.Keep > 0 || !store.Definite(out.err) {", "if false {"),
	one("a place that lapsed is asked for with its old id", "TestRule5_APlaceThatLapsedIsAskedForWithANewID", "acquire.go", "r.newID() // the place has lapsed", ""),
	one("polls do not back off", "TestRule5_PollsBackOff", "pace.go", "p.poll = min(p.poll*3/2, p.s.PollMax)", ""),
	one("no last ask", "TestRule5_ALastAskBeforeTheContextEnds", "pace.go", "if p.ends != 0 && !p.last {", "if false {"),
	one("a hint grants after the end of the context", "TestRule5_AfterTheEndOfItsContextNothingIsGranted", "pace.go", "return &h, ctx.Err() //", "return &h, nil //"),
	{Name: "an answer grants after the end of the context", Test: "TestRule5_AnAnswerInProcessAfterTheEndOfTheContextIsGivenBack", Edits: []mutant.Edit{
		{File: "acquire.go", Old: "if err := ctx.Err(); err != nil { // after its end nothing is granted", New: "if err := error(nil); err != nil {"},
		{File: "ask.go", Old: "if err := ctx.Err(); err != nil {\n\t\t\tr.withdraw()\n\t\t\treturn out, err", New: "if err := error(nil); err != nil {\n\t\t\tr.withdraw()\n\t\t\treturn out, err"},
	}},

	// Operations on one claim never overlap.
	one("a cancelled ask is not withdrawn", "TestOperationsOnOneClaimNeverOverlap_ACancelledAskIsWithdrawnWhenItWasAnswered", "ask.go",
		"case <-stop:\n\t\t\tr.e.withdraw(claim, bound)\n", "case <-stop:\n\t\t\t_ = bound\n\t\t\t_ = claim\n"),
	one("a cancelled ask is withdrawn while it is in flight", "TestOperationsOnOneClaimNeverOverlap_ACancelledAskIsWithdrawnWhenItWasAnswered", "ask.go",
		"close(stop)\n\treturn out, err\n", "close(stop)\n\tr.withdraw()\n\treturn out, err\n"),
	one("a cancelled look is withdrawn while it is in flight", "TestOperationsOnOneClaimNeverOverlap_ACancelledLook", "acquire.go",
		"return nil, r.w.gaveUp(err, r.refused) // run has the claim withdrawn", "continue"),
	one("a cancelled wait leaves its place", "TestOperationsOnOneClaimNeverOverlap_ACancelledWaitLeavesNothing", "acquire.go",
		"case err != nil:\n\t\t\tr.withdraw()\n", "case err != nil:\n"),

	// Rule 6.
	one("all waiters of a process ask", "TestRule6_OneWaiterAProcessAndNameAsksTheStore", "want.go",
		"e.gates.enter(ctx, w)", "e.gates.enter(ctx, &want{l: w.l, name: w.name + e.process.NewID().String(), limit: w.limit, weight: w.weight})"),
	one("the gate lets in the last first", "TestRule6_FirstInFirstOut", "gate.go", "p := at.first\n\tat.remove(p)\n", "p := at.last\n\tat.remove(p)\n"),
	one("the gate forgets who left as he was let in", "TestRule6_WhoIsLetInAndHasLeftPassesItOn", "gate.go", "\t\t\tg.leave(w.name)\n", "\t\t\t_ = 0\n"),
	one("the gate is kept", "TestRule6_NothingIsKeptForNamesThatNobodyWaitsFor", "gate.go", "delete(g.m, name)", "g.m[name+\" \"] = at"),

	// Rule 6, hand-over.
	one("handed over with the same token", "TestHandOver_TokensIncreaseAcrossProcessesHandOversAndUpgrades", "handover.go", "\th.Used++\n", ""),
	one("handed over more often than the block has tokens", "TestHandOver_AnotherProcessGetsInWithinTheTimes", "handover.go", "|| h.handOver.left == 0 ||", "||"),
	one("a block as large as may be", "TestHandOver_AnotherProcessGetsInWithinTheTimes", "acquire.go", "n = min(n, r.claim.Block); n > 1", "n = 64; n > 1"),
	{Name: "handed over for ever", Test: "TestHandOver_AnotherProcessGetsInWithinTheTime", Edits: []mutant.Edit{
		{File: "handover.go", Old: "|| now >= h.handOver.until ||", New: "||"},
		{File: "gate.go", Old: "left := at.hold.handOver.until.Sub(g.e.now())", New: "left := time.Hour"},
	}},
	hanging("nobody asks when the time is over", "TestHandOver_AnotherProcessGetsInWithinTheTime", "gate.go", "case left <= 0 ||", "case"),
	one("handed over with a new deadline", "TestHandOver_TheDeadlineIsInherited", "handover.go", "\th.endAt = 0\n", "\th.endAt = 0\n\th.deadline = now.Add(h.granted)\n\th.until.Store(int64(h.deadline))\n"),
	one("handed over with the dregs of its time", "TestHandOver_OnlyWhileMoreThanHalfOfTheTTLIsLeft", "handover.go", "|| h.deadline.Sub(now) <= h.granted/2 ||", "||"),
	one("a lease that was handed on is told of the loss", "TestHandOver_ALossGoesToTheLeaseThatHasTheName", "hold.go", "\t*at = l.next\n", ""),
	one("a hold that is over is handed on", "TestHandOver_NothingIsHandedOnThatIsLostDuringItsRelease", "handover.go", "if h.index < 0 || ", "if "),
	one("who waits for a hold is not told of its loss", "TestHandOver_AfterALossNothingIsHandedOn", "hold.go", "\th.e.gates.drop(h)\n", ""),
	one("all ask when the bounds are reached", "TestHandOver_AnotherProcessGetsInWithinTheTimes", "gate.go", "\tat.hold = nil\n\treturn false, true\n", "\treturn false, true\n"),
	one("handed over though Close has begun", "TestHandOver_NothingIsHandedOnOnceTheLockerCloses", "handover.go", " || s.e.isClosing() {", " {"),
	one("handed over to whoever is first", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "gate.go", "case left <= 0 || !at.hold.suits(at.first.w):", "case left <= 0:"),
	one("handed over to one with another TTL", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "handover.go", " && s.TTL == h.handOver.ttl", ""),
	one("handed over to one with another lock delay", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "handover.go", " && s.LockDelay == h.handOver.delay", ""),
	one("a minimum hold is handed over", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "handover.go", " || w.l.s.MinHold > 0 ||", " ||"),
	one("a reader is handed the write lock", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "handover.go", "if w.weight < w.limit ||", "if"),
	one("a lease without renewal is handed over", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "handover.go", " || w.l.s.NoRenew {", " {"),
	one("handed over with a time that its owner chose", "TestHandOver_WhatIsRenewedByHandIsNotHandedOn", "byhand.go", "\th.handOver.left = 0 //", "\t//"),
	one("several names without renewal are handed over", "TestHandOver_NotOfSeveralNamesWithoutRenewal", "taking.go", "\t\th.handOver.left = 0 //", "\t\t//"),
	one("the end of a lease that was handed on is not observed", "TestHandOver_EachLeaseIsObserved", "handover.go", "\t\ts.tell(end)\n", "\t\t_, _ = s, end\n"),
	one("a candidate is handed the lead", "TestHandOver_NotOfALeader", "election.go", "\tl = l.With(&Options{HandOver: &HandOver{}})\n", ""),
	one("a block for less than the whole", "TestHandOver_ASemaphoreIsHandedOnOnlyAsAWhole", "handover.go", "if w.weight < w.limit ||", "if"),
	one("zero is the default", "TestHandOver_OffWhenItsBoundsAreZero", "handover.go", "return max(w.l.s.HandOver.Times, 1)", "return max(w.l.s.HandOver.Times, 64)"),
	one("the store is not told who has it now", "TestHandOver_ItsOwnerAndTokenReachTheStoreWithTheNextRenewal", "handover.go", "h.s, h.Owner = w.l.s, w.l.s.owner", "h.s = w.l.s"),
	one("one MaxHold for all", "TestHandOver_MaxHoldIsEachLeasesOwn", "handover.go", "\t\th.endAt = now.Add(h.s.MaxHold)\n", "\t\th.endAt = h.handOver.since.Add(h.s.MaxHold)\n"),
	one("what a waiter that has left was handed is kept", "TestHandOver_CancelledInTheSameMomentLosesNothing", "gate.go", "\t\t\tp.lease.abandon()\n", "\t\t\t_ = 0\n"),
	one("the release first, then the ask", "TestHandOver_ThenReleaseAndAskGoTogether", "handover.go", "case inside && h.e.desc.InProcess:", "case inside:"),
	one("who gives up is not told who holds", "TestHandOver_WhoGivesUpIsToldWhoHolds", "gate.go", "if last = at.refused; at.hold != nil {", "if last = at.refused; false {"),

	// Rule 7.
	one("valid until the release is answered", "TestRule7_ReleaseFirstMakesValidFalseAndEndsTheContexts", "lease.go", "\tl.over.Store(true)\n", "\tif to == lost {\n\t\tl.over.Store(true)\n\t}\n"),
	one("contexts end some time after the release began", "TestRule7_ReleaseFirstMakesValidFalseAndEndsTheContexts", "lease.go",
		"c.cancel(l.errorf(why))\n", "time.AfterFunc(1, func() { c.cancel(l.errorf(why)) })\n"),
	one("a release does not wait for the renewal in flight", "TestRule7_ReleaseWaitsForTheRenewalInFlight", "hold.go", "\t\t<-flight\n", "\t\t_ = 0\n"),
	one("a release is sent after a loss", "TestRule7_AfterALossNothingIsSent", "hold.go",
		"errors.As(why, &broken) {", "errors.As(why, &broken) || true {"),
	one("a broken hold is not given back", "TestRule7_ABrokenHoldIsGivenBackWhenItIsReleased", "hold.go",
		"errors.As(why, &broken) {", "errors.As(why, &broken) && false {"),
	one("a loss told to the last renewal is not told", "TestRule7_ALossToldToTheRenewalInFlightIsTold", "hold.go", "if h.told != nil {", "if false {"),
	one("a repeated release is a loss", "TestRule7_NothingThereBeforeTheDeadlineIsARepeatedRelease", "hold.go", "return errors.Is(err, ErrLost) && !h.e.endless && h.e.now() < deadline", "return false"),
	one("a late release is none the less nil", "TestRule7_NothingThereAfterTheDeadlineIsALoss", "hold.go", "!h.e.endless && h.e.now() < deadline", "!h.e.endless"),
	one("a release takes as long as it takes", "TestRule7_ReleaseIsBoundedOnItsOwnContext", "hold.go", "h.s.releaseFor()", "time.Minute"),

	// Re-entry.
	one("entered again though nobody asked for it", "TestReentry_NotAskedForIsADeadlockThatSaysHow", "reentry.go", "if w.l.s.Reentrant && l.covers(w) {", "if l.covers(w) {"),
	one("not entered again", "TestReentry_AReaderEntersAgainWhileAWriterWaits", "reentry.go", "if w.l.s.Reentrant && l.covers(w) {", "if w.l.s.Reentrant && false {"),
	one("a read lease covers a write", "TestReentry_WhatALeaseDoesNotCoverIsADeadlockAtOnce", "reentry.go", "|| w.weight > l.weight.Load() {", "|| false {"),
	one("slots cover slots", "TestReentry_SlotsAreAskedForAnew", "reentry.go",
		"if w.limit != store.Full || l.hold.limit != store.Full || w.weight > l.weight.Load() {", "if w.limit != l.hold.limit {"),
	one("the first release gives the name back", "TestReentry_TheLastReleaseGivesTheNameBackInWhateverOrder", "hold.go", "last = h.users == 0", "last = true"),
	one("a second release of one lease counts", "TestReentry_TheLastReleaseGivesTheNameBackInWhateverOrder", "hold.go", "if !l.left {", "if true {"),
	{Name: "who has released enters again", Test: "TestReentry_TheLastReleaseGivesTheNameBackInWhateverOrder", Edits: []mutant.Edit{
		{File: "reentry.go", Old: "!l.Valid() || ls.again(first)", New: "ls.again(first)"},
		{File: "reentry.go", Old: "if l.state != held || !l.covers(w) {", New: "if !l.covers(w) {"},
	}},
	one("one lease of a hold is lost", "TestReentry_AllLeasesOfAHoldAreLostTogether", "hold.go", "for l := h.leases; l != nil; l = l.next {", "if l := h.leases; l != nil {"),
	one("the first release gives a broken hold back", "TestReentry_ABrokenHoldIsGivenBackByTheLastRelease", "lease.go",
		"if last {\n\t\t\th.acknowledge", "if !l.Valid() {\n\t\t\th.acknowledge"),

	// Renewal by hand.
	one("NoRenew renews", "TestRenewByHand_WithoutItTheLeaseIsLostAtItsTTL", "byhand.go", "if s.NoRenew {", "if false {"),
	one("renewed by hand for what the options say", "TestRenewByHand_LastsFromItsSendingOn", "byhand.go", "ttl = max(ttl, c.ttl)", "ttl = max(h.s.TTL, 0*c.ttl)"),
	one("a shorter renewal counts when it is answered", "TestRenewByHand_AShorterOneCutsTheDeadlineAtOnce", "byhand.go", "h.ends(min(h.deadline, call.until))", ""),
	one("a renewal under way undoes a shorter one", "TestRenewByHand_AShorterOneIsNotUndoneByARenewalUnderWay", "renew.go", "min(h.e.deadlineOf(sent, r.TTL), h.cut())", "h.e.deadlineOf(sent, r.TTL)"),
	one("a call that came during a renewal waits for the next but one", "TestRenewByHand_AShorterOneIsNotUndoneByARenewalUnderWay", "byhand.go", "h.renewAt = now // they", "_ = now // they"),
	one("renewed for any time", "TestRenewByHand_WhatIsOverDoesNotComeBack", "byhand.go", "ttl < d.MinTTL || ttl > d.MaxTTL {", "false {"),
	one("the clock is not looked at before a renewal by hand", "TestRenewByHand_WhatIsOverDoesNotComeBack", "byhand.go", "\th.lookAtTheClock()\n", ""),
	one("an unclear renewal by hand is not tried again", "TestRenewByHand_AnUnclearOneIsTriedAgain", "byhand.go", "h.calls = append(h.sending, h.calls...)", ""),
	one("renewed for one who has left", "TestRenewByHand_ItsContextBoundsTheTrying", "byhand.go", "call.gone = true", ""),
	one("a hint grants what is not renewed", "TestRenewByHand_AHintGrantsNothing", "acquire.go", "|| r.claim.Keep > 0 || r.s.NoRenew ||", "|| r.claim.Keep > 0 ||"),

	// Several names.
	one("taken as given", "TestSeveral_AreTakenInOrderOfTheirBytesAndReleasedInReverse", "all.go",
		"slices.SortFunc(wants, func(a, b want) int { return strings.Compare(a.name, b.name) })",
		"slices.SortFunc(wants, func(a, b want) int { return strings.Compare(b.name, a.name) })"),
	one("released as taken", "TestSeveral_AreTakenInOrderOfTheirBytesAndReleasedInReverse", "leases.go",
		"for _, l := range slices.Backward(all.parts) {", "for _, l := range slices.All(all.parts) {"),
	one("a read covers a write", "TestSeveral_OfANameThatIsThereTwiceWriteWinsAndSlotsAdd", "all.go", "case w.weight > have.weight:", "case w.weight < have.weight:"),
	one("slots do not add up", "TestSeveral_OfANameThatIsThereTwiceWriteWinsAndSlotsAdd", "all.go", "have.weight += w.weight", "have.weight = w.weight"),
	one("no wait for all", "TestSeveral_B43_OneWaitForAll", "all.go", "if d := s.l.s.Wait; d > 0 && !try {", "if d := s.l.s.Wait; d < 0 && !try {"),
	one("what was had is kept", "TestSeveral_B41_WhatWasHadIsGivenBackOnceIfTheNextOneFails", "all.go", "\t\tt.undo(ctx)\n", ""),
	one("the first failure ends the release", "TestSeveral_EveryReleaseIsTriedAndEveryFailureReported", "leases.go",
		"failed = append(failed, err)\n", "return err\n"),
	one("all have to be lost", "TestSeveral_B44_AreLostAsSoonAsOneIs", "leases.go", "\t\tparent = l.Context(parent)\n", "\t\tparent = l.Context(context.Background())\n"),
	one("a loss beside a valid one", "TestSeveral_B44_AreLostAsSoonAsOneIs", "leases.go", "if !l.Valid() {\n\t\t\treturn false", "if !l.Valid() && l == all.parts[0] {\n\t\t\treturn false"),
	one("a release is told as a loss", "TestSeveral_ReleaseIsNoLoss", "leases.go", "if errors.Is(context.Cause(ctx), ErrLost) {", "if true {"),
	one("the last deadline", "TestSeveral_TheDeadlineIsTheEarliestAndEachHasItsToken", "leases.go", "d.Before(first)", "d.After(first)"),
	one("a name before one held is waited for", "TestSeveral_ANameBeforeOneThatIsHeldIsOnlyTried", "taking.go", "if try || w.name < t.before {", "if try {"),
	one("a name before one released is only tried", "TestSeveral_ANameBeforeOneThatIsHeldIsOnlyTried", "all.go", "l.hold.e == e && l.Valid() {", "l.hold.e == e {"),
	one("a minimum hold is shown at once", "TestSeveral_MinHold_ARollBackKeepsNone", "ask.go", "|| o.claim.Keep == 0 || o.part ||", "|| o.claim.Keep == 0 ||"),
	one("a hold that waits is renewed", "TestSeveral_MinHold_ARollBackKeepsNone", "renew.go",
		"again := b.holds[0].unshown; again != nil {", "again := b.holds[0].unshown; again != nil && false {"),
	one("a roll-back shows the token", "TestSeveral_MinHold_ARollBackKeepsNone", "hold.go", "if h.unshown != nil || h", "if h"),
	one("a minimum hold is never shown", "TestSeveral_MinHold_IsShownWhenAllAreThere", "taking.go", "if (t.s.MinHold > 0 || t.s.NoRenew) && len(own) > 0 {", "if false {"),
	one("what the store forgot is made again", "TestSeveral_MinHold_WhatTheStoreForgetsIsNotMadeAgain", "renew.go", "if err == nil && (!a.Granted || a.Token != token) {", "if false {"),
	one("MaxHold counts while it waits", "TestSeveral_MaxHold_CountsFromWhenAllAreThere", "all.go", "s.MaxHold, s.NoRenew = 0, false", "s.NoRenew = false"),
	one("lost while it waits, as it is not renewed", "TestSeveral_NoRenew_CountsFromWhenAllAreThere", "all.go", "s.MaxHold, s.NoRenew = 0, false", "s.MaxHold = 0"),
	one("renewed though nobody asked for it", "TestSeveral_NoRenew_CountsFromWhenAllAreThere", "taking.go", "if s.NoRenew {", "if false {"),
	one("one name without its MaxHold", "TestSeveral_MaxHold_CountsFromWhenAllAreThere", "all.go", "w.part = len(byName) > 1; !w.part {", "w.part = len(byName) > 1; false {"),
	one("a loss does not end the wait for the others", "TestSeveral_OneLostWhileItWaitsForTheOthersEndsTheWait", "taking.go", "\t\t\tduring = l.Context(during)\n", ""),
	one("left while it is shown", "TestSeveral_MinHold_CancelledWhileItIsShown", "taking.go", "case <-stop:\n\t\t\tgiveBack(t.parts)\n", "case <-stop:\n"),

	// A minimum hold for which nobody ran.
	one("shown though its caller has left", "TestMinHold_CallerLeftBeforeTheTokenIsShown", "ask.go", " || o.part || ended(stop) {", " || o.part {"),
	one("given back as if the caller had had it", "TestMinHold_CallerLeftWhileSeveralAreShown", "taking.go", "l.hold.unrun.Store(true)", "_ = l"),
	one("a minimum hold is never kept", "TestMinHold_CountsOnceTheCallerHasTheLease", "hold.go", "h.unshown != nil || h.unrun.Load()", "true || h.unrun.Load()"),

	// The mode.
	one("a read lease under a write lease is not alone", "TestMode_SaysWhoElseMayHoldTheName", "mode.go", "h.first.weight.Load()", "l.weight.Load()"),
	one("an upgraded lease is not alone", "TestMode_SaysWhoElseMayHoldTheName", "mode.go", "alone = h.changer.full", "alone = false"),

	// The observer and the log.
	one("a hand-over is told as a grant of the store", "TestObserver_EventsAddUp", "handover.go", "observe(EventHandedOver,", "observe(EventGranted,"),
	one("the wait does not count", "TestObserver_IsToldOfTheWaitAndOfARefusal", "want.go", "newRequest(w, began)", "newRequest(w, e.stamp(w.l.s))"),
	one("a wait that was given up is not told", "TestObserver_IsToldOfTheWaitAndOfARefusal", "want.go", "return l, w.failed(began, err)", "return l, err"),
	one("a cancelled wait in the process is not told", "TestObserver_IsToldOfTheWaitAndOfARefusal", "want.go", "w.failed(began, w.gaveUp(err, last))", "w.gaveUp(err, last)"),
	one("a failed claim is a refusal", "TestObserver_IsToldWhenItIsUnclear", "observe.go", "kind := EventFailed\n", "kind := EventRefused\n"),
	one("a retry moves the time that a renewal was due", "TestObserver_IsToldHowLateARenewalWas", "renew.go",
		"if h.retries == 0 {\n\t\th.due", "if true {\n\t\th.due"),
	one("what is kept for other names was never due", "TestObserver_IsToldHowLateAHoldOfSeveralIsKept", "renew.go",
		"s.take(&one, h)\n", "one = batch{[]*hold{h}, make(chan struct{})}\n\t\t\th.flight = one.done\n\t\t\ts.moved(h)\n"),
	one("a renewal that was answered is never late", "TestObserver_IsToldHowLateARenewalWas", "renew.go", "h.renewalTold(now.Sub(h.due), err)", "h.renewalTold(0, err)"),
	one("what is lost on its way is told as over", "TestObserver_WhatIsLostOnItsWayAddsUp", "hold.go", "h.done, h.silent = true, h.unseen", "h.done = true"),
	one("what was over before it was seen is not told", "TestObserver_WhatIsLostOnItsWayAddsUp", "handover.go", "\tif !over {\n", "\tif over = true; over {\n"),
	one("what was seen is not told as over", "TestObserver_EventsAddUp", "handover.go", "\th.unseen = false\n", ""),
	one("a loss is not told", "TestObserver_IsToldOfEachLossOnce", "hold.go", "h.ended(why)\n", ""),
	one("a hold that MaxHold ended is told as released too", "TestObserver_IsToldOfEachLossOnce", "renew.go",
		"s.e.work.Go(func() { h.giveBack() })", "s.e.work.Go(func() { h.release() })"),
	one("a loss that the release finds is a release", "TestObserver_IsToldOfALossThatTheReleaseFinds", "observe.go", "return EventLost", "_ = EventLost"),
	hanging("the observer is called with the lock held", "TestObserver_IsCalledWithoutALock", "renew.go",
		"seen = append(seen, h.renewalTold(now.Sub(h.due), err))", "told := h.renewalTold(1, err)\n\t\t\ttold.s.tell(told.e)"),
	one("a loss that the release finds is no error", "TestLog_ALossIsAnErrorAFailedRenewalAWarningTheRestDebug", "hold.go", "case errors.Is(err, ErrLost):\n\t\th.s", "case errors.Is(err, ErrHeld):\n\t\th.s"),

	// Election.
	one("a term without end", "TestElection_LeadEndsWithFnAndResigns", "election.go", "if !errors.Is(context.Cause(term), ErrLost) {", "if err != nil && !errors.Is(context.Cause(term), ErrLost) {"),
	one("a loss ends it", "TestElection_CampaignsAgainAfterALoss", "election.go", "if !errors.Is(context.Cause(term), ErrLost) {", "if term != nil {"),
	one("an outage ends it", "TestElection_AnOutageLeavesTheCandidates", "election.go", "if !errors.Is(err, ErrUnavailable) {", "if true {"),
	one("no error ends it", "TestElection_OtherErrorsEndTheCampaign", "election.go", "if !errors.Is(err, ErrUnavailable) {", "if err == nil {"),
	one("an expired leader leads", "TestElection_ObserveAnExpiredLeaderIsNone", "leader.go", "e.Weight == store.Full && e.Expires > 0 {", "e.Weight == store.Full {"),
	one("no look when the leader's time is over", "TestElection_ObserveAnExpiredLeaderIsNone", "leader.go", "if !o.leader.Nobody() {", "if false {"),
	one("a reader leads", "TestElection_ObserveYieldsEachChangeAndNoRenewal", "leader.go", "e.Granted && e.Weight == store.Full", "e.Granted"),
	one("each look is told", "TestElection_ObserveYieldsEachChangeAndNoRenewal", "leader.go", "return !same", "return true"),
	one("looks do not back off", "TestElection_ObserveLooksInGrowingPauses", "leader.go", "max(o.poll*3/2, s.PollMin)", "s.PollMin"),
	one("an outage ends the observing", "TestElection_ObserveTellsAnOutageOnceAndGoesOn", "leader.go", "goesOn := err == nil || errors.Is(err, ErrUnavailable)", "goesOn := err == nil"),
	one("observed for ever", "TestElection_ObserveTellsAnOutageOnceAndGoesOn", "leader.go", "goesOn := err == nil || errors.Is(err, ErrUnavailable)", "goesOn := true"),
	one("Close does not end a look", "TestElection_ObserveRefuses", "leader.go", "defer context.AfterFunc(e.life, cancel)()", ""),

	// Upgrade and downgrade.
	one("a hint grants an upgrade", "TestUpgrade_AHintGrantsNothingAndCausesALook", "upgrade.go", "if _, _, err := u.rest(ctx); err != nil {",
		"if h, _, err := u.rest(ctx); h != nil && h.Token > 0 {\n\t\t\tu.granted(&store.Answer{Fence: h.Token})\n\t\t\treturn false, nil\n\t\t} else if err != nil {"),
	one("an upgrade that waits does not look once it is subscribed", "TestUpgrade_LooksOnceItIsSubscribed", "upgrade.go", "subscribed = true\n\t\t\tcontinue\n", "subscribed = true\n"),
	one("a cancelled upgrade stays pending", "TestUpgrade_ACancelledOneIsChangedBackUntilThatIsAnswered", "upgrade.go",
		"return true, w.gaveUp(err, u.refused)", "return false, w.gaveUp(err, u.refused)"),
	one("a try to upgrade stays pending", "TestUpgrade_B23_ATryBesideAReaderSaysNoAndChangesNothing", "upgrade.go",
		"return true, w.refusal(", "return false, w.refusal("),
	one("an unclear upgrade is not changed back", "TestUpgrade_AnUnclearOneIsTriedAgainThenChangedBack", "upgrade.go",
		"return c.open || !store.Definite(err), w.errorf(", "return false, w.errorf("),
	one("a refused upgrade is changed back for ever", "TestUpgrade_ADefiniteRefusalIsToldAndNothingIsChangedBack", "upgrade.go",
		"return c.open || !store.Definite(err), w.errorf(", "return true, w.errorf("),
	one("an upgrade does not return before it is changed back", "TestUpgrade_OfAStoreThatIsAwayIsTold", "upgrade.go", "case errors.Is(err, ErrUnavailable):\n\t\ttell()\n", "case errors.Is(err, ErrUnavailable):\n"),
	one("the way back is tried for a while", "TestDowngrade_IsRepeatedUntilItIsAnswered", "upgrade.go",
		"if err == nil || errors.Is(err, ErrLost) || c.h.e.isEnding() {", "if true || errors.Is(err, ErrLost) {"),
	one("an upgrade is granted to one who has left", "TestUpgrade_AGrantThatNobodyWaitsForIsChangedBack", "upgrade.go", "if u.gone || u.l.state != held {", "if false {"),
	one("an upgrade answered after the deadline is granted", "TestUpgrade_AnAnswerAfterTheDeadlineRevivesNothing", "renew.go", "if h.deadline <= now {", "if h.deadline <= now && false {"),
	one("each act is the first", "TestUpgrade_ALateCopyUndoesNothing", "upgrade.go", "c.turn, c.open = c.turn+1, false", "c.turn, c.open = 1, false"),
	one("each repetition is an act", "TestUpgrade_AnUnclearOneIsTriedAgainThenChangedBack", "upgrade.go",
		"sent = h.e.now()\n\t\t\ta, err", "sent = h.e.now()\n\t\t\tc.turn++\n\t\t\ta, err"),
	one("a change overlaps a renewal", "TestUpgrade_ARenewalAndAChangeDoNotOverlap", "renew.go", "if flight == nil && !over {\n\t\t\tmine", "if flight = nil; !over {\n\t\t\tmine"),
	one("an upgrade keeps its token", "TestUpgrade_B23_ATryBesideAReaderSaysNoAndChangesNothing", "lease.go", "return max(l.token, c.fence.Load())", "return min(l.token, max(l.token, c.fence.Load()))"),
	one("an upgrade waits for its own caller", "TestUpgrade_WhoWouldWaitForItselfIsTold", "upgrade.go", "h != l.hold && h.e ==", "false && h.e =="),
	one("a write lock covers an upgradeable one", "TestUpgrade_WhoWouldWaitForItselfIsTold", "reentry.go", "return w.weight != store.Upgradeable || l.hold.changer != nil", "return true"),
	{Name: "a downgrade counts when it is answered", Test: "TestDowngrade_CountsBeforeItIsSent", Edits: []mutant.Edit{
		{File: "upgradeable.go", Old: "\t\tl.weight.Store(store.Upgradeable)\n", New: "\t\tdefer l.weight.Store(store.Upgradeable)\n"},
		{File: "upgrade.go", Old: "if l.weight.Load() == store.Full {\n\t\t\treturn false", New: "if false {\n\t\t\treturn false"},
	}},
	one("a downgrade takes the lock from another lease of the hold", "TestUpgrade_Reentry", "upgrade.go", "if l.weight.Load() == store.Full {\n\t\t\treturn false", "if false {\n\t\t\treturn false"),
	one("a hold stays upgraded for nobody", "TestUpgrade_Reentry", "lease.go", "return h.changer.reduced(l)", "return nil"),

	// Detach and Adopt.
	one("detached and still valid", "TestAdopt_DetachEndsTheLeaseHere", "detach.go", "\tl.finish(released, errDetached)\n", ""),
	one("detached and still renewed", "TestAdopt_DetachEndsTheLeaseHere", "detach.go", "flight, _ := h.e.sched.remove(h)\n", "flight := (chan struct{})(nil)\n"),
	one("detached from nobody", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "detach.go", "store.Process{}.NewID()", "h.e.process.NewID()"),
	one("adopted for the time that it had", "TestAdopt_InTheSameProcess", "detach.go", "TTL: l.s.TTL, Used: ref.Token,", "Used: ref.Token,"),
	one("adopted under the id that it had", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "detach.go", "Owner: l.s.owner, NewID: r.claim.ID,", "Owner: l.s.owner,"),
	one("adopted for another owner", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "detach.go", "Owner: l.s.owner, NewID", "NewID"),
	one("adopted from the answer on", "TestAdopt_TheDeadlineCountsFromTheSending", "ask.go",
		"from = e.now()\n\t\tr = e.store.Renew(ctx, []store.Hold{h})[0]\n", "r = e.store.Renew(ctx, []store.Hold{h})[0]\n\t\tfrom = e.now()\n"),
	one("an unclear adoption is left", "TestAdopt_WhatStaysUnclearIsTold", "detach.go", "if !store.Definite(err) {\n\t\t\tr.withdraw()\n\t\t}\n", ""),
	one("a refused detach keeps the name", "TestAdopt_ARefusedDetachGivesBack", "detach.go", "_ = h.sendRelease() // it", "_ = 0 // it"),
	one("detached by the clock too late", "TestAdopt_DetachOfWhatIsOverSaysSo", "detach.go", "\th.lookAtTheClock()\n", ""),
	one("detached under another lease", "TestAdopt_WhatCannotBeDetachedGoesOn", "detach.go", "if h.users > 1 {", "if false {"),
	one("detached with the token of the grant", "TestAdopt_OfALeaseThatWasHandedOver", "detach.go", "ref.Token, ref.weight = l.Token(),", "ref.Token, ref.weight = h.Token,"),
	one("waited for what was detached", "TestAdopt_OfALeaseThatWasHandedOver", "detach.go", "\th.e.gates.drop(h)\n", ""),
	one("any text is a ref", "TestAdopt_ARefIsText", "detach.go", "if parts[0] != refForm {", "if false {"),

	// Leases without a deadline.
	one("a deadline where there is none", "TestEndless_LastsUntilItIsReleased", "hold.go", "if e.endless {\n\t\treturn never", "if false {\n\t\treturn never"),
	one("a deadline is told where there is none", "TestEndless_LastsUntilItIsReleased", "lease.go", "if l.hold.e.endless {", "if false {"),
	one("a token that is none is told", "TestEndless_LastsUntilItIsReleased", "lease.go", "Lacks[store.PromiseTokens]; lacks {", "Lacks[store.PromiseTokens]; lacks && false {"),
	one("a loss that the store tells is not told", "TestEndless_ALossThatIsToldEndsTheLeaseAtOnce", "losses.go", "\th.lose(why)\n", "\t_ = why\n"),
	one("a loss told early is found at the next look", "TestEndless_ALossToldBeforeTheGrantIsReadIsFoundAtOnce", "losses.go", "if h.strays != s.strays {", "if false {"),
	one("a loss told early is not counted", "TestEndless_ALossToldBeforeTheGrantIsReadIsFoundAtOnce", "losses.go", "\t\ts.strays++\n", ""),
	one("losses are counted when the grant is read", "TestEndless_ALossToldBeforeTheGrantIsReadIsFoundAtOnce", "acquire.go", "granted: ttl, strays: r.strays}", "granted: ttl, strays: r.e.sched.strayed()}"),
	one("the store is asked once an hour", "TestEndless_TheStoreIsAskedNowAndThen", "options.go", "cmp.Or(s.RenewEvery, defaultCheck)", "cmp.Or(s.RenewEvery, time.Hour)"),
	one("a warning of an end that does not come", "TestEndless_NoAnswerIsNoLoss", "renew.go", "if s.e.endless {\n\t\t\t\t\tmsg", "if false {\n\t\t\t\t\tmsg"),
	one("a release that finds nothing is nil", "TestEndless_AReleaseThatFindsNothingIsALoss", "hold.go", "&& !h.e.endless && h.e.now() < deadline", "&& h.e.now() < deadline"),
	one("a place that lapses at once", "TestEndless_AWaiterGetsInHoweverLongItTook", "options.go", "s.place = store.MaxPlace", "s.place = 0"),
	one("a TTL is out of range", "TestEndless_WhatNeedsADeadlineIsUnsupported", "options.go", "case endless(d) && s.TTL > 0:", "case false:"),
	one("not renewed and endless", "TestEndless_WhatNeedsADeadlineIsUnsupported", "options.go", "case endless(d) && s.NoRenew:", "case false:"),
	one("renewed by hand for ever", "TestEndless_WhatNeedsADeadlineIsUnsupported", "byhand.go", "if h.e.endless {", "if false {"),
	one("times are told that nobody knows", "TestEndless_ARefusalTellsNoTimesThatNobodyKnows", "want.go", "Lacks[store.PromiseHolders]; !lacks {", "Lacks[store.PromiseHolders]; true || lacks {"),
	one("a hint grants a place's time", "TestEndless_AHintIsOnlyALook", "acquire.go", " || r.e.endless {", " {"),

	// Rule 8.
	one("Close leaves a lease", "TestRule8_CloseGivesBackAllAndEndsAllWaits", "close.go", "append([]*hold(nil), s.holds...)", "append([]*hold(nil), s.holds[1:]...)"),
	one("Close does not wait", "TestRule8_CloseWaitsForWhatIsUnderWay", "close.go", "\t\te.work.Wait()\n", ""),
	one("Close sends one release at a time", "TestClose_ReleasesInBatches", "close.go", "for n < min(len(c.ready), batchSize) {", "for n < 1 {"),
	one("Close takes as long as its calls", "TestClose_TakesFiveSecondsThoughTheDriverHangs", "close.go", "time.NewTimer(closeTime)", "time.NewTimer(time.Minute)"),
	one("Close tries for as long as a release", "TestClose_TakesFiveSecondsHoweverManyLeases", "close.go", "if c.e.now().Add(wait) >= c.end {", "if c.e.now().Add(wait) >= c.end.Add(20*time.Second) {"),
	one("Close tells of no failure", "TestClose_SaysHowManyWereNotGivenBack", "close.go", "if left == 0 {", "if left >= 0 {"),
	one("Close sends after the deadline", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close.go", "for len(c.ready) > 0 && c.ready[0].deadline <= now {", "for len(c.ready) > 0 && false {"),
	one("at Close a deadline bounds no call", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close.go", "bound = min(left, share)", "bound = share"),
	one("at Close one deadline bounds all calls", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close.go", "if left < share && c.ready[n].deadline.Sub(now) > 2*left {", "if false {"),
	one("at Close a call that hangs takes all the time", "TestClose_NamesThatHangKeepNoOthers", "close.go", "/time.Duration(waves)", "/max(1, time.Duration(waves-waves))"),
	one("at Close a renewal that hangs takes all the time", "TestRule8_NoGoroutineIsLeftAfterClose", "renew.go", "s.e.within(bound, true,", "s.e.within(bound, false,"),
	one("Shutdown takes claims", "TestShutdown_WaitsForLeasesAndRenewsThem", "engine.go", "return !e.isClosing() && e.enter()", "return e.enter()"),
	one("Shutdown renews nothing", "TestShutdown_WaitsForLeasesAndRenewsThem", "renew.go", "if len(s.holds) == 0 || s.e.isEnding() {", "if len(s.holds) == 0 || s.e.isClosing() {"),
	one("Shutdown waits for no Do", "TestShutdown_WaitsForADoWhoseLeaseIsOver", "close.go", " && e.running.Load() == 0 {", " {"),
	one("Shutdown does not see the last Do end", "TestShutdown_WaitsForADoWhoseLeaseIsOver", "close.go", "if e.running.Add(-1) == 0 && e.isClosing() {", "if e.running.Add(-1) < 0 {"),
	one("Shutdown waits beyond its context", "TestShutdown_WhenItsContextEndsClosesAllTheSame", "close.go", "case <-ctx.Done():", "case <-context.Background().Done():"),
	one("Shutdown waits beside Close", "TestShutdown_ACloseBesideItEndsTheWaiting", "close.go", "case <-e.life.Done():\n\t\tcase <-ctx.Done():", "case <-ctx.Done():"),
	hanging("in Shutdown a downgrade is tried without a pause", "TestShutdown_ADowngradeGoesOn", "upgrade.go", "c.h.e.sleep(jitter(500 * time.Millisecond))", "_ = c.h.e.pause(context.Background(), jitter(500*time.Millisecond))"),
	one("Close does not end the waits", "TestRule8_CloseGivesBackAllAndEndsAllWaits", "pace.go", "case <-p.e.closing:\n\t\treturn nil, ErrClosed\n\t}", "}"),

	// What a store finds at its server.
	one("what is well is logged", "TestCheck_WhatAnOperatorShouldHearIsLoggedOnce", "engine.go", "if f.Level() != store.LevelOK && !e", "if !e"),
	one("a failure is not logged", "TestCheck_WhatAnOperatorShouldHearIsLoggedOnce", "engine.go", "f.Level() != store.LevelOK", "f.Level() == store.LevelWarning"),
	one("the server is looked at for each claim", "TestCheck_WhatAnOperatorShouldHearIsLoggedOnce", "engine.go", "e.first.Do(func() {", "func(f func()) { f() }(func() {"),
	one("what Close cuts off is told", "TestCheck_CutOffByCloseIsNotTold", "engine.go", "store.LevelOK && !e.isClosing()", "store.LevelOK"),
}

// Each rule's test fails when the rule is broken.
func TestTheTestsCatchEachMutantOfTheEngine(t *testing.T) { mutant.Catch(t, engineMutants) }
