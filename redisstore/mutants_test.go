package redisstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Each mutant, the store with one thing wrong that only replicas, clusters and fail-overs show, fails a test. Mutants of the rule itself are
// in storetest.
func TestTheTestsCatchEachMutantOfTheFleet(t *testing.T) {
	t.Parallel()
	const (
		tooFew  = "TestAGrantWithTooFewReplicasIsNotReported"
		besides = "TestADurableStoreNeedsDiskAndReplicas"
		written = "TestEachAnswerThatGivesSomethingIsWrittenForIt"
		full    = "TestOnAFullServerLeasesAreRenewedAndReleased/Redis"
		trees   = "TestDifferential/{2_1}_16"
		lines   = "TestDifferential/{16_12}_16"
		room    = "TestSlotsFreedWithoutAnEndAreGranted"
		kept    = "TestANameIsRememberedForAsLongAsSaidAfterItsLastEntry"
		first   = "TestOfManyRequestsToGiveUpTheFirstIsReturned"
		asked   = "TestEachOfManyHoldersIsAsked"
		freed   = "TestFreedHoldsStayInEachFormOfAName"
		steps   = "TestNoOperationCostsMoreBecauseMoreAreWaiting"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"who may not lock is not found", "TestAUserWithoutLockRightsIsFound", "redis-rights-are-checked", mutant.Cond("false")},
		{"a right is granted to nobody", "TestAUserWithoutLockRightsIsFound", "redis-grant-names-its-user", mutant.Line("args := []string{\"redis-cli ACL SETUSER\", \"NAME\"}")},
		{"who may not subscribe gets no word", "TestAUserThatCannotSubscribeGetsAdviceFromWatch", "redis-who-is-deaf-is-told", mutant.Delete()},
		{"who may not publish gets no word", "TestAUserWithoutLockRightsIsFound", "redis-waking-is-checked", mutant.Cond("WAS && false")},
		{"a server that does not say has a file", "TestDangersOfPersistenceAreFound", "redis-file-unknown", mutant.Line(`case "none":`)},
		{"one is 1 replicas", "TestTheCheckReadsEachClusterServerAndItsClock", "redis-one-replica", mutant.Cond("WAS && false")},
		{"a server that keeps nothing is ok", "TestDangersOfPersistenceAreFound", "redis-nothing-is-kept", mutant.Line("case false:")},
		{"a replica that lacks grants is ok", "TestTheCheckReadsEachClusterServerAndItsClock", "redis-replica-that-lacks-grants", mutant.Cond("false")},
		{"a full disk is as good", "TestDangersOfPersistenceAreFound", "redis-disk-full", mutant.Cond("false")},
		{"a snapshot that failed is as good", "TestDangersOfPersistenceAreFound", "redis-disk-full-snapshot", mutant.Cond("false")},
		{"a primary that comes back empty is ok", "TestDangersOfPersistenceAreFound", "redis-empty-primary", mutant.Cond("WAS && false")},
		{"a new grant needs no replica", tooFew, "redis-grants-confirmed", mutant.Value(`one("ask", "G")`)},
		{"a repeated grant needs no replica", tooFew, "redis-grants-confirmed", mutant.Value(`one("ask", "0123456789")`)},
		{"a renewal needs no replica", tooFew, "redis-renewals-confirmed", mutant.Value(`one("renew", "")`)},
		{"an upgrade needs no replica", tooFew, "redis-upgrades-confirmed", mutant.Value(`one("change", "")`)},
		{"one replica less will do", tooFew, "redis-replicas-suffice", mutant.Cond("err == nil && got < int64(s.replicas)-1")},
		{"a refusal needs replicas", tooFew, "redis-confirms-what-gives", mutant.Return("true || WAS")},
		{"replicas are asked by another connection", "TestAReplicaThatHangsConfirmsNothing", "redis-wait-on-its-connection", mutant.Stmt("to.server.Process(ctx, wait)")},
		{"replicas are waited for longer than the client waits", "TestTheWaitForReplicasEndsBeforeTheClientGivesUp", "redis-wait-bounded", mutant.Value("4 * t")},
		{"a notification tells what no replica may have", "TestANotificationCarriesNoGrantWhereReplicasMustConfirm", "redis-hint-without-grant", mutant.Cond("s.replicas > 1 || s.durable")},
		{"a server that cannot sync is asked all the same", "TestDurableIsRefusedWhereTheServerCannot", "redis-durable-asked-before", mutant.Cond("err != nil && false")},
		{"the disk is not waited for", "TestAnUnsyncedAnswerIsNotReturned", "redis-disk-is-judged", mutant.Cond("false")},
		{"beside replicas the disk is not waited for", besides, "redis-disk-is-judged", mutant.Cond("err == nil && s.durable && s.replicas == 0")},
		{"beside the disk no replica is waited for", besides, "redis-replicas-suffice", mutant.Cond("err == nil && got < int64(s.replicas) && !s.durable")},
		{"a server that is too old for it is ok", "TestTheCheckReportsWhetherAServerCanBeDurable", "redis-durable-needs-more", mutant.Cond("false")},
		{"a durable store is reported as any", "TestTheCheckReportsWhetherAServerCanBeDurable", "redis-durable-is-said", mutant.Cond("false")},
		{"a server without a file is ok for it", "TestTheCheckReportsWhetherAServerCanBeDurable", "redis-durable-without-file", mutant.Line("case false:")},
		{"what is not on disk is reported", "TestAnUnsyncedGrantIsIndeterminate", "redis-not-on-disk", mutant.Line("case len(n) < 0:")},
		{"a mailbox is content with a ping", "TestAMailboxAtACutOffPrimaryIsReopenedAtTheNewOne", "redis-mailbox-at-primary", mutant.Value("sub.Ping(ctx, message.Name())")},
		{"what scripts may not is said by older servers alone", "TestEachListedRightIsNeeded/Redis_8", "redis-denied-texts",
			mutant.Return(`has(text, "NOPERM", "No permissions", "The user executing the script")`)},
		{"an idle name is kept for a day", kept, "redis-name-remembered", mutant.Value("store.TokenRetention + max(c.TTL+c.LockDelay, c.MinHold) + time.Millisecond")},
		{"nobody looks who has taken over", "TestAClusterFailOverLosesNoReplicatedLease", "redis-fail-over-looked-for", mutant.Delete()},
		{"what is sent together is linked to nobody", "TestPipelinedRequestsAreLinkedToTheirCallers", "redis-joined-in-no-trace", mutant.Line("l.s.exchange(ctx, commands)\n_ = callers")},
		// From here on the mutants are of the scripts.
		{"what is there already is given unwritten", written, "redis-give-writes", mutant.Delete()},
		{"who may not publish cannot lock", "TestWithoutTheRightToPublishEveryPromiseIsKept", "redis-denied-publish", mutant.Line("redis.call('PUBLISH', channel, e.token .. ' ' .. e.id .. ' ' .. KEYS[1])")},
		{"an upgrade that is there is given unwritten", written, "redis-change-gives", mutant.Line("return done('G' .. told(e))")},
		{"a lone hold is not given back to a full server", full, "redis-release-alone", mutant.Line("local answer = redis.call('SET', KEYS[1], head, 'PX', RETENTION)")},
		{"a full server lets others wait", full, "redis-ask-adds", mutant.Line("added = false")},
		{"all tokens are kept for a day", kept, "redis-retention", mutant.Line("local ms = 86400000 + math.ceil(left / 1000)")},
		{"a name is kept as one string", steps, "redis-few", mutant.Line("var usual = shape{fanout: 16, fewest: 1 << 30}")},
		{"a full server lets others wait where a string becomes a hash", full, "redis-grows-refused", mutant.Delete()},
		{"a lone hold is not renewed on a full server", full, "redis-renew-alone", mutant.Line("local answer = redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', RETENTION + math.ceil(left / 1000)))")},
		{"a hash is kept for ever", kept, "redis-hash-kept", mutant.Delete()},
		{"a downgrade lets nobody in", room, "redis-room-freed", mutant.Delete()},
		{"an upgrade that is given up lets nobody in", room, "redis-upgrade-freed", mutant.Line("upgrader = ''")},
		{"who goes lets nobody in", lines, "redis-drop-freed", mutant.Line("wrote = true")},
		{"an upgrade that its hold outlived lets nobody in", room, "redis-void-upgrade", mutant.Line("elseif not room then")},
		{"a tree counts who has left", trees, "redis-tree-counts", mutant.Line("t[j], t[FAN + j], t[2 * FAN + j] = x, 1, a")},
		{"a tree does not grow", trees, "redis-tree-grows", mutant.Delete()},
		{"a claim is behind those behind it", trees, "redis-tree-ahead", mutant.Delete()},
		{"a poll tells the token of a grant to come", room, "redis-poll-token", mutant.Delete()},
		{"a poll tells the newest token as it will be", lines, "redis-poll-newest", mutant.Delete()},
		{"who waits is granted more than a holder counts on", lines, "redis-heeds-holders-limits", mutant.Line("if held + e.weight > e.limit then break end")},
		{"who comes is granted more than a holder counts on", lines, "redis-comes-under-holders-limits", mutant.Line("local room = granted == n and not upgrading() and held + new.weight <= new.limit")},
		{"a lock is one more total of a semaphore", lines, "redis-lock-beside-semaphore", mutant.Delete()},
		{"an upgrade that asks is taken for a broken hold", "TestStore/promise/Upgrade_that_asks_is_not_taken_for_a_broken_hold", "redis-upgrade-asks-as-broken", mutant.Line("local broken = flags % 2 == 1")},
		{"an upgrade asks nobody", asked, "redis-upgrade-asks-unheard", mutant.Delete()},
		{"an upgrade asks itself", asked, "redis-upgrade-asks-itself", mutant.Line("if up and up.why ~= '' then return give('H' .. told(e) .. up.why) end")},
		{"an upgrade notifies itself that it asks", asked, "redis-broken-is-asked", mutant.Line("if h.reason == '' and h.expires > now then wake(h, '0') end")},
		{"a hold that is broken is asked for", lines, "redis-broken-is-asked", mutant.Line("if h.expires > now then wake(h, '0') end")},
		{"each ask asks the holders once more", lines, "redis-asked-once", mutant.Line("new = ARGV[5] ~= ''")},
		{"a tree that grows forgets who asks", trees, "redis-tree-grows-with-who-asks", mutant.Line("t[1], t[FAN + 1] = first, n")},
		{"only the first of many holders are asked", asked, "redis-all-holders-asked", mutant.Line("for k = 1, math.min(granted, 500), 500 do")},
		{"in a tree the last that asks is heard", first, "redis-tree-first-that-asks", mutant.Line("local p = place(asking, 2 * FAN)")},
		{"what is freed blocks", "TestStore/promise/a_hold_broken_now_blocks_nothing", "redis-freed-in-the-way", mutant.Line("if false then")},
		{"what is broken now is dropped", "TestStore/promise/a_renewal_of_a_hold_broken_now_returns_the_reason", "redis-freed-dropped", mutant.Line("drop(e)")},
		{"what is freed is broken again", "TestStore/promise/a_hold_broken_now_is_listed_until_it_is_given_back", "redis-freed-broken-twice", mutant.Line("local its = e and e.granted and ends(e) > now and")},
		{"what is freed is given back as a hold", freed, "redis-freed-given-back", mutant.Line("if false then")},
		{"what is freed is given back as a hold alone", "TestStore/promise/a_hold_broken_now_is_listed_until_it_is_given_back", "redis-freed-released-alone",
			mutant.Line("if #s == 113 + owner + reason and id == ARGV[1] and token == tonumber(ARGV[2]) and since + keep <= now and (flags < 4 or flags == 7) then")},
		{"what is freed never expires", freed, "redis-freed-expires", mutant.Delete()},
		{"what is freed ends with its expiry", "TestAFreedHoldStaysUntilTheRuleEndsIt", "redis-freed-expires", mutant.Line("if e.freed and e.expires <= now then drop(e) end")},
		{"what is freed goes with its hash", freed, "redis-freed-leaves-hash", mutant.Delete()},
		{"what is freed leaves its hash in the order of the breaks", freed, "redis-freed-in-order", mutant.Delete()},
		{"what is freed has one place in a hash", freed, "redis-freed-has-place", mutant.Delete()},
		{"what is freed does not come into a hash", freed, "redis-freed-in-hash", mutant.Line("if false then")},
		{"what is freed stays in its hash", freed, "redis-freed-goes-from-hash", mutant.Line("if #rest > 0 then put('x', table.concat(rest)) end")},
		{"a name is not kept for what is freed", freed, "redis-name-kept-for-what-is-freed", mutant.Line("if e.freed then x = now end")},
		{"a full server loses what is held", full, "redis-full-renews", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "redisstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=8s", "HOLDFAST_TEST_SEED=5")
}

