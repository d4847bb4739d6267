package session_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The sessions with one defect fail a test.
func TestTheTestsCatchEachMutantOfTheSessions(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a TTL is rounded down", "TestATTLIsRoundedUp", "session-ttl-rounded-down", mutant.Return("max(ttl/t.Tick*t.Tick, t.MinTTL)")},
		{"a session does not end by the clock of its owner", "TestASessionEndsByTheClockOfItsOwner", "session-over-by-our-clock", mutant.Cond("false")},
		{"a session counts from the answer", "TestASessionCountsFromTheSendingOfItsRenewal", "session-counts-from-answer", mutant.Value("max(sess.renewed, heard), max(sess.calls, calls), 0")},
		{"a session outlives its end", "TestASessionThatTheServerEndedHasEnded", "session-outlives-its-end", mutant.Delete()},
		{"a session is renewed when it has ended", "TestASessionIsRenewedAsLongAsItKeepsSomething", "session-renewed-in-time", mutant.Cond("at(sess.end())")},
		{"a session that cannot be ended is ended again at once", "TestASessionThatCannotBeEndedIsEndedAgainAfterAPause", "session-ended-again-without-a-pause", mutant.Cond("idle || at(sess.again)")},
		{"a renewal waits for its answer until the end", "TestALostReplyLeavesTimeToRenewAgain", "renewal-leaves-time-for-another", mutant.Return("lasts - lasts/renewPart")},
		{"any session that is asked about has ended", "TestOnlyAFinalizedSessionHasEnded", "session-end-is-final", mutant.Cond("false")},
		{"the calls asked for before a call are known after it", "TestACallOfAnOwnSessionIsKnownOnceItIsAnswered", "session-call-is-known", mutant.Stmt("<-sess.Renew().done")},
		{"a closed set watches", "TestASetThatIsClosedWatchesNothing", "session-closed-set-watches", mutant.Cond("false")},
		{"a session survives its server", "TestASessionIsSuspectOnceItsServerWasReplaced", "session-of-a-replaced-server", mutant.Stmt("_ = sess")},
		{"a session of a replaced server gets new entries", "TestASessionIsSuspectOnceItsServerWasReplaced", "session-suspect-takes-more", mutant.Delete()},
		{"a session that cannot be renewed is kept to its end", "TestASessionIsSuspectWhileItLastsIfItAloneCannotBeRenewed", "session-that-cannot-be-renewed", mutant.Stmt("return")},
		{"a session is left because of a request from before its spare was answered", "TestNoSessionIsSuspectForWhatWasSentInAnOutage", "session-doubted-at-once", mutant.Line("case long:")},
		{"a session that keeps nothing yet is kept to its end", "TestASessionIsSuspectThatIsToKeepSomething", "session-doubted-while-it-keeps-something", mutant.Line("case sess.claims == 0:")},
		{"a session without entries is followed by others", "TestUnneededSessionsAreNotKeptAlive", "session-unused-for-good", mutant.Cond("WAS && false")},
		{"a session is left within a moment", "TestNoSessionIsSuspectAfterManyRenewalsInAMoment", "session-doubted-in-a-moment", mutant.Stmt("s.doubt(sess, spareAnswered, true)")},
		{"a renewal waits for a session that cannot be renewed", "TestNoCallWaitsForASessionThatCannotBeRenewed", "session-waits-for-what-cannot-be-renewed", mutant.Value("sess.flight, true")},
		{"a new entry waits for a session that fails", "TestNoCallWaitsForASessionThatCannotBeRenewed", "session-waits-for-what-fails", mutant.Cond("sess.flight == nil && store.Now() < sess.renewed.Add(sess.lasts/10)")},
		{"a short session is doubted", "TestNoSessionIsSuspectThatLastsForLessThanASecond", "session-doubted-though-short", mutant.Line("case sess.suspect || sess.ending || s.over(sess):")},
		{"a renewal does not wait for the spare session", "TestASessionIsSuspectInTimeOnASlowLink", "session-renewed-before-the-spare", mutant.Line("case true:")},
		{"an answer from before an outage counts after it", "TestNoSessionIsSuspectForWhatWasSentInAnOutage", "session-spare-heard-before", mutant.Value("sess.failed > 0 && sess.spare != nil && sess.spare.heard > 0")},
		{"a spare session is asked only when it is due", "TestASessionIsSuspectInTimeDespiteASpareOne", "session-spare-is-asked-again", mutant.Line("case false:")},
		{"a session was seen since the question", "TestASessionIsSeenUnchangedFromTheAnswerOn", "session-seen-since-the-question", mutant.Stmt("asked := store.Now()\nttl, stamp, err := r.ReadSession(ctx, id)\nif u.seen == nil {\nu.seen = map[ID]sighting{}\n}\nif u.seen[id].stamp != stamp {\nu.seen[id] = sighting{stamp: stamp, since: asked}\n}")},
		{"a session that has ended is not closed", "TestASessionWithoutAClockEndsWhenItWasSeenUnchangedForItsTTL", "session-passed-over-unclosed", mutant.Stmt("closed, err := true, error(nil)")},
		{"a session that was renewed is closed", "TestASessionThatIsRenewedBeforeItIsClosedGoesOn", "session-renewed-is-closed", mutant.Cond("closed && !closed")},
		{"an unanswered close is none", "TestAnUnansweredReadEndsNoSession", "session-unanswered-close-is-none", mutant.Cond("false")},
		{"the sighting of an ended session is kept", "TestNothingIsKeptOfASessionThatHasEnded", "session-ended-is-kept", mutant.Delete()},
		{"a session is judged by its first sighting", "TestASessionWithoutAClockEndsWhenItWasSeenUnchangedForItsTTL", "session-stamp-not-compared", mutant.Cond("!known")},
		{"a session that was not seen alive is known to live", "TestASessionIsInDoubtUntilItWasSeenToChange", "session-seen-alive", mutant.Stmt("s = sighting{stamp: stamp, since: now, lived: true}")},
		{"a session that lived long ago is known to live", "TestASessionIsInDoubtUntilItWasSeenToChange", "session-seen-alive", mutant.Stmt("s = sighting{stamp: stamp, since: now, lived: known}")},
		{"a session is in doubt forever", "TestASessionIsInDoubtUntilItWasSeenToChange", "session-seen-alive", mutant.Stmt("s = sighting{stamp: stamp, since: now}")},
		{"a session that is to be closed is known to live", "TestASessionIsInDoubtUntilItWasSeenToChange", "session-doubted-until-closed", mutant.Return("max(s.ends.Sub(store.Now()), 0)")},
		{"a session has ended just now", "TestItIsKnownForHowLongASessionHasEnded", "session-ended-just-now", mutant.Return("end.heard.Sub(now), true")},
		{"a session is trusted for its TTL", "TestASessionOfAnotherIsAskedForAgainSoon", "session-trusted-for-its-ttl", mutant.Cond("left > 0")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "store/session", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
