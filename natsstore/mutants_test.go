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
		late   = "TestAnAskThatWasWithdrawnCannotBeDoneAnyMore"
		gone   = "TestASessionThatWasFoundGoneIsNeverRenewedAgain"
		unfit  = "TestABucketThatWouldLoseLocksIsRefused"
		swept  = "TestWhatCrashedHoldersLeftIsSwept"
		remade = "TestWhatIsKnownIsForgottenWithTheConnection"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a session is not closed before its entries go", gone, "nats-session-closed-before-entries", mutant.Line("if ok = true; err != nil {")},
		{"a session that is over is renewed", gone, "nats-session-over-renewed", mutant.Expr("nil")},
		{"a renewal that was not answered is lost", "TestARenewalOfASessionThatWasNotAnsweredIsFoundAgain", "nats-renewal-answered-lost", mutant.Cond("true")},
		{"a session counts from the answer", "TestASessionCountsFromTheSendingOfItsRenewal", "nats-session-counts-answer", mutant.Value("max(sent, store.Now()), 0")},
		{"a place counts from its ask", "TestAPlaceCountsFromTheSessionsRenewal", "nats-place-counts-from-ask", mutant.Stmt("if a.Granted {\na.From = from\n}")},
		{"a TTL is rounded down", "TestATTLIsRoundedUp", "nats-ttl-rounded-down", mutant.Return("ttl / time.Second * time.Second")},
		{"an ask is withdrawn without a write", late, "nats-ask-withdrawn-without-write", mutant.Stmt("how.fresh = m.unclear")},
		{"an ask that is overdue is withdrawn without a write", late, "nats-ask-overdue-withdrawn-without", mutant.Value("false")},
		{"what is remembered is answered", "TestNothingIsAnsweredOfWhatIsRemembered", "nats-remembered-answered", mutant.Cond("true")},
		{"what is remembered outlives the connection", remade, "nats-remembered-outlives-connection", mutant.Delete()},
		{"a bucket made again counts from one", "TestWhatIsKnownOfADeletedBucketIsNoRevisionOfTheNext", "nats-bucket-made-again-counts", mutant.Line("Storage: jetstream.FileStorage, Replicas: s.o.Replicas, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute,")},
		{"a write does not depend on what was read", gone, "nats-write-depend-read", mutant.Value("append(make([]jetstream.PublishOpt, 0, 3), jetstream.WithRetryAttempts(0))")},
		{"a write is sent again", "TestAWriteIsSentOnce", "nats-write-depend-read", mutant.Value("append(make([]jetstream.PublishOpt, 0, 3), jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithRetryAttempts(2))")},
		{"direct gets are good enough", unfit, "nats-direct-gets-good-enough", mutant.Cond("false")},
		{"a bucket may forget", unfit, "nats-bucket-may-forget", mutant.Cond("c.MaxMsgs > 0 || c.MaxBytes > 0 || c.Discard != jetstream.DiscardNew")},
		{"a bucket need have no TTLs", unfit, "nats-bucket-need-ttls", mutant.Cond("false")},
		{"a clock that is behind keeps in the way", "TestAClockThatIsBehindKeepsNothingInTheWay", "nats-clock-behind-keeps-way", mutant.Value("max(r.now.Clock, min(0, n.Entries[i].Since))")},
		{"the clock is taken to have stood still until we heard", "TestTheServersClockIsNotTakenToBeAhead", "nats-clock-taken-stood-still", mutant.Value("WAS.Add(-time.Second)")},
		{"what is granted is told to nobody", "TestABucketBehindALeafNode", "nats-granted-told-nobody", mutant.Expr("s.tell(change.Woken[:0])")},
		{"nobody looks once the others know of a mailbox", "TestABucketBehindALeafNode", "nats-nobody-looks-once-others", mutant.Stmt("var known <-chan time.Time")},
		{"a domain is not written to", "TestABucketBehindALeafNode", "nats-domain-written", mutant.Cond("true")},
		{"the dead are not swept", swept, "nats-dead-swept", mutant.Line("err = s.change(ctx, name, how{fresh: true}, func(r *record) (queue.Change, error) {")},
		{"what is young is swept", swept, "nats-young-swept", mutant.Cond("errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && b.now().Clock-m.Time.UnixMicro() < 0")},
		{"the sweep stops at what is not ours", swept, "nats-sweep-stops-ours", mutant.Cond("errors.Is(err, store.ErrUnsupported)")},
		{"a looking makes a bucket", "TestARefusedTryWritesNothing", "nats-looking-makes-bucket", mutant.Value("s.prepared(ctx, true)")},
		{"what was not given back for sure is left", "TestAReleaseThatWasNotAnsweredIsDoneAllTheSame", "nats-given-back-sure-left", mutant.Cond("unclear && h.Token == 0")},
		{"a hold outlives its session", "TestAHoldIsLostWithItsSession", "nats-hold-outlives-session", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: "natsstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)},
		})
	}
	all = append(all, mutant.Broken{
		Name: "an ask for a name never used is withdrawn without a write", Pkg: "natsstore", Test: late, Edits: []mutant.Edit{
			mutant.At("nats-ask-name-never-used", mutant.Cond("len(r.q.Entries) == 0 && r.q.Last == 0 && r.data == nil")),
			mutant.At("nats-ask-name-never-used-withdrawn", mutant.Cond("bytes.Equal(data, r.data) && (!how.force || data == nil)")),
		},
	})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
