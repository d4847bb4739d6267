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
		rights    = "TestTheRightsOfItsPathSuffice"
	)
	var all []mutant.Broken
	for _, m := range []struct{ name, test, file, old, new string }{
		{"the whole timeout counts", granted, "session.go", "return timeout * 3 / 4", "return timeout"},
		{"what the server grants is not read", granted, "session.go", "sess.grants = sess.wire.timeout()", "sess.grants = asks(sess.ttl)"},
		{"the whole TTL is asked for", granted, "session.go", "s.connect(asks(sess.ttl),", "s.connect(sess.ttl,"},
		{"less is asked for where ticks are short", granted, "session.go", "min(max(ttl/2-time.Second, 0), time.Second)", "time.Second/2"},
		{"a session longer than was asked for is none", atDefault, "session.go", "case sess.grants > sess.ttl:", "case sess.grants > asks(sess.ttl):"},
		{"a session is proved by a read", "TestASessionIsProvedByAWrite", "session.go", "_, err := sess.conn.Set(sess.node, nil, -1)", "_, _, err := sess.conn.Exists(sess.node)"},
		{"what was not given back for sure is left", "TestAReleaseThatWasNotAnsweredIsDoneAllTheSame", "release.go", "\t\tm.left = true\n\t\ts.dropSoon(m)\n", ""},
		{"a session goes on after a lost ask", lostAsk, "late.go", "if !m.unclear || m.sess == nil {", "if true {"},
		{"a session without claims goes on", lostAsk, "session.go", "case sess.dead || s.retired[sess] && sess.keeps == 0:", "case sess.dead:"},
		{"a number at the end of the counter is good", counter, "counter.go", "return uint32(seq) >= mostCounted", "return seq < 0"},
		{"a name that is in use is counted anew", "TestANameIsRefusedBeforeItsCounterIsAtItsEnd", "counter.go", "errors.Is(err, zk.ErrNoNode):\n\t\treturn nil", "errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNotEmpty):\n\t\treturn nil"},
		{"nobody searches for late asks", "TestALateAskIsTakenOutBesideAnotherClaim", "session.go", "if len(sess.late) > 0 && !sess.searches && at(sess.search) {", "if false {"},
		{"numbers never begin again", "TestANameIsRefusedBeforeItsCounterIsAtItsEnd", "counter.go", "sess.conn.Delete(dir, -1)", "zk.ErrNotEmpty"},
		{"those in together share a token", readers, "ask.go", "token = v.rev*maxBlock + rank + 1", "token = v.rev*maxBlock + 0*rank + 1"},
		{"a transaction has tokens for all", readers, "ask.go", "case rank+1 < maxBlock:", "case true:"},
		{"the token is that of the entry", tidied, "ask.go", "case r.asked == r.limit, v.rev == m.created:\n\t\ttoken = v.rev * maxBlock", "case r.asked == r.limit, v.rev == m.created:\n\t\ttoken = int64(r.seq+1) * maxBlock"},
		{"the node of a name stays", tidied, "ask.go", "s.makePath(sess.conn, dir, zk.FlagContainer)", "s.makePath(sess.conn, dir, zk.FlagPersistent)"},
		{"all is watched", "TestAWaiterWatchesOnlyTheEntryInItsWay", "watch.go", "b != nil && !r.granted {", "b != nil && false {"},
		{"a member that falls silent is waited for", "TestASilentMemberIsLeftBeforeTheHoldIsOver", "session.go", "\t\t\t\tsess.wire.drop()\n", ""},
		{"an answer comes before what is watched is told", "TestNoAnswerIsReadBeforeItIsToldWhatIsWatched", "conn.go", "if c.hold && c.frames.n > len(c.w.s.o.Auth) {", "if false {"},
		{"anybody may read", rights, "zkstore.go", "s.o.ACL = zk.AuthACL(zk.PermAll)", "_ = zk.AuthACL"},
		{"nobody is told who we are", rights, "session.go", "for _, a := range s.o.Auth {", "for _, a := range s.o.Auth[:0] {"},
		{"two names have one node", "TestNoTwoNamesHaveTheSameNode", "form.go", `fmt.Fprintf(&b, "%%%02X", c)`, `fmt.Fprintf(&b, "%%%X", c)`},
		{"what is foreign is passed over", "TestForeignAndNewerNodesAreLeftAlone", "form.go", "case err != nil:\n\t\t\treturn nil, err\n", "case err != nil:\n"},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "zkstore", Test: m.test, Edits: []mutant.Edit{{File: "zkstore/" + m.file, Old: m.old, New: m.new}}})
	}
	all = append(all, mutant.Broken{Name: "a member that hangs is waited for", Pkg: "zkstore", Test: "TestAMemberThatHangsIsPassedOver", Edits: []mutant.Edit{
		{File: "zkstore/conn.go", Old: "c.n == 0 && (", New: "c.n < 0 && ("},
		{File: "zkstore/session.go", Old: "\t\t\t\tsess.wire.drop()\n"},
	}})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
