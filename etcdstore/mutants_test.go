package etcdstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The store with one of the recipe's rules broken fails a test.
func TestTheTestsCatchEachMutantOfEtcd(t *testing.T) {
	t.Parallel()
	const (
		spare = "TestAKeyThatMayYetBeDeletedIsNotUsedAgain"
		few   = "TestANameThatIsLockedOverAndOverHasFewKeys"
		from  = "TestASessionCountsFromTheSendingOfItsRenewal"
		order = "TestTheTokenIsOfTheLookThatShowedTheGrant"

		faults  = "TestFaults"
		adopted = "TestALateAskDoesNoHarmToWhoAdoptedItsHold"
	)
	var all []mutant.Broken
	for _, m := range []struct{ name, test, file, old, new string }{
		{"two claims have one key", few, "spare.go", "s.spares.of[kind] = some[:len(some)-1];", "s.spares.of[kind] = some;"},
		{"each claim has a key of its own for ever", few, "spare.go", "if len(some) == 0 {", "if true {"},
		{"a key is used again that a deletion may come for", spare, "spare.go", "m.unclear || m.late ||", "m.unclear ||"},
		{"a key is used again beside a minimum hold", "TestAKeyWithAMinimumHoldIsNotUsedAgain", "spare.go", "m.keep > 0 ||", ""},
		{"another process deletes what it has not seen", "TestAnotherProcessDeletesNoLaterClaimOfTheSameKey", "release.go",
			"clientv3.Compare(clientv3.CreateRevision(r.key), \"=\", r.created)", "clientv3.Compare(clientv3.CreateRevision(r.key), \">\", 0)"},
		{"the token is of the entry's creation", order, "ask.go", "r.asked == r.limit:\n\t\ttoken = v.base + v.rev*maxBlock", "r.asked == r.limit:\n\t\ttoken = v.base + r.created*maxBlock"},
		{"no floor", "TestTokensGoOnUpwardsOnAServerWithNoData", "ask.go", "max(0, time.Now().UnixMicro()-got", "min(0, time.Now().UnixMicro()-got"},
		{"the floor is the time, and the revision comes on top", "TestTokensBeginWithTheTime", "ask.go", "time.Now().UnixMicro()-got.Header.Revision*maxBlock)", "time.Now().UnixMicro())"},
		{"a floor that was deleted counts on", "TestAWipeIsToldAndTokensGoOn", "ask.go", "\t\t\ts.rebase(f)\n", ""},
		{"nobody looks once the watch is there", "TestAWaiterSurvivesCompactionAndALostWatch", "watch.go", "opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}", "var opts []clientv3.OpOption"},
		{"a session counts from the answer", from, "session.go", "sess.renewed, sess.failed = sent, 0", "sess.renewed, sess.failed = max(sent, store.Now()), 0"},
		{"a new session counts from the answer", from, "session.go", "sess.lease, sess.renewed = lease, sent", "sess.lease, sess.renewed = lease, max(sent, store.Now())"},
		{"another TTL than asked for is taken", "TestATTLThatTheServerDoesNotGrantIsAnErrorThatSaysSo", "session.go", "granted != ttl {", "granted != ttl && false {"},
		{"what may slip in late is kept alive", "TestWhatSlipsInBehindItsWithdrawalIsGoneAgain", "late.go", "if !m.unclear || m.sess == nil {", "if true {"},
		{"an unanswered ask is repeated in another session", faults, "ask.go", "if unclear && sess != nil {", "if unclear && false {"},
		{"nobody searches for late asks", faults, "session.go", "if len(sess.late) > 0 && !sess.searches && at(sess.search) {", "if false {"},
		{"a search takes whatever has the key", adopted, "late.go", "r.id != l.id ||", ""},
		{"a key that a late ask may take is used again", adopted, "renew.go", "n.late = n.late || m != nil && m.unclear", "n.late = n.late && m != nil"},
		{"what was lost is not searched for", "TestALateAskOfALostHoldIsTakenOut", "mine.go", "if m.unclear { // an ask", "if false { // an ask"},
		{"a withdrawal is tried once", "TestAWithdrawalThatIsNotAnsweredIsDoneAgain", "release.go", "m.drop, m.ends = true, store.Now().Add(time.Second)", "m.drop = false"},
		{"what was not given back for sure is left", "TestAReleaseThatIsNotAnsweredIsDoneAgain", "release.go", "\t\tm.left = true\n\t\ts.dropSoon(m)\n", ""},
		{"a release cannot be asked for again", "TestAReleaseThatIsNotAnsweredIsDoneAgain", "release.go", "state == gone && !left", "state == gone && (!left || true)"},
		{"a try puts its key first", "TestARefusedTryWritesNothing", "ask.go", "sure := !c.Try || i >= attempts", "sure := true"},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "etcdstore", Test: m.test, Edits: []mutant.Edit{{File: "etcdstore/" + m.file, Old: m.old, New: m.new}}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
