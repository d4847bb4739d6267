package redisstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The store with one thing wrong that only replicas, clusters and fail-overs
// show fails a test. What the rule itself is comes out in storetest.
func TestTheTestsCatchEachMutantOfTheFleet(t *testing.T) {
	t.Parallel()
	const (
		tooFew  = "TestNothingIsToldAsOursThatTooFewReplicasConfirm"
		written = "TestEachAnswerThatGivesSomethingIsWrittenForIt"
		full    = "TestOnAFullServerLeasesAreRenewedAndGivenBack/Redis"
		trees   = "TestDifferential/{2_1}"
		lines   = "TestDifferential/{16_12}"
		room    = "TestRoomThatComesWithoutAnEndIsGiven"
		kept    = "TestANameIsRememberedForAsLongAsSaidAfterItsLastEntry"
		first   = "TestAmongManyTheFirstThatAsksIsHeard"
		asked   = "TestEachOfManyHoldersIsAsked"
		steps   = "TestNoOperationCostsMoreBecauseMoreAreWaiting"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a full disk is as good", "TestDangersOfPersistenceAreFound", "redis-disk-full", mutant.Cond("false")},
		{"a snapshot that failed is as good", "TestDangersOfPersistenceAreFound", "redis-disk-full-snapshot", mutant.Cond("false")},
		{"a primary that comes back empty is ok", "TestDangersOfPersistenceAreFound", "redis-empty-primary", mutant.Cond("false")},
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
		{"what is not on disk is told", "TestWhatIsNotOnDiskIsIndeterminate", "redis-not-on-disk", mutant.Line("case len(n) < 0:")},
		{"a mailbox is content with a ping", "TestAMailboxAtAPrimaryThatWasCutOffIsOpenedAtTheNewOne", "redis-mailbox-at-primary", mutant.Value("sub.Ping(ctx, message.Name())")},
		{"what scripts may not is said by older servers alone", "TestEachListedRightIsNeeded/Redis_8", "redis-denied-texts",
			mutant.Cond(`has("NOPERM", "NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH ", "No permissions", "The user executing the script")`)},
		{"an idle name is kept for a day", kept, "redis-name-remembered", mutant.Value("store.TokenRetention + max(c.TTL+c.LockDelay, c.MinHold) + time.Millisecond")},
		{"nobody looks who has taken over", "TestAFailOverOfAClusterServerLosesNoLeaseThatItsReplicaHasHeardOf", "redis-fail-over-looked-for", mutant.Delete()},
		{"what is sent together is linked to nobody", "TestWhatIsSentTogetherIsLinkedToItsCallers", "redis-joined-in-no-trace", mutant.Line("l.s.exchange(ctx, commands)\n_ = callers")},
		// Of the scripts.
		{"what is there already is given unwritten", written, "redis-give-writes", mutant.Delete()},
		{"an upgrade that is there is given unwritten", written, "redis-change-gives", mutant.Line("return done('G' .. told(e))")},
		{"a lone hold is not given back to a full server", full, "redis-release-alone", mutant.Line("local answer = redis.call('SET', KEYS[1], head, 'KEEPTTL')")},
		{"a full server lets others wait", full, "redis-ask-adds", mutant.Line("added = false")},
		{"all tokens are kept for a day", kept, "redis-retention", mutant.Line("local ms = 86400000 + math.ceil(left / 1000)")},
		{"a name is kept as one string", steps, "redis-few", mutant.Line("var usual = shape{fanout: 16, fewest: 1 << 30}")},
		{"a full server lets others wait where a string becomes a hash", full, "redis-grows-refused", mutant.Delete()},
		{"a lone hold is not renewed on a full server", full, "redis-renew-alone", mutant.Line("local answer = redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', RETENTION + math.ceil(left / 1000)))")},
		{"a hash is kept for ever", kept, "redis-hash-kept", mutant.Delete()},
		{"a downgrade lets nobody in", room, "redis-room-freed", mutant.Delete()},
		{"an upgrade that is given up lets nobody in", room, "redis-upgrade-freed", mutant.Line("upgrader = ''")},
		{"who goes lets nobody in", lines, "redis-drop-freed", mutant.Line("wrote = true")},
		{"an upgrade that its hold outlived lets nobody in", room, "redis-void-upgrade", mutant.Line("elseif not freed then")},
		{"a tree counts who has left", trees, "redis-tree-counts", mutant.Line("t[j], t[FAN + j], t[2 * FAN + j] = x, 1, a")},
		{"a tree does not grow", trees, "redis-tree-grows", mutant.Delete()},
		{"a claim is behind those behind it", trees, "redis-tree-ahead", mutant.Delete()},
		{"a poll tells the token of a grant to come", room, "redis-poll-token", mutant.Delete()},
		{"a poll tells the newest token as it will be", lines, "redis-poll-newest", mutant.Delete()},
		{"who waits is granted more than a holder counts on", lines, "redis-heeds-holders-limits", mutant.Line("if held + e.weight > e.limit then break end")},
		{"who comes is granted more than a holder counts on", lines, "redis-comes-under-holders-limits", mutant.Line("local room = granted == n and not upgrading() and held + new.weight <= new.limit")},
		{"a lock is one more total of a semaphore", lines, "redis-lock-beside-semaphore", mutant.Delete()},
		{"a hold that is broken is asked for", lines, "redis-broken-is-asked", mutant.Line("if h.expires > now then wake(h, '0') end")},
		{"each ask asks the holders once more", lines, "redis-asked-once", mutant.Line("new = ARGV[5] ~= ''")},
		{"a tree that grows forgets who asks", trees, "redis-tree-grows-with-who-asks", mutant.Line("t[1], t[FAN + 1] = first, n")},
		{"only the first of many holders are asked", asked, "redis-all-holders-asked", mutant.Line("for k = 1, math.min(granted, 500), 500 do")},
		{"in a tree the last that asks is heard", first, "redis-tree-first-that-asks", mutant.Line("local p = place(asking, 2 * FAN)")},
		{"a full server loses what is held", full, "redis-full-renews", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "redisstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=8s")
}
