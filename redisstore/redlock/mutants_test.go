package redlock

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Each mutant, the store with one thing wrong, fails a test. TestTheProtocolWithOneLineWrongIsFound shows what the protocol needs; this test
// shows that the scripts and the client implement it.
func TestTheTestsCatchEachMutantOfRedlock(t *testing.T) {
	t.Parallel()
	const (
		model     = "TestEveryNodeAnswersAsTheModel"
		forgets   = "TestARestartedNodeGrantsNothingUntilItsGrantsExpired"
		majority  = "TestTheMajorityAnswersAsTheModel/3_nodes"
		twoFrozen = "TestTwoOfThreeNodesFrozenAreUnavailableAndLoseNothing"
		from      = "TestALeaseCountsFromBeforeTheFirstNodeWasAsked"
		clocks    = "TestAClientWhoseClockIsWrongIsServedInItsTurn"
		full      = "TestOnFullNodesLeasesAreRenewedAndReleased/Redis"
		announced = "TestOnlyWhatSaysSoIsAnnouncedAndOnlyWhatChanges"
		overdue   = "TestARenewalAfterTheOldDeadlineIsALoss"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"what a node is sent is linked to nobody", "TestRequestsToEachNodeAreLinkedToTheirCaller", "redlock-joined-in-no-trace", mutant.Return("ctx")},
		{"no hook is called", "TestRequestsToEachNodeAreLinkedToTheirCaller", "redlock-hooks", mutant.Stmt("_ = hook")},
		{"who holds may be more than the smaller total", model, "redlock-least-limit", mutant.Line("if e.granted then held = held + e.weight end")},
		{"a lock is one more total of a semaphore", model, "redlock-two-totals", mutant.Line("if false then")},
		{"each ask asks the holders once more", model, "redlock-asked-once", mutant.Line("if own.reason ~= '' then")},
		{"who was granted asks on", model, "redlock-who-holds-asks-nobody", mutant.Line("own.accepted, own.since, own.same = true, now, false")},
		{"the claim that a node reports last is heard", "TestTheFirstRequestToGiveUpOnAnyNodeIsReturned", "redlock-first-that-asks", mutant.Cond("a != nil")},
		{"a renewal says nothing of who asks", "TestStore/promise/a_renewal_says_why_a_waiter_asks_to_give_up", "redlock-renewal-says-who-asks", mutant.Delete()},
		{"each node's notification asks a holder", "TestStore/promise/a_holder_is_notified_once_that_it_is_asked_to_give_up", "redlock-asked-by-each-node", mutant.Value("cl != nil && cl.held")},
		{"half is a majority", "TestItIsGrantedExactlyWhenAMajorityIsFree", "redlock-majority", mutant.Value("len(s.nodes), (len(s.nodes)+1)/2")},
		{"a slot takes a majority", "TestOnFiveNodesThreeSlotsAreHeldByThree", "redlock-quorum-of-slots", mutant.Value("majority")},
		{"a slot takes one vote less", "TestASemaphoresQuorumGrantsNoMoreThanItsSlots", "redlock-quorum-of-slots", mutant.Value("int(int64(n)*limit/(limit+1))")},
		{"one node or two have no slots", "TestSlotsNeedTwoMoreNodesThanThereAreSlots", "redlock-slots-need-all", mutant.Cond("q == n")},
		{"a semaphore may need all nodes", "TestSlotsNeedTwoMoreNodesThanThereAreSlots", "redlock-slots-need-all", mutant.Cond("false")},
		{"a node that hangs is not named", "TestEachNodeThatDidNotAnswerIsNamedWithItsCause", "redlock-silent-node-named", mutant.Cond("false")},
		{"a node that nobody waited for is not named", "TestAllNodesThatAreAwayAreNamed", "redlock-all-away-named", mutant.Cond("WAS && false")},
		{"a slot waits for a majority", "TestASlotWaitsForASlowNodeThatHasToGrantIt", "redlock-answers-waited-for", mutant.Return("t.answered() > len(s.nodes)/2")},
		{"a grant may take longer than its TTL", "TestAGrantSlowerThanItsTTLIsReleased", "redlock-grant-within-ttl", mutant.Cond("false")},
		{"a lease counts from the answer", from, "redlock-lease-from", mutant.Return("s.granted(cl, cl.TTL, store.Now()), nil")},
		{"clocks do not differ", from, "redlock-drift", mutant.Return("0 * ttl")},
		{"a renewal counts from the answer", from, "redlock-renewal-from", mutant.Value("store.Renewal{TTL: h.TTL, From: now}")},
		{"what was granted late is kept", twoFrozen, "redlock-late-grant-given-back", mutant.Value("make(chan reply)")},
		{"a refused try is given back by those that answer soon", "TestARefusedTryIsReleasedOnTheNodesThatTheNextNeeds", "redlock-given-back-for-the-next", mutant.Value("func() bool { return true }")},
		{"a node that is away is asked all the same", "TestTwoGoodNodesAndADeadOneKeepEveryPromise/promise/an_early_release_keeps_the_name_taken", "redlock-away-node-left-alone", mutant.Cond("WAS && false")},
		{"a node that was away gets no word", "TestAReturningNodeGetsReleasesThatItMissed", "redlock-owed-to-node", mutant.Stmt("_ = again")},
		{"a node that is back is asked before it is notified", "TestAReturningNodeGetsMissedReleasesFirst", "redlock-told-before-asked", mutant.Stmt("defer n.send(j)")},
		{"few answers refuse", twoFrozen, "redlock-few-answers", mutant.Cond("t.answered() < 1")},
		{"a renewal counts after the deadline", overdue, "redlock-renewal-in-time", mutant.Cond("false")},
		{"nothing is mended", "TestAVoteThatANodeHasLostIsRestoredByARenewal", "redlock-lost-vote-repaired", mutant.Delete()},
		{"a vote is given back behind its release", "TestNoVoteIsRestoredAfterItsRelease", "redlock-no-vote-behind-release", mutant.Cond("j.vote != nil && j.vote.released.Load() && false")},
		{"a release overtakes the adoption", "TestARenewalThatMovesAHoldIsInTheLaneOfItsOwner", "redlock-adopted-in-its-lane", mutant.Delete()},
		{"what has too few votes is given none", "TestALeaseOutlivesTheNodesThatGrantedIt/3_nodes,_some_slow", "redlock-missing-votes-given", mutant.Delete()},
		{"votes are given back after the deadline", "TestNoVoteIsRestoredAfterTheDeadline", "redlock-missing-votes-in-time", mutant.Cond("cl != nil && cl.held && cl.p == h.Token")},
		{"a notification carries the number", "TestANotificationNeverCarriesAToken", "redlock-hint-without-number", mutant.Return("store.Notification{Name: name, ID: id, Token: p, N: 1}, p, ok")},
		{"a mailbox that opens late has nobody poll", "TestAMailboxOpenedAfterWatchMakesAllWaitersPoll", "redlock-opened-late", mutant.First("return")},
		{"a node may grant as soon as it runs", forgets + "/restarted_with_an_old_record", "redlock-node-too-young", mutant.Value("0 * time.Duration(uptime)")},
		{"a try gives up the place of its claim", majority, "redlock-try-keeps-its-position", mutant.Stmt("_ = placed")},
		{"who asks again goes to the end", majority, "redlock-position-outlived", mutant.Cond("!cl.held && cl.place != 0 && now != 0")},
		{"who asks again for a hold has shown its token", majority, "redlock-ask-again-unshown", mutant.Value(`s.renew(ctx, []store.Hold{h}, "shown")[0]`)},
		{"a hold is as old as the copy that is shown", "TestAHoldIsAsOldAsItsFirstVote", "redlock-age-of-first-vote", mutant.Stmt("c.age = c.now - c.since")},
		{"a refusal shows what the first node has", "TestARefusalShowsWhatIsReleasedOnMostNodesAsReleased", "redlock-copy-in-the-way", mutant.Value("v.copies[0]")},
		{"what blocks is over when the first hold is, places or not", majority, "redlock-ends-with-first-hold", mutant.Cond("sure > 0 && (!places || true)")},
		{"a wrong clock is somebody ahead", "TestANodeWhoseClockIsOffIsUnavailableAndNamed", "redlock-only-clocks", mutant.Cond("false")},
		{"a grant tells no clock", clocks + "/told_by_what_it_was_granted", "redlock-clock-by-grant", mutant.Delete()},
		{"a refusal tells no clock", clocks + "/told_by_the_refusal_itself", "redlock-clock-by-refusal", mutant.Delete()},
		{"a claim keeps the order of a wrong clock", clocks + "/told_by_the_refusal_itself", "redlock-order-corrected", mutant.Cond("false")},
		{"what is known of a clock is undone by a slow answer", "TestAnAnswerThatTookLongUndoesNoBetterOne", "redlock-clock-better-known", mutant.Cond("had < least || had >= least")},
		{"a full node is asked as fast as it refuses", "TestAReadOnlyNodeIsLeftInPeace/full", "redlock-full-node-paused", mutant.Cond("WAS && false")},
		{"a full node is asked as fast as it refuses those who wait", "TestWaitersThatAFullNodeRefusedLeaveItInPeace", "redlock-refused-is-new", mutant.Return("c == nil || c.sent.Load()&(1<<n.i) == 0")},
		{"a grant to who was refused does not show memory", "TestWaitersThatAFullNodeRefusedLeaveItInPeace", "redlock-refused-grant", mutant.Value("j.claim.sent.Load()&(1<<n.i) == 0")},
		{"a read-only node stays in use", "TestAReadOnlyNodeIsLeftInPeace/read-only", "redlock-refusing-node-leaves", mutant.Delete()},
		{"a node that lacks replicas stays in use", "TestAReadOnlyNodeIsLeftInPeace/without_replicas", "redlock-refusing-kinds", mutant.Value(`[]string{"LOADING", "READONLY", "MASTERDOWN", "BUSY", "OOM", "MISCONF"}`)},
		{"a script's right that Redis 7 lacks is no denial", "TestARightThatAScriptLacksIsDenied/Redis", "redlock-denied", mutant.Cond(`has("NOPERM", "NOAUTH", "WRONGPASS", "No permissions", "ACL failure in script")`)},
		{"a script's right that Redis 8 lacks is no denial", "TestARightThatAScriptLacksIsDenied/Redis_8", "redlock-denied", mutant.Cond(`has("NOPERM", "NOAUTH", "WRONGPASS", "No permissions", "The user executing the script")`)},
		{"a script's right that Valkey lacks is no denial", "TestARightThatAScriptLacksIsDenied/Valkey_9", "redlock-denied", mutant.Cond(`has("NOPERM", "NOAUTH", "WRONGPASS", "No permissions", "The user executing the script")`)},
		{"a log-in that is missing is no denial", "TestAMajorityOfErrorsIsThatErrorAndNotHeld", "redlock-denied", mutant.Cond(`has("NOPERM", "WRONGPASS", "The user executing the script", "ACL failure in script")`)},
		{"a full node is out of use for renewals too", full, "redlock-full-node-in-use", mutant.Cond("true")},
		{"a full node is not joined", full, "redlock-full-node-joined", mutant.Cond("false")},
		{"a release counts nodes that cannot grant", "TestAReleaseWaitsForTheNodesThatTheNextNeeds", "redlock-released-for-the-next", mutant.Cond("free() > was")},
		{"a node that was full once is full for good", "TestAReadOnlyNodeIsLeftInPeace/full", "redlock-full-no-more", mutant.Delete()},
		{"a list shows what an older renewal reported", "TestARenewalConfirmedByAMajorityIsListed", "redlock-newest-renewal-listed", mutant.Stmt("_ = other")},
		{"a list shows the owner that one node has", "TestARenewalConfirmedByAMajorityIsListed", "redlock-owner-of-most-listed", mutant.Cond("WAS && most == 0")},
		{"a node that answers nothing counts as one that grants", "TestTheCheckCountsNoNodeThatAnswersNothing", "redlock-check-answers-nothing", mutant.Delete()},
		{"a clock that is ahead grants", "TestTheCheckFindsNodesWhoseClocksGrantNothing", "redlock-check-clock-ahead", mutant.Cond("false")},
		{"a clock that is behind grants", "TestTheCheckFindsNodesWhoseClocksGrantNothing", "redlock-check-clock-behind", mutant.Cond("false")},
		{"a node whose clock is off counts as one that grants", "TestTheCheckFindsNodesWhoseClocksGrantNothing", "redlock-check-clock-grants", mutant.Delete()},
		{"clocks are compared with this host's", "TestTheCheckFindsNodesWhoseClocksGrantNothing", "redlock-check-clock-median", mutant.Value("ahead[len(ahead)/2] * 0")},
		{"clocks that are apart are not found", "TestTheCheckFindsNodesWhoseClocksGrantNothing", "redlock-check-clocks-apart", mutant.Cond("apart > time.Hour")},
		{"one server has two votes", "TestTwoClientsOfOneServerAreNotTwoNodes", "redlock-one-server-one-vote", mutant.Cond("other != n && other.runID == runID && false")},
		// From here on the mutants are of the scripts.
		{"a number need not be above the newest", model, "redlock-above-newest", mutant.Delete()},
		{"what is repaired lowers the newest number", model, "redlock-newest", mutant.Line("last = own.p + own.n - 1")},
		{"a repair needs a number above the newest", "TestAVoteThatANodeHasLostIsRestoredByARenewal", "redlock-above-newest", mutant.Line("and own.p > last")},
		{"nor where nobody is", model, "redlock-alone-above-newest", mutant.Line("if true")},
		{"a block counts as one token", model, "redlock-newest", mutant.Line("last = math.max(last, own.p)")},
		{"a number may be far ahead", model, "redlock-far-ahead", mutant.Delete()},
		{"an older ask is obeyed", model, "redlock-older-ask", mutant.Line("if false then")},
		{"a repeat takes the grant back", model, "redlock-fresh", mutant.Line("local fresh = true")},
		{"a lost record lowers the tokens", model, "redlock-lost-record", mutant.Line("last = 0")},
		{"who comes first is better", model, "redlock-order", mutant.Delete()},
		{"a hold is any of its claim's", model, "redlock-hold-token", mutant.Delete()},
		{"a release takes a newer ask", model, "redlock-release-newer", mutant.Delete()},
		{"a wiped node grants", forgets + "/wiped", "redlock-wiped", mutant.Line("WAS record = ARGV[5] elseif false then")},
		{"a wiped node grants the second", forgets + "/wiped", "redlock-opens", mutant.Delete()},
		{"a lone hold is not released on a full node", full, "redlock-release-alone", mutant.Line("local answer = redis.call('SET', KEYS[1], head, 'KEEPTTL')")},
		{"a full node lets others wait", full, "redlock-ask-adds", mutant.Delete()},
		{"each lock is announced", announced, "redlock-announces-each-lock", mutant.Cond("true")},
		{"each renewal is announced", announced, "redlock-announces", mutant.Line("if announces then redis.pcall('PUBLISH', KEYS[1], '') end")},
		{"what no lock says is announced", announced, "redlock-announces", mutant.Line("if news then redis.pcall('PUBLISH', KEYS[1], '') end")},
		{"a grant of a free name is not announced", announced, "redlock-free-grant-announced", mutant.Delete()},
		{"a grant to who waits is not announced", announced, "redlock-grant-is-news", mutant.Delete()},
		{"a release beside which nobody is is not announced", announced, "redlock-lone-release-announced", mutant.Delete()},
		{"a release to who waits is not announced", announced, "redlock-release-announced", mutant.Delete()},
		{"a release with a minimum hold is not announced", "TestStore/promise/a_watcher_is_notified_of_a_release_with_a_minimum_hold", "redlock-minimum-hold-is-news", mutant.Delete()},
		{"another note is not announced", announced, "redlock-note-is-news", mutant.Delete()},
		{"another id is not announced", announced, "redlock-another-id-is-news", mutant.Delete()},
		{"a break is not announced", announced, "redlock-break-announced", mutant.Delete()},
		{"what one node tells is reported once", "TestAWatcherIsNotifiedAgainOnceAllNodesHadTime", "redlock-name-told-once", mutant.Delete()},
		{"a node that was away is watched and nobody notified", "TestANodeThatWasAwayIsWatchedWhenItIsBack", "redlock-name-heard-late", mutant.Delete()},
		{"another maximum is not seen", "TestANodeThatComesToHaveAnotherMaximumGrantsNothing", "redlock-maximum", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "redisstore/redlock", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s", "HOLDFAST_TEST_SEED=5")
}
