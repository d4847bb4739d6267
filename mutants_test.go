package holdfast

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// one is an engine with one defect.
func one(name, test, mark string, do mutant.Op) mutant.Broken {
	return mutant.Broken{Name: name, Test: test, Edits: []mutant.Edit{mutant.At(mark, do)}}
}

// inside is a mutant that a test of the engine's own package catches.
func inside(name, test, mark string, do mutant.Op) mutant.Broken {
	b := one(name, test, mark, do)
	b.Pkg = "internal/engine"
	return b
}

// ofCrew is a mutant that a test of package crew catches.
func ofCrew(name, test, mark string, do mutant.Op) mutant.Broken {
	b := one(name, test, mark, do)
	b.Pkg = "internal/crew"
	return b
}

// ofClock is a mutant that a test of package clock catches.
func ofClock(name, test, mark string) mutant.Broken {
	b := one(name, test, mark, mutant.Line("case false:"))
	b.Pkg = "internal/clock"
	return b
}

var engineMutants = []mutant.Broken{
	// Rule 1.
	one("the deadline of a grant counts from the reply", "TestClockBeforeTheCall", "deadline-grant-counts-reply", mutant.Swap()),
	one("the deadline of a renewal counts from the reply", "TestARenewalCountsFromItsSending", "deadline-renewal-counts-reply", mutant.After("sent = s.e.now()")),
	one("no one percent", "TestClockBeforeTheCall", "no-one-percent", mutant.Return("from.Add(ttl - margin)")),
	one("no margin", "TestClockBeforeTheCall", "no-one-percent", mutant.Return("from.Add(ttl - ttl/100)")),
	inside("a lease that was seen as expired is valid again", "TestALeaseSeenAsExpiredIsNotRevived", "seen-over-revived", mutant.Cond("true")),
	one("the TTL of an answer is not used", "TestTheAnswerCarriesTheInstantAndTheTTL", "ttl-answer-used", mutant.Cond("!h.ends(max(h.deadline, min(h.e.deadlineOf(sent, h.s.TTL), h.cut())))")),
	one("the instant of an answer is not used", "TestTheAnswerCarriesTheInstantAndTheTTL", "instant-answer-used", mutant.Cond("false")),
	one("a grant after its deadline is returned", "TestAGrantAnsweredAfterItsDeadlineIsAskedForAgain", "grant-comes-too-late", mutant.Cond("false && r.e.deadlineOf(from, out.answer.TTL) <= r.e.now()")),
	one("the time suspended does not count", "TestTheTimeSuspendedCounts", "time-suspended-count", mutant.Value("clock.Awake")),
	one("the clock is negative in a bubble", "TestTheBootClockStandsStillInABubble", "clock-negative-bubble", mutant.Return("Instant(time.Since(start))")),

	{Name: "a suspend of less than a minute is not seen", Pkg: "internal/clock", Test: "TestTheKernelIsAskedAfterEachSuspend",
		Edits: []mutant.Edit{mutant.At("clock-sleeps-that-count", mutant.Return("r != nil && (ahead-r.ahead).Abs() <= time.Minute"))}},
	ofClock("an instant after the last is before all", "TestInstants_AddStopsAtTheEnds", "add-past-last"),
	ofClock("an instant before the first is after all", "TestInstants_AddStopsAtTheEnds", "add-past-first"),
	ofClock("a difference above the longest is negative", "TestInstants_SubStopsAtTheLongest", "sub-past-longest"),
	ofClock("a difference below the shortest is positive", "TestInstants_SubStopsAtTheLongest", "sub-past-least"),
	inside("a pause is negative", "TestAPauseIsNeverNegative", "pause-overflows", mutant.Cond("false")),

	// Rule 2.
	one("a renewal that hangs keeps the lease", "TestATimerEndsTheLeaseWhileARenewalHangs", "renewal-hangs-keeps-lease", mutant.Line("if h.flight != nil {\n\t\tat = at.Add(time.Hour)\n\t} else {")),
	one("an answer after the deadline renews the lease", "TestTheClockIsReadBeforeTheAnswer", "answer-after-deadline-revives", mutant.Cond("false")),
	one("the boot clock is not read", "TestAfterASuspendTheLossIsReportedInASecond", "boot-clock-looked", mutant.Delete()),

	// Rule 3.
	one("renewed at half of the TTL", "TestRenewedAtAThirdOfTheTTL", "renewed-half-ttl", mutant.Value("cmp.Or(s.RenewEvery, s.TTL/2)")),
	one("a shorter grant is renewed as seldom", "TestAShorterGrantIsRenewedSooner", "granted-less-renewed-seldom", mutant.Cond("true")),
	one("a foreign hold is asked for again", "TestAForeignHoldIsLostAtOnce", "ours-asked-again", mutant.Cond("false")),
	one("an indeterminate renewal is a loss", "TestAnIndeterminateRenewalIsRetriedUntilTheDeadline", "ours-asked-again", mutant.Stmt("default:\nreturn store.ErrLost")),
	one("an indeterminate renewal is retried only at the next renewal", "TestAnIndeterminateRenewalIsRetriedUntilTheDeadline", "unclear-renewal-tried-again", mutant.Value("now.Add(h.s.RenewEvery + 0*pause)")),
	one("MaxHold is ignored", "TestMaxHold_IsLostAndReleasedAtItsEnd", "maxhold-ignored", mutant.Cond("false")),

	one("each lease warns of an outage", "TestAnOutageIsOneWarning", "each-lease-warns-outage", mutant.Stmt("level = slog.LevelWarn")),
	one("an outage is warned of only once, ever", "TestAnOutageIsOneWarning", "warning-ever", mutant.Delete()),
	one("a grant is no answer", "TestAnOutageIsOneWarning", "grant-answer", mutant.Delete()),

	// Rule 4.
	one("each lease is renewed in its own call", "TestLeasesAreRenewedInBatches", "call-each-lease", mutant.Value("1")),
	inside("holds renewed together are split", "TestTheNextRenewalCountsFromWhenThisOneWasDue", "renewed-together-again", mutant.Value("h.s.renewAt(sent, h.s.renewAfter(r.TTL))")),
	one("holds are batched at random", "TestHoldsRenewedTogetherStayTogether", "renewed-in-the-same-batch", mutant.Delete()),
	one("a hold that is nearly due waits", "TestAHoldThatIsNearlyDueJoinsTheBatch", "nearly-due-waits", mutant.Value("now")),
	one("one name's failure fails the batch", "TestOneNamesFailureDoesNotTouchAnothers", "name-failure-fails-batch", mutant.Before("for _, a := range answers {\n\tif a.Err != nil {\n\t\tanswers[i] = a\n\t}\n}")),
	one("a call that hangs keeps its slot", "TestAnUnansweredRenewalDelaysNoOther", "call-hangs-keeps-slot", mutant.Value("time.AfterFunc(time.Hour, once)")),
	one("unanswered holds are renewed with the rest", "TestAnUnansweredRenewalDelaysNoOther", "unanswered-goes-with-rest", mutant.Return("lane{h.s.callTime(), false}")),
	one("the bound of a call leaves no time for a retry", "TestAnUnansweredRenewalDelaysNoOther", "bound-leaves-no-time", mutant.Delete()),
	one("one lease's setting bounds the calls of another", "TestNoLeasesSettingBoundsAnothersCall", "unanswered-goes-with-rest", mutant.Return("lane{10 * time.Millisecond, h.retries > 0}")),
	one("no least RenewEvery", "TestOptions_TheLeastRenewEvery", "least-renew-every", mutant.Cond("false")),
	one("an option of the parent cannot be turned off", "TestOptions_WithTurnsOffWhatTheParentHas", "turned-off", mutant.Cond("WAS && false")),
	one("no greatest duration", "TestOptions_AHugeDurationIsInvalidAndHarmless", "greatest-duration", mutant.Cond("false")),
	one("an ended hold is renewed", "TestAHoldThatEndsBeforeItsBatchIsNotRenewed", "ended-renewed", mutant.Return("false")),

	// Rule 5.
	one("asked before it subscribed", "TestSubscribeThenPoll", "asked-before-subscribed", mutant.Expr("r.e.notifications.begin(r.s)")),
	one("without notifications the subscription is retried at once", "TestWithoutNotificationsItIsLoggedOnceAndRetried", "nobody-can-listen-tried", mutant.Stmt("_ = noNotifyFor")),
	one("without notifications the subscription is tried first", "TestWithoutNotificationsThePositionIsAskedForFirst", "nobody-can-listen-tried-first", mutant.Return("h.watcher != nil && !h.subscribed && true")),
	one("missing notifications are logged again and again", "TestWithoutNotificationsItIsLoggedOnceAndRetried", "nobody-can-listen-said", mutant.Value("false")),
	one("subscribed again, but not polled", "TestASubscriptionThatFailedIsTriedAgainAndThenPolled", "subscribed-again-looked", mutant.Delete()),
	one("a notification with an old token grants", "TestANotificationWithAnOldTokenIsOnlyAPoll", "hint-old-token-grants", mutant.Value("h.Token > 0 && r.e.now() < r.since.Add(r.s.positionTTL/2)")),
	one("a notification counts from its arrival", "TestANotificationMayCarryTheGrant", "hint-counts-arrival", mutant.Return("r.lease(h.Token, h.N, r.e.now(), r.lasts, r.lasts/3)")),
	one("a notification grants the whole TTL", "TestANotificationMayCarryTheGrant", "hint-counts-arrival", mutant.Return("r.lease(h.Token, h.N, r.since, r.s.TTL, r.lasts/3)")),
	one("a notification counts from the ask, although the answer had a time", "TestANotifiedLeaseCountsFromWhenThePositionDoes", "instant-of-a-place-used", mutant.Cond("false")),
	one("a notification counts for the whole PositionTTL, although the answer had a time", "TestANotifiedLeaseLastsAsLongAsThePositionDoes", "time-of-a-place-used", mutant.Value("sent, p.s.positionTTL")),
	one("a store does not learn that a try will wait", "TestTheStoreKnowsWhetherATryWillWait", "first-try-is-a-try", mutant.Stmt("if !r.claim.Try {\nr.listen()\n}")),
	one("a notification is used until the position ends", "TestANotificationSparesAPollForHalfThePosition", "hint-old-token-grants", mutant.Value("h.Token > r.refused.answer.Last && r.e.now() < r.since.Add(r.s.positionTTL)")),
	one("a minimum hold is not shown", "TestMinHoldIsShownBeforeTheCallerHasTheLease", "minimum-hold-shown-once", mutant.Cond("true")),
	one("a notification spares the minimum hold its renewal", "TestANotificationDoesNotSpareTheMinHoldItsRenewal", "hint-spares-minimum-hold", mutant.Cond("h.ID != r.claim.ID || !fresh || r.s.NoRenew || r.e.endless")),
	one("no safety poll", "TestTheSafetyPollIsAtAThirdOfThePosition", "safety-look", mutant.Value("p.sent.Add(time.Hour)")),
	one("each position is kept by itself", "TestPositionsAreKeptTogether", "each-keeps-place-itself", mutant.Return("at")),
	one("no poll when the blocking entry ends", "TestPollsAtTheEndOfTheObstacleAhead", "look-end-obstacle", mutant.Cond("until < 0")),
	one("a hold that cannot be shown is kept", "TestMinHold_AHoldThatCannotBeShownIsReleased", "unclear-ask-withdrawn", mutant.Cond("r.queued || !store.Definite(out.err)")),
	one("an indeterminate ask is not withdrawn", "TestAnIndeterminateAskIsRepeatedThenWithdrawn", "unclear-ask-withdrawn", mutant.Cond("false")),
	one("a position that lapsed is asked for with its old id", "TestAPositionThatLapsedIsAskedForWithANewID", "place-lapsed-asked-old", mutant.Stmt("if r.queued && r.e.now() >= r.sent.Add(r.s.positionTTL) {\n\t\n}")),
	one("polls do not back off", "TestPollsBackOff", "polls-back-off", mutant.Stmt("_ = grown")),
	one("the next waiter polls seldom at first", "TestPollsBackOff", "polls-grow-slowly-once-next", mutant.Line("case false:")),
	inside("a first turn is as short as possible", "TestTheFirstPauseGoesByTheAsk", "first-turn", mutant.Return("p.s.PollMin")),
	inside("a first turn has no bound", "TestTheFirstPauseGoesByTheAsk", "first-turn", mutant.Return("max(p.took, p.s.PollMin)")),
	inside("a first turn ignores the ask", "TestTheFirstPauseGoesByTheAsk", "first-turn", mutant.Return("max(firstTurn, p.s.PollMin)")),
	inside("the next waiter keeps its old pause", "TestTheNextWaiterPollsAsTheTurnEnds", "polls-often-once-next", mutant.Stmt("left = turn")),
	inside("the next waiter sleeps past its turn", "TestTheNextWaiterPollsAsTheTurnEnds", "polls-as-the-turn-ends", mutant.Stmt("_ = i")),
	inside("a waiter behind many polls as often as the next one", "TestPausesGoByThePaceOfTheQueue", "polls-by-position", mutant.Value("p.s.PollMin")),
	one("polls do not keep pace with the queue", "TestPollsKeepPaceWithTheQueue", "polls-by-the-pace-of-the-queue", mutant.Stmt("_ = turn")),
	one("a poll that finds the grant spares the minimum hold", "TestAPollThatFindsTheGrantIsTheGrant", "poll-spares-minimum-hold", mutant.Cond("a.From == 0 || r.s.NoRenew || r.e.deadlineOf(a.From, a.TTL) <= r.e.now()")),
	one("a poll that finds the grant grants the session's time", "TestRenewByHand_AfterAWaitInASessionTheTTLIsWhole", "poll-spares-minimum-hold", mutant.Cond("a.From == 0 || r.claim.MinHold > 0 || r.e.deadlineOf(a.From, a.TTL) <= r.e.now()")),
	one("the first ask after a wait grants the session's time", "TestRenewByHand_AfterAWaitWithinAnAskTheTTLIsWhole", "lasts-as-a-position", mutant.Line("o.once && a.TTL < o.claim.TTL && o.poll")),
	one("an ask after a wait grants the session's time", "TestRenewByHand_AfterAWaitInASessionTheTTLIsWhole", "lasts-as-a-position", mutant.Line("false")),
	one("a poll that finds the grant is asked again", "TestAPollThatFindsTheGrantIsTheGrant", "poll-spares-minimum-hold", mutant.Cond("true")),
	inside("a pause ignores the pace of the queue", "TestPausesGoByThePaceOfTheQueue", "polls-by-the-pace-of-the-queue", mutant.Value("times(turn, ahead)/4*3")),
	inside("a pause grows by half though some left the queue", "TestPausesGoByThePaceOfTheQueue", "polls-by-the-pace-of-the-queue", mutant.Value("min(times(p.poll, 1+ahead)/time.Duration(1+p.ahead), left/4*3)")),
	inside("a pause is as short as the turns ahead are quick", "TestPausesGoByThePaceOfTheQueue", "polls-no-sooner", mutant.Value("min(p.poll, p.mostPause(ahead))")),
	inside("a pause by position has full jitter", "TestPausesGoByThePaceOfTheQueue", "position-with-jitter", mutant.Cond("false")),
	one("a poll that confirms the position spares no ask", "TestAPollThatConfirmsThePositionSparesTheAsk", "poll-tells-of-the-position", mutant.Line("case false:")),
	one("local waiters learn of asks only", "TestAPollReportsTheHolderToTheLocalQueue", "poll-tells-those-in-line", mutant.Delete()),
	one("no last ask", "TestALastAskBeforeTheContextEnds", "last-ask", mutant.Cond("false")),
	one("a notification grants after the end of the context", "TestAfterTheEndOfItsContextNothingIsGranted", "hint-grants-after-end", mutant.Expr("nil")),
	{Name: "an answer grants after the end of the context", Test: "TestASynchronousGrantAfterTheContextIsReleased", Edits: []mutant.Edit{
		mutant.At("answer-grants-after-end", mutant.Stmt("if err := error(nil); err != nil {\n\tr.withdraw()\n\treturn nil, r.gaveUp(err)\n}")),
		mutant.At("answer-grants-after-end-context", mutant.Value("error(nil)")),
	}},

	// Operations on one claim never overlap.
	one("a canceled ask is not withdrawn", "TestClaimOperationsNeverOverlap_ACanceledAskIsWithdrawn", "cancelled-ask-withdrawn", mutant.Stmt("_, _, _ = of, bound, claim")),
	one("a canceled ask is withdrawn while it is in flight", "TestClaimOperationsNeverOverlap_ACanceledAskIsWithdrawn", "cancelled-ask-withdrawn-while", mutant.After("r.withdraw()")),
	one("a canceled poll is withdrawn while it is in flight", "TestClaimOperationsNeverOverlap_ACanceledPoll", "cancelled-look-withdrawn-while", mutant.Stmt("if l, room, err := r.pollStore(ctx); err != nil {\n\tcontinue\n} else if l != nil || room {\n\treturn l, nil\n}")),
	one("a canceled wait leaves its position", "TestClaimOperationsNeverOverlap_ACanceledWaitLeavesNothing", "cancelled-wait-leaves-place", mutant.Delete()),

	// Rule 6.
	one("all waiters of a process ask", "TestOneWaiterAProcessAndNameAsksTheStore", "all-waiters-process-ask", mutant.Value("e.queues.enter(ctx, &Target{l: w.l, name: w.name + e.process.NewID().String(), limit: w.limit, weight: w.weight}, began)")),
	one("claims that fit are sent one after another", "TestClaimsThatFitTogetherAreSentTogether", "claims-that-fit", mutant.Cond("true")),
	one("any number is sent at a time", "TestClaimsThatFitTogetherAreSentTogether", "claims-that-fit", mutant.Cond("at.weight+w.weight > at.limit || len(at.inside) >= mostInside")),
	one("any number of claims has a position", "TestPositionsOfOneProcessAreBounded", "claims-that-fit", mutant.Cond("at.weight+w.weight > at.limit || at.sent >= mostSent")),
	one("claims that do not fit are sent together", "TestOneWaiterAProcessAndNameAsksTheStore", "claims-that-fit", mutant.Cond("len(at.inside) >= mostInside || at.sent >= mostSent")),
	one("positions are asked for in any order", "TestSlotsThatAreWaitedForAreServedInOrder", "places-in-order", mutant.Return("true")),
	one("a claim with another limit waits in the local queue", "TestAnotherLimitIsReturnedAtOnce", "another-limit-in-line", mutant.Cond("false")),
	one("all local waiters poll", "TestOnePollsForAllThatFitTogether", "all-look", mutant.Cond("polling")),
	one("one waiter polls for claims of all weights", "TestReadersAndUpgradesWithoutNotifications", "one-weight-inside", mutant.Cond("false")),
	one("no waiter learns that one was granted", "TestOnePollsForAllThatFitTogether", "nobody-told-one-is-in", mutant.Cond("false")),
	one("all positions are kept at the same time", "TestPollsOfManyNamesGoABatchAtATime", "places-at-one-instant", mutant.Cond("false")),
	one("an unanswered poll delays all others", "TestUnansweredPollsDelayNoOthersForLong", "unanswered-hold-up-others", mutant.Value("time.AfterFunc(time.Hour, once)")),
	one("an ask is sent for a waiter that left", "TestPollsOfManyNamesGoABatchAtATime", "sent-for-nobody", mutant.Cond("false")),
	one("an ask that waits long for its turn is sent early", "TestPollsOfManyNamesGoABatchAtATime/200ms", "unanswered-hold-up-others", mutant.Value("time.AfterFunc(100*time.Millisecond, once)")),

	one("an unused lease keeps its minimum hold", "TestMinHold_IsNotKeptForLeasesThatWereNotUsed", "unused-keeps-minimum", mutant.Delete()),
	one("one unused lease keeps its minimum hold", "TestMinHold_IsNotKeptForLeasesThatWereNotUsed", "one-unused-keeps-minimum", mutant.Delete()),
	one("an unused lease voids the minimum hold of others", "TestMinHold_IsKeptIfAnotherLeaseWasUsed", "unused-for-others", mutant.Cond("true")),
	one("the last release decides the minimum hold for all", "TestMinHold_IsKeptIfAnotherLeaseWasUsed", "unused-for-others", mutant.Cond("h.users == 1")),

	one("a reader overtakes the writers of its process", "TestAWaiterIsOvertakenByABoundedNumberOfReaders", "claims-that-fit", mutant.Cond("w.weight > 1 && at.weight+w.weight > at.limit || len(at.inside) >= mostInside || at.sent >= mostSent")),
	one("the last waiter is admitted first, readers too", "TestAWaiterIsOvertakenByABoundedNumberOfReaders", "gate-lets-last-first", mutant.Value("at.last")),

	// An outage.
	one("admitted waiters learn of an outage one after another", "TestOutage_IsReportedToAllAdmittedAtOnce", "inside-one-after-another", mutant.Cond("false")),
	inside("an outage ends a wait that the store has answered since", "TestOutage_EndsNoWaitThatTheStoreHasAnsweredSince", "outage-that-it-has-outlived", mutant.Cond("false")),
	one("a successor starts with the full time", "TestOutage_ASuccessorHasOnlyTheRest", "successor-begins-anew", mutant.Delete()),
	one("local waiters do not learn of a closed port", "TestOutage_AClosedPortIsReportedToTheLocalQueue", "line-behind-a-position", mutant.Stmt("_ = e")),
	one("an upgrade retries a closed port as long as any error", "TestOutage_AClosedPortIsReportedToAdoptAndUpgrade", "upgrade-closed-port", mutant.Delete()),
	one("an adoption retries a closed port as long as any error", "TestOutage_AClosedPortIsReportedToAdoptAndUpgrade", "adopt-closed-port", mutant.Value("(func(error, time.Duration) bool)(nil)")),
	one("an upgrade that waits is given up at a closed port", "TestOutage_AnUpgradeThatWaitsSurvivesAClosedPort", "upgrade-waits-closed-port", mutant.Cond("true")),
	one("a loss reported to a renewal matches a context", "TestOutage_ALossMatchesNoContextOfTheEngine", "context-loss-renewal", mutant.Delete()),
	one("a loss reported to an upgrade matches a context", "TestOutage_ALossMatchesNoContextOfTheEngine", "context-loss-change", mutant.Delete()),
	one("a loss reported to Close matches a context", "TestOutage_ALossMatchesNoContextOfTheEngine", "context-loss-close", mutant.Stmt("c.over(r, err)")),
	one("an outage is reported to waiters one after another", "TestOutage_IsReportedToAllWaitersAtOnce", "outage-one-after-another", mutant.Cond("false")),
	one("an outage is not reported with the deadline", "TestOutage_TheCallersDeadlineAndTheCauseBothMatch", "outage-with-deadline", mutant.Cond("err != nil && false")),
	one("the cause leaves with the first waiter that gets it", "TestOutage_ACanceledCallerGetsTheCause", "cause-leaves-with-one", mutant.Delete()),
	one("silence is no cause", "TestOutage_SilenceIsACauseAfterAWhile", "silence", mutant.Cond("d < 0")),
	one("a moment's silence is an outage", "TestOutage_SilenceIsACauseAfterAWhile", "silence", mutant.Cond("d > 0")),
	one("an admitted waiter forgets the last answer", "TestOutage_ANextWaiterKnowsTheLastAnswer", "refusal-stays-at-gate", mutant.Delete()),
	one("a lost race is silence", "TestOutage_LostRacesAreNoOutage", "lost-races-are-no-silence", mutant.Delete()),
	one("a lost race is an outage", "TestOutage_LostRacesAreNoOutage", "lost-races-are-no-outage", mutant.Cond("false")),
	one("an upgrade that gives up after lost races blames the store", "TestOutage_LostRacesEndNoUpgrade", "upgrade-lost-races-blame-the-store", mutant.Delete()),
	one("a lost race ends an upgrade", "TestOutage_LostRacesEndNoUpgrade", "upgrade-lost-races-are-no-outage", mutant.Cond("false")),
	one("an outage that has ended is reported", "TestOutage_ThatHasEndedIsNotReported", "outage-over", mutant.Delete()),
	one("a context of the engine is reported to the caller", "TestOutage_TheEnginesContextIsNotTheCallers", "context-of-engine", mutant.Return("target != context.Canceled && errors.Is(e.err, target)")),
	one("a last try without time left is the cause", "TestOutage_TheNewestCauseIsReported", "last-try-without-time", mutant.Cond("false")),
	one("a closed port is retried as long as any error", "TestOutage_AClosedPortIsReportedWithinASecond", "closed-port", mutant.Return("e.now().Add(pause) < end || true")),
	one("a position is given up at a closed port", "TestOutage_AWaiterKeepsItsPositionAtAClosedPort", "place-where-nobody-listens", mutant.Cond("true")),

	// Whether fn was called.
	one("an uncalled fn is not reported", "TestDo_SaysWhetherFnWasCalled", "not-run", mutant.Return("[]error{e.err}")),
	one("a release that is indeterminate looks like a claim that failed", "TestDo_SaysWhetherFnWasCalled", "release-error", mutant.Return("errors.Is(e.Lease, target)")),
	one("a nested call that was not run counts as fn", "TestDo_SaysWhetherFnWasCalled", "fn-of-fn", mutant.Delete()),
	one("a nested call that was not run counts as fn when the release is indeterminate", "TestDo_SaysWhetherFnWasCalled", "fn-of-fn-unclear", mutant.Return("e.Err")),
	one("a loss is not reported once fn was called", "TestDo_ALossAfterFnWasCalledIsBoth", "release-error", mutant.Return("false")),
	one("a candidate that has led has not run", "TestDo_LeadHasRunOnceATermHas", "lead-has-run", mutant.Cond("err != nil && (!ran || ran)")),

	one("the local queue admits the last waiter first", "TestProcessesTakeTurns", "gate-lets-last-first", mutant.Value("at.last")),
	one("the local queue forgets a waiter that left as it was admitted", "TestAnAdmittedWaiterThatLeftAdmitsTheNext", "gate-forgets-left-he", mutant.Stmt("_ = 0")),
	one("the local queue is kept", "TestNothingIsKeptForNamesWithoutWaiters", "gate-kept", mutant.Stmt(`g.m[at.name+" "] = at`)),

	// Rule 6, hand-over.
	one("handed over with the same token", "TestHandOver_TokensGrowAcrossProcessesAndUpgrades", "handed-over-same-token", mutant.Delete()),
	one("handed over more often than the block has tokens", "TestHandOver_AnotherProcessIsGrantedWithinTheTimes", "handed-over-more-often", mutant.Cond("h.index < 0 || now >= h.handOver.until || h.deadline.Sub(now) <= h.granted/2 || s.e.isClosing()")),
	one("a block as large as may be", "TestHandOver_AnotherProcessIsGrantedWithinTheTimes", "block-large-may", mutant.Value("64")),
	{Name: "handed over forever", Test: "TestHandOver_AnotherProcessIsGrantedWithinTheTime", Edits: []mutant.Edit{
		mutant.At("handed-over-more-often", mutant.Cond("h.index < 0 || h.handOver.left == 0 || h.deadline.Sub(now) <= h.granted/2 || s.e.isClosing()")),
		mutant.At("handed-over-ever-too", mutant.Value("time.Hour")),
	}},
	one("no waiter asks the store when the time has passed", "TestHandOver_AnotherProcessIsGrantedWithinTheTime", "nobody-asks-time-over", mutant.Cond("!at.hold.suits(at.first.w)")),
	one("the shorter time of a later hold is ignored", "TestHandOver_TheShorterTimeOfALaterHoldCounts", "armed-for-hold-before", mutant.Cond("at.armed != 0")),
	one("MaxHold of the previous lease is kept", "TestHandOver_MaxHoldOfOneLeaseEndsNoOther", "handed-over-new-deadline", mutant.Delete()),
	one("handed over with a new deadline", "TestHandOver_TheDeadlineIsInherited", "handed-over-new-deadline", mutant.After("h.deadline = now.Add(h.granted)\n\th.until.Store(int64(h.deadline))")),
	one("handed over with little of the TTL left", "TestHandOver_OnlyWhileMoreThanHalfOfTheTTLIsLeft", "handed-over-more-often", mutant.Cond("h.index < 0 || h.handOver.left == 0 || now >= h.handOver.until || s.e.isClosing()")),
	one("a lease that was handed over learns of the loss", "TestHandOver_ALossGoesToTheLeaseThatHasTheName", "lease-handed-told-loss", mutant.Delete()),
	one("an ended hold is handed over", "TestHandOver_NothingIsHandedOnThatIsLostDuringItsRelease", "handed-over-more-often", mutant.Cond("h.handOver.left == 0 || now >= h.handOver.until || h.deadline.Sub(now) <= h.granted/2 || s.e.isClosing()")),
	one("a local waiter is not notified of the loss of the hold", "TestHandOver_AfterALossNothingIsHandedOn", "waits-hold-told-loss", mutant.Delete()),
	one("all waiters ask when the bounds are reached", "TestHandOver_AnotherProcessIsGrantedWithinTheTimes", "all-ask-bounds-reached", mutant.Delete()),
	one("handed over though Close has begun", "TestHandOver_NothingIsHandedOnOnceTheLockerCloses", "handed-over-more-often", mutant.Cond("h.index < 0 || h.handOver.left == 0 || now >= h.handOver.until || h.deadline.Sub(now) <= h.granted/2")),
	one("handed over to any first claim", "TestHandOver_AClaimForSomethingElseAsksTheStore", "nobody-asks-time-over", mutant.Cond("left <= 0")),
	one("handed over to a claim with another TTL", "TestHandOver_AClaimForSomethingElseAsksTheStore", "handed-over-another-ttl", mutant.Return("w.limit == h.limit && w.block() > 1 && s.LockDelay == h.handOver.delay")),
	one("handed over to a claim with another lock delay", "TestHandOver_AClaimForSomethingElseAsksTheStore", "handed-over-another-ttl", mutant.Return("w.limit == h.limit && w.block() > 1 && s.TTL == h.handOver.ttl")),
	one("a minimum hold is handed over", "TestHandOver_AClaimForSomethingElseAsksTheStore", "minimum-hold-handed-over", mutant.Cond("w.weight < w.limit || w.l.s.NoRenew")),
	one("a reader is handed the write lock", "TestHandOver_AClaimForSomethingElseAsksTheStore", "minimum-hold-handed-over", mutant.Cond("w.l.s.MinHold > 0 || w.l.s.NoRenew")),
	one("a lease without renewal is handed over", "TestHandOver_AClaimForSomethingElseAsksTheStore", "minimum-hold-handed-over", mutant.Cond("w.weight < w.limit || w.l.s.MinHold > 0")),
	one("handed over with a time chosen by its owner", "TestHandOver_AHoldRenewedByHandIsNotHandedOver", "handed-over-time-owner", mutant.Delete()),
	one("several names without renewal are handed over", "TestHandOver_NotOfSeveralNamesWithoutRenewal", "several-names-without-renewal", mutant.Delete()),
	one("the end of a lease that was handed over is not observed", "TestHandOver_EachLeaseIsObserved", "end-lease-handed-observed", mutant.Stmt("_, _ = s, end")),
	one("a candidate is handed the leadership", "TestHandOver_NotOfALeader", "candidate-handed-lead", mutant.Delete()),
	one("a block for less than the whole", "TestHandOver_ASemaphoreIsHandedOnOnlyAsAWhole", "minimum-hold-handed-over", mutant.Cond("w.l.s.MinHold > 0 || w.l.s.NoRenew")),
	one("zero is the default", "TestHandOver_OffWhenItsBoundsAreZero", "zero-default", mutant.Return("max(w.l.s.HandOver.Times, 64)")),
	one("the store does not learn of the new owner", "TestHandOver_ItsOwnerAndTokenReachTheStoreWithTheNextRenewal", "store-told-now", mutant.Stmt("h.s = w.l.s")),
	one("one MaxHold for all", "TestHandOver_MaxHoldIsEachLeasesOwn", "maxhold-all", mutant.Value("h.handOver.since.Add(h.s.MaxHold)")),
	one("a hold handed to a waiter that left is kept", "TestHandOver_CanceledInTheSameMomentLosesNothing", "waiter-left-handed-kept", mutant.Stmt("_ = 0")),
	one("released first, then asked", "TestHandOver_ThenReleaseAndAskGoTogether", "release-first-then-ask", mutant.Cond("leaving")),
	one("a waiter that gives up does not learn of the holder", "TestHandOver_AWaiterThatGivesUpGetsTheHolder", "gives-up-told-holds", mutant.Cond("false")),

	// Rule 7.
	one("valid until the release is answered", "TestReleaseFirstMakesValidFalseAndEndsTheContexts", "valid-until-release-answered", mutant.Stmt("if to == lost {\nWAS\n\t}")),
	one("each call makes a context that is kept", "TestContext_NothingIsKeptOfSpansOverOneRoot", "context-each-call", mutant.Cond("ok && false")),
	one("ended parents are kept", "TestContext_OfOneParentIsOneAndNothingIsKeptOfThoseThatEnded", "ended-parents-kept", mutant.Delete()),
	one("the cause is the parent's", "TestContext_OfParentsThatEndTogether", "cause-of-parent", mutant.Return("c.Context.Value(key)")),
	one("contexts end some time after the release began", "TestReleaseFirstMakesValidFalseAndEndsTheContexts", "contexts-end-some-time", mutant.Expr("time.AfterFunc(1, func() { WAS })")),
	one("a release does not wait for the renewal in flight", "TestReleaseWaitsForTheRenewalInFlight", "release-wait-renewal-flight", mutant.Stmt("_ = 0")),
	one("a release is sent after a loss", "TestAfterALossNothingIsSent", "release-sent-after-loss", mutant.Cond("WAS || true")),
	one("a broken hold is not released", "TestABrokenHoldIsFreedWhenItIsReleased", "release-sent-after-loss", mutant.Cond("WAS && false")),
	one("a loss reported to the last renewal is not reported", "TestALossReturnedToARenewalInFlightIsReported", "loss-told-last-renewal", mutant.Cond("false")),
	one("a repeated release is a loss", "TestNothingThereBeforeTheDeadlineIsARepeatedRelease", "repeated-release-loss", mutant.Return("false")),
	one("a late release returns nil", "TestNothingThereAfterTheDeadlineIsALoss", "repeated-release-loss", mutant.Return("errors.Is(err, store.ErrLost) && !h.e.endless")),
	one("a release has no bound", "TestReleaseIsBoundedOnItsOwnContext", "release-takes-long-takes", mutant.Line("return h.e.repeat(h.values, time.Minute, nil, func(ctx context.Context) error {")),

	// Re-entry.
	one("re-entered without Reentrant", "TestReentry_NotAskedForIsADeadlockThatSaysHow", "entered-again-though-nobody", mutant.Cond("l.covers(w)")),
	one("not re-entered", "TestReentry_AReaderEntersAgainWhileAWriterWaits", "entered-again-though-nobody", mutant.Cond("w.l.s.Reentrant && false")),
	one("a read lease covers a write", "TestReentry_AnUncoveredClaimIsADeadlockAtOnce", "read-lease-covers-write", mutant.Cond("w.limit != store.Full || l.hold.limit != store.Full || false")),
	one("slots cover slots", "TestReentry_SlotsDoNotReenter", "read-lease-covers-write", mutant.Cond("w.limit != l.hold.limit")),
	one("the first release frees the name", "TestReentry_TheLastReleaseInAnyOrderGivesTheNameBack", "first-release-gives-name", mutant.Value("true")),
	one("a second release of one lease counts", "TestReentry_TheLastReleaseInAnyOrderGivesTheNameBack", "second-release-lease-counts", mutant.Cond("true")),
	{Name: "a released lease is re-entered", Test: "TestReentry_TheLastReleaseInAnyOrderGivesTheNameBack", Edits: []mutant.Edit{
		mutant.At("released-enters-again", mutant.Cond("false")),
		mutant.At("released-enters-again-too", mutant.Cond("!l.covers(w)")),
	}},
	one("a claim under a lost lease is a new hold", "TestReentry_ALostLeaseWithALateTimerClaimsNothing", "lost-claims-afresh", mutant.Delete()),
	one("one lease of a hold is lost", "TestReentry_AllLeasesOfAHoldAreLostTogether", "lease-hold-lost", mutant.Line("if l := h.leases; l != nil {")),
	one("the first release frees a broken hold", "TestReentry_ABrokenHoldIsFreedByTheLastRelease", "first-release-gives-broken", mutant.Cond("!l.Valid()")),

	// Renewal by hand.
	one("the store does not learn of a renewal by hand", "TestRenewByHand_TheStoreIsInformed/by_hand", "renewed-as-by-hand", mutant.Delete()),
	one("the store learns that each renewal is by hand", "TestRenewByHand_TheStoreIsInformed/by_itself", "renewed-as-by-hand", mutant.Stmt("asked[i].ByHand = true")),
	one("the store does not learn that a shown hold is renewed by hand", "TestRenewByHand_TheStoreIsInformed/a_minimum_hold", "shown-as-by-hand", mutant.Stmt("hold := store.Hold{Name: o.claim.Name, ID: o.claim.ID, Token: out.answer.Token, TTL: o.claim.TTL}")),
	one("the store does not learn that several are renewed by hand", "TestRenewByHand_TheStoreIsInformed/by_hand", "several-renewed-as-by-hand", mutant.Delete()),
	one("NoRenew renews", "TestRenewByHand_WithoutItTheLeaseIsLostAtItsTTL", "norenew-renews", mutant.Cond("false")),
	one("renewed by hand for the TTL of the options", "TestRenewByHand_LastsFromItsSendingOn", "renewed-hand-options-say", mutant.Value("max(h.s.TTL, 0*c.ttl)")),
	one("a shorter renewal counts when it is answered", "TestRenewByHand_AShorterOneCutsTheDeadlineAtOnce", "shorter-renewal-counts-answered", mutant.Delete()),
	one("a renewal under way undoes a shorter one", "TestRenewByHand_AShorterOneIsNotUndoneByARenewalUnderWay", "ttl-answer-used", mutant.Cond("!h.ends(max(h.deadline, h.e.deadlineOf(sent, r.TTL)))")),
	one("a call during a renewal waits for the renewal after the next", "TestRenewByHand_AShorterOneIsNotUndoneByARenewalUnderWay", "call-came-during-renewal", mutant.Expr("_")),
	one("renewed for any time", "TestRenewByHand_AnEndedLeaseDoesNotComeBack", "renewed-any-time", mutant.Cond("false")),
	one("the clock is not read before a renewal by hand", "TestRenewByHand_AnEndedLeaseDoesNotComeBack", "clock-looked-before-renewal", mutant.Delete()),
	one("an indeterminate renewal by hand is not tried again", "TestRenewByHand_AnIndeterminateOneIsTriedAgain", "unclear-renewal-hand-tried", mutant.Delete()),
	one("renewed for a caller that left", "TestRenewByHand_ItsContextBoundsTheTrying", "renewed-left", mutant.Delete()),
	one("a notification grants a hold that is not renewed", "TestRenewByHand_ANotificationGrantsNothing", "hint-spares-minimum-hold", mutant.Cond("h.ID != r.claim.ID || !fresh || r.claim.MinHold > 0 || r.e.endless")),

	// Several names.
	one("locked in the given order", "TestSeveral_AreTakenInOrderOfTheirBytesAndReleasedInReverse", "taken-given", mutant.Return("strings.Compare(b.name, a.name)")),
	one("released in the order of locking", "TestSeveral_AreTakenInOrderOfTheirBytesAndReleasedInReverse", "released-taken", mutant.Value("slices.All(all.parts)")),
	one("a read covers a write", "TestSeveral_OfADoubledNameWriteWinsAndSlotsAdd", "read-covers-write", mutant.Cond("w.weight < have.weight")),
	one("slots do not add up", "TestSeveral_OfADoubledNameWriteWinsAndSlotsAdd", "slots-add-up", mutant.Stmt("have.weight = w.weight")),
	one("no wait for all", "TestSeveral_B43_OneWaitForAll", "wait-all", mutant.Cond("d < 0 && !try")),
	one("the names before a failure are kept", "TestSeveral_B41_AFailureReleasesEarlierNamesOnce", "had-kept", mutant.Delete()),
	one("the first failure ends the release", "TestSeveral_EveryReleaseIsTriedAndEveryFailureReported", "first-failure-ends-release", mutant.Stmt("return err")),
	one("lost only when all are lost", "TestSeveral_B44_AreLostAsSoonAsOneIs", "all-lost", mutant.Value("l.Context(context.Background())")),
	one("a set with a lost lease is valid", "TestSeveral_B44_AreLostAsSoonAsOneIs", "loss-beside-valid", mutant.Cond("WAS && l == all.parts[0]")),
	one("a release is reported as a loss", "TestSeveral_ReleaseIsNoLoss", "release-told-loss", mutant.Cond("true")),
	one("the deadline is the last one", "TestSeveral_TheDeadlineIsTheEarliestAndEachHasItsToken", "last-deadline", mutant.Cond("d.After(first)")),
	one("a name before one held is waited for", "TestSeveral_ANameBeforeOneThatIsHeldIsOnlyTried", "name-before-held-waited", mutant.Cond("try")),
	one("a name before one released is only tried", "TestSeveral_ANameBeforeOneThatIsHeldIsOnlyTried", "name-before-released-only", mutant.Cond("l.hold.e == e")),
	one("a minimum hold is shown at once", "TestSeveral_MinHold_IsShownWhenAllAreThere", "minimum-hold-shown-once", mutant.Cond("out.err != nil || !out.answer.Granted || !o.shows(&out.answer) || ended(stop)")),
	one("a hold that waits is renewed", "TestSeveral_MinHold_IsShownWhenAllAreThere", "hold-waits-renewed", mutant.Cond("WAS && false")),
	one("a roll-back shows the token", "TestSeveral_MinHold_ARollBackKeepsNone", "roll-back-shows-token", mutant.Cond("h.unrun.Load()")),
	one("a minimum hold is never shown", "TestSeveral_MinHold_IsShownWhenAllAreThere", "minimum-hold-never-shown", mutant.Cond("false")),
	one("a forgotten hold is recreated", "TestSeveral_MinHold_AForgottenHoldIsNotRecreated", "store-forgot-made-again", mutant.Cond("false")),
	one("MaxHold counts while it waits", "TestSeveral_MaxHold_CountsFromWhenAllAreThere", "maxhold-counts-while-waits", mutant.Stmt("s.NoRenew = false")),
	one("a waiting hold is lost because it is not renewed", "TestSeveral_NoRenew_CountsFromWhenAllAreThere", "maxhold-counts-while-waits", mutant.Stmt("s.MaxHold = 0")),
	one("renewed although NoRenew is set", "TestSeveral_NoRenew_CountsFromWhenAllAreThere", "renewed-though-nobody-asked", mutant.Cond("false")),
	one("one name without its MaxHold", "TestSeveral_MaxHold_CountsFromWhenAllAreThere", "name-without-maxhold", mutant.Cond("false")),
	one("Close between two names is a loss", "TestSeveral_CloseBetweenTwoNamesIsErrClosed", "close-between-names", mutant.Cond("false")),
	one("Close between two names is the end of a context", "TestSeveral_CloseBetweenTwoNamesIsErrClosed", "close-between-names", mutant.Cond("func() bool { lost = err; return false }()")),
	one("a loss does not end the wait for the others", "TestSeveral_OneLostWhileItWaitsForTheOthersEndsTheWait", "loss-end-wait-others", mutant.Delete()),
	one("abandoned while the hold is shown", "TestSeveral_MinHold_CanceledWhileItIsShown", "left-while-shown", mutant.Delete()),

	// A minimum hold under which nothing ran.
	one("shown although its caller has left", "TestMinHold_CallerLeftBeforeTheTokenIsShown", "minimum-hold-shown-once", mutant.Cond("out.err != nil || !out.answer.Granted || !o.shows(&out.answer) || o.part")),
	one("released as if the caller had the lease", "TestMinHold_CallerLeftWhileSeveralAreShown", "given-back-if-caller", mutant.Stmt("_ = l")),
	one("a minimum hold is never kept", "TestMinHold_CountsOnceTheCallerHasTheLease", "roll-back-shows-token", mutant.Cond("true || h.unrun.Load()")),

	// The mode.
	one("a read lease under a write lease is not alone", "TestMode_SaysWhoElseMayHoldTheName", "read-lease-under-write", mutant.Value("l.weight.Load() == store.Full")),
	one("an upgraded lease is not alone", "TestMode_SaysWhoElseMayHoldTheName", "upgraded-lease-alone", mutant.Value("false")),

	// The observer and the log.
	one("a hand-over is reported as a grant of the store", "TestObserver_EventsAddUp", "hand-over-told-grant", mutant.Stmt("s, event := h.s, h.event(EventGranted, h.since.Sub(began), nil)")),
	one("the wait does not count", "TestObserver_ReceivesTheWaitAndARefusal", "wait-count", mutant.Value("newRequest(ctx, w, e.stamp(w.l.s), p)")),
	one("a wait that was given up is not reported", "TestObserver_ReceivesTheWaitAndARefusal", "wait-given-up-told", mutant.Expr("err")),
	one("a canceled wait in the process is not reported", "TestObserver_ReceivesTheWaitAndARefusal", "cancelled-wait-process-told", mutant.Return("nil, err")),
	one("a failed claim is a refusal", "TestObserver_ReceivesAnIndeterminateOutcome", "failed-claim-refusal", mutant.Value("EventRefused")),
	one("a retry moves the time that a renewal was due", "TestObserver_ReceivesHowLateARenewalWas", "retry-moves-time-renewal", mutant.Cond("true")),
	one("a hold kept for other names was never due", "TestObserver_ReceivesHowLateAHoldOfSeveralIsRenewed", "kept-other-names-never", mutant.Stmt("one = batch{h.lane(), s.e.now(), []*hold{h}, make(chan struct{})}\n\th.flight = one.done\n\ts.moved(h)")),
	one("a renewal that was answered is never late", "TestObserver_ReceivesHowLateARenewalWas", "renewal-answered-never-late", mutant.Value("append(seen, h.renewalReport(0, err))")),
	one("a hold that is lost in transit is reported as ended", "TestObserver_EventsAddUpWithLostReplies", "lost-way-told-over", mutant.Stmt("h.done = true")),
	one("a hold that ended before its owner saw it is not reported", "TestObserver_EventsAddUpWithLostReplies", "over-before-seen-told", mutant.Stmt("if over = true; over {\nreturn\n\t}")),
	one("a hold that its owner saw is not reported as ended", "TestObserver_EventsAddUp", "seen-told-over", mutant.Delete()),
	one("a loss is not reported", "TestObserver_ReceivesEachLossOnce", "loss-told", mutant.Delete()),
	inside("a hold that MaxHold ended is released twice", "TestMaxHold_AHoldIsReleasedOnce", "maxhold-given-back-twice", mutant.Cond("!h.finish(lost, why) && false")),
	inside("a hold that All has can be released", "TestBorrow_AReturnWaitsForTheBorrower", "borrowed-while-renewed", mutant.Delete()),
	one("a hold that MaxHold ended is reported as released too", "TestObserver_ReceivesEachLossOnce", "hold-maxhold-ended-told", mutant.Expr("s.e.work.Go(func() { h.release() })")),
	one("a loss that the release finds is a release", "TestObserver_ReceivesALossThatTheReleaseFinds", "loss-release-finds-release", mutant.Stmt("_ = EventLost")),
	one("the observer is called with the lock held", "TestObserver_IsCalledWithoutALock", "renewal-answered-never-late", mutant.Stmt("reported := h.renewalReport(1, err)\n\treported.s.notify(reported.e)")),
	one("a loss that the release finds is no error", "TestLog_ALossIsAnErrorAFailedRenewalAWarningTheRestDebug", "loss-release-finds-error", mutant.Cond("errors.Is(err, store.ErrHeld)")),

	// Election.
	one("a term never ends", "TestElection_LeadEndsWithFnAndResigns", "term-without-end", mutant.Cond("err != nil && WAS")),
	one("a loss ends the campaign", "TestElection_CampaignsAgainAfterALoss", "term-without-end", mutant.Cond("term != nil")),
	one("an outage ends the campaign", "TestElection_AnOutageLeavesTheCandidates", "outage-ends", mutant.Cond("true")),
	one("no error ends the campaign", "TestElection_OtherErrorsEndTheCampaign", "outage-ends", mutant.Cond("err == nil")),
	one("an expired leader leads", "TestElection_ObserveReportsNoExpiredLeader", "expired-leader-leads", mutant.Cond("e.Granted && e.Weight == store.Full")),
	one("no read when the leader's time has passed", "TestElection_ObserveReportsNoExpiredLeader", "look-leader-time-over", mutant.Cond("false")),
	one("a reader leads", "TestElection_ObserveYieldsEachChangeAndNoRenewal", "expired-leader-leads", mutant.Cond("e.Granted && e.Expires > 0")),
	one("each read is reported", "TestElection_ObserveYieldsEachChangeAndNoRenewal", "each-look-told", mutant.Return("true")),
	one("reads do not back off", "TestElection_ObserveReadsInGrowingPauses", "looks-back-off", mutant.Value("min(s.PollMin, s.PollMax)")),
	one("an outage ends the observing", "TestElection_ObserveReportsAnOutageOnceAndGoesOn", "outage-ends-observing", mutant.Value("err == nil")),
	one("a candidate announces nothing", "TestElection_AllThatItDoesIsAnnounced/election", "candidate-announces", mutant.Line("Announce: false,")),
	one("each lock is announced", "TestElection_AllThatItDoesIsAnnounced/mutex", "candidate-announces", mutant.Line("Announce: true,")),
	one("a leader announces nothing", "TestElection_AllThatItDoesIsAnnounced/election", "leader-announces", mutant.Stmt("granted := store.Hold{Name: r.claim.Name, ID: r.claim.ID, Token: token, Used: token}")),
	one("a hold that is shown announces nothing", "TestElection_AllThatItDoesIsAnnounced/election", "shown-as-by-hand", mutant.Stmt("hold := store.Hold{Name: o.claim.Name, ID: o.claim.ID, Token: out.answer.Token, TTL: o.claim.TTL, ByHand: o.once}")),
	one("a withdrawal announces nothing", "TestElection_AllThatItDoesIsAnnounced/election", "withdrawal-announces", mutant.Return("e.store.Release(ctx, store.Hold{Name: c.Name, ID: c.ID})")),
	one("an adoption announces nothing", "TestAdopt_WhatIsAdoptedIsAnnounced", "adoption-announces", mutant.Delete()),
	one("an observer never ends", "TestElection_ObserveReportsAnOutageOnceAndGoesOn", "outage-ends-observing", mutant.Value("true")),
	one("Close does not end a read", "TestElection_ObserveRefuses", "close-end-look", mutant.Delete()),

	// Upgrade and downgrade.
	one("a notification grants an upgrade", "TestUpgrade_ANotificationGrantsNothingAndCausesAPoll", "hint-grants-upgrade", mutant.Line("if h, _, err := u.rest(ctx, true); h != nil && h.Token > 0 {\n\t\t\tu.granted(&store.Answer{UpgradeToken: h.Token})\n\t\t\treturn false, nil\n\t\t} else if err != nil {")),
	one("an upgrade that waits does not poll once it is subscribed", "TestUpgrade_PollsOnceItIsSubscribed", "upgrade-waits-look-once", mutant.Delete()),
	one("a canceled upgrade stays pending", "TestUpgrade_ACanceledOneIsChangedBackUntilAnswered", "cancelled-upgrade-stays-pending", mutant.Return("false, w.gaveUp(err, u.refused, nil)")),
	one("a try to upgrade stays pending", "TestUpgrade_B23_ATryIsRefusedByAReaderAndChangesNothing", "try-upgrade-stays-pending", mutant.Return("false, w.refusal(&a, u.refused.when, nil)")),
	one("an indeterminate upgrade is not changed back", "TestUpgrade_AnIndeterminateOneIsTriedAgainThenChangedBack", "unclear-upgrade-changed-back", mutant.Expr("false")),
	one("a refused upgrade is changed back forever", "TestUpgrade_ADefiniteRefusalIsReturnedUnchanged", "unclear-upgrade-changed-back", mutant.Expr("true")),
	one("an upgrade does not return before it is changed back", "TestUpgrade_AnOutageOfTheStoreIsReported", "upgrade-return-before-changed", mutant.Delete()),
	one("a downgrade is tried only for a while", "TestDowngrade_IsRepeatedUntilItIsAnswered", "way-back-tried-while", mutant.Cond("true || errors.Is(err, store.ErrLost)")),
	one("an upgrade is granted to a caller that left", "TestUpgrade_AnAbandonedGrantIsChangedBack", "upgrade-granted-left", mutant.Cond("false")),
	one("an upgrade answered after the deadline is granted", "TestUpgrade_AnAnswerAfterTheDeadlineRevivesNothing", "upgrade-answered-after-deadline", mutant.Cond("WAS && false")),
	one("each change has the first turn", "TestUpgrade_ALateCopyUndoesNothing", "each-act-first", mutant.Value("1, false")),
	one("each repetition has a new turn", "TestUpgrade_AnIndeterminateOneIsTriedAgainThenChangedBack", "each-repetition-act", mutant.After("c.turn++")),
	one("a change overlaps a renewal", "TestUpgrade_ARenewalAndAChangeDoNotOverlap", "change-overlaps-renewal", mutant.Line("if flight = nil; !over {")),
	one("an upgrade keeps its token", "TestUpgrade_B23_ATryIsRefusedByAReaderAndChangesNothing", "upgrade-keeps-token", mutant.Return("min(l.token, WAS)")),
	one("an upgrade waits for its own caller", "TestUpgrade_AWaitForItselfIsADeadlock", "upgrade-waits-own-caller", mutant.Cond("false && h.e == l.hold.e && h.Name == l.hold.Name && other.Valid()")),
	one("a write lock covers an upgradeable one", "TestUpgrade_AWaitForItselfIsADeadlock", "write-lock-covers-upgradeable", mutant.Return("true")),
	{Name: "a downgrade counts when it is answered", Test: "TestDowngrade_CountsBeforeItIsSent", Edits: []mutant.Edit{
		mutant.At("downgrade-counts-answered", mutant.Stmt("defer WAS")),
		mutant.At("downgrade-counts-answered-too", mutant.Cond("false")),
	}},
	one("a downgrade takes the lock from another lease of the hold", "TestUpgrade_Reentry", "downgrade-counts-answered-too", mutant.Cond("false")),
	one("a change that hangs leaves no time for a renewal", "TestUpgrade_AChangeThatHangsLeavesTimeForARenewal", "change-leaves-time-for-renewal", mutant.Line("h.e.bounded(h.values, min(longestCall, h.s.RenewEvery), func(ctx context.Context) {")),
	one("a hold stays upgraded without an upgraded lease", "TestUpgrade_Reentry", "hold-stays-upgraded-nobody", mutant.Return("nil")),
	one("an upgrade that the store forgot stays valid", "TestUpgrade_AForgottenHoldIsALoss", "upgrade-forgotten", mutant.Cond("true")),

	// Detach and Adopt.
	one("a detached lease is valid", "TestAdopt_DetachEndsTheLeaseHere", "detached-still-valid", mutant.Delete()),
	one("a detached hold is renewed", "TestAdopt_DetachEndsTheLeaseHere", "detached-still-renewed", mutant.Stmt("flight := (chan struct{})(nil)")),
	one("a detached hold has an id of this process", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "detached-nobody", mutant.Expr("h.e.process.NewID()")),
	one("adopted for the old TTL", "TestAdopt_InTheSameProcess", "adopted-time-had", mutant.Value("store.Hold{\nName: ref.Name, ID: id, Token: ref.Grant, Used: ref.Token, Owner: l.s.owner, NewID: r.claim.ID,\n\t}")),
	one("adopted with the old id", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "adopted-time-had", mutant.Value("store.Hold{\nName: ref.Name, ID: id, Token: ref.Grant, TTL: l.s.TTL, Used: ref.Token, Owner: l.s.owner,\n\t}")),
	one("adopted for another owner", "TestAdopt_TheTokenStaysAndTheNameStaysTaken", "adopted-time-had", mutant.Value("store.Hold{\nName: ref.Name, ID: id, Token: ref.Grant, TTL: l.s.TTL, Used: ref.Token, NewID: r.claim.ID,\n\t}")),
	one("an adoption counts from the answer", "TestAdopt_TheDeadlineCountsFromTheSending", "adopted-answer", mutant.Swap()),
	one("an indeterminate adoption is left", "TestAdopt_AnIndeterminateOutcomeIsReported", "unclear-adoption-left", mutant.Delete()),
	one("a refused detach keeps the name", "TestAdopt_ARefusedDetachGivesBack", "refused-detach-keeps-name", mutant.Value("0")),
	one("a lease that expired by the clock is detached", "TestAdopt_DetachOfAnEndedLeaseIsAnError", "detached-clock-too-late", mutant.Delete()),
	one("detached with another lease left", "TestAdopt_ALeaseThatCannotBeDetachedGoesOn", "detached-under-another-lease", mutant.Cond("false")),
	one("detached with the token of the grant", "TestAdopt_OfALeaseThatWasHandedOver", "detached-token-grant", mutant.Value("h.Token, l.weight.Load()")),
	one("waited for a detached hold", "TestAdopt_OfALeaseThatWasHandedOver", "waited-detached", mutant.Delete()),
	one("any text is a ref", "TestAdopt_ARefIsText", "any-text-ref", mutant.Cond("false")),

	// Leases without a deadline.
	one("a deadline where there is none", "TestEndless_LastsUntilItIsReleased", "deadline-where-none", mutant.Cond("false")),
	one("a deadline is reported where there is none", "TestEndless_LastsUntilItIsReleased", "deadline-told-where-none", mutant.Cond("false")),
	one("a token that is none is reported", "TestEndless_LastsUntilItIsReleased", "token-none-told", mutant.Cond("lacks && false")),
	one("a loss reported by the store matches a context", "TestEndless_AReportedLossMatchesNoContext", "loss-store-tells-told", mutant.Stmt("h.lose(why)")),
	one("a loss reported by the store is not reported", "TestEndless_AReportedLossEndsTheLeaseAtOnce", "loss-store-tells-told", mutant.Stmt("_ = why")),
	one("a loss reported early is found at the next poll", "TestEndless_ALossReportedBeforeTheGrantIsFoundAtOnce", "loss-told-early-found", mutant.Cond("false")),
	one("a loss reported early is not counted", "TestEndless_ALossReportedBeforeTheGrantIsFoundAtOnce", "loss-told-early-counted", mutant.Delete()),
	one("losses are counted when the grant is read", "TestEndless_ALossReportedBeforeTheGrantIsFoundAtOnce", "losses-counted-grant-read", mutant.Value("&hold{Hold: granted, e: r.e, s: r.s, limit: r.claim.Limit, granted: ttl, orphans: r.e.sched.orphaned()}")),
	one("the store is asked once an hour", "TestEndless_TheStoreIsPolledNowAndThen", "store-asked-once-hour", mutant.Value("cmp.Or(s.RenewEvery, time.Hour)")),
	one("a warning of an end that does not come", "TestEndless_NoAnswerIsNoLoss", "warning-end-come", mutant.Cond("false")),
	one("a release that finds nothing is nil", "TestEndless_AReleaseThatFindsNothingIsALoss", "repeated-release-loss", mutant.Return("errors.Is(err, store.ErrLost) && h.e.now() < deadline")),
	one("a position that lapses at once", "TestEndless_AWaiterIsGrantedHoweverLongItTook", "place-lapses-once", mutant.Value("0")),
	one("a TTL is out of range", "TestEndless_WhatNeedsADeadlineIsUnsupported", "ttl-out-range", mutant.Cond("false")),
	one("NoRenew on a store without deadlines", "TestEndless_WhatNeedsADeadlineIsUnsupported", "renewed-endless", mutant.Cond("false")),
	one("renewed by hand on a store without deadlines", "TestEndless_WhatNeedsADeadlineIsUnsupported", "renewed-hand-ever", mutant.Cond("false")),
	one("an unknown end is reported", "TestHeldError_ShowsNoUnknownEnd", "end-told-nobody-knows", mutant.Cond("true")),
	one("unknown times are reported", "TestEndless_ARefusalReturnsNoUnknownTimes", "times-told-nobody-knows", mutant.Cond("true")),
	one("a notification grants a position's time", "TestEndless_ANotificationIsOnlyAPoll", "hint-spares-minimum-hold", mutant.Cond("h.ID != r.claim.ID || !fresh || r.claim.MinHold > 0 || r.s.NoRenew")),

	// Rule 8.
	one("Close leaves a lease", "TestCloseGivesBackAllAndEndsAllWaits", "close-leaves-lease", mutant.Value("append([]*hold(nil), s.holds[1:]...)")),
	one("Close stays subscribed", "TestCloseEndsTheSubscription", "closed-stays-subscribed", mutant.Stmt("_ = u")),
	ofCrew("a waiting goroutine of the crew is not used", "TestACrewsGoroutineRunsTheNextOperation", "crew-waiting-is-used", mutant.Cond("last >= mostIdle")),
	ofCrew("all of a crew wait", "TestACrewRunsAllAtOnceAndKeepsFew", "crew-waits", mutant.Cond("c.stopped")),
	ofCrew("a stopped crew waits", "TestAStoppedCrewKeepsNoGoroutine", "crew-waits", mutant.Cond("len(c.idle) >= mostIdle")),
	one("Close does not wait", "TestCloseWaitsForWhatIsUnderWay", "close-wait", mutant.Delete()),
	one("Close sends one release at a time", "TestClose_ReleasesInBatches", "close-sends-release-time", mutant.Cond("n < 1")),
	one("Close takes as long as its calls", "TestClose_TakesFiveSecondsWhileTheDriverHangs", "close-takes-long-calls", mutant.Value("time.NewTimer(time.Minute)")),
	one("Close tries for as long as a release", "TestClose_TakesFiveSecondsHoweverManyLeases", "close-tries-long-release", mutant.Cond("WAS.Add(20*time.Second)")),
	one("Close reports no failure", "TestClose_SaysHowManyWereNotReleased", "close-tells-failure", mutant.Cond("left >= 0")),
	one("Close sends after the deadline", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close-sends-after-deadline", mutant.Cond("len(c.ready) > 0 && false")),
	one("at Close a deadline bounds no call", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close-deadline-bounds-call", mutant.Value("share")),
	one("at Close one deadline bounds all calls", "TestClose_SendsNoReleaseAfterTheDeadlineOfItsHold", "close-deadline-bounds-all", mutant.Cond("false")),
	one("at Close a call that hangs takes all the time", "TestClose_NamesThatHangKeepNoOthers", "close-call-hangs-takes", mutant.Value("min(max(c.end.Sub(now)/max(1, time.Duration(waves-waves)), leastCall), c.end.Sub(now))")),
	one("at Close a renewal that hangs takes all the time", "TestNoGoroutineIsLeftAfterClose", "close-renewal-hangs-takes", mutant.Line("s.e.within(b.values(), b.lane.bound, false, func(ctx context.Context) {")),
	one("Shutdown takes claims", "TestShutdown_WaitsForLeasesAndRenewsThem", "shutdown-takes-claims", mutant.Return("e.enter()")),
	one("Shutdown renews nothing", "TestShutdown_WaitsForLeasesAndRenewsThem", "shutdown-renews-nothing", mutant.Cond("len(s.holds) == 0 || s.e.isClosing()")),
	one("Shutdown waits for no Do", "TestShutdown_WaitsForADoWhoseLeaseHasEnded", "shutdown-waits", mutant.Cond("e.isClosing() && len(e.sched.holds) == 0")),
	one("Shutdown does not notice the end of the last Do", "TestShutdown_WaitsForADoWhoseLeaseHasEnded", "shutdown-see-last-end", mutant.Cond("e.running.Add(-1) < 0")),
	one("Shutdown waits beyond its context", "TestShutdown_ClosesWhenItsContextEnds", "shutdown-waits-beyond-context", mutant.Expr("<-context.Background().Done()")),
	one("Shutdown waits beside Close", "TestShutdown_AConcurrentCloseEndsTheWaiting", "shutdown-waits-beside-close", mutant.Delete()),
	one("in Shutdown a downgrade is tried without a pause", "TestShutdown_ADowngradeGoesOn", "shutdown-downgrade-tried-without", mutant.Stmt("_ = c.h.e.pause(c.h.e.life, jitter(500*time.Millisecond))")),
	one("a loss is not found if Lost is called late", "TestSeveral_LostAskedForLate", "lost-asked-late", mutant.Line("case 77:")),
	one("Close does not end the waits", "TestCloseGivesBackAllAndEndsAllWaits", "close-end-waits", mutant.Delete()),

	one("a panic of the observer is not caught", "TestObserver_APanicCostsNoLease", "observer-panics", mutant.Delete()),
	one("a panic of the observer is not caught, handed over", "TestObserver_APanicAnywhereCostsNoLease/handed_over", "observer-panics", mutant.Delete()),
	one("a panic of the observer is not caught, lost", "TestObserver_APanicAnywhereCostsNoLease/lost", "observer-panics", mutant.Delete()),
	one("a panic of the observer is not caught, renewal failed", "TestObserver_APanicAnywhereCostsNoLease/renewal_failed", "observer-panics", mutant.Delete()),
	one("a panic of the observer is not caught, released", "TestObserver_APanicAnywhereCostsNoLease/released", "observer-panics", mutant.Delete()),
	one("a nil pointer is a store", "TestNew_ANilStoreOfAnyTypeIsInvalid", "nil-store", mutant.Cond("v.Kind() == reflect.Pointer && false || s == nil")),
	one("Close does not count what All has just acquired", "TestClose_CountsLeasesThatAllJustAcquired", "borrowed-not-counted", mutant.Stmt("_ = err")),
	one("an error of the store's Close is returned as it is", "TestClose_AStoreThatDoesNotCloseIsUnavailable", "close-error-of-the-store", mutant.Delete()),

	// What a store finds at its server.
	one("findings without a problem are logged", "TestCheck_WarningsForOperatorsAreLoggedOnce", "well-logged", mutant.Cond("!e.isClosing()")),
	one("a failure is not logged", "TestCheck_WarningsForOperatorsAreLoggedOnce", "well-logged", mutant.Cond("f.Level() == store.LevelWarning && !e.isClosing()")),
	one("the check runs together with the first ask", "TestCheck_ComesAfterTheFirstAnswer", "check-beside-first-ask", mutant.Cond("false")),
	one("the check runs for each claim", "TestCheck_WarningsForOperatorsAreLoggedOnce", "server-looked-each-claim", mutant.Expr("func(f func()) { f() }")),
	one("a check that Close cuts off is reported", "TestCheck_CutOffByCloseIsNotLogged", "well-logged", mutant.Cond("f.Level() != store.LevelOK")),
}

// Each rule's test fails when the rule is broken.
func TestTheTestsCatchEachMutantOfTheEngine(t *testing.T) {
	mutant.Catch(t, slices.Concat(engineMutants, apiMutants), bound+"=10s")
}
