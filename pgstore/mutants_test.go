package pgstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
)

// The store with one thing wrong fails a test. Those of the table's statements
// are in brokenTable.
func TestTheTestsCatchEachMutantOfTheTable(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"what has expired passes", "HeldTx_OnlyAHoldThatLastsPasses", "pg-held-lasts", mutant.Cond(`e.Has(token) && e.Broken == ""`)},
		{"what is broken passes", "HeldTx_OnlyAHoldThatLastsPasses", "pg-held-lasts", mutant.Cond("e.Has(token) && e.Expires > 0")},
		{"any token passes", "HeldTx_OnlyAHoldThatLastsPasses", "pg-held-lasts", mutant.Cond(`e.Granted && e.Expires > 0 && e.Broken == ""`)},
		{"a check looks at no session", "HeldTx_AHoldOfAnEndedSessionDoesNotPass", "pg-held-session-lives", mutant.Cond("true")},
		{"a session that seems to have expired is passed over", "ASessionIsPassedOverOnlyOnceItsEndIsFinal", "pg-session-end-is-final", mutant.Stmt("ended, err := id != session.ID{}, error(nil)")},
		{"nobody asks whether a holder lives", "TheHoldOfADeadProcessComesFreeWithItsSession", "pg-holders-are-asked-about", mutant.Cond("of(e) && kept && !asked[in] && !e.Granted")},
		{"what an ended session kept is not lost", "WhatAnEndedSessionKeptIsLost", "pg-session-over-is-lost", mutant.Cond("false")},
		{"an ask that came too late has waited", "AnAskThatComesTooLateTakesNoPlace", "pg-too-late-is-told", mutant.Cond("false")},
		{"a grant outlasts the session that keeps it", "AGrantInTheQueueMovesToTheLongSession", "pg-grant-outlasts-its-session", mutant.Delete()},
		{"a grant that a poll finds outlasts its session", "APollOfAWaiterTellsTheGrantForTheTimeOfItsSession", "pg-grant-outlasts-its-session", mutant.Delete()},
		{"a poll of a hold is a grant", "APollOfAWaiterTellsTheGrantForTheTimeOfItsSession", "pg-poll-of-a-hold-is-a-grant", mutant.Cond("false")},
		{"a connection that was closed for being idle counts", "APoolOfClosedConnectionsFailsNoStatement", "pg-closed-as-idle-counts", mutant.Cond("false")},
		{"who asks to give up calls nobody", "Table/promise/a_renewal_says_why_a_waiter_asks_to_give_up", "pg-asks-uncalled", mutant.Cond("false")},
		{"a call that failed is forgotten", "WhoCouldNotCallAHolderCallsItWithTheNextAsk", "pg-call-that-failed-is-repeated", mutant.Stmt("_ = in")},
		{"the dead ask to give up", "TheDeadAskNobodyToGiveUp", "pg-the-dead-ask", mutant.Cond("known && left <= 0 && false")},
		{"what is asked to be given up is not read again", "Table/promise/a_renewal_says_why_a_waiter_asks_to_give_up", "pg-asked-is-read", mutant.Cond("isFresh(st, began) && (m.unseen() || st.Calls != m.calls)")},
		{"what is called is written", "ACallCostsOneReadOfAllRows", "pg-asked-is-read", mutant.Cond("isFresh(st, began) && (m.unseen() || m.asked)")},
		{"what was told while the row was read is forgotten", "AHoldThatANotificationTellsOfWhileItIsReadIsReadAgain", "pg-asked-while-it-is-read", mutant.Value(`reason != ""`)},
		{"what a notification tells is not read", "AHoldThatANotificationTellsOfIsReadByItsNextRenewal", "pg-asked-by-a-notification", mutant.Delete()},
		{"who is granted while somebody asks does not hear of it", "Table/promise/who_is_granted_while_a_waiter_asks_is_asked_to_give_up_too", "pg-granted-while-asked", mutant.Delete()},
		{"nobody can ask to give up later", "Table/promise/a_waiter_can_ask_to_give_up_later_or_no_more", "pg-asks-later", mutant.Cond("err == nil && !e.Granted && (a.Granted || len(f.ended) > 0)")},
		{"a mismatch names what was read", "AMismatchNamesTheSmallestTotal", "pg-mismatch-names-all", mutant.Cond("true")},
		{"a grant by a notification is not noted", "WhoIsGrantedByANotificationIsKnownWhenItGivesBack", "pg-granted-by-a-notification", mutant.Delete()},
		{"what is being taken out is renewed", "WhatIsBeingTakenOutIsLost", "pg-being-taken-out-is-lost", mutant.Return("m.over")},
		{"an ask that was not answered is taken out at once", "AnAskThatWasNotAnsweredIsNotTakenOutAtOnce", "pg-unanswered-ask-is-taken-out-at-once", mutant.Delete()},
		{"the place of an ask that failed is not noted", "ThePlaceOfAnAskThatFailedIsTakenOut", "pg-place-of-a-failed-ask-is-noted", mutant.Cond("false")},
		{"what an unanswered ask has done is forgotten", "ThePlaceOfAnAskThatFailedIsTakenOut", "pg-unanswered-ask-may-have-been-done", mutant.Return("m.sess == nil && m.to == nil")},
		{"a grant that only would be is told", "WhatExpiresWhileSomebodyComesBehindItIsNotGrantedWithoutAToken", "pg-would-be-granted", mutant.Cond("false")},
		{"a release that was not answered is not repeated", "AReleaseThatWasNotAnsweredIsMadeUpFor", "pg-unanswered-release-is-repeated", mutant.Cond("done && !late || m.goes()")},
		{"a release that was denied is not repeated", "AReleaseThatWasDeniedIsMadeUpFor", "pg-denied-release-is-repeated", mutant.Return("err == nil || store.Definite(err)")},
		{"a session is renewed once for a renewal", "ARenewalOfASessionThatIsNotAnsweredIsSentAgain", "pg-session-renewed-once", mutant.Cond("try > 0")},
		{"a hold is asked for beside its move", "AHoldThatMovesLateIsFollowed", "pg-asked-for-beside-a-move", mutant.Cond("moves && false")},
		{"a hold that is asked for again is shown", "ToAskForAHoldAgainShowsNoToken", "pg-asked-for-is-shown", mutant.Stmt("const shows = true")},
		{"what moved out of an ended session stays", "AHoldThatMovedOutOfAnEndedSessionIsTakenOut", "pg-moved-out-of-an-ended-session", mutant.Cond("true")},
		{"a broken hold is dropped before its owner is called", "ABreakThatCallsNobodyDropsNothing", "pg-dropped-before-the-call", mutant.Stmt("drop := b.Now")},
		{"who is next does not ask whether the holder lives", "WhoWaitedForTheRowPassesOverAHolderWhoseSessionHasEnded", "pg-next-asks-about-holders", mutant.Stmt("of := whose(nobodys)")},
		{"a session has ended when that is found", "ALockDelayCountsFromTheEndOfTheSession", "pg-ended-just-now", mutant.Stmt("f.ended.add(in[:], 0)")},
		{"nobody asks whether a waiter lives", "ADeadWaiterKeepsNobodyOut", "pg-dead-waiter-is-in-the-way", mutant.Stmt("err = s.judge(ctx, f, holders)")},
		{"who asks again does not ask whether the holder lives", "WhoAsksAgainPassesOverAllThatHaveDied", "pg-who-asks-again-asks-about-holders", mutant.Cond("f.isBehind(c.ID)")},
		{"a direct connection is tried", "WhoListensAtTheServerItselfIsNotTried", "pg-listen-is-tried", mutant.Cond("true")},
		{"a listen that takes long is begun anew", "AListenThatTakesLongIsWaitedForByTheNext", "pg-listen-begins-anew", mutant.Cond("true")},
		{"a listen that failed when nobody asked is told to the next", "AListenThatTakesLongIsWaitedForByTheNext", "pg-listen-begins-anew", mutant.Cond("m == nil")},
		{"those ahead are not counted", "AWaiterIsToldHowManyAreAhead", "pg-those-ahead-are-counted", mutant.Line("0")},
		{"a hold stays in the short session", "AGrantInTheQueueMovesToTheLongSession", "pg-hold-stays-in-the-short-session", mutant.Line("return m.sess != nil && m.to == nil &&")},
		{"a hold is adopted and its owner not called", "AnAdoptionOfAHoldInUseIsHeardByTheOwner", "pg-adopts-uncalled", mutant.Stmt("err = nil")},
		{"what was to be adopted is given back and its owner not called", "AnAdoptionOfAHoldInUseIsHeardByTheOwner", "pg-gives-back-uncalled", mutant.Stmt("err = nil")},
		{"a hold that may have another id is not read", "AHoldThatMayHaveAnotherIDIsReadAgain", "pg-handed-on-is-read", mutant.Delete()},
		{"a renewal that was not answered counts", "ARenewalThatIsNotAnsweredInTimeIsNone", "pg-renewal-is-not-fresh", mutant.Return("!st.Failing")},
		{"a position outlasts its session", "APositionLastsNoLongerThanItsSession", "pg-position-outlasts-its-session", mutant.Return("st.Renewed")},
		{"the clock is never set back", "TheClockFollowsTheServerBack", "pg-clock-is-never-set-back", mutant.Cond("now != 0 && (c.heard == 0 || now >= c.now+age.Microseconds())")},
		{"a break calls nobody", "ABrokenHoldIsLostThoughItsSessionGoesOn", "pg-break-calls-nobody", mutant.Return("nil")},
		{"a call is not heeded", "AHoldWhoseSessionWasCalledIsNotRenewedUnread", "pg-call-is-not-heeded", mutant.Cond("m.isOver()")},
		{"a row is never read again", "AHoldWhoseRowIsLostIsLost", "pg-rows-are-seen", mutant.Return("m.sess.TTL < 0")},
		{"a renewed hold is taken out", "WhatIsNotRenewedIsTakenOutOfALivingSession", "pg-renewed-hold-is-taken-out", mutant.Delete()},
		{"a hold moves into a session that ends before it", "AHoldDoesNotMoveIntoASessionThatEndsBeforeIt", "pg-move-ends-a-hold-early", mutant.Cond("st.Over")},
		{"a grant that may come late is forgotten", "AGrantThatComesLateIsTakenOut", "pg-late-grant-is-taken-out", mutant.Delete()},
		{"an ask that may come late is forgotten", "AnAskThatComesLateIsTakenOut", "pg-late-ask-is-taken-out", mutant.Stmt("late := false")},
		{"an ask that may come late is not awaited", "AnAskThatComesLateIsTakenOut", "pg-late-ask-is-awaited", mutant.Stmt("last := true")},
		{"an ask that was not sent is awaited", "AnAskThatWasNotSentIsForgotten", "pg-unsent-ask-is-awaited", mutant.Return("store.Definite(err) || none.error != nil || closed != nil")},
		{"a late ask is expected by our clock alone", "ALateAskIsExpectedByBothClocks", "pg-late-by-the-servers-clock", mutant.Return("here")},
		{"an expired hold is given back", "AnExpiredHoldThatIsGivenBackKeepsItsMinimum", "pg-expired-is-not-given-back", mutant.Stmt("err := s.release(ctx, &store.Hold{Name: h.Name, ID: h.ID}, false)")},
		{"a check believes in a session as it was", "HeldTx_ASessionThatWasRenewedSinceTheTransactionBeganIsNotLost", "pg-held-session-as-it-is", mutant.Delete()},
		{"what was adopted half way stays", "AHoldWhoseAdopterHasDiedHalfWayComesFree", "pg-adopted-and-left-is-looked-for", mutant.Delete()},
		{"what another server brings back stays", "WhatComesBackWithAnotherServerIsTakenOut", "pg-strays-are-looked-for", mutant.Delete()},
		{"what is known goes with what came back", "WhatComesBackWithAnotherServerIsTakenOut", "pg-what-is-known-is-no-stray", mutant.Cond("false")},
		{"what comes late behind a release stays", "AnAskThatComesLateBehindItsReleaseIsTakenOut", "pg-late-behind-a-release", mutant.Stmt("f = nil")},
		{"who renews by hand is in a session", "AHoldRenewedByHandHasAnExpiryOfItsOwn", "pg-by-hand-is-alone", mutant.Stmt("m.alone = m.alone || !r.shows")},
		{"who was renewed by hand goes into a session", "AHoldRenewedByHandHasAnExpiryOfItsOwn", "pg-by-hand-is-alone", mutant.Stmt("m.alone = r.h.ByHand || !r.shows")},
		{"who asks again goes into a session", "AHoldRenewedByHandHasAnExpiryOfItsOwn", "pg-by-hand-is-alone", mutant.Stmt("m.alone = m.alone || r.h.ByHand")},
		{"what was sent into a session leaves it", "AHoldThatWasSentIntoASessionStaysThere", "pg-sent-into-a-session-stays", mutant.Cond("false")},
		{"what leaves a session ends early", "AHoldRenewedByHandExpiresNoEarlierThanItsOwnerWasTold", "pg-own-expiry-is-no-earlier", mutant.Stmt("_ = r.ttl")},
		{"what is leaving a session is renewed there", "AHoldThatLeavesItsSessionLateHasLeftIt", "pg-alone-is-written", mutant.Line("true &&")},
		{"what is leaving a session is asked for there", "AHoldThatLeavesItsSessionLateHasLeftIt", "pg-alone-leaves-before-an-ask", mutant.Return("h, m.to != nil || m.token != 0 && m.sess != nil && m.sess.TTL < c.TTL")},
		{"what is listed never expires", "AListNeedsNoRightToWrite", "pg-listed-with-its-session", mutant.Stmt("_, _, _ = e, in, left")},
		{"to list ends sessions", "AListNeedsNoRightToWrite", "pg-list-ends-no-session", mutant.Stmt("left, _, err := map[session.ID]int64{}, 0, s.sessions.Ask(ctx, slices.Collect(maps.Keys(in)))")},
		{"what could not be given back expires", "WhatCouldNotBeGivenBackIsGivenBackLaterAsItWas", "pg-given-back-is-taken-out", mutant.Cond("false")},
		{"a check locks nothing", "HeldTx_NobodyIsGrantedTheNameBeforeTheCommit", "pg-held-share", mutant.Delete()},
		{"a look for old rows begins anywhere", "OldRowsGoAsFastAsTheyCame", "pg-sweep-begin", mutant.Line("$2::bigint < 1000000")},
		{"a renewal waits for the pool", "APoolThatOthersHaveEmptiedKeepsNoHoldFromBeingRenewed", "pg-urgent-statements", mutant.Cond("s.releaseFast, s.releaseNext, s.release, s.releaseAll, s.change")},
		{"a release waits for the pool", "APoolThatOthersHaveEmptiedKeepsNoHoldFromBeingRenewed", "pg-urgent-statements", mutant.Cond("s.renewFast, s.renew, s.releaseAll, s.change")},
		{"a release of several waits for the pool", "APoolThatOthersHaveEmptiedKeepsNoHoldFromBeingRenewed", "pg-urgent-statements", mutant.Cond("s.renewFast, s.renew, s.releaseFast, s.releaseNext, s.release, s.change")},
		{"a renewal waits for a connection of pgx that does not come", "AConnectionThatDoesNotComeKeepsNoHoldFromBeingRenewed", "pg-pool-soon", mutant.Value("context.WithCancel(ctx)")},
		{"a renewal waits for a connection of database/sql that does not come", "AConnectionThatDoesNotComeKeepsNoHoldFromBeingRenewed", "pg-sql-pool-soon", mutant.Value("context.WithCancel(ctx)")},
		{"no pool is warned of", "TheCheckWarnsOfAPoolThatOthersCanEmpty", "pg-pool-warned", mutant.Cond("n < 0")},
		{"each pool is warned of", "TheCheckWarnsOfAPoolThatOthersCanEmpty", "pg-pool-warned", mutant.Cond("n >= 0")},
		{"a blank in a URL becomes a plus", "SettingsOfAURLReachTheServerAsTheyAreWritten", "pg-url-as-written", mutant.Stmt(`theirs = append(theirs, strings.ReplaceAll(setting, "%20", "+"))`)},
		{"a plus in a URL becomes a blank", "SettingsOfAURLReachTheServerAsTheyAreWritten", "pg-url-own", mutant.Before(`value = strings.ReplaceAll(value, "+", " ")`)},
		{"no transaction is a panic", "HeldTx_OnlyAHoldThatLastsPasses", "pg-held-tx-nil", mutant.Cond("false")},
		{"the pause stays long", "OldRowsGoAsFastAsTheyCame", "pg-sweep-pause-shortens", mutant.Cond("false")},
		{"the pause stays short", "OldRowsGoAsFastAsTheyCame", "pg-sweep-pause-grows", mutant.Return("min(w.pause, w.most)")},
		{"the check gives up behind a pooler", "TheCheckWorksBehindPgBouncer", "pg-check-behind-pooler", mutant.Value(`s.db.query(ctx, "SELECT 1", nil, how{}, none)`)},
		{"the pooler is asked to listen", "ListenNamesTheServerItselfBesideAPooler", "pg-listen-host", mutant.Cond("true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "pgstore", Test: "Test" + m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	all = append(all, brokenTable()...)
	mutant.Catch(t, all, pgtest.AddrEnv+"="+sharedAddr(t), "HOLDFAST_TEST_STEPS=5000", pgtest.PatienceEnv+"=5s")
}
