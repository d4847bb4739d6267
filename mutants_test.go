package holdfast

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// one is a broken engine that differs in one place.
func one(name, test, mark string, do mutant.Op) mutant.Broken {
	return mutant.Broken{Name: name, Test: test, Edits: []mutant.Edit{mutant.At(mark, do)}}
}

// inside is one that a test of the engine's own package catches.
func inside(name, test, mark string, do mutant.Op) mutant.Broken {
	b := one(name, test, mark, do)
	b.Pkg = "internal/engine"
	return b
}

// ofClock is one that a test of the clock catches.
func ofClock(name, test, mark string) mutant.Broken {
	b := one(name, test, mark, mutant.Line("case false:"))
	b.Pkg = "internal/clock"
	return b
}

var engineMutants = []mutant.Broken{
	// Rule 1.
	one("the deadline of a grant counts from the reply", "TestRule1_ClockBeforeTheCall", "deadline-grant-counts-reply", mutant.Swap()),
	one("the deadline of a renewal counts from the reply", "TestRule1_ARenewalCountsFromItsSending", "deadline-renewal-counts-reply", mutant.After("sent = s.e.now()")),
	one("no one percent", "TestRule1_ClockBeforeTheCall", "no-one-percent", mutant.Return("from.Add(ttl - margin)")),
	one("no margin", "TestRule1_ClockBeforeTheCall", "no-one-percent", mutant.Return("from.Add(ttl - ttl/100)")),
	inside("what was seen to be over is revived", "TestRule2_WhatWasSeenToBeOverIsNotRevived", "seen-over-revived", mutant.Cond("true")),
	one("the TTL of an answer is not used", "TestRule1_TheAnswerCarriesTheInstantAndTheTTL", "ttl-answer-used", mutant.Cond("!h.ends(max(h.deadline, min(h.e.deadlineOf(sent, h.s.TTL), h.cut())))")),
	one("the instant of an answer is not used", "TestRule1_TheAnswerCarriesTheInstantAndTheTTL", "instant-answer-used", mutant.Cond("false")),
	one("a grant that comes too late is handed out", "TestRule1_AGrantAnsweredAfterItsOwnDeadlineIsAskedForAgain", "grant-comes-too-late", mutant.Cond("false && r.e.deadlineOf(from, out.answer.TTL) <= r.e.now()")),
	one("the time suspended does not count", "TestRule1_TheTimeSuspendedCounts", "time-suspended-count", mutant.Value("clock.Awake")),
	one("the clock is negative in a bubble", "TestRule1_TheBootClockStandsStillInABubble", "clock-negative-bubble", mutant.Return("Instant(time.Since(start))")),

	{Name: "a suspend of less than a minute is not seen", Pkg: "internal/clock", Test: "TestTheKernelIsAskedAfterEachSuspend",
		Edits: []mutant.Edit{mutant.At("clock-sleeps-that-count", mutant.Return("r != nil && (ahead-r.ahead).Abs() <= time.Minute"))}},
	ofClock("an instant after the last is before all", "TestInstants_AddStopsAtTheEnds", "add-past-last"),
	ofClock("an instant before the first is after all", "TestInstants_AddStopsAtTheEnds", "add-past-first"),
	ofClock("longer than the longest is negative", "TestInstants_SubStopsAtTheLongest", "sub-past-longest"),
	ofClock("less than the least is positive", "TestInstants_SubStopsAtTheLongest", "sub-past-least"),
	inside("a pause is under zero", "TestRule5_APauseIsNeverNegative", "pause-overflows", mutant.Cond("false")),

	// Rule 2.
	one("a renewal that hangs keeps the lease", "TestRule2_ATimerEndsTheLeaseThoughARenewalHangs", "renewal-hangs-keeps-lease", mutant.Line("if h.flight != nil {\n\t\tat = at.Add(time.Hour)\n\t} else {")),
	one("an answer after the deadline revives", "TestRule2_TheClockIsReadBeforeTheAnswer", "answer-after-deadline-revives", mutant.Cond("false")),
	one("the boot clock is not looked at", "TestRule2_AfterASuspendTheLossIsToldWithinASecond", "boot-clock-looked", mutant.Delete()),

	// Rule 3.
	one("renewed at half of the TTL", "TestRule3_RenewedAtAThirdOfTheTTL", "renewed-half-ttl", mutant.Value("cmp.Or(s.RenewEvery, s.TTL/2)")),
	one("what is granted for less is renewed as seldom", "TestRule3_WhatIsGrantedForLessIsRenewedSooner", "granted-less-renewed-seldom", mutant.Cond("true")),
	one("not ours is asked for again", "TestRule3_NotYoursIsLostAtOnce", "ours-asked-again", mutant.Cond("false")),
	one("an indeterminate renewal is a loss", "TestRule3_AnIndeterminateRenewalIsRetriedUntilTheDeadline", "ours-asked-again", mutant.Stmt("default:\nreturn store.ErrLost")),
	one("an indeterminate renewal is tried again a renewal later", "TestRule3_AnIndeterminateRenewalIsRetriedUntilTheDeadline", "unclear-renewal-tried-again", mutant.Value("now.Add(h.s.RenewEvery + 0*pause)")),
	one("MaxHold is ignored", "TestMaxHold_IsLostAndGivenBackAtItsEnd", "maxhold-ignored", mutant.Cond("false")),

	one("each lease warns of an outage", "TestRule3_AnOutageIsOneWarning", "each-lease-warns-outage", mutant.Stmt("level = slog.LevelWarn")),
	one("one warning for ever", "TestRule3_AnOutageIsOneWarning", "warning-ever", mutant.Delete()),
	one("a grant is no answer", "TestRule3_AnOutageIsOneWarning", "grant-answer", mutant.Delete()),

	// Rule 4.
	one("a call for each lease", "TestRule4_LeasesAreRenewedInBatches", "call-each-lease", mutant.Value("1")),
	inside("what was renewed together is torn apart", "TestRule4_TheNextRenewalCountsFromWhenThisOneWasDue", "renewed-together-again", mutant.Value("h.s.renewAt(sent, h.s.renewAfter(r.TTL))")),
	one("who is renewed with whom is chance", "TestRule4_WhatWasRenewedTogetherIsAgain", "renewed-in-the-same-batch", mutant.Delete()),
	one("what is nearly due waits", "TestRule4_WhatIsNearlyDueGoesWithTheRest", "nearly-due-waits", mutant.Value("now")),
	one("one name's failure fails the batch", "TestRule4_OneNamesFailureDoesNotTouchAnothers", "name-failure-fails-batch", mutant.Before("for _, a := range answers {\n\tif a.Err != nil {\n\t\tanswers[i] = a\n\t}\n}")),
	one("a call that hangs keeps its slot", "TestRule4_WhatIsUnansweredDelaysNoOthersRenewal", "call-hangs-keeps-slot", mutant.Value("time.AfterFunc(time.Hour, once)")),
	one("what is not answered goes with the rest", "TestRule4_WhatIsUnansweredDelaysNoOthersRenewal", "unanswered-goes-with-rest", mutant.Return("lane{h.s.callTime(), false}")),
	one("the bound of a call leaves no time", "TestRule4_WhatIsUnansweredDelaysNoOthersRenewal", "bound-leaves-no-time", mutant.Delete()),
	one("one lease's setting bounds another's call", "TestRule4_NoLeasesSettingBoundsAnothersCall", "unanswered-goes-with-rest", mutant.Return("lane{10 * time.Millisecond, h.retries > 0}")),
	one("no least RenewEvery", "TestOptions_TheLeastRenewEvery", "least-renew-every", mutant.Cond("false")),
	one("what a parent has turned on stays on", "TestOptions_WithTurnsOffWhatTheParentHas", "turned-off", mutant.Cond("WAS && false")),
	one("no greatest duration", "TestOptions_AHugeDurationIsInvalidAndHarmless", "greatest-duration", mutant.Cond("false")),
	one("what has ended is renewed", "TestRule4_WhatEndsBeforeItsBatchIsSentIsNotRenewed", "ended-renewed", mutant.Return("false")),

	// Rule 5.
	one("asked before it is subscribed", "TestRule5_SubscribeThenPoll", "asked-before-subscribed", mutant.Expr("r.e.notifications.begin(r.s)")),
	one("nobody can listen, and it is tried again at once", "TestRule5_WhereNobodyCanListenItIsSaidOnceAndTriedSeldom", "nobody-can-listen-tried", mutant.Stmt("_ = noNotifyFor")),
	one("nobody can listen, and it is tried first", "TestRule5_WhereNobodyCanListenThePositionIsAskedForAtOnce", "nobody-can-listen-tried-first", mutant.Return("h.watcher != nil && !h.subscribed && true")),
	one("nobody can listen, and it is said again and again", "TestRule5_WhereNobodyCanListenItIsSaidOnceAndTriedSeldom", "nobody-can-listen-said", mutant.Value("false")),
	one("subscribed again and not looked", "TestRule5_ASubscriptionThatFailedIsTriedAgainAndThenPolled", "subscribed-again-looked", mutant.Delete()),
	one("a notification with an old token grants", "TestRule5_ANotificationWithAnOldTokenIsOnlyAPoll", "hint-old-token-grants", mutant.Value("h.Token > 0 && r.e.now() < r.since.Add(r.s.positionTTL/2)")),
	one("a notification counts from its arrival", "TestRule5_ANotificationMayCarryTheGrant", "hint-counts-arrival", mutant.Return("r.lease(h.Token, h.N, r.e.now(), r.s.positionTTL, r.s.positionTTL/3)")),
	one("a notification grants the whole TTL", "TestRule5_ANotificationMayCarryTheGrant", "hint-counts-arrival", mutant.Return("r.lease(h.Token, h.N, r.since, r.s.TTL, r.s.positionTTL/3)")),
	one("a notification counts from the ask, whatever the answer said", "TestRule5_ANotifiedLeaseCountsFromWhenThePositionDoes", "instant-of-a-place-used", mutant.Cond("false")),
	one("a notification is used until the place ends", "TestRule5_ANotificationIsUsedWithoutAPollOnlyWhileHalfThePositionIsLeft", "hint-old-token-grants", mutant.Value("h.Token > r.refused.answer.Last && r.e.now() < r.since.Add(r.s.positionTTL)")),
	one("a minimum hold is not shown", "TestRule5_MinHoldIsShownBeforeTheCallerHasTheLease", "minimum-hold-shown-once", mutant.Cond("true")),
	one("a notification spares the minimum hold its renewal", "TestRule5_ANotificationDoesNotSpareTheMinHoldItsRenewal", "hint-spares-minimum-hold", mutant.Cond("h.ID != r.claim.ID || !fresh || r.s.NoRenew || r.e.endless")),
	one("no safety look", "TestRule5_TheSafetyPollIsAtAThirdOfThePosition", "safety-look", mutant.Value("p.sent.Add(time.Hour)")),
	one("each keeps its place by itself", "TestRule5_PositionsAreKeptTogether", "each-keeps-place-itself", mutant.Return("at")),
	one("no look at the end of the obstacle", "TestRule5_PollsAtTheEndOfTheObstacleAhead", "look-end-obstacle", mutant.Cond("until < 0")),
	one("what cannot be shown is kept", "TestMinHold_WhatCannotBeShownIsGivenBack", "unclear-ask-withdrawn", mutant.Cond("r.queued || !store.Definite(out.err)")),
	one("an indeterminate ask is not withdrawn", "TestRule5_AnIndeterminateAskIsRepeatedThenWithdrawn", "unclear-ask-withdrawn", mutant.Cond("false")),
	one("a position that lapsed is asked for with its old id", "TestRule5_APositionThatLapsedIsAskedForWithANewID", "place-lapsed-asked-old", mutant.Stmt("if r.queued && r.e.now() >= r.sent.Add(r.s.positionTTL) {\n\t\n}")),
	one("polls do not back off", "TestRule5_PollsBackOff", "polls-back-off", mutant.Delete()),
	inside("who is behind many polls as often as who is next", "TestRule5_PausesGoByThePaceOfTheQueue", "polls-by-position", mutant.Value("p.s.PollMin")),
	one("polls do not keep pace with the queue", "TestRule5_PollsKeepPaceWithTheQueue", "polls-by-the-pace-of-the-queue", mutant.Stmt("_ = turn")),
	one("a poll that finds the grant spares the minimum hold", "TestRule5_APollThatFindsTheGrantIsTheGrant", "poll-spares-minimum-hold", mutant.Cond("a.From == 0 || r.s.NoRenew || r.e.deadlineOf(a.From, a.TTL) <= r.e.now()")),
	one("a poll that finds the grant grants a session's time", "TestRenewByHand_WhoHasWaitedInASessionHasTheWholeTTL", "poll-spares-minimum-hold", mutant.Cond("a.From == 0 || r.claim.MinHold > 0 || r.e.deadlineOf(a.From, a.TTL) <= r.e.now()")),
	one("a first ask of who has waited grants a session's time", "TestRenewByHand_WhoHasWaitedWithinAnAskHasTheWholeTTL", "lasts-as-a-position", mutant.Line("o.once && a.TTL < o.claim.TTL && o.poll")),
	one("an ask of who has waited grants a session's time", "TestRenewByHand_WhoHasWaitedInASessionHasTheWholeTTL", "lasts-as-a-position", mutant.Line("false")),
	one("a poll that finds the grant is asked again", "TestRule5_APollThatFindsTheGrantIsTheGrant", "poll-spares-minimum-hold", mutant.Cond("true")),
	inside("a pause goes by those that slept", "TestRule5_PausesGoByThePaceOfTheQueue", "polls-by-the-pace-of-the-queue", mutant.Value("times(turn, ahead)/4*3")),
	inside("a pause is as short as those ahead are quick", "TestRule5_PausesGoByThePaceOfTheQueue", "polls-no-sooner", mutant.Value("min(p.poll, p.mostPause(ahead))")),
	inside("who goes by its position does so roughly", "TestRule5_PausesGoByThePaceOfTheQueue", "position-with-jitter", mutant.Cond("false")),
	one("a poll that tells of the position spares no ask", "TestRule5_APollThatTellsOfThePositionSparesTheAsk", "poll-tells-of-the-position", mutant.Line("case false:")),
	one("those in line are told of asks alone", "TestRule5_APollTellsThoseInLineWhoHolds", "poll-tells-those-in-line", mutant.Delete()),
	one("no last ask", "TestRule5_ALastAskBeforeTheContextEnds", "last-ask", mutant.Cond("false")),
	one("a notification grants after the end of the context", "TestRule5_AfterTheEndOfItsContextNothingIsGranted", "hint-grants-after-end", mutant.Expr("nil")),
	{Name: "an answer grants after the end of the context", Test: "TestRule5_AnAnswerInProcessAfterTheEndOfTheContextIsGivenBack", Edits: []mutant.Edit{
		mutant.At("answer-grants-after-end", mutant.Stmt("if err := error(nil); err != nil {\n\tr.withdraw()\n\treturn nil, r.gaveUp(err)\n}")),
		mutant.At("answer-grants-after-end-context", mutant.Value("error(nil)")),
	}},

	// Operations on one claim never overlap.
	one("a cancelled ask is not withdrawn", "TestOperationsOnOneClaimNeverOverlap_ACancelledAskIsWithdrawnWhenItWasAnswered", "cancelled-ask-withdrawn", mutant.Stmt("_, _, _ = of, bound, claim")),
	one("a cancelled ask is withdrawn while it is in flight", "TestOperationsOnOneClaimNeverOverlap_ACancelledAskIsWithdrawnWhenItWasAnswered", "cancelled-ask-withdrawn-while", mutant.After("r.withdraw()")),
	one("a cancelled look is withdrawn while it is in flight", "TestOperationsOnOneClaimNeverOverlap_ACancelledPoll", "cancelled-look-withdrawn-while", mutant.Stmt("if l, room, err := r.pollStore(ctx); err != nil {\n\tcontinue\n} else if l != nil || room {\n\treturn l, nil\n}")),
	one("a cancelled wait leaves its place", "TestOperationsOnOneClaimNeverOverlap_ACancelledWaitLeavesNothing", "cancelled-wait-leaves-place", mutant.Delete()),

	// Rule 6.
	one("all waiters of a process ask", "TestRule6_OneWaiterAProcessAndNameAsksTheStore", "all-waiters-process-ask", mutant.Value("e.queues.enter(ctx, &Target{l: w.l, name: w.name + e.process.NewID().String(), limit: w.limit, weight: w.weight}, began)")),
	one("claims that fit go one after another", "TestRule6_ClaimsThatFitTogetherAreSentTogether", "claims-that-fit", mutant.Cond("true")),
	one("any number is sent at a time", "TestRule6_ClaimsThatFitTogetherAreSentTogether", "claims-that-fit", mutant.Cond("at.weight+w.weight > at.limit || len(at.inside) >= mostInside")),
	one("any number has a place", "TestRule6_PositionsOfOneProcessAreBounded", "claims-that-fit", mutant.Cond("at.weight+w.weight > at.limit || at.sent >= mostSent")),
	one("claims that do not fit are sent together", "TestRule6_OneWaiterAProcessAndNameAsksTheStore", "claims-that-fit", mutant.Cond("len(at.inside) >= mostInside || at.sent >= mostSent")),
	one("places are asked for in any order", "TestRule6_SlotsThatAreWaitedForAreServedInOrder", "places-in-order", mutant.Return("true")),
	one("another limit waits in line", "TestRule6_AnotherLimitIsToldAtOnce", "another-limit-in-line", mutant.Cond("false")),
	one("all look whether there is room", "TestRule6_OnePollsForAllThatFitTogether", "all-look", mutant.Cond("polling")),
	one("one looks for claims of all weights", "TestRule6_ReadersAndUpgradesWhereNobodyIsWoken", "one-weight-inside", mutant.Cond("false")),
	one("nobody is told that one got in", "TestRule6_OnePollsForAllThatFitTogether", "nobody-told-one-is-in", mutant.Cond("false")),
	one("all keep their positions at one instant", "TestRule5_PollsOfManyNamesGoABatchAtATime", "places-at-one-instant", mutant.Cond("false")),
	one("what is not answered holds up all others", "TestRule5_PollsThatAreNotAnsweredDelayNoOthersForLong", "unanswered-hold-up-others", mutant.Value("time.AfterFunc(time.Hour, once)")),
	one("who has left sends an ask", "TestRule5_PollsOfManyNamesGoABatchAtATime", "sent-for-nobody", mutant.Cond("false")),
	one("what waits long for its turn goes beside it", "TestRule5_PollsOfManyNamesGoABatchAtATime/200ms", "unanswered-hold-up-others", mutant.Value("time.AfterFunc(100*time.Millisecond, once)")),

	one("what was not used keeps its minimum", "TestMinHold_IsNotKeptForLeasesThatWereNotUsed", "unused-keeps-minimum", mutant.Delete()),
	one("one lease that was not used keeps its minimum", "TestMinHold_IsNotKeptForLeasesThatWereNotUsed", "one-unused-keeps-minimum", mutant.Delete()),
	one("what was not used voids the minimum of others", "TestMinHold_IsKeptForWhoUsedAnotherLease", "unused-for-others", mutant.Cond("true")),
	one("the last to leave speaks for all", "TestMinHold_IsKeptForWhoUsedAnotherLease", "unused-for-others", mutant.Cond("h.users == 1")),

	one("a reader passes the writers of its process", "TestRule6_WhoCanBePassedByHowManyReaders", "claims-that-fit", mutant.Cond("w.weight > 1 && at.weight+w.weight > at.limit || len(at.inside) >= mostInside || at.sent >= mostSent")),
	one("who comes last gets in first, readers too", "TestRule6_WhoCanBePassedByHowManyReaders", "gate-lets-last-first", mutant.Value("at.last")),

	// An outage.
	one("who is inside is told of an outage by itself", "TestOutage_AllInsideAreToldAtOnce", "inside-one-after-another", mutant.Cond("false")),
	inside("an outage ends what the store has answered", "TestOutage_EndsNoWaitThatTheStoreHasAnsweredSince", "outage-that-it-has-outlived", mutant.Cond("false")),
	one("a successor begins anew", "TestOutage_ASuccessorHasOnlyTheRest", "successor-begins-anew", mutant.Delete()),
	one("the line behind a position is not told of a closed port", "TestOutage_AClosedPortIsToldToTheLineBehindAPosition", "line-behind-a-position", mutant.Stmt("_ = e")),
	one("an upgrade tries a closed port as long as any", "TestOutage_AClosedPortIsToldToAdoptAndUpgrade", "upgrade-closed-port", mutant.Delete()),
	one("an adoption tries a closed port as long as any", "TestOutage_AClosedPortIsToldToAdoptAndUpgrade", "adopt-closed-port", mutant.Value("(func(error, time.Duration) bool)(nil)")),
	one("an upgrade that waits is given up at a closed port", "TestOutage_AnUpgradeThatWaitsSurvivesAClosedPort", "upgrade-waits-closed-port", mutant.Cond("true")),
	one("a loss told to a renewal matches a context", "TestOutage_ALossMatchesNoContextOfTheEngine", "context-loss-renewal", mutant.Delete()),
	one("a loss told to an upgrade matches a context", "TestOutage_ALossMatchesNoContextOfTheEngine", "context-loss-change", mutant.Delete()),
	one("a loss told to Close matches a context", "TestOutage_ALossMatchesNoContextOfTheEngine", "context-loss-close", mutant.Stmt("c.over(r, err)")),
	one("an outage is told to one after another", "TestOutage_AllWhoWaitForTheNameAreToldAtOnce", "outage-one-after-another", mutant.Cond("false")),
	one("an outage is not told with the deadline", "TestOutage_TheCallersDeadlineAndTheCauseBothMatch", "outage-with-deadline", mutant.Cond("err != nil && false")),
	one("the cause leaves with who has met it", "TestOutage_ACancelledCallerIsToldTheCause", "cause-leaves-with-one", mutant.Delete()),
	one("silence is no cause", "TestOutage_SilenceIsACauseAfterAWhile", "silence", mutant.Cond("d < 0")),
	one("a moment's silence is an outage", "TestOutage_SilenceIsACauseAfterAWhile", "silence", mutant.Cond("d > 0")),
	one("who is let in forgets the last answer", "TestOutage_ANextWaiterKnowsTheLastAnswer", "refusal-stays-at-gate", mutant.Delete()),
	one("a lost race is silence", "TestOutage_LostRacesAreNone", "lost-races-are-no-silence", mutant.Delete()),
	one("a lost race is an outage", "TestOutage_LostRacesAreNone", "lost-races-are-no-outage", mutant.Cond("false")),
	one("an outage that is over is told", "TestOutage_ThatIsOverIsNotTold", "outage-over", mutant.Delete()),
	one("a context of the engine is told", "TestOutage_AContextOfTheEngineIsNotTheCallers", "context-of-engine", mutant.Return("target != context.Canceled && errors.Is(e.err, target)")),
	one("a last try without time is the cause", "TestOutage_TheNewestCauseIsTold", "last-try-without-time", mutant.Cond("false")),
	one("a closed port is asked for as long as any", "TestOutage_AClosedPortIsToldWithinASecond", "closed-port", mutant.Return("e.now().Add(pause) < end || true")),
	one("a position is given up where nobody listens", "TestOutage_WhoHasAPositionKeepsItWhileThePortIsClosed", "place-where-nobody-listens", mutant.Cond("true")),

	// Whether fn was called.
	one("that fn was not called is not told", "TestDo_SaysWhetherFnWasCalled", "not-run", mutant.Return("[]error{e.err}")),
	one("a release that is indeterminate looks like a claim that failed", "TestDo_SaysWhetherFnWasCalled", "release-error", mutant.Return("errors.Is(e.Lease, target)")),
	one("what fn did not run counts as fn", "TestDo_SaysWhetherFnWasCalled", "fn-of-fn", mutant.Delete()),
	one("what fn did not run counts as fn when the release is indeterminate", "TestDo_SaysWhetherFnWasCalled", "fn-of-fn-unclear", mutant.Return("e.Err")),
	one("a loss is not told once fn was called", "TestDo_ALossAfterFnWasCalledIsBoth", "release-error", mutant.Return("false")),
	one("a candidate that has led has not run", "TestDo_LeadHasRunOnceATermHas", "lead-has-run", mutant.Cond("err != nil && (!ran || ran)")),

	one("the gate lets in the last first", "TestRule6_ProcessesTakeTurns", "gate-lets-last-first", mutant.Value("at.last")),
	one("the gate forgets who left as he was let in", "TestRule6_WhoIsLetInAndHasLeftPassesItOn", "gate-forgets-left-he", mutant.Stmt("_ = 0")),
	one("the gate is kept", "TestRule6_NothingIsKeptForNamesThatNobodyWaitsFor", "gate-kept", mutant.Stmt(`g.m[at.name+" "] = at`)),

	// Rule 6, hand-over.
	one("handed over with the same token", "TestHandOver_TokensIncreaseAcrossProcessesHandOversAndUpgrades", "handed-over-same-token", mutant.Delete()),
	one("handed over more often than the block has tokens", "TestHandOver_AnotherProcessGetsInWithinTheTimes", "handed-over-more-often", mutant.Cond("h.index < 0 || now >= h.handOver.until || h.deadline.Sub(now) <= h.granted/2 || s.e.isClosing()")),
	one("a block as large as may be", "TestHandOver_AnotherProcessGetsInWithinTheTimes", "block-large-may", mutant.Value("64")),
	{Name: "handed over for ever", Test: "TestHandOver_AnotherProcessGetsInWithinTheTime", Edits: []mutant.Edit{
		mutant.At("handed-over-more-often", mutant.Cond("h.index < 0 || h.handOver.left == 0 || h.deadline.Sub(now) <= h.granted/2 || s.e.isClosing()")),
		mutant.At("handed-over-ever-too", mutant.Value("time.Hour")),
	}},
	one("nobody asks when the time is over", "TestHandOver_AnotherProcessGetsInWithinTheTime", "nobody-asks-time-over", mutant.Cond("!at.hold.suits(at.first.w)")),
	one("a later hold's shorter time is not heeded", "TestHandOver_TheShorterTimeOfALaterHoldCounts", "armed-for-hold-before", mutant.Cond("at.armed != 0")),
	one("MaxHold of the one before", "TestHandOver_MaxHoldOfTheOneBeforeEndsNobodyElse", "handed-over-new-deadline", mutant.Delete()),
	one("handed over with a new deadline", "TestHandOver_TheDeadlineIsInherited", "handed-over-new-deadline", mutant.After("h.deadline = now.Add(h.granted)\n\th.until.Store(int64(h.deadline))")),
	one("handed over with the dregs of its time", "TestHandOver_OnlyWhileMoreThanHalfOfTheTTLIsLeft", "handed-over-more-often", mutant.Cond("h.index < 0 || h.handOver.left == 0 || now >= h.handOver.until || s.e.isClosing()")),
	one("a lease that was handed on is told of the loss", "TestHandOver_ALossGoesToTheLeaseThatHasTheName", "lease-handed-told-loss", mutant.Delete()),
	one("a hold that is over is handed on", "TestHandOver_NothingIsHandedOnThatIsLostDuringItsRelease", "handed-over-more-often", mutant.Cond("h.handOver.left == 0 || now >= h.handOver.until || h.deadline.Sub(now) <= h.granted/2 || s.e.isClosing()")),
	one("who waits for a hold is not told of its loss", "TestHandOver_AfterALossNothingIsHandedOn", "waits-hold-told-loss", mutant.Delete()),
	one("all ask when the bounds are reached", "TestHandOver_AnotherProcessGetsInWithinTheTimes", "all-ask-bounds-reached", mutant.Delete()),
	one("handed over though Close has begun", "TestHandOver_NothingIsHandedOnOnceTheLockerCloses", "handed-over-more-often", mutant.Cond("h.index < 0 || h.handOver.left == 0 || now >= h.handOver.until || h.deadline.Sub(now) <= h.granted/2")),
	one("handed over to whoever is first", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "nobody-asks-time-over", mutant.Cond("left <= 0")),
	one("handed over to one with another TTL", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "handed-over-another-ttl", mutant.Return("w.limit == h.limit && w.block() > 1 && s.LockDelay == h.handOver.delay")),
	one("handed over to one with another lock delay", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "handed-over-another-ttl", mutant.Return("w.limit == h.limit && w.block() > 1 && s.TTL == h.handOver.ttl")),
	one("a minimum hold is handed over", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "minimum-hold-handed-over", mutant.Cond("w.weight < w.limit || w.l.s.NoRenew")),
	one("a reader is handed the write lock", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "minimum-hold-handed-over", mutant.Cond("w.l.s.MinHold > 0 || w.l.s.NoRenew")),
	one("a lease without renewal is handed over", "TestHandOver_WhoAsksForSomethingElseAsksTheStore", "minimum-hold-handed-over", mutant.Cond("w.weight < w.limit || w.l.s.MinHold > 0")),
	one("handed over with a time that its owner chose", "TestHandOver_WhatIsRenewedByHandIsNotHandedOn", "handed-over-time-owner", mutant.Delete()),
	one("several names without renewal are handed over", "TestHandOver_NotOfSeveralNamesWithoutRenewal", "several-names-without-renewal", mutant.Delete()),
	one("the end of a lease that was handed on is not observed", "TestHandOver_EachLeaseIsObserved", "end-lease-handed-observed", mutant.Stmt("_, _ = s, end")),
	one("a candidate is handed the lead", "TestHandOver_NotOfALeader", "candidate-handed-lead", mutant.Delete()),
	one("a block for less than the whole", "TestHandOver_ASemaphoreIsHandedOnOnlyAsAWhole", "minimum-hold-handed-over", mutant.Cond("w.l.s.MinHold > 0 || w.l.s.NoRenew")),
	one("zero is the default", "TestHandOver_OffWhenItsBoundsAreZero", "zero-default", mutant.Return("max(w.l.s.HandOver.Times, 64)")),
	one("the store is not told who has it now", "TestHandOver_ItsOwnerAndTokenReachTheStoreWithTheNextRenewal", "store-told-now", mutant.Stmt("h.s = w.l.s")),
	one("one MaxHold for all", "TestHandOver_MaxHoldIsEachLeasesOwn", "maxhold-all", mutant.Value("h.handOver.since.Add(h.s.MaxHold)")),
	one("what a waiter that has left was handed is kept", "TestHandOver_CancelledInTheSameMomentLosesNothing", "waiter-left-handed-kept", mutant.Stmt("_ = 0")),
	one("the release first, then the ask", "TestHandOver_ThenReleaseAndAskGoTogether", "release-first-then-ask", mutant.Cond("leaving")),
	one("who gives up is not told who holds", "TestHandOver_WhoGivesUpIsToldWhoHolds", "gives-up-told-holds", mutant.Cond("false")),

	// Rule 7.
	one("valid until the release is answered", "TestRule7_ReleaseFirstMakesValidFalseAndEndsTheContexts", "valid-until-release-answered", mutant.Stmt("if to == lost {\nWAS\n\t}")),
	one("each call makes a context that is kept", "TestContext_NothingIsKeptOfSpansOverOneRoot", "context-each-call", mutant.Cond("ok && false")),
	one("ended parents are kept", "TestContext_OfOneParentIsOneAndNothingIsKeptOfThoseThatEnded", "ended-parents-kept", mutant.Delete()),
	one("the cause is the parent's", "TestContext_OfParentsThatEndTogether", "cause-of-parent", mutant.Return("c.Context.Value(key)")),
	one("contexts end some time after the release began", "TestRule7_ReleaseFirstMakesValidFalseAndEndsTheContexts", "contexts-end-some-time", mutant.Expr("time.AfterFunc(1, func() { WAS })")),
	one("a release does not wait for the renewal in flight", "TestRule7_ReleaseWaitsForTheRenewalInFlight", "release-wait-renewal-flight", mutant.Stmt("_ = 0")),
	one("a release is sent after a loss", "TestRule7_AfterALossNothingIsSent", "release-sent-after-loss", mutant.Cond("WAS || true")),
	one("a broken hold is not given back", "TestRule7_ABrokenHoldIsGivenBackWhenItIsReleased", "release-sent-after-loss", mutant.Cond("WAS && false")),
	one("a loss told to the last renewal is not told", "TestRule7_ALossToldToTheRenewalInFlightIsTold", "loss-told-last-renewal", mutant.Cond("false")),
	one("a repeated release is a loss", "TestRule7_NothingThereBeforeTheDeadlineIsARepeatedRelease", "repeated-release-loss", mutant.Return("false")),
	one("a late release is none the less nil", "TestRule7_NothingThereAfterTheDeadlineIsALoss", "repeated-release-loss", mutant.Return("errors.Is(err, store.ErrLost) && !h.e.endless")),
	one("a release takes as long as it takes", "TestRule7_ReleaseIsBoundedOnItsOwnContext", "release-takes-long-takes", mutant.Line("return h.e.repeat(h.values, time.Minute, nil, func(ctx context.Context) error {")),

	// Re-entry.
	one("entered again though nobody asked for it", "TestReentry_NotAskedForIsADeadlockThatSaysHow", "entered-again-though-nobody", mutant.Cond("l.covers(w)")),
	one("not entered again", "TestReentry_AReaderEntersAgainWhileAWriterWaits", "entered-again-though-nobody", mutant.Cond("w.l.s.Reentrant && false")),
	one("a read lease covers a write", "TestReentry_WhatALeaseDoesNotCoverIsADeadlockAtOnce", "read-lease-covers-write", mutant.Cond("w.limit != store.Full || l.hold.limit != store.Full || false")),
	one("slots cover slots", "TestReentry_SlotsAreAskedForAnew", "read-lease-covers-write", mutant.Cond("w.limit != l.hold.limit")),
	one("the first release gives the name back", "TestReentry_TheLastReleaseGivesTheNameBackInWhateverOrder", "first-release-gives-name", mutant.Value("true")),
	one("a second release of one lease counts", "TestReentry_TheLastReleaseGivesTheNameBackInWhateverOrder", "second-release-lease-counts", mutant.Cond("true")),
	{Name: "who has released enters again", Test: "TestReentry_TheLastReleaseGivesTheNameBackInWhateverOrder", Edits: []mutant.Edit{
		mutant.At("released-enters-again", mutant.Cond("false")),
		mutant.At("released-enters-again-too", mutant.Cond("!l.covers(w)")),
	}},
	one("a claim under a lost lease is a new hold", "TestReentry_UnderALostLeaseNothingIsClaimedThoughItsTimerIsLate", "lost-claims-afresh", mutant.Delete()),
	one("one lease of a hold is lost", "TestReentry_AllLeasesOfAHoldAreLostTogether", "lease-hold-lost", mutant.Line("if l := h.leases; l != nil {")),
	one("the first release gives a broken hold back", "TestReentry_ABrokenHoldIsGivenBackByTheLastRelease", "first-release-gives-broken", mutant.Cond("!l.Valid()")),

	// Renewal by hand.
	one("the store is not told of a renewal by hand", "TestRenewByHand_TheStoreIsToldSo/by_hand", "renewed-as-by-hand", mutant.Delete()),
	one("the store is told that each renewal is by hand", "TestRenewByHand_TheStoreIsToldSo/by_itself", "renewed-as-by-hand", mutant.Stmt("asked[i].ByHand = true")),
	one("the store is not told that what is shown is renewed by hand", "TestRenewByHand_TheStoreIsToldSo/a_minimum_hold", "shown-as-by-hand", mutant.Stmt("hold := store.Hold{Name: o.claim.Name, ID: o.claim.ID, Token: out.answer.Token, TTL: o.claim.TTL}")),
	one("the store is not told that several are renewed by hand", "TestRenewByHand_TheStoreIsToldSo/by_hand", "several-renewed-as-by-hand", mutant.Delete()),
	one("NoRenew renews", "TestRenewByHand_WithoutItTheLeaseIsLostAtItsTTL", "norenew-renews", mutant.Cond("false")),
	one("renewed by hand for what the options say", "TestRenewByHand_LastsFromItsSendingOn", "renewed-hand-options-say", mutant.Value("max(h.s.TTL, 0*c.ttl)")),
	one("a shorter renewal counts when it is answered", "TestRenewByHand_AShorterOneCutsTheDeadlineAtOnce", "shorter-renewal-counts-answered", mutant.Delete()),
	one("a renewal under way undoes a shorter one", "TestRenewByHand_AShorterOneIsNotUndoneByARenewalUnderWay", "ttl-answer-used", mutant.Cond("!h.ends(max(h.deadline, h.e.deadlineOf(sent, r.TTL)))")),
	one("a call that came during a renewal waits for the next but one", "TestRenewByHand_AShorterOneIsNotUndoneByARenewalUnderWay", "call-came-during-renewal", mutant.Expr("_")),
	one("renewed for any time", "TestRenewByHand_WhatIsOverDoesNotComeBack", "renewed-any-time", mutant.Cond("false")),
	one("the clock is not looked at before a renewal by hand", "TestRenewByHand_WhatIsOverDoesNotComeBack", "clock-looked-before-renewal", mutant.Delete()),
	one("an indeterminate renewal by hand is not tried again", "TestRenewByHand_AnIndeterminateOneIsTriedAgain", "unclear-renewal-hand-tried", mutant.Delete()),
	one("renewed for one who has left", "TestRenewByHand_ItsContextBoundsTheTrying", "renewed-left", mutant.Delete()),
	one("a notification grants what is not renewed", "TestRenewByHand_ANotificationGrantsNothing", "hint-spares-minimum-hold", mutant.Cond("h.ID != r.claim.ID || !fresh || r.claim.MinHold > 0 || r.e.endless")),

	// Several names.
	one("taken as given", "TestSeveral_AreTakenInOrderOfTheirBytesAndReleasedInReverse", "taken-given", mutant.Return("strings.Compare(b.name, a.name)")),
	one("released as taken", "TestSeveral_AreTakenInOrderOfTheirBytesAndReleasedInReverse", "released-taken", mutant.Value("slices.All(all.parts)")),
	one("a read covers a write", "TestSeveral_OfANameThatIsThereTwiceWriteWinsAndSlotsAdd", "read-covers-write", mutant.Cond("w.weight < have.weight")),
	one("slots do not add up", "TestSeveral_OfANameThatIsThereTwiceWriteWinsAndSlotsAdd", "slots-add-up", mutant.Stmt("have.weight = w.weight")),
	one("no wait for all", "TestSeveral_B43_OneWaitForAll", "wait-all", mutant.Cond("d < 0 && !try")),
	one("what was had is kept", "TestSeveral_B41_WhatWasHadIsGivenBackOnceIfTheNextOneFails", "had-kept", mutant.Delete()),
	one("the first failure ends the release", "TestSeveral_EveryReleaseIsTriedAndEveryFailureReported", "first-failure-ends-release", mutant.Stmt("return err")),
	one("all have to be lost", "TestSeveral_B44_AreLostAsSoonAsOneIs", "all-lost", mutant.Value("l.Context(context.Background())")),
	one("a loss beside a valid one", "TestSeveral_B44_AreLostAsSoonAsOneIs", "loss-beside-valid", mutant.Cond("WAS && l == all.parts[0]")),
	one("a release is told as a loss", "TestSeveral_ReleaseIsNoLoss", "release-told-loss", mutant.Cond("true")),
	one("the last deadline", "TestSeveral_TheDeadlineIsTheEarliestAndEachHasItsToken", "last-deadline", mutant.Cond("d.After(first)")),
	one("a name before one held is waited for", "TestSeveral_ANameBeforeOneThatIsHeldIsOnlyTried", "name-before-held-waited", mutant.Cond("try")),
	one("a name before one released is only tried", "TestSeveral_ANameBeforeOneThatIsHeldIsOnlyTried", "name-before-released-only", mutant.Cond("l.hold.e == e")),
	one("a minimum hold is shown at once", "TestSeveral_MinHold_IsShownWhenAllAreThere", "minimum-hold-shown-once", mutant.Cond("out.err != nil || !out.answer.Granted || !o.shows(&out.answer) || ended(stop)")),
	one("a hold that waits is renewed", "TestSeveral_MinHold_IsShownWhenAllAreThere", "hold-waits-renewed", mutant.Cond("WAS && false")),
	one("a roll-back shows the token", "TestSeveral_MinHold_ARollBackKeepsNone", "roll-back-shows-token", mutant.Cond("h.unrun.Load()")),
	one("a minimum hold is never shown", "TestSeveral_MinHold_IsShownWhenAllAreThere", "minimum-hold-never-shown", mutant.Cond("false")),
	one("what the store forgot is made again", "TestSeveral_MinHold_WhatTheStoreForgetsIsNotMadeAgain", "store-forgot-made-again", mutant.Cond("false")),
	one("MaxHold counts while it waits", "TestSeveral_MaxHold_CountsFromWhenAllAreThere", "maxhold-counts-while-waits", mutant.Stmt("s.NoRenew = false")),
	one("lost while it waits, as it is not renewed", "TestSeveral_NoRenew_CountsFromWhenAllAreThere", "maxhold-counts-while-waits", mutant.Stmt("s.MaxHold = 0")),
	one("renewed though nobody asked for it", "TestSeveral_NoRenew_CountsFromWhenAllAreThere", "renewed-though-nobody-asked", mutant.Cond("false")),
	one("one name without its MaxHold", "TestSeveral_MaxHold_CountsFromWhenAllAreThere", "name-without-maxhold", mutant.Cond("false")),
	one("Close between two names is a loss", "TestSeveral_CloseBetweenTwoNamesIsErrClosed", "close-between-names", mutant.Cond("false")),
	one("Close between two names is the end of a context", "TestSeveral_CloseBetweenTwoNamesIsErrClosed", "close-between-names", mutant.Cond("func() bool { lost = err; return false }()")),
	one("a loss does not end the wait for the others", "TestSeveral_OneLostWhileItWaitsForTheOthersEndsTheWait", "loss-end-wait-others", mutant.Delete()),
	one("left while it is shown", "TestSeveral_MinHold_CancelledWhileItIsShown", "left-while-shown", mutant.Delete()),

	// A minimum hold for which nobody ran.
	one("shown though its caller has left", "TestMinHold_CallerLeftBeforeTheTokenIsShown", "minimum-hold-shown-once", mutant.Cond("out.err != nil || !out.answer.Granted || !o.shows(&out.answer) || o.part")),
	one("given back as if the caller had had it", "TestMinHold_CallerLeftWhileSeveralAreShown", "given-back-if-caller", mutant.Stmt("_ = l")),
	one("a minimum hold is never kept", "TestMinHold_CountsOnceTheCallerHasTheLease", "roll-back-shows-token", mutant.Cond("true || h.unrun.Load()")),

	// The mode.
	one("a read lease under a write lease is not alone", "TestMode_SaysWhoElseMayHoldTheName", "read-lease-under-write", mutant.Value("l.weight.Load() == store.Full")),
	one("an upgraded lease is not alone", "TestMode_SaysWhoElseMayHoldTheName", "upgraded-lease-alone", mutant.Value("false")),

	// The observer and the log.
	one("a hand-over is told as a grant of the store", "TestObserver_EventsAddUp", "hand-over-told-grant", mutant.Expr("h.observe(EventGranted, h.since.Sub(began), nil)")),
	one("the wait does not count", "TestObserver_IsToldOfTheWaitAndOfARefusal", "wait-count", mutant.Value("newRequest(ctx, w, e.stamp(w.l.s), p)")),
	one("a wait that was given up is not told", "TestObserver_IsToldOfTheWaitAndOfARefusal", "wait-given-up-told", mutant.Expr("err")),
	one("a cancelled wait in the process is not told", "TestObserver_IsToldOfTheWaitAndOfARefusal", "cancelled-wait-process-told", mutant.Return("nil, err")),
	one("a failed claim is a refusal", "TestObserver_IsToldWhenItIsIndeterminate", "failed-claim-refusal", mutant.Value("EventRefused")),
	one("a retry moves the time that a renewal was due", "TestObserver_IsToldHowLateARenewalWas", "retry-moves-time-renewal", mutant.Cond("true")),
	one("what is kept for other names was never due", "TestObserver_IsToldHowLateAHoldOfSeveralIsKept", "kept-other-names-never", mutant.Stmt("one = batch{h.lane(), s.e.now(), []*hold{h}, make(chan struct{})}\n\th.flight = one.done\n\ts.moved(h)")),
	one("a renewal that was answered is never late", "TestObserver_IsToldHowLateARenewalWas", "renewal-answered-never-late", mutant.Value("append(seen, h.renewalReport(0, err))")),
	one("what is lost on its way is told as over", "TestObserver_WhatIsLostOnItsWayAddsUp", "lost-way-told-over", mutant.Stmt("h.done = true")),
	one("what was over before it was seen is not told", "TestObserver_WhatIsLostOnItsWayAddsUp", "over-before-seen-told", mutant.Stmt("if over = true; over {\nreturn\n\t}")),
	one("what was seen is not told as over", "TestObserver_EventsAddUp", "seen-told-over", mutant.Delete()),
	one("a loss is not told", "TestObserver_IsToldOfEachLossOnce", "loss-told", mutant.Delete()),
	inside("what MaxHold ends is given back beside its owner", "TestMaxHold_WhatItsOwnerGivesBackIsGivenBackOnce", "maxhold-given-back-twice", mutant.Cond("!h.finish(lost, why) && false")),
	inside("what All has can be given back", "TestBorrow_WhoGivesItBackWaitsForTheBorrower", "borrowed-while-renewed", mutant.Delete()),
	one("a hold that MaxHold ended is told as released too", "TestObserver_IsToldOfEachLossOnce", "hold-maxhold-ended-told", mutant.Expr("s.e.work.Go(func() { h.release() })")),
	one("a loss that the release finds is a release", "TestObserver_IsToldOfALossThatTheReleaseFinds", "loss-release-finds-release", mutant.Stmt("_ = EventLost")),
	one("the observer is called with the lock held", "TestObserver_IsCalledWithoutALock", "renewal-answered-never-late", mutant.Stmt("reported := h.renewalReport(1, err)\n\treported.s.notify(reported.e)")),
	one("a loss that the release finds is no error", "TestLog_ALossIsAnErrorAFailedRenewalAWarningTheRestDebug", "loss-release-finds-error", mutant.Cond("errors.Is(err, store.ErrHeld)")),

	// Election.
	one("a term without end", "TestElection_LeadEndsWithFnAndResigns", "term-without-end", mutant.Cond("err != nil && WAS")),
	one("a loss ends it", "TestElection_CampaignsAgainAfterALoss", "term-without-end", mutant.Cond("term != nil")),
	one("an outage ends it", "TestElection_AnOutageLeavesTheCandidates", "outage-ends", mutant.Cond("true")),
	one("no error ends it", "TestElection_OtherErrorsEndTheCampaign", "outage-ends", mutant.Cond("err == nil")),
	one("an expired leader leads", "TestElection_ObserveAnExpiredLeaderIsNone", "expired-leader-leads", mutant.Cond("e.Granted && e.Weight == store.Full")),
	one("no look when the leader's time is over", "TestElection_ObserveAnExpiredLeaderIsNone", "look-leader-time-over", mutant.Cond("false")),
	one("a reader leads", "TestElection_ObserveYieldsEachChangeAndNoRenewal", "expired-leader-leads", mutant.Cond("e.Granted && e.Expires > 0")),
	one("each look is told", "TestElection_ObserveYieldsEachChangeAndNoRenewal", "each-look-told", mutant.Return("true")),
	one("looks do not back off", "TestElection_ObserveReadsInGrowingPauses", "looks-back-off", mutant.Value("min(s.PollMin, s.PollMax)")),
	one("an outage ends the observing", "TestElection_ObserveTellsAnOutageOnceAndGoesOn", "outage-ends-observing", mutant.Value("err == nil")),
	one("observed for ever", "TestElection_ObserveTellsAnOutageOnceAndGoesOn", "outage-ends-observing", mutant.Value("true")),
	one("Close does not end a look", "TestElection_ObserveRefuses", "close-end-look", mutant.Delete()),

	// Upgrade and downgrade.
	one("a notification grants an upgrade", "TestUpgrade_ANotificationGrantsNothingAndCausesAPoll", "hint-grants-upgrade", mutant.Line("if h, _, err := u.rest(ctx, true); h != nil && h.Token > 0 {\n\t\t\tu.granted(&store.Answer{UpgradeToken: h.Token})\n\t\t\treturn false, nil\n\t\t} else if err != nil {")),
	one("an upgrade that waits does not look once it is subscribed", "TestUpgrade_PollsOnceItIsSubscribed", "upgrade-waits-look-once", mutant.Delete()),
	one("a cancelled upgrade stays pending", "TestUpgrade_ACancelledOneIsChangedBackUntilThatIsAnswered", "cancelled-upgrade-stays-pending", mutant.Return("false, w.gaveUp(err, u.refused, nil)")),
	one("a try to upgrade stays pending", "TestUpgrade_B23_ATryBesideAReaderSaysNoAndChangesNothing", "try-upgrade-stays-pending", mutant.Return("false, w.refusal(&a, u.refused.when, nil)")),
	one("an indeterminate upgrade is not changed back", "TestUpgrade_AnIndeterminateOneIsTriedAgainThenChangedBack", "unclear-upgrade-changed-back", mutant.Expr("false")),
	one("a refused upgrade is changed back for ever", "TestUpgrade_ADefiniteRefusalIsToldAndNothingIsChangedBack", "unclear-upgrade-changed-back", mutant.Expr("true")),
	one("an upgrade does not return before it is changed back", "TestUpgrade_OfAStoreThatIsAwayIsTold", "upgrade-return-before-changed", mutant.Delete()),
	one("the way back is tried for a while", "TestDowngrade_IsRepeatedUntilItIsAnswered", "way-back-tried-while", mutant.Cond("true || errors.Is(err, store.ErrLost)")),
	one("an upgrade is granted to one who has left", "TestUpgrade_AGrantThatNobodyWaitsForIsChangedBack", "upgrade-granted-left", mutant.Cond("false")),
	one("an upgrade answered after the deadline is granted", "TestUpgrade_AnAnswerAfterTheDeadlineRevivesNothing", "upgrade-answered-after-deadline", mutant.Cond("WAS && false")),
	one("each act is the first", "TestUpgrade_ALateCopyUndoesNothing", "each-act-first", mutant.Value("1, false")),
	one("each repetition is an act", "TestUpgrade_AnIndeterminateOneIsTriedAgainThenChangedBack", "each-repetition-act", mutant.After("c.turn++")),
	one("a change overlaps a renewal", "TestUpgrade_ARenewalAndAChangeDoNotOverlap", "change-overlaps-renewal", mutant.Line("if flight = nil; !over {")),
	one("an upgrade keeps its token", "TestUpgrade_B23_ATryBesideAReaderSaysNoAndChangesNothing", "upgrade-keeps-token", mutant.Return("min(l.token, WAS)")),
	one("an upgrade waits for its own caller", "TestUpgrade_WhoWouldWaitForItselfIsTold", "upgrade-waits-own-caller", mutant.Cond("false && h.e == l.hold.e && h.Name == l.hold.Name && other.Valid()")),
	one("a write lock covers an upgradeable one", "TestUpgrade_WhoWouldWaitForItselfIsTold", "write-lock-covers-upgradeable", mutant.Return("true")),
	{Name: "a downgrade counts when it is answered", Test: "TestDowngrade_CountsBeforeItIsSent", Edits: []mutant.Edit{
		mutant.At("downgrade-counts-answered", mutant.Stmt("defer WAS")),
		mutant.At("downgrade-counts-answered-too", mutant.Cond("false")),
	}},
	one("a downgrade takes the lock from another lease of the hold", "TestUpgrade_Reentry", "downgrade-counts-answered-too", mutant.Cond("false")),
	one("a change that hangs leaves no time for a renewal", "TestUpgrade_AChangeThatHangsLeavesTimeForARenewal", "change-leaves-time-for-renewal", mutant.Line("h.e.bounded(h.values, min(longestCall, h.s.RenewEvery), func(ctx context.Context) {")),
	one("a hold stays upgraded for nobody", "TestUpgrade_Reentry", "hold-stays-upgraded-nobody", mutant.Return("nil")),
	one("an upgrade that the store forgot is still ours", "TestUpgrade_OneThatTheStoreForgotIsALoss", "upgrade-forgotten", mutant.Cond("true")),

	// Detach and Adopt.
	one("detached and still valid", "TestAdopt_DetachEndsTheLeaseHere", "detached-still-valid", mutant.Delete()),
	one("detached and still renewed", "TestAdopt_DetachEndsTheLeaseHere", "detached-still-renewed", mutant.Stmt("flight := (chan struct{})(nil)")),
	one("detached from nobody", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "detached-nobody", mutant.Expr("h.e.process.NewID()")),
	one("adopted for the time that it had", "TestAdopt_InTheSameProcess", "adopted-time-had", mutant.Value("store.Hold{\nName: ref.Name, ID: id, Token: ref.Grant, Used: ref.Token, Owner: l.s.owner, NewID: r.claim.ID,\n\t}")),
	one("adopted under the id that it had", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "adopted-time-had", mutant.Value("store.Hold{\nName: ref.Name, ID: id, Token: ref.Grant, TTL: l.s.TTL, Used: ref.Token, Owner: l.s.owner,\n\t}")),
	one("adopted for another owner", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "adopted-time-had", mutant.Value("store.Hold{\nName: ref.Name, ID: id, Token: ref.Grant, TTL: l.s.TTL, Used: ref.Token, NewID: r.claim.ID,\n\t}")),
	one("adopted from the answer on", "TestAdopt_TheDeadlineCountsFromTheSending", "adopted-answer", mutant.Swap()),
	one("an indeterminate adoption is left", "TestAdopt_WhatStaysIndeterminateIsTold", "unclear-adoption-left", mutant.Delete()),
	one("a refused detach keeps the name", "TestAdopt_ARefusedDetachGivesBack", "refused-detach-keeps-name", mutant.Value("0")),
	one("detached by the clock too late", "TestAdopt_DetachOfWhatIsOverSaysSo", "detached-clock-too-late", mutant.Delete()),
	one("detached under another lease", "TestAdopt_WhatCannotBeDetachedGoesOn", "detached-under-another-lease", mutant.Cond("false")),
	one("detached with the token of the grant", "TestAdopt_OfALeaseThatWasHandedOver", "detached-token-grant", mutant.Value("h.Token, l.weight.Load()")),
	one("waited for what was detached", "TestAdopt_OfALeaseThatWasHandedOver", "waited-detached", mutant.Delete()),
	one("any text is a ref", "TestAdopt_ARefIsText", "any-text-ref", mutant.Cond("false")),

	// Leases without a deadline.
	one("a deadline where there is none", "TestEndless_LastsUntilItIsReleased", "deadline-where-none", mutant.Cond("false")),
	one("a deadline is told where there is none", "TestEndless_LastsUntilItIsReleased", "deadline-told-where-none", mutant.Cond("false")),
	one("a token that is none is told", "TestEndless_LastsUntilItIsReleased", "token-none-told", mutant.Cond("lacks && false")),
	one("a loss that the store tells matches a context", "TestEndless_ALossThatIsToldMatchesNoContext", "loss-store-tells-told", mutant.Stmt("h.lose(why)")),
	one("a loss that the store tells is not told", "TestEndless_ALossThatIsToldEndsTheLeaseAtOnce", "loss-store-tells-told", mutant.Stmt("_ = why")),
	one("a loss told early is found at the next look", "TestEndless_ALossToldBeforeTheGrantIsReadIsFoundAtOnce", "loss-told-early-found", mutant.Cond("false")),
	one("a loss told early is not counted", "TestEndless_ALossToldBeforeTheGrantIsReadIsFoundAtOnce", "loss-told-early-counted", mutant.Delete()),
	one("losses are counted when the grant is read", "TestEndless_ALossToldBeforeTheGrantIsReadIsFoundAtOnce", "losses-counted-grant-read", mutant.Value("&hold{Hold: granted, e: r.e, s: r.s, limit: r.claim.Limit, granted: ttl, orphans: r.e.sched.orphaned()}")),
	one("the store is asked once an hour", "TestEndless_TheStoreIsAskedNowAndThen", "store-asked-once-hour", mutant.Value("cmp.Or(s.RenewEvery, time.Hour)")),
	one("a warning of an end that does not come", "TestEndless_NoAnswerIsNoLoss", "warning-end-come", mutant.Cond("false")),
	one("a release that finds nothing is nil", "TestEndless_AReleaseThatFindsNothingIsALoss", "repeated-release-loss", mutant.Return("errors.Is(err, store.ErrLost) && h.e.now() < deadline")),
	one("a position that lapses at once", "TestEndless_AWaiterGetsInHoweverLongItTook", "place-lapses-once", mutant.Value("0")),
	one("a TTL is out of range", "TestEndless_WhatNeedsADeadlineIsUnsupported", "ttl-out-range", mutant.Cond("false")),
	one("not renewed and endless", "TestEndless_WhatNeedsADeadlineIsUnsupported", "renewed-endless", mutant.Cond("false")),
	one("renewed by hand for ever", "TestEndless_WhatNeedsADeadlineIsUnsupported", "renewed-hand-ever", mutant.Cond("false")),
	one("an end is told that nobody knows", "TestHeldError_TellsNoEndThatNobodyKnows", "end-told-nobody-knows", mutant.Cond("true")),
	one("times are told that nobody knows", "TestEndless_ARefusalTellsNoTimesThatNobodyKnows", "times-told-nobody-knows", mutant.Cond("true")),
	one("a notification grants a position's time", "TestEndless_ANotificationIsOnlyAPoll", "hint-spares-minimum-hold", mutant.Cond("h.ID != r.claim.ID || !fresh || r.claim.MinHold > 0 || r.s.NoRenew")),

	// Rule 8.
	one("Close leaves a lease", "TestRule8_CloseGivesBackAllAndEndsAllWaits", "close-leaves-lease", mutant.Value("append([]*hold(nil), s.holds[1:]...)")),
	one("Close stays subscribed", "TestRule8_CloseEndsTheSubscription", "closed-stays-subscribed", mutant.Stmt("_ = u")),
	one("Close does not wait", "TestRule8_CloseWaitsForWhatIsUnderWay", "close-wait", mutant.Delete()),
	one("Close sends one release at a time", "TestClose_ReleasesInBatches", "close-sends-release-time", mutant.Cond("n < 1")),
	one("Close takes as long as its calls", "TestClose_TakesFiveSecondsThoughTheDriverHangs", "close-takes-long-calls", mutant.Value("time.NewTimer(time.Minute)")),
	one("Close tries for as long as a release", "TestClose_TakesFiveSecondsHoweverManyLeases", "close-tries-long-release", mutant.Cond("WAS.Add(20*time.Second)")),
	one("Close tells of no failure", "TestClose_SaysHowManyWereNotGivenBack", "close-tells-failure", mutant.Cond("left >= 0")),
	one("Close sends after the deadline", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close-sends-after-deadline", mutant.Cond("len(c.ready) > 0 && false")),
	one("at Close a deadline bounds no call", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close-deadline-bounds-call", mutant.Value("share")),
	one("at Close one deadline bounds all calls", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close-deadline-bounds-all", mutant.Cond("false")),
	one("at Close a call that hangs takes all the time", "TestClose_NamesThatHangKeepNoOthers", "close-call-hangs-takes", mutant.Value("min(max(c.end.Sub(now)/max(1, time.Duration(waves-waves)), leastCall), c.end.Sub(now))")),
	one("at Close a renewal that hangs takes all the time", "TestRule8_NoGoroutineIsLeftAfterClose", "close-renewal-hangs-takes", mutant.Line("s.e.within(b.values(), b.lane.bound, false, func(ctx context.Context) {")),
	one("Shutdown takes claims", "TestShutdown_WaitsForLeasesAndRenewsThem", "shutdown-takes-claims", mutant.Return("e.enter()")),
	one("Shutdown renews nothing", "TestShutdown_WaitsForLeasesAndRenewsThem", "shutdown-renews-nothing", mutant.Cond("len(s.holds) == 0 || s.e.isClosing()")),
	one("Shutdown waits for no Do", "TestShutdown_WaitsForADoWhoseLeaseIsOver", "shutdown-waits", mutant.Cond("e.isClosing() && len(e.sched.holds) == 0")),
	one("Shutdown does not see the last Do end", "TestShutdown_WaitsForADoWhoseLeaseIsOver", "shutdown-see-last-end", mutant.Cond("e.running.Add(-1) < 0")),
	one("Shutdown waits beyond its context", "TestShutdown_WhenItsContextEndsClosesAllTheSame", "shutdown-waits-beyond-context", mutant.Expr("<-context.Background().Done()")),
	one("Shutdown waits beside Close", "TestShutdown_ACloseBesideItEndsTheWaiting", "shutdown-waits-beside-close", mutant.Delete()),
	one("in Shutdown a downgrade is tried without a pause", "TestShutdown_ADowngradeGoesOn", "shutdown-downgrade-tried-without", mutant.Stmt("_ = c.h.e.pause(c.h.e.life, jitter(500*time.Millisecond))")),
	one("a loss that is asked for late", "TestSeveral_LostAskedForLate", "lost-asked-late", mutant.Line("case 77:")),
	one("Close does not end the waits", "TestRule8_CloseGivesBackAllAndEndsAllWaits", "close-end-waits", mutant.Delete()),

	one("a panic of the observer goes further", "TestObserver_APanicCostsNoLease", "observer-panics", mutant.Delete()),
	one("a panic of the observer goes further, handed over", "TestObserver_APanicAnywhereCostsNoLease/handed_over", "observer-panics", mutant.Delete()),
	one("a panic of the observer goes further, lost", "TestObserver_APanicAnywhereCostsNoLease/lost", "observer-panics", mutant.Delete()),
	one("a panic of the observer goes further, renewal failed", "TestObserver_APanicAnywhereCostsNoLease/renewal_failed", "observer-panics", mutant.Delete()),
	one("a panic of the observer goes further, released", "TestObserver_APanicAnywhereCostsNoLease/released", "observer-panics", mutant.Delete()),
	one("a nil pointer is a store", "TestNew_ANilStoreOfAnyTypeIsInvalid", "nil-store", mutant.Cond("v.Kind() == reflect.Pointer && false || s == nil")),
	one("Close does not count what All has just got", "TestClose_CountsWhatAllHasJustGot", "borrowed-not-counted", mutant.Stmt("_ = err")),
	one("what a store says at its end is told as it is", "TestClose_AStoreThatDoesNotCloseIsUnavailable", "close-error-of-the-store", mutant.Delete()),

	// What a store finds at its server.
	one("what is well is logged", "TestCheck_WhatAnOperatorShouldHearIsLoggedOnce", "well-logged", mutant.Cond("!e.isClosing()")),
	one("a failure is not logged", "TestCheck_WhatAnOperatorShouldHearIsLoggedOnce", "well-logged", mutant.Cond("f.Level() == store.LevelWarning && !e.isClosing()")),
	one("the server is looked at beside the first ask", "TestCheck_ComesAfterTheFirstAnswer", "check-beside-first-ask", mutant.Cond("false")),
	one("the server is looked at for each claim", "TestCheck_WhatAnOperatorShouldHearIsLoggedOnce", "server-looked-each-claim", mutant.Expr("func(f func()) { f() }")),
	one("what Close cuts off is told", "TestCheck_CutOffByCloseIsNotTold", "well-logged", mutant.Cond("f.Level() != store.LevelOK")),
}

// Each rule's test fails when the rule is broken.
func TestTheTestsCatchEachMutantOfTheEngine(t *testing.T) {
	mutant.Catch(t, slices.Concat(engineMutants, apiMutants), bound+"=10s")
}