// Each mutant, the sessions with one thing wrong, fails a test.
func TestTheTestsCatchEachMutantOfTheSessions(t *testing.T) {
	t.Parallel()
	const (
		abandoned = "TestAnUnrenewedHoldExpiresWhileItsSessionGoesOn"
		ended     = "TestASessionThatHasEndedIsNotRenewed"
		itself    = "TestAHoldASessionCannotKeepIsRenewedByItself"
		reported  = "TestTheFateOfAHoldInASessionIsInItsNextRenewal"
		outlives  = "TestTheKeyOfANameOutlivesTheSessionOfItsHold"
		replaced  = "TestASessionIsReplacedInTime"
		same      = "TestASessionEqualsRenewalsOfEachHold"
		passing   = "TestSessionsGoOnOnceTheServerTakesWritesAgain/Redis,_"
		forgot    = "/the_server_came_back_with_an_old_file"
		grants    = "TestAForgottenGrantIsLostEvenIfASessionKeptIt" + forgot + ",_in_a_session_of_its_own:_"
		releases  = "TestAForgottenReleaseKeepsNoNameInALiveSession" + forgot
		noHold    = "TestARenewalOfNoHoldKeepsNothingInASession/"
		refused   = "TestWhereSessionsAreRefusedHoldsAreRenewedByThemselves"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a session needs no replica", "TestASessionIsRenewedOnlyIfReplicasHaveIt", "redis-sessions-confirmed", mutant.Value(`one("together", "")`)},
		{"a session goes on without one of its holds", abandoned, "redis-session-whole", mutant.Cond("len(some) > 0")},
		{"a release that was not answered is taken for one", abandoned, "redis-session-left-for-sure", mutant.Cond("true")},
		{"a session that a hold has left goes on", "TestASessionIsReplacedSoonAfterAHoldHasLeftIt", "redis-session-left-goes-on", mutant.Delete()},
		{"a session goes on while holds leave it", "TestASessionIsReplacedSoonAfterAHoldHasLeftIt", "redis-session-left-goes-on", mutant.Value("ss.now().Add(leftFor * in.ttl)")},
		{"what was given back and is there again stays in its session", releases, "redis-session-left-goes-on", mutant.Delete()},
		{"what was forgotten with its session is taken for renewed", grants + "true", "redis-session-gone", mutant.Return("nil")},
		{"what was forgotten with its session is taken for renewed, beside what was not", grants + "false", "redis-session-gone", mutant.Return("nil")},
		{"a renewal of a session does not look for its names", reported + "/the_name_forgotten", "redis-session-names-read", mutant.Line("if not s then return 'H' .. struct.pack('<dddI4I4H', 1, 1, 0, 1, 1, 1) end")},
		{"a session that may keep more is renewed", "TestASessionWithAStrangeAnswerIsNotRenewed", "redis-session-of-a-strange-answer", mutant.Delete()},
		{"what is lost is in no session", "TestASessionThatMayKeepWhatIsLostIsNotRenewed", "redis-session-left-for-sure", mutant.Cond("true")},
		{"a session that has ended is renewed", ended, "redis-session-ended", mutant.Line("if not old or x > latest then return 'L' end")},
		{"a session goes on for ever", replaced, "redis-session-ended", mutant.Line("if not old or old <= now then return 'L' end")},
		{"a session is never replaced", replaced, "redis-session-replaced", mutant.Cond("p.in != nil && p.in.ttl == h.TTL")},
		{"an expiry in a session moves back", "TestNoExpiryInASessionMovesBack", "redis-session-shrinks", mutant.Delete()},
		{"a renewal counts in any session", "TestARenewalCountsOnlyInTheSessionThatTheEntryNames", "redis-session-of-its-own", mutant.Line("if flags ~= 7 then return end")},
		{"what has expired goes into a session", ended, "redis-gathers-what-lives", mutant.Line("if expires > x or delay > LIFE * 1000 then return end")},
		{"an expiry moves back into a session", itself, "redis-gathers-what-lives", mutant.Line("if flags % 2 == 0 or expires <= now or delay > LIFE * 1000 then return end")},
		{"a delay outlives what is kept of its session", itself, "redis-gathers-what-lives", mutant.Line("if flags % 2 == 0 or expires <= now or expires > x then return end")},
		{"a renewal with another token keeps what a session has", noHold + "another_token", "redis-session-of-no-hold", mutant.Cond("p.in != nil && p.name != h.Name")},
		{"a renewal of another name keeps what a session has", noHold + "another_name", "redis-session-of-no-hold", mutant.Cond("p.in != nil && p.token != h.Token")},
		{"a session keeps what is handed to another process", "TestAHoldGoesToAnotherProcessOutOfASession", "redis-session-of-others", mutant.Cond("false")},
		{"a hash has sessions", reported, "redis-hash-without-sessions", mutant.Delete()},
		{"a name does not outlive its session", outlives, "redis-name-kept-for-session", mutant.Line("local ms = RETENTION + math.ceil((math.max(x + delay, since + keep) - now) / 1000)")},
		{"a name that is written does not outlive its session", outlives, "redis-name-outlives-session", mutant.Delete()},
		{"a lock delay is forgotten with its session", "TestALockDelayOutlivesTheLossOfItsSession", "redis-lost-session-covered", mutant.Line("e.covered = math.max((latest or 0) + e.delay, e.since + e.keep)")},
		{"a hold whose session has ended is given back as if it lived", "TestASessionThatMayKeepWhatIsLostIsNotRenewed/released", "redis-release-of-a-session", mutant.Line("expires = now + 1")},
		{"a name is kept for its session though it was given back", "TestANameReleasedFromASessionIsKeptNoLonger", "redis-release-alone", mutant.Line("local answer = redis.pcall('SET', KEYS[1], head, 'KEEPTTL')")},
		{"a session that is gone is taken for renewed", "TestAfterAFailOverThatLostASessionItsHoldsGoOn", "redis-session-gone", mutant.Return("nil")},
		{"an answer that does not come takes all out of their sessions", "TestAConfirmedSessionSurvivesASentinelFailOver", "redis-session-unanswered", mutant.Cond("err != nil && (errors.As(err, &refused) || true)")},
		{"a session takes in what another has", "TestASessionTakesInNothingThatAnotherHas", "redis-session-of-whom", mutant.Line("if #s ~= 113 + owner then return end")},
		{"a session takes in what others wait for", itself, "redis-session-of-whom", mutant.Line("if id ~= its or token ~= first then return end")},
		{"a session goes on without a hold, in a long run", "TestLostAndLateMessagesBreakNoPromiseOfASession", "redis-session-whole", mutant.Cond("len(some) > 0")},
		{"an expiry moves back into a session, in a long run", same, "redis-gathers-what-lives", mutant.Line("if flags % 2 == 0 or expires <= now or delay > LIFE * 1000 then return end")},
		{"what has expired goes into a session, in a long run", same, "redis-gathers-what-lives", mutant.Line("if expires > x or delay > LIFE * 1000 then return end")},
		{"a session takes in what another has, in a long run", "TestAServerThatForgotKeepsWhatItPromisesFromThenOn", "redis-session-of-whom", mutant.Line("if #s ~= 113 + owner then return end")},
		{"what was given back and is there again stays in its session, in a long run", "TestAServerThatForgotKeepsWhatItPromisesFromThenOn", "redis-session-left-goes-on", mutant.Delete()},
		{"a session that is gone is taken for renewed, in a long run", "TestAServerThatForgotKeepsWhatItPromisesFromThenOn", "redis-session-gone", mutant.Return("nil")},
		{"a renewal of a session does not look for its names, in a long run", "TestAServerThatForgotKeepsWhatItPromisesFromThenOn", "redis-session-names-read", mutant.Line("if not s then return 'H' .. struct.pack('<dddI4I4H', 1, 1, 0, 1, 1, 1) end")},
		{"a session that has ended is renewed, in a long run", same, "redis-session-ended", mutant.Line("if not old or x > latest then return 'L' end")},
		{"scripts name sessions that others may not read", refused + "/scripts_may_read_no_session_of_others", "redis-session-readable", mutant.Delete()},
		{"a session that may not be read has ended", "TestAUserOfSomeNamesNeedsToReadForeignSessions", "redis-session-unreadable",
			mutant.Line("return lasts(redis.pcall('MGET', string.match(KEYS[#KEYS], '^[^{]*') .. string.format('session:%08x%08x', a, b))[1])")},
		{"a session that was refused is tried each time", refused + "/names_alone_may_be_read", "redis-session-refused", mutant.Delete()},
		{"a refusal for now turns sessions off", passing + "it_is_full", "redis-session-refused-for-good", mutant.Cond("r.begins")},
		{"a refusal for now takes all out of their sessions", passing + "too_few_replicas", "redis-refusals-that-pass", mutant.Return("false")},
		{"what a session cannot keep is tried each time", itself, "redis-session-tried-again", mutant.Cond("false")},
		{"a cluster has sessions", "TestOnAClusterNoSessionIsTried", "redis-session-on-cluster", mutant.Line("s.hasSessions = true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "redisstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	// The long runs use one fixed seed: some other seeds do not reach a few of these mutants.
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=8s", "HOLDFAST_TEST_SEED=5")
}
