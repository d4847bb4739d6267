package natsstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The store with one thing wrong fails a test. What the rule itself is comes out in
// storetest.
func TestTheTestsCatchEachMutantOfTheRecipe(t *testing.T) {
	t.Parallel()
	testserver.SharedNATS(t) // and theirs
	const (
		ops, session, bucket, record = "natsstore/ops.go", "natsstore/session.go", "natsstore/bucket.go", "natsstore/record.go"
		mine, hint, sweep            = "natsstore/mine.go", "natsstore/hint.go", "natsstore/sweep.go"

		late   = "TestAnAskThatWasWithdrawnCannotBeDoneAnyMore"
		gone   = "TestASessionThatWasFoundGoneIsNeverRenewedAgain"
		unfit  = "TestABucketThatWouldLoseLocksIsRefused"
		swept  = "TestWhatCrashedHoldersLeftIsSwept"
		remade = "TestWhatIsKnownIsForgottenWithTheConnection"
	)
	var all []mutant.Broken
	for _, m := range []struct{ name, test, file, old, new string }{
		{"a session is not closed before its entries go", gone, session, "ok, err = s.closeKey(ctx, id, m.seq); err != nil", "ok = true; err != nil"},
		{"a session that is over is renewed", gone, session, "\t\tcase !sess.unclear:\n\t\t\treturn sent, errSessionOver", "\t\tcase !sess.unclear:\n\t\t\treturn sent, nil"},
		{"a renewal that was not answered is lost", "TestARenewalOfASessionThatWasNotAnsweredIsFoundAgain", session, "case !sess.unclear:", "case true:"},
		{"a session counts from the answer", "TestASessionCountsFromTheSendingOfItsRenewal", session, "sess.renewed, sess.failed = sent, 0", "sess.renewed, sess.failed = max(sent, store.Now()), 0"},
		{"a TTL is rounded down", "TestATTLIsRoundedUp", session, "(ttl + time.Second - 1) / time.Second", "ttl / time.Second"},
		{"an ask is withdrawn without a write", late, ops, "how.force, how.fresh = m.unclear, m.unclear", "how.fresh = m.unclear"},
		{"an ask that is overdue is withdrawn without a write", late, mine, "force := m.unclear", "force := false"},
		{"what is remembered is answered", "TestNothingIsAnsweredOfWhatIsRemembered", ops, "\t\t\tif !cached {\n\t\t\t\ts.remember", "\t\t\tif true {\n\t\t\t\ts.remember"},
		{"what is remembered outlives the connection", remade, bucket, "s.bucket, s.links = b, links\n\tclear(s.known)", "s.bucket, s.links = b, links"},
		{"a bucket made again counts from one", "TestWhatIsKnownOfADeletedBucketIsNoRevisionOfTheNext", bucket, "FirstSeq: uint64(time.Now().UnixMilli()), ", ""},
		{"a write does not depend on what was read", gone, bucket, "jetstream.WithExpectLastSequencePerSubject(expected), ", ""},
		{"a write is sent again", "TestAWriteIsSentOnce", bucket, "WithRetryAttempts(0)", "WithRetryAttempts(2)"},
		{"direct gets are good enough", unfit, bucket, "case c.AllowDirect:", "case false:"},
		{"a bucket may forget", unfit, bucket, "c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || ", ""},
		{"a bucket need have no TTLs", unfit, bucket, "case !c.AllowMsgTTL:", "case false:"},
		{"a clock that is behind keeps in the way", "TestAClockThatIsBehindKeepsNothingInTheWay", record, "max(r.now.Clock, n.Entries[i].Since)", "max(r.now.Clock, min(0, n.Entries[i].Since))"},
		{"the clock is taken to have stood still until we heard", "TestTheServersClockIsNotTakenToBeAhead", bucket, "heard := store.Now()", "heard := store.Now().Add(-time.Second)"},
		{"what is granted is told to nobody", "TestABucketBehindALeafNode", ops, "s.tell(change.Woken)", "s.tell(change.Woken[:0])"},
		{"nobody looks once the others know of a mailbox", "TestABucketBehindALeafNode", hint, "known := s.spreads()", "var known <-chan time.Time"},
		{"a domain is not written to", "TestABucketBehindALeafNode", bucket, `if s.o.Domain == "" {`, "if true {"},
		{"the dead are not swept", swept, sweep, "how{evict: true, fresh: true}", "how{fresh: true}"},
		{"what is young is swept", swept, sweep, "age.Microseconds()", "0"},
		{"the sweep stops at what is not ours", swept, sweep, "errors.Is(err, store.ErrCorrupt) || ", ""},
		{"a looking makes a bucket", "TestARefusedTryWritesNothing", ops, "b, err := s.prepared(ctx, false)", "b, err := s.prepared(ctx, true)"},
		{"what was not given back for sure is left", "TestAReleaseThatWasNotAnsweredIsDoneAllTheSame", ops, "case unclear: //", "case unclear && h.Token == 0: //"},
		{"a hold outlives its session", "TestAHoldIsLostWithItsSession", session, "\t\t\ts.died(sess)\n\t\tdefault:", "\t\tdefault:"},
	} {
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: "natsstore", Test: m.test, Edits: []mutant.Edit{{File: m.file, Old: m.old, New: m.new}},
		})
	}
	all = append(all, mutant.Broken{
		Name: "an ask for a name never used is withdrawn without a write", Pkg: "natsstore", Test: late, Edits: []mutant.Edit{
			{File: record, Old: "r.data == nil && !force", New: "r.data == nil"},
			{File: ops, Old: "bytes.Equal(data, r.data) && !how.force", New: "bytes.Equal(data, r.data) && (!how.force || data == nil)"},
		},
	})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
