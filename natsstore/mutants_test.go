package natsstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A backend with one thing wrong fails a test. Promises of every backend are tested in recordtest, those of every store
// in storetest.
func TestTheTestsCatchEachMutantOfTheRecipe(t *testing.T) {
	t.Parallel()
	testserver.SharedNATS(t) // the tests under mutation use it, too
	const (
		gone    = "TestAMissingSessionIsNeverRenewedAgain"
		late    = "TestARenewalThatComesLateEndsNoSession"
		unfit   = "TestABucketThatWouldLoseLocksIsRefused"
		passed  = "TestATakenInNoteIsIgnoredBeforeItIsDeleted"
		suite   = "TestBackend/promise/"
		arrives = "TestFaults/fault/an_ask_that_arrives_late_goes_beside_another_claim_of_its_process"
		sent    = "TestFaults/fault/an_ask_that_was_not_answered_is_granted_in_the_session_it_was_sent_in"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a caller's function is called no more", "TestTheSettingsOfACallerAreNotChanged", "nats-reconnect-told", mutant.Delete()},
		{"a first refusal is no server", "TestAClosedPortIsARefusalFromTheFirstReadOn", "nats-first-refusal-known", mutant.Cond("WAS && false")},
		{"a first failure is not waited for", "TestAClosedPortIsARefusalFromTheFirstReadOn", "nats-first-failure-awaited", mutant.Cond("WAS && false")},
		{"a session is not closed before its entries go", gone, "nats-session-closed-before-entries", mutant.Stmt("ok := true")},
		{"a session that has ended is renewed", late, "nats-session-over-renewed", mutant.Return("nil")},
		{"a renewal that was not answered is lost", "TestAnUnansweredSessionRenewalIsFoundAgain", "nats-renewal-answered-lost", mutant.Cond("false")},
		{"which server began a session is not known", "TestAServerThatWasStartedAgainIsAnother", "nats-server-of-a-begin", mutant.Delete()},
		{"which server renewed a session is not known", "TestAServerThatWasStartedAgainIsAnother", "nats-server-of-a-renewal", mutant.Delete()},
		{"a version is good on any server", "TestAVersionFromBeforeAPowerCutIsInvalid", "nats-version-of-another-server", mutant.Value("info.Created.UnixNano()")},
		{"a write is sent on the next connection", "TestNothingIsSentOnAnotherConnectionThanItDependsOn", "nats-write-on-another-connection", mutant.Cond("false")},
		{"a renewal depends on a number of another server", "TestARenewalDependsOnNoNumberOfAnotherServer", "nats-renewal-depends-on-another-server", mutant.Stmt("o.which = k.which")},
		{"a session goes on whose renewal was forgotten", "TestASessionHasEndedIfItsRenewalWasForgotten", "nats-older-renewal-goes-on", mutant.Cond("m.data == nil || v.Closed")},
		{"a session that nobody renews is kept", "TestAnUnrenewedSessionIsForgotten", "nats-ended-session-is-kept", mutant.Delete()},
		{"calls are forgotten with their key", "TestCallsAreCountedAfterTheirKeyIsDeleted", "nats-calls-forgotten", mutant.Value("calls")},
		{"calls are counted again with their key", "TestCallsAreCountedAfterTheirKeyIsDeleted", "nats-calls-counted", mutant.Value("stored{TTL: v.TTL, Calls: c.Calls + 1}")},
		{"a bucket made again counts from one", "TestARevisionOfADeletedBucketIsInvalidInTheNext", "nats-bucket-made-again-counts", mutant.Line("Storage: jetstream.FileStorage, Replicas: b.o.Replicas, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute,")},
		{"a write does not depend on what was read", suite + "a_swap_on_an_older_version_is_refused", "nats-write-depend-read", mutant.Value("append(make([]jetstream.PublishOpt, 0, 3), jetstream.WithRetryAttempts(0))")},
		{"a write is sent again", "TestAWriteIsSentOnce", "nats-write-depend-read", mutant.Value("append(make([]jetstream.PublishOpt, 0, 3), jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithRetryAttempts(2))")},
		{"a version is good in any bucket", "TestAVersionIsOfOneBucket", "nats-version-of-another-bucket", mutant.Cond("false")},
		{"direct gets are good enough", unfit, "nats-direct-gets-good-enough", mutant.Cond("false")},
		{"a bucket may forget", unfit, "nats-bucket-may-forget", mutant.Cond("c.MaxMsgs > 0 || c.MaxBytes > 0 || c.Discard != jetstream.DiscardNew")},
		{"a bucket need have no TTLs", unfit, "nats-bucket-need-ttls", mutant.Cond("false")},
		{"the clock is taken to have stood still until we heard", "TestTheServersClockIsNotTakenToBeAhead", "nats-clock-taken-stood-still", mutant.Value("WAS.Add(-time.Second)")},
		{"who may not hear the bucket watches names", "TestAUserThatCannotSubscribeCannotWatchAName", "nats-who-may-not-hear", mutant.Cond("last != nil && ofSubscription(last) && false")},
		{"what is granted is reported to nobody", "TestABucketBehindALeafNode", "nats-granted-told-nobody", mutant.Expr("b.notify(s.Notifications[:0])")},
		{"nobody looks once the others know of a mailbox", "TestABucketBehindALeafNode", "nats-nobody-looks-once-others", mutant.Stmt("var known <-chan time.Time")},
		{"a domain is not written to", "TestABucketBehindALeafNode", "nats-domain-written", mutant.Cond("true")},
		{"what is young is listed as old", "TestOldNamesAreListed", "nats-young-listed", mutant.Cond("err != nil || m.seq == 0 || begun < 0")},
		{"who may not write is not found", "TestTheCheckFindsAUserWithoutWriteRights", "nats-rights-are-checked", mutant.Cond("false")},
		{"a check reads the bucket again", "TestACheckAfterTheFirstClaimSendsNothing", "nats-check-of-a-bucket-of-before", mutant.Cond("false")},
		{"a check writes though it was written before", "TestACheckAfterTheFirstClaimSendsNothing", "nats-rights-of-who-has-written", mutant.Cond("false")},
		{"a check writes nothing", "TestTheCheckFindsAUserWithoutWriteRights", "nats-rights-of-who-has-written", mutant.Cond("true")},
		{"a swap is sent that would be refused", "TestANoteOfALostSwapIsOneMessage", "nats-lost-swap-is-sent", mutant.Cond("false")},
		{"a reading makes a bucket", "TestARefusedTryWritesNothing", "nats-looking-makes-bucket", mutant.Value("b.prepared(ctx, true)")},
		{"what was taken in is read until it is deleted", passed, "nats-taken-in-is-left-out", mutant.Cond("n.Version != \"\"")},
		{"what was taken in is taken in once more", passed, "nats-notes-taken-in-twice", mutant.Cond("m.seq == 0")},
		{"what was taken in stays", "TestATakenInNoteIsDeleted", "nats-taken-in-is-deleted", mutant.Stmt("_, _ = ctx, k")},
		{"more than was taken in is deleted", "TestATakenInNoteIsDeleted", "nats-taken-in-is-deleted", mutant.Stmt("_ = k.stream.Purge(ctx, jetstream.WithPurgeSubject(b.subject(noteKeys(name))))")},
		{"who may not delete is denied a reading", "TestADeniedDeleteOfNotesDoesNotFailALaterRead", "nats-denied-by-an-older-write", mutant.Return("b.violated(err)")},
		{"a late swap is left", arrives, "record-late-swap-is-left", mutant.Value("false")},
		{"a grant counts from another session", sent, "record-grant-counts-from-another-session", mutant.Value("s.sessions.Begun(c.TTL)")},
		{"that there are more notes is not reported", suite + "of_many_notes_the_oldest_are_read_and_More_is_true", "nats-more-notes", mutant.Value("false")},
	} {
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: "natsstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)},
		})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
