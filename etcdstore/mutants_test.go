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

		unheard = "TestAnAskWhereNobodyListensSaysSo"
		faults  = "TestFaults"
		adopted = "TestALateAskDoesNoHarmToWhoAdoptedItsHold"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"two claims have one key", few, "etcd-two-claims-key", mutant.Value("some")},
		{"each claim has a key of its own for ever", few, "etcd-each-claim-key-own", mutant.Cond("true")},
		{"a key is used again that a deletion may come for", spare, "etcd-key-used-again-deletion", mutant.Cond("m.unclear || m.keep > 0 || s.spares.n >= mostSpares")},
		{"a key is used again beside a minimum hold", "TestAKeyWithAMinimumHoldIsNotUsedAgain", "etcd-key-used-again-deletion", mutant.Cond("m.unclear || m.late ||  s.spares.n >= mostSpares")},
		{"another process deletes what it has not seen", "TestAnotherProcessDeletesNoLaterClaimOfTheSameKey", "etcd-another-process-deletes-seen", mutant.Value(`s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(r.key), ">", 0)).Then(ops...).Commit()`)},
		{"the token is of the entry's creation", order, "etcd-token-entry-creation", mutant.Value("v.base + r.created*maxBlock")},
		{"no floor", "TestTokensGoOnUpwardsOnAServerWithNoData", "etcd-no-floor", mutant.Value(`fmt.Sprintf("%d:%d", version, min(0, time.Now().UnixMicro()-got.Header.Revision*maxBlock))`)},
		{"the floor is the time, and the revision comes on top", "TestTokensBeginWithTheTime", "etcd-no-floor", mutant.Value(`fmt.Sprintf("%d:%d", version, max(0, time.Now().UnixMicro()))`)},
		{"a floor that was deleted counts on", "TestAWipeIsToldAndTokensGoOn", "etcd-floor-deleted-counts", mutant.Delete()},
		{"nobody looks once the watch is there", "TestAWaiterSurvivesCompactionAndALostWatch", "etcd-nobody-looks-once-watch", mutant.Stmt("var opts []clientv3.OpOption")},
		{"a session counts from the answer", from, "etcd-session-counts-answer", mutant.Value("max(sent, store.Now()), 0")},
		{"a new session counts from the answer", from, "etcd-new-session-counts-answer", mutant.Value("lease, max(sent, store.Now())")},
		{"another TTL than asked for is taken", "TestATTLThatTheServerDoesNotGrantIsAnErrorThatSaysSo", "etcd-another-ttl-asked-taken", mutant.Cond("WAS && false")},
		{"what may slip in late is kept alive", "TestWhatSlipsInBehindItsWithdrawalIsGoneAgain", "etcd-may-slip-late-kept", mutant.Cond("true")},
		{"an unanswered ask is repeated in another session", faults, "etcd-unanswered-ask-repeated-another", mutant.Cond("unclear && false")},
		{"nobody searches for late asks", faults, "etcd-nobody-searches-late-asks", mutant.Cond("false")},
		{"a search takes whatever has the key", adopted, "etcd-search-takes-whatever-key", mutant.Cond("err != nil ||  r.lease != int64(sess.lease)")},
		{"a key that a late ask may take is used again", adopted, "etcd-key-late-ask-may", mutant.Value("n.late && m != nil")},
		{"what was lost is not searched for", "TestALateAskOfALostHoldIsTakenOut", "etcd-lost-searched", mutant.Cond("false")},
		{"a withdrawal is tried once", "TestAWithdrawalThatIsNotAnsweredIsDoneAgain", "etcd-withdrawal-tried-once", mutant.Stmt("m.drop = false")},
		{"what was not given back for sure is left", "TestAReleaseThatIsNotAnsweredIsDoneAgain", "etcd-given-back-sure-left", mutant.Stmt("if err != nil {\ns.mu.Lock()\ndefer s.mu.Unlock()\nreturn err\n\t}")},
		{"a release cannot be asked for again", "TestAReleaseThatIsNotAnsweredIsDoneAgain", "etcd-release-cannot-asked-again", mutant.Cond("state == gone && (!left || true) || token != h.Token")},
		{"what was lost while it was asked for is asked for in the next session", "TestAnAskWhoseSessionEndedMeanwhileLeavesNothing", "etcd-lost-asked-in-next", mutant.Cond("false")},
		{"what was lost while its place was looked at waits on", "TestAWaiterWhoseSessionEndedMeanwhileIsLost", "etcd-lost-waits-on", mutant.Cond("false")},
		{"an ask waits though no member can be connected to", unheard, "etcd-unreachable", mutant.Cond("WAS && false")},
		{"why no member can be connected to is text alone", unheard, "etcd-dial-cause", mutant.Return("&dialError{text, errors.New(cause.Error())}")},
		{"a login waits though no member can be connected to", "TestALoginWhereNobodyListensSaysSo", "etcd-login-soon", mutant.Delete()},
		{"a try puts its key first", "TestARefusedTryWritesNothing", "etcd-try-puts-key-first", mutant.Value("true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "etcdstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
