package holdfast

import "github.com/holdfast-go/holdfast/internal/mutant"

// Information about holders, waiters and leaders, and requests to them.
var apiMutants = []mutant.Broken{
	// Asking to give up.
	one("asks although the store cannot pass it on", "TestGiveUp_AStoreThatCannotPassItOnSaysSo", "asked-in-vain", mutant.Cond("lacks && asked && p != store.PromiseGiveUp")),
	one("reports each request as a new one", "TestGiveUp_AnEventForEachReason", "asked-told-each-time", mutant.Cond("false")),
	one("a request never ends", "TestGiveUp_AfterTheLastRequestThereIsANewChannel", "asked-for-ever", mutant.Delete()),
	one("a request arrives with the next renewal", "TestGiveUp_AHolderIsAskedAtOnceWhereTheStoreNotifies", "asked-with-next-renewal", mutant.Stmt("_ = of")),
	one("a request during a break of the notifications is not reported", "TestGiveUp_AHolderReadsAfterMissedNotifications", "asked-during-break", mutant.Stmt("h.wakeAll()")),
	one("a request before the subscription is not reported", "TestGiveUp_ARequestFromBeforeSubscribingIsDelivered", "subscribed-again-looked", mutant.Stmt("h.wakeAll()")),
	one("a request during a renewal is not reported", "TestGiveUp_ARequestDuringARenewalRenewsOnceMore", "notified-during-renewal", mutant.Cond("h.toRenew && (h.flight == nil || func() bool { h.toRenew = false; return false }())")),
	one("an ended hold still listens for requests", "TestGiveUp_WithoutARequestNothingIsSent", "ended-still-listens", mutant.Delete()),
	one("a local waiter asks no holder", "TestGiveUp_ALocallyQueuedWaiterAsksToo", "in-line-asks-nobody", mutant.Return(`""`)),
	one("a local waiter asks late", "TestGiveUp_ALocallyQueuedWaiterAsksToo", "in-line-asks-late", mutant.Stmt("_ = p")),
	one("a waiter that joins the local queue during an ask asks late", "TestGiveUp_ALocallyQueuedWaiterAsksToo", "came-while-asked", mutant.Stmt("_ = wake")),
	one("a lease that was handed over is asked", "TestGiveUp_AHandedOverLeaseIsAskedToo", "asked-when-over", mutant.Cond("false")),
	one("an upgrade asks no holder", "TestUpgrade_AsksTheReadersThatBlockItToGiveUp", "upgrade-asks-nobody", mutant.Delete()),
	one("a try to upgrade asks", "TestUpgrade_ATryAsksNoHolder", "try-upgrade-asks", mutant.Delete()),
	one("an upgrade waits in silence", "TestObserver_ReceivesAWaitingUpgrade", "upgrade-waits-in-silence", mutant.Delete()),
	one("each answer reports that an upgrade waits", "TestObserver_ReceivesAWaitingUpgrade", "waiting-each-answer", mutant.Cond("false")),
	one("all local waiters with a position ask for the queue", "TestGiveUp_OneWithAPositionAsksForTheLocalQueue", "all-inside-ask", mutant.Cond("false")),

	// Looking, breaking, and detached holds.
	one("a break does not name the operator", "TestBreak_TheHolderGetsTheOperatorAndTheReason", "break-says-who", mutant.Value("b.Reason")),
	one("a break has another user", "TestBreak_TheHolderGetsTheOperatorAndTheReason", "break-by-this-user", mutant.Value(`"somebody"`)),
	one("several are renewed one after another", "TestSeveral_RenewedByHandTogether", "several-renewed-in-one-call", mutant.Stmt("for _, c := range calls {\nleases[0].hold.e.sched.byHand(c)\ntime.Sleep(time.Millisecond)\n}")),
	one("a detached hold is adopted and kept", "TestRelease_OfWhatAnotherProcessHasDetached", "detached-given-back", mutant.Return("map[bool]error{}[lease == nil]")),
	one("an event of a hold has no claim", "TestObserver_EventsSayWhoseTheyAre", "event-of-a-hold-says-whose", mutant.Line("Owner: h.s.Owner, Context: h.values,")),
	one("a leader is no candidate", "TestObserver_EventsOfCandidatesSayThatTheyAre", "event-of-a-leader", mutant.Line("")),
	one("a waiting candidate is no candidate", "TestObserver_EventsOfCandidatesSayThatTheyAre", "event-of-a-candidate", mutant.Line("")),
	one("an event of a claim has no claim", "TestObserver_EventsSayWhoseTheyAre", "event-of-a-claim-says-whose", mutant.Line("Owner: w.l.s.Owner, Context: of,")),
	one("a new position is not reported", "TestObserver_ReceivesANewPosition", "waiting-each-answer", mutant.Cond("p.told")),

	// A try on a store without a clock.
	one("a try trusts a store that is unsure", "TestATryIsAnsweredOnceTheStoreIsSure", "try-that-is-not-sure", mutant.Cond("false && last")),
	one("a try watches one holder after another", "TestATryDoesNotWatchOneHolderAfterAnother", "try-watches-without-end", mutant.Stmt("last = r.e.now() >= ends.Add(time.Minute)")),

	// By name.
	one("Unlock releases the newest lease", "TestByName_ALateUnlockReleasesNoOtherLease", "by-name-oldest", mutant.Value("held[len(held)-1]")),

	// Context values.
	one("a driver has no values", "TestValues_ReachTheDriverOfOneClaim", "values-of-claim", mutant.Return("nil")),
	one("a batch has the values of one claim", "TestValues_ReachTheDriverOfOneClaim", "values-of-batch", mutant.Return("b.holds[0].values")),
	one("a reason to give up has several lines", "TestOwnersArePrintedForPeople", "asks-on-one-line", mutant.Delete()),
	one("a reason to break has several lines", "TestOwnersArePrintedForPeople", "break-on-one-line", mutant.Value("text")),
	one("Look is sent though its context has ended", "TestLook_ReturnsTheErrorOfAnEndedContext", "looks-though-ended", mutant.Cond("false")),
	one("a switch accepts any value", "TestOptions_ASwitchIsOnOrOff", "switch-of-any-value", mutant.Cond("true")),
	one("slots are a deadlock only by the caller's own total", "TestReentry_SlotsOfAnotherTotalAreADeadlockToo", "own-total-alone-blocks", mutant.Delete()),
	one("a waiter that asks to give up waits for a hand-over", "TestGiveUp_AWaiterOfTheSameProcessAsksAtOnce", "asks-once-handed-over", mutant.Cond("false")),
	one("a request before a listener is forgotten", "TestGiveUp_ARequestFromBeforeTheListenerIsDelivered", "unheard-is-forgotten", mutant.Stmt("_ = h.unheard.add")),
	one("an observer with notifications reads late after a failure", "TestObserve_AFailedReadIsRepeatedSoonDespiteNotifications", "notified-after-failure", mutant.Cond("o.changed != nil")),
	one("the renewal that completes several is in no trace", "TestValues_ReachTheRenewalThatCompletesSeveral", "several-renewed-in-no-trace", mutant.Value("(*values)(nil)")),
	one("a batch is linked to no claim", "TestValues_ABatchIsLinkedToTheClaimsThatItServes", "batch-in-no-trace", mutant.Cond("true")),
	one("a batch is linked to its first claim alone", "TestValues_ABatchIsLinkedToTheClaimsThatItServes", "batch-of-nobody", mutant.Stmt("all[i], _ = holds[0].values, h")),
	one("a lease that was handed over has the values of the previous one", "TestValues_AreThoseOfTheCurrentHolder", "values-handed-over", mutant.Delete()),
	one("a poll has no values", "TestValues_ReachThePollsAndTheWithdrawalOfAWait/between_two_polls", "values-of-a-poll", mutant.Line("claim, of := r.claim, (*values)(nil)")),
	one("a withdrawal has no values", "TestValues_ReachThePollsAndTheWithdrawalOfAWait/between_two_polls", "values-of-a-withdrawal", mutant.Line("of, claim, bound := (*values)(nil), r.claim, r.s.askFor()")),
	one("a withdrawal after a canceled ask has no values", "TestValues_ReachThePollsAndTheWithdrawalOfAWait/during_an_ask", "values-of-a-late-withdrawal", mutant.Line("of, claim, bound := (*values)(nil), r.claim, r.s.askFor()")),
	one("a detach has no values", "TestValues_ReachADetachAndAnAdoption", "values-of-a-detach", mutant.Line("answer, from := h.e.renewOne(nil, nil, h.s.releaseFor(), nil, asked, new(trouble))")),
	one("an adoption has no values", "TestValues_ReachADetachAndAnAdoption", "values-of-an-adoption", mutant.Line("answer, from = o.e.renewOne(nil, worthIt, o.bound, stop, hold, r.away)")),
	one("the driver's context ends with the caller's", "TestValues_TheEndOfTheCallersContextEndsNoCall", "values-tell-the-end", mutant.Cond("v == nil || v.of == nil")),

	// Leaders.
	one("a leader leads forever", "TestIsLeader_OnlyWhileItsTermLasts", "leads-for-ever", mutant.Delete()),
	one("a leader leads by another clock", "TestIsLeader_OnlyWhileItsTermLasts", "leads-by-another-clock", mutant.Return("len(g.m[w.name]) > 0")),
	one("a campaign that entered again does not lead", "TestIsLeader_ByACampaignThatEnteredAgain", "leads-by-each-lease", mutant.Cond("w.leads && l == &h.first")),
	one("only the newest campaign leads", "TestIsLeader_ByACampaignThatEnteredAgain", "leads-by-the-newest", mutant.Stmt("g.m[l.Name()] = []*Lease{l}")),
	one("a candidate elected during Close leads", "TestIsLeader_NotAfterClose", "leads-though-closed", mutant.Delete()),
	one("a note comes with the next renewal", "TestSetNote_IsSeenAtOnce", "note-with-next-renewal", mutant.Stmt("h.toRenew = false")),
	one("the note of the previous lease is kept", "TestSetNote_EndsWithItsLease", "note-of-the-one-before", mutant.Cond("h.s != w.l.s")),

	// Looks.
	one("an observer is not notified", "TestObserve_IsNotifiedIfTheStoreCan", "observer-not-notified", mutant.Line("case <-make(chan struct{}):")),
	one("an observer that is notified polls too", "TestObserve_IsNotifiedIfTheStoreCan", "notified-polls-too", mutant.Stmt("o.poll = s.PollMax")),
	one("a change while the watch begins is missed", "TestObserve_NothingIsMissedAsItBegins", "observed-from-late-on", mutant.Return("false")),
	one("a name is watched forever", "TestObserve_ItsWatchEndsWithIt", "observed-for-ever", mutant.Stmt("_ = o.stop")),

	// Waiters.
	one("each answer reports that a claim waits", "TestObserver_ReceivesTheBeginningOfAWait", "waiting-each-answer", mutant.Cond("false")),
	one("fewer holders are not reported", "TestObserver_ReceivesThatOneOfTheHoldersLeft", "news-of-number-holding", mutant.Delete()),
	one("fewer claims ahead are not reported", "TestObserver_ReceivesThatOneAheadLeft", "news-of-number-ahead", mutant.Delete()),
	one("another holder is not reported", "TestObserver_ReceivesAnotherHolder", "news-of-first-holder", mutant.Stmt("now.first = store.ID{1}")),
	one("another owner is not reported", "TestObserver_ReceivesAnotherOwner", "news-of-first-owner", mutant.Delete()),
	one("local waiters are not counted as ahead", "TestObserver_ReceivesWaitsInTheProcess", "line-ahead", mutant.Stmt("r.answer.Waiting += len(at.inside)")),
	one("any number waits", "TestMaxWaiting_LockBeyondItFailsAtOnce", "any-number-waits", mutant.Cond("false")),
	one("any number of claims asked at the same time waits", "TestMaxWaiting_NoBurstExceedsIt", "counted-late", mutant.Cond("false")),
	one("one waiter too many stays in the queue", "TestMaxWaiting_OneTooManyLeavesNothingInTheStore", "one-too-many-leaves-its-position", mutant.Cond("false")),
	one("a claim that fits is refused", "TestMaxWaiting_AnImmediateGrantIsNeverRefused", "refused-though-it-fits", mutant.Return("false")),
	one("an admitted local waiter is counted again", "TestMaxWaiting_AnAdmittedWaiterIsNotRefused", "who-was-in-line-counts-anew", mutant.Delete()),
	one("any number waits with another total", "TestMaxWaiting_CountsClaimsWithAnotherTotal", "past-the-line-waits", mutant.Delete()),
	one("a claim that waited with another total counts forever", "TestMaxWaiting_CountsClaimsWithAnotherTotal", "past-for-ever", mutant.Cond("false")),

	// Holders.
	one("a list has all names", "TestList_IsByPrefixAndInOrder", "list-all", mutant.Cond("true")),
	one("a list is in any order", "TestList_IsByPrefixAndInOrder", "list-unordered", mutant.Delete()),
	one("a freed hold is a holder", "TestBreak_NowIsReportedToTheHolderAndListed", "freed-hold-is-a-holder", mutant.Line("case e.Freed && e.Token < 0:")),
	one("a freed hold leads", "TestObserve_AFreedHolderDoesNotLead", "freed-leader-leads", mutant.Cond("e.Freed && e.Token < 0")),
	one("Held returns leases that have ended", "TestHeld_IsWhatThisProcessHolds", "held-though-over", mutant.Return("all")),
}
