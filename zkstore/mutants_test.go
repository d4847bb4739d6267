package zkstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The store with one thing wrong that is ZooKeeper's alone fails a test. What the rule
// itself is comes out in storetest.
func TestTheTestsCatchEachMutantOfZooKeeper(t *testing.T) {
	t.Parallel()
	testserver.SharedZooKeeper(t) // and theirs
	const (
		counter   = "TestNoTwoHoldANameWhoseCounterIsAtItsEnd"
		granted   = "TestATTLThatTheServerDoesNotGrantIsAnErrorThatSaysSo"
		atDefault = "TestACrashedHolderIsGoneWithinTheTTLAndASecond"
		readers   = "TestMoreReadersThanATransactionHasTokensFor"
		tidied    = "TestANodeOfANameIsTidiedUpAndMadeAgain"
		lostAsk   = "TestASessionInWhichAnAskWasLostEndsWithWhatItHas"
		repeated  = "TestAnAskThatIsRepeatedLeavesNoNode"
		rights    = "TestTheRightsOfItsPathSuffice"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"the whole timeout counts", granted, "zk-timeout-that-counts", mutant.Return("timeout")},
		{"what the server grants is not read", granted, "zk-session-grants", mutant.Value("asks(sess.ttl)")},
		{"the whole TTL is asked for", granted, "zk-timeout-asked-for", mutant.Expr("sess.ttl")},
		{"less is asked for where ticks are short", granted, "zk-less-asked-than-ttl", mutant.Return("wholeMS(ttl - time.Second/2)")},
		{"a session longer than was asked for is none", atDefault, "zk-session-too-long", mutant.Cond("sess.grants > asks(sess.ttl)")},
		{"a session is proved by a read", "TestASessionIsProvedByAWrite", "zk-renewal-writes", mutant.Stmt("_, _, err := sess.conn.Exists(sess.node)")},
		{"what was not given back for sure is left", "TestAReleaseThatWasNotAnsweredIsDoneAllTheSame", "zk-release-unanswered", mutant.First("return err")},
		{"a session goes on after a lost ask", lostAsk, "zk-late-ask-retires-session", mutant.Cond("true")},
		{"a session without claims goes on", lostAsk, "zk-retired-session-ends", mutant.Cond("sess.dead")},
		{"a number at the end of the counter is good", counter, "zk-counter-used-up", mutant.Return("seq < 0")},
		{"a name that is in use is counted anew", "TestANameIsRefusedBeforeItsCounterIsAtItsEnd", "zk-name-not-empty", mutant.Cond("WAS, errors.Is(err, zk.ErrNotEmpty)")},
		{"what was lost while it was asked for is asked for in the next session", "TestALostClaimIsNotAskedForInTheNextSession", "zk-lost-asked-in-next", mutant.Value("m.state == gone && false")},
		{"what was lost while its place was looked at waits on", "TestAWaiterWhoseSessionEndedMeanwhileIsLost", "zk-lost-waits-on", mutant.Cond("false")},
		{"nobody searches for late asks", "TestALateAskIsTakenOutBesideAnotherClaim", "zk-late-asks-searched", mutant.Cond("false")},
		{"an ask that is repeated makes another node", repeated, "zk-node-made-once", mutant.Value("false")},
		{"a try that is refused when it is repeated has a place", repeated, "zk-refused-try-goes", mutant.Cond("true")},
		{"numbers never begin again", "TestANameIsRefusedBeforeItsCounterIsAtItsEnd", "zk-counter-starts-again", mutant.Return("zk.ErrNotEmpty")},
		{"those in together share a token", readers, "zk-token-of-rank", mutant.Value("v.rev*maxBlock + 0*rank + 1")},
		{"a transaction has tokens for all", readers, "zk-tokens-of-a-transaction", mutant.Cond("true")},
		{"the token is that of the entry", tidied, "zk-token-of-look", mutant.Value("int64(r.seq+1) * maxBlock")},
		{"the node of a name stays", tidied, "zk-name-is-container", mutant.Value("s.makePath(sess.conn, dir, zk.FlagPersistent)")},
		{"all is watched", "TestAWaiterWatchesOnlyTheEntryInItsWay", "zk-watch-obstacle", mutant.Cond("b != nil && false")},
		{"a member that falls silent is waited for", "TestASilentMemberIsLeftBeforeTheHoldIsOver", "zk-silent-member-dropped", mutant.Delete()},
		{"a new connection wakes nobody", "TestAnEventWakesWhoExpectsIt", "zk-new-connection-wakes", mutant.Cond("false")},
		{"what is read is not watched", "TestAWaiterWatchesOnlyTheEntryInItsWay", "zk-read-watches", mutant.Value("w.asked[what] > 9")},
		{"anybody may read", rights, "zk-nodes-ours-alone", mutant.Stmt("_ = zk.AuthACL")},
		{"nobody is told who we are", rights, "zk-session-authenticates", mutant.Value("s.o.Auth[:0]")},
		{"two names have one node", "TestNoTwoNamesHaveTheSameNode", "zk-escape-two-digits", mutant.Stmt(`fmt.Fprintf(&b, "%%%X", c)`)},
		{"what is foreign is passed over", "TestForeignAndNewerNodesAreLeftAlone", "zk-foreign-entry-refused", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "zkstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	all = append(all, mutant.Broken{Name: "a member that hangs is waited for", Pkg: "zkstore", Test: "TestAMemberThatHangsIsPassedOver", Edits: []mutant.Edit{
		mutant.At("zk-greeting-bounded", mutant.Cond("c.n < 0 && (t.IsZero() || t.After(latest))")),
		mutant.At("zk-silent-member-dropped", mutant.Delete()),
	}})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
