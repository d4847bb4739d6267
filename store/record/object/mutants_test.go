package object

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// What is shared, with one thing wrong, fails a test here. What a server shows besides is in the tests of its store.
func TestTheTestsCatchEachMutantOfObjects(t *testing.T) {
	t.Parallel()
	const (
		judged = "TestASessionIsJudgedByTheServersTimeAtAnyCut"
		taken  = "TestATakenInNoteIsNeverReadAgain"
		swept  = "TestTheSweepDeletesWhatIsOld"
		kept   = "TestNoDirectoryOfObjectsIsEverEmpty"
		calls  = "TestCallsAreCountedAfterTheirObjectIsDeleted"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a note that went while it was read is not noticed", "TestANoteTakenInDuringAReadIsInTheRecord", "object-note-gone-meanwhile", mutant.Cond("WAS || gone")},
		{"what is taken in is read still", taken, "object-taken-in-is-left-out", mutant.Cond("true")},
		{"notes are taken in twice", taken, "object-note-taken-in-twice", mutant.Stmt("_ = n")},
		{"notes are in no order", "TestNotesAreInTheOrderInWhichTheyCame", "object-notes-in-order", mutant.Stmt("_ = n")},
		{"two swaps write the same", "TestASwapOfTheSameIsAnotherVersion", "object-version-is-drawn", mutant.Value(`head{V: form, Name: []byte(s.Name), Idle: s.Idle, Taken: b.untilDeleted(old.taken)}`)},
		{"what is taken in is remembered for ever", "TestNotesADeadProcessTookInAreDeletedByTheNext", "object-taken-in-is-forgotten", mutant.Return("slices.Clone(taken)")},
		{"notes are deleted of which some are not taken in", taken, "object-half-taken-is-deleted", mutant.Return("len(versions) == 0")},
		{"an owner counts on its whole TTL", "TestASessionLastsLessThanItsTTL", "object-times-are-cut", mutant.Return("ttl, nil")},
		{"a session is over too early", judged, "object-session-judged", mutant.Value("time.Duration(v.TTL)*time.Second - margin - o.Now.Sub(o.Written)")},
		{"a session is over too late", judged, "object-session-judged", mutant.Value("time.Duration(v.TTL)*time.Second + early - o.Now.Sub(o.Written)")},
		{"what is left is not cut", judged, "object-left-is-cut", mutant.Return("left, nil")},
		{"a session is not closed before its entries go", "TestASessionHasEndedForEveryProcess", "object-session-closed", mutant.Stmt("what, err := Done, error(nil)")},
		{"a session is closed though it was renewed", "TestASessionThatIsRenewedMeanwhileGoesOn", "object-session-closed", mutant.Value(`func() (Object, Fate, error) { _, _, err := b.server.Put(ctx, b.sessionKey(id), stored{Closed: true}.bytes(), o.Version); return o, Done, err }()`)},
		{"a session that has ended is renewed", "TestASessionHasEndedForEveryProcess", "object-session-over-renewed", mutant.Return("nil")},
		{"a renewal that was not answered is lost", "TestAnUnansweredRenewalIsFoundAgain", "object-renewal-answered-lost", mutant.Cond("false")},
		{"a write that met another is not sent again", "TestASessionIsBegunThoughAnotherRequestIsUnderWay/refused", "object-put-again", mutant.Cond("true")},
		{"a session is taken for another's that was begun by a write that met another", "TestASessionIsBegunThoughAnotherRequestIsUnderWay/done", "object-begun-after-all", mutant.Cond("WAS || err == nil && what == Refused")},
		{"a session that nobody renews is kept", "TestAnUnrenewedSessionIsForgotten", "object-ended-session-is-kept", mutant.Delete()},
		{"calls are forgotten with their object", calls, "object-calls-forgotten", mutant.Value("called.Calls")},
		{"calls are counted again with their object", calls, "object-calls-counted", mutant.Value("stored{TTL: v.TTL, Calls: c.Calls + 1}")},
		{"a session is judged without a clock", "TestWithoutAClockASessionIsWatchedForItsTTL", "object-no-clock-judges", mutant.Cond("true")},
		{"a session is passed over that is not closed, without a clock", "TestWithoutAClockASessionIsWatchedForItsTTL", "object-session-closed", mutant.Stmt("what, err := Done, error(nil)")},
		{"what is young is listed as old", "TestOldNamesAreListed", "object-young-listed", mutant.Cond("false")},
		{"a minimum hold ends early", "TestAMinimumHoldDoesNotEndEarlyByAnyTime", "record-minimum-hold-by-an-old-time", mutant.Delete()},
		{"a lock delay ends early", "TestALockDelayDoesNotEndEarlyByAnyTime", "record-lock-delay-by-an-old-time", mutant.Delete()},
		{"each process sweeps each time", "TestAllProcessesTogetherListOnceAnHour", "object-turn-of-another", mutant.Line("case false:")},
		{"each process looks each time whose turn it is", "TestAllProcessesTogetherListOnceAnHour", "object-turn-is-looked-for-each-time", mutant.Cond("false")},
		{"two sweep at once", "TestOfTwoThatComeToSweepOneDoes", "object-turn-of-two", mutant.Cond("err != nil && what != Done")},
		{"a store sweeps in no turn", "TestStoresSweepInTurns", "record-sweeps-by-turns", mutant.Stmt("_ = b")},
		{"who only looks sweeps", "TestAReaderSweepsNothing", "object-who-looks-sweeps", mutant.Cond("!b.turns.due()")},
		{"a sweep ends at what cannot be read", "TestASweepPassesOverWhatCannotBeRead", "object-sweep-passes-over", mutant.Stmt("whole = yield(n, err) && err == nil")},
		{"a reading tells the time of the record", "TestAReadingHasTheTimeOfItsNotes", "object-now-of-the-notes", mutant.Stmt("_ = now")},
		{"each sweep begins again", "TestASweepGoesOnWhereTheOneBeforeEnded", "object-sweep-goes-on", mutant.Stmt("_ = version")},
		{"each makes a trial", "TestATrialServesAllThatComeMeanwhile", "object-trial-each", mutant.Cond("true")},
		{"a trial ends with its caller", "TestATrialServesAllThatComeMeanwhile", "object-trial-ends-with-its-caller", mutant.Value("context.WithTimeout(caller, trialPatience)")},
		{"a server that was stopped is taken for one with two clocks", "TestATrialLooksAgainAtAServerThatWasStopped/stopped", "object-trial-looks-again", mutant.Line("case true:")},
		{"a server with two clocks is used", "TestATrialLooksAgainAtAServerThatWasStopped/two_clocks", "object-trial-of-clocks", mutant.Line("case before >= written || age < 1<<62:")},
		{"directories are not kept", kept, "object-directories-are-kept", mutant.Cond("WAS || true")},
		{"what keeps a directory is believed to be written", kept, "object-kept-for-sure", mutant.Cond("WAS || what == Done")},
		{"each process keeps the directories", kept, "object-directories-are-kept", mutant.Cond("err != nil || b.Atomic(o.Server)")},
		{"what keeps a directory is swept", swept, "object-keeper-is-kept", mutant.Line("case !b.old(l):")},
		{"an idle name is deleted in two steps", swept, "object-idle-is-kept", mutant.Cond("!b.old(o)")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "store/record/object", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	all = append(all, mutant.Broken{ // each of two places asks
		Name: "what is not known to be old is swept", Pkg: "store/record/object", Test: "TestTheSweepDeletesNothingWithoutServerTime", Edits: []mutant.Edit{
			mutant.At("object-untimed-is-swept", mutant.Cond("WAS && false")),
			mutant.At("object-untimed-is-old", mutant.Return("o.Now.Sub(o.Written) > b.Retention+time.Second")),
		},
	})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
