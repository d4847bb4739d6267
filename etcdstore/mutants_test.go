package etcdstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A backend with one of its rules broken fails a test.
func TestTheTestsCatchEachMutantOfEtcd(t *testing.T) {
	t.Parallel()
	testserver.SharedEtcd(t) // the tests under mutation use it, too
	const (
		promises = "TestBackend"
		few      = "TestANameThatIsJoinedOverAndOverHasFewKeys"
		slot     = "TestASlotOfAnUnansweredJoinIsNotReused"
		lost     = "TestAVersionFromBeforeALossOfAllDataIsInvalid"
		unheard  = "TestAnAskAtAClosedPortSaysSo"
		arrives  = "TestFaults/fault/an_ask_that_arrives_late_goes_beside_another_claim_of_its_process"
		session  = "TestFaults/fault/an_ask_that_was_not_answered_is_granted_in_the_session_it_was_sent_in"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a member that hides its status is down", "TestAMemberThatHidesItsStatusIsNotDown", "etcd-status-denied", mutant.Cond("false")},
		{"a version that loses leases is ok", "TestAVersionThatLosesLeasesIsWarnedOf", "etcd-fault-is-warned-of", mutant.Delete()},
		{"a swap depends on no version", promises, "etcd-swap-depends", mutant.Value("[]clientv3.Cmp{b.isBase(base)}")},
		{"a swap depends on no base", lost, "etcd-swap-depends", mutant.Value(`[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", rev)}`)},
		{"a version of data that was lost is one", lost, "etcd-version-of-lost-data", mutant.Cond("WAS && false")},
		{"a note is taken in that has gone", promises, "etcd-note-is-there", mutant.Stmt("_ = rev")},
		{"a note stays when it was taken in", promises, "etcd-note-goes", mutant.Delete()},
		{"a lease that is gone is used on", "TestALeaseThatIsGoneCostsOneRefusal", "etcd-lease-gone", mutant.Delete()},
		{"who does not fit into a transaction is not notified", promises, "etcd-more-letters", mutant.Cond("WAS && false")},
		{"two notes have one slot", promises, "etcd-slot-is-taken", mutant.Cond("is && false")},
		{"a slot is free before the join was answered", slot, "etcd-slot-pending", mutant.Value("pending + 1")},
		{"a slot is never used again", few, "etcd-slot-used-again", mutant.Delete()},
		{"the slots of an ended session stay", "TestTheSlotsOfASessionThatHasEndedAreForgotten", "etcd-slots-of-ended-session", mutant.Stmt("_ = name")},
		{"an observer is not notified", promises, "etcd-observer-not-told", mutant.Delete()},
		{"a Listen that failed goes on", promises, "etcd-failed-listen-goes-on", mutant.Stmt("_ = stop")},
		{"a call voids no join", promises, "etcd-join-uncalled", mutant.Value(`clientv3.Compare(clientv3.Version(b.sessionKey(s.Join.Session)), ">", 0)`)},
		{"an inbox is cut within a join", promises, "etcd-inbox-cut-in-a-join", mutant.Cond("read.More && false")},
		{"notes of one join are in any order", promises, "etcd-inbox-order", mutant.Return("cmp.Or(cmp.Compare(x.ModRevision, y.ModRevision), strings.Compare(string(y.Value), string(x.Value)))")},
		{"another TTL than asked for is taken", "TestATTLThatTheServerDoesNotGrantIsAnErrorThatSaysSo", "etcd-another-ttl-asked-taken", mutant.Cond("WAS && false")},
		{"a session without its key is renewed", "TestAWipeIsReportedAndTokensStillGrow", "etcd-renewed-without-key", mutant.Cond("kept <= 0 || len(r.Kvs) == 0 && false")},
		{"a renewal waits for one member", "TestARenewalGoesToAnotherMemberWhereOneDoesNotAnswer", "etcd-renewed-elsewhere", mutant.Delete()},
		{"a session without its key goes on", promises, "etcd-left-without-key", mutant.Cond("WAS || true")},
		{"an end before the watch is not noticed", promises, "etcd-ended-before-the-watch", mutant.Cond("WAS && false")},
		{"nobody looks once the watch is there again", "TestAWaiterSurvivesCompactionAndALostWatch", "etcd-nobody-looks-once-watch", mutant.Delete()},
		{"an ask waits though no member can be connected to", unheard, "etcd-unreachable", mutant.Cond("WAS && false")},
		{"a host that is not there has no name", "TestAnUnknownHostIsNamed", "etcd-host-that-is-not-there", mutant.Return(`&dialError{text, &net.DNSError{Err: "no such host", IsNotFound: true}}`)},
		{"why no member can be connected to is text alone", unheard, "etcd-dial-cause", mutant.Return("&dialError{text, errors.New(cause.Error())}")},
		{"a late swap is left", arrives, "record-late-swap-is-left", mutant.Value("false")},
		{"a late join is left", arrives, "record-late-join-is-called", mutant.Cond("WAS && false")},
		{"a grant counts from another session", session, "record-grant-counts-from-another-session", mutant.Value("s.sessions.Begun(c.TTL)")},
		{"a login waits though no member can be connected to", "TestALoginAtAClosedPortSaysSo", "etcd-login-soon", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "etcdstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
