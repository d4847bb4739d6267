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
		{"a write for several is linked to nobody", "TestAWriteForSeveralIsLinkedToEach", "record-joined-in-no-trace", mutant.Return("ctx")},
		{"a moment that a session has left is none", "TestASessionWithAMomentLeftIsNotSkipped", "record-a-moment-left-is-none", mutant.Return("max(d.Microseconds(), 0)")},
		{"a take-out is given up too soon", "TestAFailedRemovalIsRepeatedAsLongAsOthersWait", "record-take-out-given-up", mutant.Return("st.Over && now > st.Renewed.Add(st.Lasts+m.sess.TTL)")},
		{"a take-out may hang", "TestAHungRemovalDoesNotBlockForLong", "record-take-out-hangs", mutant.Return("max(time.Hour, trip)")},
		{"whether others live may be asked without end", "TestAQuestionForLivesThatHangsEnds", "record-asks-for-lives-without-end", mutant.Value("context.WithCancel(ctx)")},
		{"lost races are an outage", "TestAnAskThatLosesAllRacesIsContended", "record-lost-races-are-no-outage", mutant.Return("ctx.Err()")},
		{"a release that is repeated is one of nobody's hold", "TestFaults/one_request/fault/a_release_that_is_repeated_keeps_the_minimum_hold", "record-release-repeated-is-another", mutant.Value("false")},
		{"what could not be given back is taken out as expired", "TestAnUnansweredReleaseKeepsTheMinimumHold", "record-given-back-is-taken-out", mutant.Cond("false")},
		{"a hold stays in the session of a server that was replaced", "TestAHoldRestoredByAnotherServerIsFreed", "record-suspect-is-not-heeded", mutant.Return("false")},
		{"a hold is renewed that its server has forgotten", "TestAHoldThatANewServerForgotIsLostAtRenewal", "record-suspect-is-not-heeded", mutant.Return("false")},
		{"a hold on its way from a server that was replaced is renewed unread", "TestAHoldUnreadableOnTheNewServerIsNotRenewed", "record-moves-unread-from-a-replaced-server", mutant.Cond("false")},
		{"a session that keeps nothing yet is kept to its end", "TestAHoldSurvivesIfTheLongSessionCannotBeRenewed", "session-doubted-while-it-keeps-something", mutant.Line("case sess.claims == 0:")},
		{"what leaves its session waits for another", "TestNoHoldThatLeavesItsSessionWaitsForAnother", "record-waits-for-what-it-leaves", mutant.Line("case m == nil && m != nil:")},
		{"what has left its session waits for the other until it is too late", "TestAHoldThatLeftItsSessionIsReportedInTime", "record-waits-beyond-what-it-leaves", mutant.Cond("WAS && false")},
		{"what is lost keeps a session", "TestAHoldThatANewServerForgotIsLostAtRenewal", "record-lost-keeps-a-session", mutant.Delete()},
		{"a position stays in the session of a server that was replaced", "TestAPositionRestoredByAnotherServerIsFreed", "record-position-in-a-suspect-session", mutant.Value("k.short, false")},
		{"a poll keeps a position in the session of a server that was replaced", "TestAPositionRestoredByAnotherServerIsFreed", "record-poll-in-a-suspect-session", mutant.Line("case false:")},
		{"a hold is not renewed as it has no session to go into", "TestAHoldIsKeptWithoutASessionOnTheNewServer", "record-no-session-to-move-to", mutant.Return("nil, err")},
		{"a claim that was not sent is remembered", "TestAClaimThatWasNotSentIsForgotten", "record-unsent-is-remembered", mutant.Line("case false:")},
		{"a late swap is left", late, "record-late-swap-is-left", mutant.Value("false")},
		{"one limit for all entries", "TestARecordComesBackAsItWasWritten", "record-one-limit-for-all", mutant.Stmt("set(e.GiveUp != nil, hasOther)")},
		{"a late join is left", join, "record-late-join-is-left", mutant.Stmt("_ = l")},
		{"a note comes back", twice, "record-note-comes-back", mutant.Cond("false")},
		{"a note that is taken in leaves no mark", twice, "record-note-taken-in-leaves-no-mark", mutant.Delete()},
		{"a mark goes before its session", join, "record-mark-goes-before-its-session", mutant.Cond("!known && left > 0")},
		{"a long inbox is none without the note", "TestAClaimThatGivesUpLeavesNoNoteInALongInbox", "record-leaves-unseen-note", mutant.Value("false")},
		{"what is remembered is answered", "TestAnAnswerIsNeverWhatIsRemembered", "record-remembered-is-answered", mutant.Line("case false:")},
		{"what was abandoned is done later", "TestAnAbandonedAskIsNotDoneAfterItsRelease", "record-abandoned-is-done-later", mutant.Delete()},
		{"a grant counts from another session", "TestAGrantCountsFromTheSessionOfItsEntry", "record-grant-counts-from-another-session", mutant.Value("s.sessions.Begun(c.TTL)")},
		{"a grant outlasts its session", lasts, "record-grant-outlasts-its-session", mutant.Value("c.TTL")},
		{"who waits is in the long session", lasts, "record-waiter-in-the-long-session", mutant.Return("c.TTL")},
		{"a notification of another session is a grant", "TestANotificationOfAnotherSessionIsNoGrant", "record-notification-of-another-session", mutant.Cond("n == nil || !m.waits || m.sess == nil")},
		{"a grant in another session is reported", "TestANotificationOfAnotherSessionIsNoGrant", "record-grant-told-of-another-session", mutant.Stmt("_ = m.sess")},
		{"a grant from before a move is reported", "TestANotificationFromBeforeAMoveIsNoGrant", "record-grant-told-of-another-session", mutant.Stmt("_ = m.sess")},
		{"who comes asks twice for the holders", "TestAClaimChecksTheHoldersOnce", "record-who-waits-asks-twice", mutant.Line("case false:")},
		{"what is watched is forgotten", "TestAWatchedSessionIsNotWatchedAgain", "record-watched-anew", mutant.Cond("true")},
		{"what is reported of a crowd may be of any age", "TestTheReportedQueueIsASecondOldAtMost", "record-crowd-of-long-ago", mutant.Value("true")},
		{"a note that a crowd refuses is left again", "TestARefusedNoteIsWrittenToTheRecord", "record-joins-a-crowd-of-before", mutant.Stmt("w.Lost = w.Lost || n.crowd > fewCome && store.Now() < n.now.sent.Add(crowdAge)")},
		{"who comes after a crowd leaves a note", "TestAClaimOnACrowdedNameSendsNoSwap", "record-joins-a-crowd-of-before", mutant.Stmt("w.Lost = w.Lost || n.crowd > fewCome && !n.now.fresh")},
		{"who comes to a crowd sends a swap", "TestAClaimOnACrowdedNameSendsNoSwap", "record-joins-a-crowd-of-before", mutant.Delete()},
		{"who gives back asks for nobody", "TestAReleaseSkipsTheDead", "record-comes-and-gives-back", mutant.Value("true")},
		{"a position outlasts its session", "TestAPositionLastsNoLongerThanItsSession", "record-position-outlasts-its-session", mutant.Cond("false")},
		{"a hold on its way is renewed for as long as one session", moving, "record-move-lasts-as-one", mutant.Return("m.renewedBy(h, to.Lasts, to.Renewed), true")},
		{"a hold that its sessions keep is taken out", moving, "record-renewed-hold-is-taken-out", mutant.Delete()},
		{"a hold on its way to a third session is renewed in two", moving, "record-third-session-is-forgotten", mutant.Delete()},
		{"a hold on its way is renewed though it was broken", moving, "record-call-is-not-heeded-in-a-move", mutant.Cond("false")},
		{"a hold on its way is renewed by a session that was not", moving, "record-move-is-not-fresh", mutant.Cond("false")},
		{"an ask that is repeated tells the owner", suite + "one_request/promise/the_owner_of_the_last_renewal_is_listed", "record-owner-of-the-entry", mutant.Value("nil, false, c.Owner")},
		{"a holder that is asked to give up is not called", suite + "no_clock/promise/a_renewal_says_why_a_waiter_asks_to_give_up", "record-asked-to-give-up-unheard", mutant.Delete()},
		{"a holder that was asked to give up does not learn that nobody asks any more", suite + "no_clock/promise/a_renewal_says_why_a_waiter_asks_to_give_up", "record-asked-reads-on", mutant.Stmt("m.asked = false")},
		{"who is granted does not learn that a waiter asks to give up", suite + "one_request/promise/who_is_granted_while_a_waiter_asks_is_asked_to_give_up_too", "record-granted-while-asked", mutant.Stmt("m.asked = false")},
		{"a hold that is asked to be given up is not renewed in a move", "TestAHoldThatIsAskedToGiveUpIsRenewedInAMove", "record-asked-is-as-news", mutant.Stmt("m.used, m.token, m.reads = a.Token, a.Token, asked")},
		{"a hold is lost by being asked", "TestAHoldThatIsAskedToGiveUpIsNotLost", "record-asked-needs-an-answer", mutant.Return("store.Renewal{Err: err}")},
		{"a call of a holder that failed is forgotten", "TestACallOfAHolderThatFailedIsMadeWithTheNextAsk", "record-call-that-failed-is-forgotten", mutant.Cond("s.sessions.Call(ctx, in) == nil || true")},
		{"who is notified reads nothing", "TestANotifiedHolderReadsWhyItIsAskedToGiveUp", "record-asked-by-a-notification", mutant.Delete()},
		{"who is notified during a renewal reads nothing", "TestAHolderNotifiedDuringARenewalReadsWithTheNext", "record-asked-reads-on", mutant.Stmt(`m.asked = out.GiveUp != ""`)},
		{"who is notified while it reads why reads nothing more", "TestAHolderNotifiedDuringARenewalReadsWithTheNext", "record-asked-while-it-reads-why", mutant.Stmt(`m.returned.GiveUp, m.asked = r.GiveUp, r.GiveUp != ""`)},
		{"who is called while it renews reads nothing", "TestAHolderCalledMeanwhileReadsWithTheNextRenewal", "record-called-while-it-renews", mutant.Value("false, sess.State().Calls + 0*calls, got.reads, max(m.ends, store.Now().Add(h.TTL))")},
		{"who is called while it asks reads nothing", "TestAHolderCalledMeanwhileReadsWithTheNextRenewal", "record-called-while-it-asks", mutant.Value("sess.State().Calls + 0*k.calls[sess.ID]")},
		{"who is notified before it learns of its grant reads nothing", "TestAHolderNotifiedBeforeItsGrantReadsTheRequest", "record-granted-while-asked", mutant.Stmt("m.asked = asked")},
		{"the dead ask to give up", "TestADeadWaiterAsksNoHolderToGiveUp", "record-asked-by-the-dead", mutant.Cond("false")},
		{"the dead ask who upgrades to give up", "TestADeadWaiterAsksNoUpgraderToGiveUp", "record-upgrade-asked-by-the-dead", mutant.Stmt("v.asks = false")},
		{"an upgrade that asks calls nobody", "TestAnUpgradeAsksTheOtherHolders", "record-upgrade-calls-nobody", mutant.Delete()},
		{"an upgrade calls nobody if its hold has asked before", "TestAnUpgradeAsksTheOtherHolders", "record-upgrade-calls-once-ever", mutant.Cond("m.upgrade == 0")},
		{"an upgrade calls itself", "TestAnUpgradeAsksTheOtherHolders", "record-upgrade-calls-itself", mutant.Cond("e.Granted")},
		{"a notification does not tell that a waiter asks to give up", "TestAHolderGrantedByNotificationIsAskedToGiveUp", "record-granted-while-asked-is-told", mutant.Stmt("n.Session = a.in[h.ID]")},
		{"a note does not tell why it asks to give up", "TestANoteComesBackAsItWasWritten", "record-note-without-reason", mutant.Stmt("w.text(\"\")")},
		{"a notification from before a move is a grant", "TestANotificationFromBeforeAMoveIsNoGrant", "record-notification-before-a-move", mutant.Cond("false")},
		{"a session that keeps nothing ends as a waiter goes into it", "TestAWaiterGoesIntoNoSessionThatIsEnded", "record-session-ends-meanwhile", mutant.Cond("k.short == nil")},
		{"a process asks about its own session", "TestAProcessDoesNotCheckItsOwnSession", "record-own-session-asked-for", mutant.Delete()},
		{"who gives back does not read who waits", "TestNoWaiterIsOvertakenByTwoLaterHolds", "record-gives-back-unread", mutant.Cond("true")},
		{"a free name is left to who waits longer", "TestAClaimOnAFreeNameTakesInAllNotesAtOnce", "record-leaves-it-to-others", mutant.Cond("!s.anotherIsOldest(ctx, n)")},
		{"a try is looked for", "TestATryDuringADirectReadIsRefused", "record-room-of-a-try", mutant.Cond("a.stored[o.claim.ID]")},
		{"the oldest note is left to others", "TestTheOldestNotesOwnerTakesInAllNotes", "record-leaves-it-to-others", mutant.Cond("room(n, a)")},
		{"a notification counts from the ask", granted, "record-notification-counts-from-the-ask", mutant.Line("Granted: true, Token: n.Token, N: n.N, TTL: min(c.TTL, st.Lasts), From: store.Now(),")},
		{"a break calls nobody", broken, "record-break-calls-nobody", mutant.Stmt("_ = in")},
		{"a break drops a hold before its owner is called", "TestARepeatedBreakNowIsReportedToTheOwner", "record-break-drops-first", mutant.Stmt("mark.Now = b.Now")},
		{"a break of what goes meanwhile fails", "TestABreakNowOfAHoldThatGoesMeanwhileIsDone", "record-break-gone-meanwhile", mutant.Delete()},
		{"a hold that may have another id is not read", "TestAHoldThatMayHaveAnotherIDIsReadAgain", "record-handed-on-is-read", mutant.Delete()},
		{"an adoption that was not answered is forgotten", given, "record-adoption-is-not-sure", mutant.Stmt("s.forget(now)")},
		{"an adoption that is refused later is forgotten", "TestAnAdoptionThatIsRefusedLaterLeavesNothing", "record-adoption-refused-later", mutant.Stmt("s.forget(now)")},
		{"a hold goes to another process uncalled", adopted, "record-adopts-uncalled", mutant.Cond("false")},
		{"a hold of another process is given back uncalled", adopted, "record-gives-back-uncalled", mutant.Cond("WAS && false")},
		{"a call is not heeded", broken, "record-call-is-not-heeded", mutant.Cond("false")},
		{"a renewal that was not answered counts", "TestARenewalAnsweredTooLateDoesNotCount", "record-renewal-is-not-fresh", mutant.Cond("st.Failing")},
		{"a hold stays in the short session", moves, "record-hold-stays-in-the-short-session", mutant.Cond("false")},
		{"a release that was not answered is left", "TestAnUnansweredReleaseIsStillDone", "record-release-unanswered-is-left", mutant.Line("case false:")},
		{"a release that is tried again brings its take-out forward", "TestAReleaseThatIsTriedOftenIsDoneSoonAfterAnOutage", "record-release-unanswered-again", mutant.Cond("true || WAS")},
		{"a release that is repeated is of who never had it", "TestAReleaseThatIsRepeatedKeepsTheMinimumHold", "record-release-repeated-is-another", mutant.Delete()},
		{"what was given back is taken out as if it had expired", "TestAnUnansweredReleaseLeavesNoLockDelay", "record-given-back-is-taken-out", mutant.Cond("WAS && false")},
		{"a take-out pauses for as long as it likes", "TestARemovalPausesForNoMoreThanAQuarterOfTheTTL", "record-take-out-pauses", mutant.Return("most")},
		{"what is to go is left until somebody looks", "TestAnUnansweredReleaseIsDoneAtOnce", "record-dropped-is-looked-at", mutant.Delete()},
		{"a release that was refused is left", "TestADeniedReleaseIsDoneLater", "record-release-unanswered-is-left", mutant.Line("case err != nil && !store.Definite(err):")},
		{"a claim that waits is forgotten as it is refused", "TestADeniedWaiterIsRemoved", "record-refused-claim-goes", mutant.Line("case m.unsure || noted:")},
		{"a claim that was not answered is forgotten as it is refused", "TestAnUnansweredAndThenDeniedClaimIsRemoved", "record-refused-claim-goes", mutant.Line("case m.waits || noted:")},
		{"a hold goes as it is refused", "TestAHoldThatIsAskedForAndDeniedStays", "record-refused-hold-stays", mutant.Line("case false:")},
		{"the note of a claim that is refused stays", "TestAFirstAskThatMismatchesLeavesNoNote", "record-refused-note-goes", mutant.Stmt("n.noted[one.claim.ID] = true")},
		{"who is ahead is notified in vain meanwhile", "TestAWaiterWatchesANewEntryAheadToo", "record-ahead-is-told-meanwhile", mutant.Stmt("m.also, m.alsoAt = append(m.also, n.Session), 0")},
		{"the clock is ahead of the server", "TestTheClockIsNotAheadOfTheServer", "record-clock-ahead-of-the-server", mutant.Value("now, heard.Add(-time.Minute)")},
		{"the clock is never set back", "TestTheClockFollowsTheServerBack", "record-clock-is-never-set-back", mutant.Cond("s.clockAt == 0 || now >= s.clock+age.Microseconds()")},
		{"a clock of long ago is written by, of a name that is known", "TestAWriterOfOneNameReadsTheClock", "record-writes-by-a-clock-of-long-ago", mutant.Stmt("old := false")},
		{"a claim counts by no time", "TestNothingIsCountedWithoutServerTime", "record-claims-by-no-time", mutant.Cond("WAS && false")},
		{"a record counts by no time", "TestNothingIsCountedWithoutServerTime", "record-counts-by-no-time", mutant.Cond("e.MinHold+e.LockDelay < 0")},
		{"a reading is refused that gets no time", "TestANameIsListedThoughTheListingHasNoTime", "record-reads-are-refused", mutant.Cond("!v.untimed")},
		{"a try is sure of what it has not seen alive", "TestATryIsNotSureOfAHolderThatItHasNotSeenAlive", "record-try-is-sure", mutant.Delete()},
		{"the dead are watched one after the other", "TestATryWatchesTheDeadTogether", "record-waiters-are-watched", mutant.Delete()},
		{"an old clock is written by", "TestAStoreWithoutARecentClockReadsFirst", "record-clock-is-old", mutant.Return("s.clockAt != 0")},
		{"the clock is behind what is stored", "TestTheClockIsNotBehindWhatIsStored", "record-clock-behind-what-is-stored", mutant.Delete()},
		{"a life is trusted by who trusts none", "TestAFullCheckSkipsAllThatEndedAtOneMoment", "session-trusts-as-set", mutant.Delete()},
		{"a store settles by what it sent before", "TestSettleLearnsOfSessionsThatEndedDuringARenewal", "record-settles-by-what-was-sent", mutant.Delete()},
		{"a sweep settles nothing", swept, "record-sweep-settles", mutant.Delete()},
		{"nobody sweeps", swept, "record-sweep-begins", mutant.Delete()},
		{"a record may have any size", "TestAnAskThatExceedsTheRecordSizeSaysSo", "record-max-record", mutant.Cond("WAS && false")},
		{"what is remembered has no room", "TestAnAskThatExceedsTheRecordSizeSaysSo", "record-too-large-as-remembered", mutant.Cond("WAS && false")},
		{"all notes go in at once", "TestNotesThatExceedTheRecordSizeStayInTheInbox", "record-fewer-notes", mutant.Cond("WAS && false")},
		{"nobody asks for the sessions of marks", "TestTheMarksOfSessionsThatHaveEndedAreFew", "record-marks-are-few", mutant.Cond("WAS && false")},
		{"a note is left that nobody waits for", "TestAnAbandonedNoteIsStillTakenIn", "record-note-is-taken-in-later", mutant.Delete()},
		{"nobody learns that its note was taken in", "TestATakenInNotesOwnerIsNotifiedAndReadsNothing", "record-taken-in-is-told", mutant.Delete()},
		{"a note under another session is taken for the present one", "TestANoteTakenInUnderAnotherSessionDoesNotCount", "record-taken-in-under-another-session", mutant.Cond("m.rest != nil")},
		{"who looks in the record alone writes it", "TestAReadOfTheRecordAloneOvertakesNoNote", "record-looks-and-writes", mutant.Return("false")},
		{"who asks again in a crowd asks for nobody", "TestARepeatedAskInACrowdFindsAnEndedHolder", "record-who-asks-again-asks-for-nobody", mutant.Value("v.again[:0]")},
		{"who asks again in a crowd asks for a few holders", "TestADeadHolderAmongManyIsFound", "record-asks-for-all-holders", mutant.Value("v.blocking(id)[:store.MaxHolders]")},
		{"a late swap is left on a link", "TestFaults/one_request" + arrives, "record-late-swap-is-left", mutant.Value("false")},
		{"a late swap is left on a link, with marks", "TestFaults/terse" + arrives, "record-late-swap-is-left", mutant.Value("false")},
		{"a late join is left on a link", "TestFaults/void_by_mark" + arrives, "record-late-join-is-left", mutant.Stmt("_ = l")},
		{"a late join is not called", "TestFaults/join_apart" + arrives, "record-late-join-is-called", mutant.Cond("WAS && false")},
		{"a grant counts from another session on a link", "TestFaults/one_request" + session, "record-grant-counts-from-another-session", mutant.Value("s.sessions.Begun(c.TTL)")},
		{"a poll that finds the grant is none", found, "record-poll-finds-the-grant", mutant.Stmt("a.TTL = min(c.TTL, st.Lasts)")},
		{"what a poll has read is forgotten", found, "record-poll-is-remembered", mutant.Delete()},
		{"room is a grant", "TestAPollOfAFreeNameIsNoGrant", "record-poll-tells-what-is-not-drawn", mutant.Delete()},
		{"room without a token is a grant", "TestAPollThatFindsADeadHolderIsNoGrant", "record-poll-finds-room", mutant.Line("case a.Granted:")},
		{"a poll answers for an ask", "TestAPollAfterAnUnansweredAskSparesNoAsk", "record-poll-beside-an-ask", mutant.Cond("!m.waits || m.moving != nil || m.sess == nil || v.in[m.id] != m.sess.ID")},
		{"polls keep no position", "TestPollsKeepThePosition", "record-poll-keeps-the-position", mutant.Delete()},
		{"a poll spares the ask that calls", "TestAPollBeforeCallingTheHoldersSparesNoAsk", "record-poll-calls-nobody", mutant.Line("case !a.Granted:")},
		{"what a poll has read late is remembered", "TestAPollIsNotRememberedIfTheNameWasWrittenMeanwhile", "record-poll-beside-a-note", mutant.Cond("n != nil && !n.working")},
		{"who polls asks for every new holder", "TestAPollDuringHandOversChecksNoSession", "record-lately-alone", mutant.Cond("WAS && false")},
		{"nobody asks for the holders of a name that is passed on", "TestADeadHolderIsFoundDuringHandOvers", "record-lately-all", mutant.Line("v.lately < math.MaxInt64")},
		{"nobody asks for a holder that was new", "TestAPollDuringHandOversChecksNoSession", "record-lately-for-good", mutant.Value("int64(0), false, len(v.notes) > 0")},
		{"nobody asks for a holder that is new for a clock set back", "TestADeadHolderIsFoundAfterAClockSetBack", "record-lately-by-a-clock-set-back", mutant.Cond("true")},
		{"who has held for long asks for no life", "TestALateReleaseChecksTheNextWaitersSession", "record-lately-alone", mutant.Cond("waits && v.traits.Clock && (v.comes || !v.traits.Notifies)")},
		{"nobody asks for a new holder for whom nobody waits", "TestAnUnknownEndIsNotReturned", "record-lately-alone", mutant.Cond("passed && v.traits.Clock && (v.comes || !v.traits.Notifies)")},
		{"nobody asks where the server tells no clock", "TestAPollWithoutAClockChecksTheHoldersSession", "record-lately-alone", mutant.Cond("passed && waits && (v.comes || !v.traits.Notifies)")},
		{"times are reported that nobody knows", "TestAnUnknownEndIsNotReturned", "record-times-of-the-unasked", mutant.Cond("false")},
		{"a try asks for no life", "TestATryDuringHandOversChecksTheHoldersSession", "record-left-by-a-try", mutant.Stmt("v.refused = true")},
		{"a dead waiter is granted, and its lock delay blocks", "TestADeadWaiterWithALockDelayIsNotGranted", "record-left-with-a-delay", mutant.Line("return true &&")},
		{"who loses a race reads again", "TestALostRaceForAFreeNameLeavesANote", "record-who-loses-reads-again", mutant.Cond("WAS && false")},
		{"a minimum hold needs a clock", "TestAMinimumHoldNeedsNoClockOfTheServer", "record-minimum-hold-without-clock", mutant.Value("0")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "store/record", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
