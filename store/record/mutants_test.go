package record_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The store with one defect fails a test. The mutants of the rule itself are in
// storetest.
func TestTheTestsCatchEachMutantOfTheLaws(t *testing.T) {
	t.Parallel()
	const (
		late    = "TestAnUnansweredSwapIsVoidOnceItsClaimIsGivenUp"
		join    = "TestAnUnansweredJoinIsVoidOnceItsClaimIsGivenUp"
		twice   = "TestAJoinThatIsDoneTwiceIsTakenInOnce"
		broken  = "TestAHolderGrantedByNotificationLearnsOfABreak"
		granted = "TestANotificationIsTheGrantWithoutARead"
		moves   = "TestAHoldLeavesTheShortSessionWithItsFirstRenewal"
		swept   = "TestACrashedHoldersEntryIsRemovedWithoutAnyClaim"
		lasts   = "TestAGrantLastsNoLongerThanItsSession"
		moving  = "TestAHoldWithAnUnansweredMoveIsRenewedInBothSessions"
		given   = "TestAnAdoptionThatIsGivenUpLeavesNothing"
		adopted = "TestAnAdoptionOfAHoldInUseIsReportedToItsOwner"
		suite   = "TestTheStoreKeepsThePromisesOfAllStores/"
		found   = "TestAPollThatFindsTheGrantIsTheGrant"
		arrives = "/fault/an_ask_that_arrives_late_goes_beside_another_claim_of_its_process"
		session = "/fault/an_ask_that_was_not_answered_is_granted_in_the_session_it_was_sent_in"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a claim of a forgotten name is joined again", "TestAClaimOfAForgottenNameIsReadBeforeItIsGranted", "record-asks-again-unread", mutant.Stmt("blind = blind && o.asks")},
		{"a write for several is linked to no claim", "TestAWriteForSeveralIsLinkedToEach", "record-joined-in-no-trace", mutant.Return("ctx")},
		{"a moment left of a session counts as none", "TestASessionWithAMomentLeftIsNotSkipped", "record-a-moment-left-is-none", mutant.Return("max(d.Microseconds(), 0)")},
		{"a removal is given up too soon", "TestAFailedRemovalIsRepeatedAsLongAsOthersWait", "record-take-out-given-up", mutant.Return("st.Over && now > st.Renewed.Add(st.Lasts+m.sess.TTL)")},
		{"a removal may hang", "TestAHungRemovalDoesNotBlockForLong", "record-take-out-hangs", mutant.Return("max(time.Hour, trip)")},
		{"the question whether others live has no bound", "TestAQuestionForLivesThatHangsEnds", "record-asks-for-lives-without-end", mutant.Value("context.WithCancel(ctx)")},
		{"lost races are an outage", "TestAnAskThatLosesAllRacesIsContended", "record-lost-races-are-no-outage", mutant.Return("ctx.Err()")},
		{"a repeated release is one of another hold", "TestFaults/one_request/fault/a_release_that_is_repeated_keeps_the_minimum_hold", "record-release-repeated-is-another", mutant.Value("false")},
		{"a hold that could not be released is removed as expired", "TestAnUnansweredReleaseKeepsTheMinimumHold", "record-given-back-is-taken-out", mutant.Cond("false")},
		{"a hold stays in the session of a server that was replaced", "TestAHoldRestoredByAnotherServerIsFreed", "record-suspect-is-not-heeded", mutant.Return("false")},
		{"a hold that its server forgot is renewed", "TestAHoldThatANewServerForgotIsLostAtRenewal", "record-suspect-is-not-heeded", mutant.Return("false")},
		{"a moving hold of a replaced server is renewed unread", "TestAHoldUnreadableOnTheNewServerIsNotRenewed", "record-moves-unread-from-a-replaced-server", mutant.Cond("false")},
		{"a session that keeps nothing yet is kept to its end", "TestAHoldSurvivesIfTheLongSessionCannotBeRenewed", "session-doubted-while-it-keeps-something", mutant.Line("case sess.claims == 0:")},
		{"a hold that leaves its session waits for another", "TestNoHoldThatLeavesItsSessionWaitsForAnother", "record-waits-for-what-it-leaves", mutant.Line("case m == nil && m != nil:")},
		{"a hold that left its session waits too long for the other", "TestAHoldThatLeftItsSessionIsReportedInTime", "record-waits-beyond-what-it-leaves", mutant.Cond("WAS && false")},
		{"a lost hold keeps a session", "TestAHoldThatANewServerForgotIsLostAtRenewal", "record-lost-keeps-a-session", mutant.Delete()},
		{"a position stays in the session of a server that was replaced", "TestAPositionRestoredByAnotherServerIsFreed", "record-position-in-a-suspect-session", mutant.Value("k.short, false")},
		{"a poll keeps a position in the session of a server that was replaced", "TestAPositionRestoredByAnotherServerIsFreed", "record-poll-in-a-suspect-session", mutant.Line("case false:")},
		{"a hold without a new session is not renewed", "TestAHoldIsKeptWithoutASessionOnTheNewServer", "record-no-session-to-move-to", mutant.Return("nil, err")},
		{"a claim that was not sent is remembered", "TestAClaimThatWasNotSentIsForgotten", "record-unsent-is-remembered", mutant.Line("case false:")},
		{"a late swap is left", late, "record-late-swap-is-left", mutant.Value("false")},
		{"one limit for all entries", "TestARecordComesBackAsItWasWritten", "record-one-limit-for-all", mutant.Stmt("set(e.GiveUp != nil, hasOther)")},
		{"a late join is left", join, "record-late-join-is-left", mutant.Stmt("_ = l")},
		{"a note comes back", twice, "record-note-comes-back", mutant.Cond("false")},
		{"a note that is taken in leaves no mark", twice, "record-note-taken-in-leaves-no-mark", mutant.Delete()},
		{"a mark is removed before its session", join, "record-mark-goes-before-its-session", mutant.Cond("!known && left > 0")},
		{"a release that goes on is lost", "TestAReleaseThatGoesOnIsDoneAllTheSame", "record-given-back-twice-is-lost", mutant.Cond("false")},
		{"the note of a withdrawn claim stays in a long inbox", "TestAClaimThatGivesUpLeavesNoNoteInALongInbox", "record-leaves-unseen-note", mutant.Value("false")},
		{"a cached record is the answer", "TestAnAnswerIsNeverWhatIsRemembered", "record-remembered-is-answered", mutant.Line("case false:")},
		{"an abandoned ask is done later", "TestAnAbandonedAskIsNotDoneAfterItsRelease", "record-abandoned-is-done-later", mutant.Delete()},
		{"a grant counts from another session", "TestAGrantCountsFromTheSessionOfItsEntry", "record-grant-counts-from-another-session", mutant.Value("s.sessions.Begun(c.TTL)")},
		{"a grant outlasts its session", lasts, "record-grant-outlasts-its-session", mutant.Value("c.TTL")},
		{"a waiter is in the long session", lasts, "record-waiter-in-the-long-session", mutant.Return("c.TTL")},
		{"a notification of another session is a grant", "TestANotificationOfAnotherSessionIsNoGrant", "record-notification-of-another-session", mutant.Cond("n == nil || !m.waits || m.sess == nil")},
		{"a grant in another session is reported", "TestANotificationOfAnotherSessionIsNoGrant", "record-grant-told-of-another-session", mutant.Stmt("_ = m.sess")},
		{"a grant from before a move is reported", "TestANotificationFromBeforeAMoveIsNoGrant", "record-grant-told-of-another-session", mutant.Stmt("_ = m.sess")},
		{"a new claim asks twice for the holders", "TestAClaimChecksTheHoldersOnce", "record-who-waits-asks-twice", mutant.Line("case false:")},
		{"a watched session is watched again", "TestAWatchedSessionIsNotWatchedAgain", "record-watched-anew", mutant.Cond("true")},
		{"a reported crowd may be of any age", "TestTheReportedQueueIsASecondOldAtMost", "record-crowd-of-long-ago", mutant.Value("true")},
		{"a note that a crowd refuses is written again", "TestARefusedNoteIsWrittenToTheRecord", "record-joins-a-crowd-of-before", mutant.Stmt("w.Lost = w.Lost || n.crowd > fewCome && store.Now() < n.now.sent.Add(crowdAge)")},
		{"a claim after a crowd leaves a note", "TestAClaimOnACrowdedNameSendsNoSwap", "record-joins-a-crowd-of-before", mutant.Stmt("w.Lost = w.Lost || n.crowd > fewCome && !n.now.fresh")},
		{"a claim in a crowd sends a swap", "TestAClaimOnACrowdedNameSendsNoSwap", "record-joins-a-crowd-of-before", mutant.Delete()},
		{"a release does not check the next waiter", "TestAReleaseSkipsTheDead", "record-comes-and-gives-back", mutant.Value("true")},
		{"a position outlasts its session", "TestAPositionLastsNoLongerThanItsSession", "record-position-outlasts-its-session", mutant.Cond("false")},
		{"a moving hold is renewed for as long as one session", moving, "record-move-lasts-as-one", mutant.Return("m.renewedBy(h, to.Lasts, to.Renewed), true")},
		{"a hold that its sessions keep is removed", moving, "record-renewed-hold-is-taken-out", mutant.Delete()},
		{"a hold moving to a third session is renewed in two", moving, "record-third-session-is-forgotten", mutant.Delete()},
		{"a moving hold is renewed although it was broken", moving, "record-call-is-not-heeded-in-a-move", mutant.Cond("false")},
		{"a moving hold is renewed by a session that was not", moving, "record-move-is-not-fresh", mutant.Cond("false")},
		{"a repeated ask sets the owner", suite + "one_request/promise/the_owner_of_the_last_renewal_is_listed", "record-owner-of-the-entry", mutant.Value("nil, false, c.Owner")},
		{"a holder that is asked to give up is not called", suite + "no_clock/promise/a_renewal_says_why_a_waiter_asks_to_give_up", "record-asked-to-give-up-unheard", mutant.Delete()},
		{"a holder does not learn that no waiter asks any longer", suite + "no_clock/promise/a_renewal_says_why_a_waiter_asks_to_give_up", "record-asked-reads-on", mutant.Stmt("m.asked = false")},
		{"a new holder does not learn that a waiter asks to give up", suite + "one_request/promise/a_claim_granted_while_a_waiter_asks_is_asked_too", "record-granted-while-asked", mutant.Stmt("m.asked = false")},
		{"a hold that is asked to be given up is not renewed in a move", "TestAHoldThatIsAskedToGiveUpIsRenewedInAMove", "record-asked-is-as-news", mutant.Stmt("m.used, m.token, m.reads = a.Token, a.Token, asked")},
		{"a hold is lost by being asked", "TestAHoldThatIsAskedToGiveUpIsNotLost", "record-asked-needs-an-answer", mutant.Return("store.Renewal{Err: err}")},
		{"a call of a holder that failed is forgotten", "TestACallOfAHolderThatFailedIsMadeWithTheNextAsk", "record-call-that-failed-is-forgotten", mutant.Cond("s.sessions.Call(ctx, in) == nil || true")},
		{"a notified holder reads nothing", "TestANotifiedHolderReadsWhyItIsAskedToGiveUp", "record-asked-by-a-notification", mutant.Delete()},
		{"a holder notified during a renewal reads nothing", "TestAHolderNotifiedDuringARenewalReadsWithTheNext", "record-asked-reads-on", mutant.Stmt(`m.asked = out.GiveUp != ""`)},
		{"a holder notified while it reads the reason reads nothing more", "TestAHolderNotifiedDuringARenewalReadsWithTheNext", "record-asked-while-it-reads-why", mutant.Stmt(`m.returned.GiveUp, m.asked = r.GiveUp, r.GiveUp != ""`)},
		{"a holder called during its renewal reads nothing", "TestAHolderCalledMeanwhileReadsWithTheNextRenewal", "record-called-while-it-renews", mutant.Value("false, sess.State().Calls + 0*calls, got.reads, max(m.ends, store.Now().Add(h.TTL))")},
		{"a holder called during its ask reads nothing", "TestAHolderCalledMeanwhileReadsWithTheNextRenewal", "record-called-while-it-asks", mutant.Value("sess.State().Calls + 0*k.calls[sess.ID]")},
		{"a holder notified before its grant reads nothing", "TestAHolderNotifiedBeforeItsGrantReadsTheRequest", "record-granted-while-asked", mutant.Stmt("m.asked = asked")},
		{"dead waiters ask to give up", "TestADeadWaiterAsksNoHolderToGiveUp", "record-asked-by-the-dead", mutant.Cond("false")},
		{"dead waiters ask an upgrader to give up", "TestADeadWaiterAsksNoUpgraderToGiveUp", "record-upgrade-asked-by-the-dead", mutant.Stmt("v.asks = false")},
		{"an upgrade that asks calls no holder", "TestAnUpgradeAsksTheOtherHolders", "record-upgrade-calls-nobody", mutant.Delete()},
		{"an upgrade calls no holder if its hold has asked before", "TestAnUpgradeAsksTheOtherHolders", "record-upgrade-calls-once-ever", mutant.Cond("m.upgrade == 0")},
		{"an upgrade calls itself", "TestAnUpgradeAsksTheOtherHolders", "record-upgrade-calls-itself", mutant.Cond("e.Granted")},
		{"a notification does not report that a waiter asks to give up", "TestAHolderGrantedByNotificationIsAskedToGiveUp", "record-granted-while-asked-is-told", mutant.Stmt("n.Session = a.in[h.ID]")},
		{"a note has no reason to give up", "TestANoteComesBackAsItWasWritten", "record-note-without-reason", mutant.Stmt("w.text(\"\")")},
		{"a notification from before a move is a grant", "TestANotificationFromBeforeAMoveIsNoGrant", "record-notification-before-a-move", mutant.Cond("false")},
		{"an idle session ends while a waiter joins it", "TestAWaiterGoesIntoNoSessionThatIsEnded", "record-session-ends-meanwhile", mutant.Cond("k.short == nil")},
		{"a process asks about its own session", "TestAProcessDoesNotCheckItsOwnSession", "record-own-session-asked-for", mutant.Delete()},
		{"a release does not read the waiters", "TestNoWaiterIsOvertakenByTwoLaterHolds", "record-gives-back-unread", mutant.Cond("true")},
		{"a free name is left to an older waiter", "TestAClaimOnAFreeNameTakesInAllNotesAtOnce", "record-leaves-it-to-others", mutant.Cond("!s.anotherIsOldest(ctx, n)")},
		{"a try counts as a waiter", "TestATryDuringADirectReadIsRefused", "record-room-of-a-try", mutant.Cond("a.stored[o.claim.ID]")},
		{"the oldest note is left to others", "TestTheOldestNotesOwnerTakesInAllNotes", "record-leaves-it-to-others", mutant.Cond("wouldGrant(n, a)")},
		{"a notification counts from the ask", granted, "record-notification-counts-from-the-ask", mutant.Line("Granted: true, Token: n.Token, N: n.N, TTL: min(c.TTL, st.Lasts), From: store.Now(),")},
		{"a break calls no holder", broken, "record-break-calls-nobody", mutant.Stmt("_ = in")},
		{"a break drops a hold before its owner is called", "TestARepeatedBreakNowIsReportedToTheOwner", "record-break-drops-first", mutant.Stmt("mark.Now = b.Now")},
		{"a break of a hold that is removed meanwhile fails", "TestABreakNowOfAHoldThatGoesMeanwhileIsDone", "record-break-gone-meanwhile", mutant.Delete()},
		{"a hold that may have another id is not read", "TestAHoldThatMayHaveAnotherIDIsReadAgain", "record-handed-on-is-read", mutant.Delete()},
		{"an adoption that was not answered is forgotten", given, "record-adoption-is-not-sure", mutant.Stmt("s.forget(now)")},
		{"an adoption that is refused later is forgotten", "TestAnAdoptionThatIsRefusedLaterLeavesNothing", "record-adoption-refused-later", mutant.Stmt("s.forget(now)")},
		{"a hold is adopted without a call of its owner", adopted, "record-adopts-uncalled", mutant.Cond("false")},
		{"a hold of another process is released without a call", adopted, "record-gives-back-uncalled", mutant.Cond("WAS && false")},
		{"a call is ignored", broken, "record-call-is-not-heeded", mutant.Cond("false")},
		{"a renewal that was not answered counts", "TestARenewalAnsweredTooLateDoesNotCount", "record-renewal-is-not-fresh", mutant.Cond("st.Failing")},
		{"a hold stays in the short session", moves, "record-hold-stays-in-the-short-session", mutant.Cond("false")},
		{"a release that was not answered is left", "TestAnUnansweredReleaseIsStillDone", "record-release-unanswered-is-left", mutant.Line("case false:")},
		{"a repeated release brings the removal forward", "TestAReleaseThatIsTriedOftenIsDoneSoonAfterAnOutage", "record-release-unanswered-again", mutant.Cond("true || WAS")},
		{"a repeated release counts as one of a foreign hold", "TestAReleaseThatIsRepeatedKeepsTheMinimumHold", "record-release-repeated-is-another", mutant.Delete()},
		{"a released hold is removed as expired", "TestAnUnansweredReleaseLeavesNoLockDelay", "record-given-back-is-taken-out", mutant.Cond("WAS && false")},
		{"a removal pauses without a bound", "TestARemovalPausesForNoMoreThanAQuarterOfTheTTL", "record-take-out-pauses", mutant.Return("most")},
		{"a removal waits for the next read", "TestAnUnansweredReleaseIsDoneAtOnce", "record-dropped-is-looked-at", mutant.Delete()},
		{"a release that was refused is left", "TestADeniedReleaseIsDoneLater", "record-release-unanswered-is-left", mutant.Line("case err != nil && !store.Definite(err):")},
		{"a waiting claim is forgotten when it is refused", "TestADeniedWaiterIsRemoved", "record-refused-claim-goes", mutant.Line("case m.unsure || noted:")},
		{"an unanswered claim is forgotten when it is refused", "TestAnUnansweredAndThenDeniedClaimIsRemoved", "record-refused-claim-goes", mutant.Line("case m.waits || noted:")},
		{"a hold is removed when it is refused", "TestAHoldThatIsAskedForAndDeniedStays", "record-refused-hold-stays", mutant.Line("case false:")},
		{"the note of a claim that is refused stays", "TestAFirstAskThatMismatchesLeavesNoNote", "record-refused-note-goes", mutant.Stmt("n.noted[one.claim.ID] = true")},
		{"the entry ahead is notified in vain", "TestAWaiterWatchesANewEntryAheadToo", "record-ahead-is-told-meanwhile", mutant.Stmt("m.also, m.alsoAt = append(m.also, n.Session), 0")},
		{"the clock is ahead of the server", "TestTheClockIsNotAheadOfTheServer", "record-clock-ahead-of-the-server", mutant.Value("now, heard.Add(-time.Minute)")},
		{"the clock is never set back", "TestTheClockFollowsTheServerBack", "record-clock-is-never-set-back", mutant.Cond("s.clockAt == 0 || now >= s.clock+age.Microseconds()")},
		{"a known name is written with an old clock", "TestAWriterOfOneNameReadsTheClock", "record-writes-by-a-clock-of-long-ago", mutant.Stmt("old := false")},
		{"a claim counts without a server time", "TestNothingIsCountedWithoutServerTime", "record-claims-by-no-time", mutant.Cond("WAS && false")},
		{"a record counts without a server time", "TestNothingIsCountedWithoutServerTime", "record-counts-by-no-time", mutant.Cond("e.MinHold+e.LockDelay < 0")},
		{"a read without a server time is refused", "TestANameIsListedThoughTheListingHasNoTime", "record-reads-are-refused", mutant.Cond("!v.untimed")},
		{"a try is sure of a holder that it has not seen alive", "TestATryIsNotSureOfAHolderThatItHasNotSeenAlive", "record-try-is-sure", mutant.Delete()},
		{"dead holders are watched one after another", "TestATryWatchesTheDeadTogether", "record-waiters-are-watched", mutant.Delete()},
		{"a record is written with an old clock", "TestAStoreWithoutARecentClockReadsFirst", "record-clock-is-old", mutant.Return("s.clockAt != 0")},
		{"the clock is behind the record", "TestTheClockIsNotBehindWhatIsStored", "record-clock-behind-what-is-stored", mutant.Delete()},
		{"the full check trusts a cached state", "TestAFullCheckSkipsAllThatEndedAtOneMoment", "session-trusts-as-set", mutant.Delete()},
		{"a store cleans up by what it sent before", "TestSettleLearnsOfSessionsThatEndedDuringARenewal", "record-settles-by-what-was-sent", mutant.Delete()},
		{"a sweep cleans up nothing", swept, "record-sweep-settles", mutant.Delete()},
		{"a foreign holder is ignored", "TestAForeignHolderIsRespected", "record-foreign-holder", mutant.Delete()},
		{"a holder of another program is broken", "TestAForeignHolderIsRespected", "record-foreign-holder-is-broken", mutant.Cond("false")},
		{"a foreign holder stays", "TestAForeignHolderIsRespected", "record-foreign-holder-stays", mutant.Cond("true")},
		{"a refused try writes a foreign holder", "TestARefusedTryBesideAForeignHolderWritesNothing", "record-foreign-holder-stays", mutant.Cond("true")},
		{"a hold stays beside a foreign holder", "TestAHoldThatAnotherProgramTookIsLost", "record-holds-beside-a-foreign-holder", mutant.Delete()},
		{"a broken hold beside a foreign holder is forgotten", "TestABrokenHoldBesideAForeignHolderHasItsReason", "record-broken-beside-a-foreign-holder", mutant.Cond("e.Granted")},
		{"a hold that another program cleared is not shown", "TestAHoldThatAnotherProgramClearedIsShownAgain", "record-hold-is-shown-again", mutant.Delete()},
		{"the first renewal of a shared lock reads nothing", "TestAHoldThatAnotherProgramTookIsLost", "record-shared-hold-is-read", mutant.Delete()},
		{"later renewals of a shared lock read nothing", "TestAHoldThatAnotherProgramTookIsLost", "record-shared-hold-is-read-on", mutant.Stmt("got.reads = e.Want > e.Weight")},
		{"a poll does not find that a lock is shared", "TestTheHolderOfASharedLockReadsAfterAPoll", "record-shared-grant-of-a-poll", mutant.Delete()},
		{"a sweep leaves the note of an idle name", "TestACrashedWaitersNoteIsRemovedFromAnIdleName", "record-sweep-of-notes", mutant.Cond("err != nil || len(v.q.Entries) == 0")},
		{"no sweep runs", swept, "record-sweep-begins", mutant.Delete()},
		{"a record may have any size", "TestAnAskThatExceedsTheRecordSizeSaysSo", "record-max-record", mutant.Cond("WAS && false")},
		{"a cached record has no room", "TestAnAskThatExceedsTheRecordSizeSaysSo", "record-too-large-as-remembered", mutant.Cond("WAS && false")},
		{"all notes are taken in at once", "TestNotesThatExceedTheRecordSizeStayInTheInbox", "record-fewer-notes", mutant.Cond("WAS && false")},
		{"the sessions of marks are not checked", "TestTheMarksOfSessionsThatHaveEndedAreFew", "record-marks-are-few", mutant.Cond("WAS && false")},
		{"an abandoned note stays", "TestAnAbandonedNoteIsStillTakenIn", "record-note-is-taken-in-later", mutant.Delete()},
		{"the owner of a note is not notified that it was taken in", "TestATakenInNotesOwnerIsNotifiedAndReadsNothing", "record-taken-in-is-told", mutant.Delete()},
		{"a note under another session is taken for the present one", "TestANoteTakenInUnderAnotherSessionDoesNotCount", "record-taken-in-under-another-session", mutant.Cond("m.rest != nil")},
		{"a claim that reads the record alone writes it", "TestAReadOfTheRecordAloneOvertakesNoNote", "record-looks-and-writes", mutant.Return("false")},
		{"a repeated ask in a crowd checks no holder", "TestARepeatedAskInACrowdFindsAnEndedHolder", "record-who-asks-again-asks-for-nobody", mutant.Value("v.again[:0]")},
		{"a repeated ask in a crowd checks only a few holders", "TestADeadHolderAmongManyIsFound", "record-asks-for-all-holders", mutant.Value("v.blocking(id)[:store.MaxHolders]")},
		{"a late swap is left on a link", "TestFaults/one_request" + arrives, "record-late-swap-is-left", mutant.Value("false")},
		{"a late swap is left on a link, with marks", "TestFaults/terse" + arrives, "record-late-swap-is-left", mutant.Value("false")},
		{"a late join is left on a link", "TestFaults/void_by_mark" + arrives, "record-late-join-is-left", mutant.Stmt("_ = l")},
		{"a late join is not called", "TestFaults/join_apart" + arrives, "record-late-join-is-called", mutant.Cond("WAS && false")},
		{"a grant counts from another session on a link", "TestFaults/one_request" + session, "record-grant-counts-from-another-session", mutant.Value("s.sessions.Begun(c.TTL)")},
		{"a poll that finds the grant is none", found, "record-poll-finds-the-grant", mutant.Stmt("a.TTL = min(c.TTL, st.Lasts)")},
		{"the record of a poll is forgotten", found, "record-poll-is-remembered", mutant.Delete()},
		{"room is a grant", "TestAPollOfAFreeNameIsNoGrant", "record-poll-tells-what-is-not-drawn", mutant.Delete()},
		{"room without a token is a grant", "TestAPollThatFindsADeadHolderIsNoGrant", "record-poll-finds-room", mutant.Line("case a.Granted:")},
		{"a poll answers for an ask", "TestAPollAfterAnUnansweredAskSparesNoAsk", "record-poll-beside-an-ask", mutant.Cond("!m.waits || m.moving != nil || m.sess == nil || v.in[m.id] != m.sess.ID")},
		{"polls keep no position", "TestPollsKeepThePosition", "record-poll-keeps-the-position", mutant.Delete()},
		{"a poll spares the ask that calls", "TestAPollBeforeCallingTheHoldersSparesNoAsk", "record-poll-calls-nobody", mutant.Line("case !a.Granted:")},
		{"the record of a late poll is kept", "TestAPollIsNotRememberedIfTheNameWasWrittenMeanwhile", "record-poll-beside-a-note", mutant.Cond("n != nil && !n.working")},
		{"a poll checks every new holder", "TestAPollDuringHandOversChecksNoSession", "record-lately-alone", mutant.Cond("WAS && false")},
		{"holders of a name that is handed over are not checked", "TestADeadHolderIsFoundDuringHandOvers", "record-lately-all", mutant.Line("v.lately < math.MaxInt64")},
		{"a holder that was new is never checked", "TestAPollDuringHandOversChecksNoSession", "record-lately-for-good", mutant.Value("int64(0), false, len(v.notes) > 0")},
		{"a holder that is new by a clock set back is not checked", "TestADeadHolderIsFoundAfterAClockSetBack", "record-lately-by-a-clock-set-back", mutant.Cond("true")},
		{"a long-time holder is not checked", "TestALateReleaseChecksTheNextWaitersSession", "record-lately-alone", mutant.Cond("waits && v.traits.Clock && (v.comes || !v.traits.Notifies)")},
		{"a new holder without waiters is not checked", "TestAnUnknownEndIsNotReturned", "record-lately-alone", mutant.Cond("passed && v.traits.Clock && (v.comes || !v.traits.Notifies)")},
		{"holders are not checked if the server has no clock", "TestAPollWithoutAClockChecksTheHoldersSession", "record-lately-alone", mutant.Cond("passed && waits && (v.comes || !v.traits.Notifies)")},
		{"unknown times are reported", "TestAnUnknownEndIsNotReturned", "record-times-of-the-unasked", mutant.Cond("false")},
		{"a try checks no holder", "TestATryDuringHandOversChecksTheHoldersSession", "record-left-by-a-try", mutant.Stmt("v.refused = true")},
		{"a dead waiter is granted, and its lock delay blocks", "TestADeadWaiterWithALockDelayIsNotGranted", "record-left-with-a-delay", mutant.Line("return true &&")},
		{"a claim that loses a race reads again", "TestALostRaceForAFreeNameLeavesANote", "record-who-loses-reads-again", mutant.Cond("WAS && false")},
		{"a minimum hold needs a clock", "TestAMinimumHoldNeedsNoClockOfTheServer", "record-minimum-hold-without-clock", mutant.Value("0")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "store/record", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
