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
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a new grant needs no replica", tooFew, "redis-grants-confirmed", mutant.Value(`one("ask", "G")`)},
		{"a repeated grant needs no replica", tooFew, "redis-grants-confirmed", mutant.Value(`one("ask", "0123456789")`)},
		{"a renewal needs no replica", tooFew, "redis-renewals-confirmed", mutant.Value(`one("renew", "")`)},
		{"an upgrade needs no replica", tooFew, "redis-upgrades-confirmed", mutant.Value(`one("change", "")`)},
		{"one replica less will do", tooFew, "redis-replicas-suffice", mutant.Cond("err == nil && got < int64(s.replicas)-1")},
		{"a refusal needs replicas", tooFew, "redis-confirms-what-gives", mutant.Return("true || WAS")},
		{"replicas are asked by another connection", "TestAReplicaThatHangsConfirmsNothing", "redis-wait-on-its-connection", mutant.Stmt("to.server.Process(ctx, wait)")},
		{"replicas are waited for longer than the client waits", "TestTheWaitForReplicasEndsBeforeTheClientGivesUp", "redis-wait-bounded", mutant.Value("4 * t")},
		{"a hint tells what no replica may have", "TestAHintCarriesNoGrantWhereReplicasMustConfirm", "redis-hint-without-grant", mutant.Cond("s.replicas > 1")},
		{"a mailbox is content with a ping", "TestAMailboxAtAPrimaryThatWasCutOffIsOpenedAtTheNewOne", "redis-mailbox-at-primary", mutant.Value("sub.Ping(ctx, message.Name())")},
		{"what scripts may not is said by older servers alone", "TestEachListedRightIsNeeded/Redis_8", "redis-denied-texts",
			mutant.Cond(`has("NOPERM", "NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH ", "No permissions", "The user executing the script")`)},
		{"an idle name is kept for a day", "TestANameIsRememberedForAsLongAsSaidAfterItsLastEntry", "redis-name-remembered", mutant.Value("store.TokenRetention + max(c.TTL+c.Delay, c.Keep) + time.Millisecond")},
		{"nobody looks who has taken over", "TestAFailOverOfAClusterServerLosesNoLeaseThatItsReplicaHasHeardOf", "redis-fail-over-looked-for", mutant.Delete()},
		// Of the scripts.
		{"what is there already is given unwritten", written, "redis-give-writes", mutant.Delete()},
		{"an upgrade that is there is given unwritten", written, "redis-change-gives", mutant.Line("return done('G' .. told(e))")},
		{"a lone hold is not given back to a full server", full, "redis-release-alone", mutant.Line("local answer = redis.call('SET', KEYS[1], head, 'KEEPTTL')")},
		{"a full server lets others wait", full, "redis-ask-adds", mutant.Line("wrote = true")},
		{"all tokens are kept for a day", "TestANameIsRememberedForAsLongAsSaidAfterItsLastEntry", "redis-retention", mutant.Line("local ms = 86400000 + math.ceil(left / 1000)")},
		{"a full server loses what is held", full, "redis-full-renews", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "redisstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=8s")
}
