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
		{"a note that was deleted during a read is not noticed", "TestANoteTakenInDuringAReadIsInTheRecord", "object-note-gone-meanwhile", mutant.Cond("WAS || gone")},
		{"notes that were taken in are read", taken, "object-taken-in-is-left-out", mutant.Cond("true")},
		{"notes are taken in twice", taken, "object-note-taken-in-twice", mutant.Stmt("_ = n")},
		{"a deleted note that comes back is read", "TestANoteThatComesBackKeepsNobodyFromWriting", "object-note-that-comes-back", mutant.Cond("false")},
		{"notes are in no order", "TestNotesAreInTheOrderInWhichTheyCame", "object-notes-in-order", mutant.Stmt("_ = n")},
		{"two swaps write the same", "TestASwapOfTheSameIsAnotherVersion", "object-version-is-drawn", mutant.Value(`head{V: form, Name: []byte(s.Name), Idle: s.Idle, Taken: b.untilDeleted(old.taken)}`)},
		{"notes that were taken in are remembered forever", "TestNotesADeadProcessTookInAreDeletedByTheNext", "object-taken-in-is-forgotten", mutant.Return("slices.Clone(taken)")},
		{"each writer deletes all notes", "TestATakenInNoteIsDeletedOnce", "object-each-deletes-all", mutant.Return("len(left) < 0 && id == \"\"")},
		{"a note that others have deleted is remembered forever", "TestATakenInNoteIsDeletedOnce", "object-note-gone-is-deleted", mutant.Delete()},
		{"what a dead process took in is not deleted", "TestNotesADeadProcessTookInAreDeletedByTheNext", "object-left-note-is-deleted", mutant.Cond("WAS && false")},
		{"a call's notes are deleted before all are taken in", taken, "object-half-taken-is-deleted", mutant.Return("len(versions) == 0")},
		{"an owner relies on its whole TTL", "TestASessionLastsLessThanItsTTL", "object-times-are-cut", mutant.Return("ttl, nil")},
		{"a session ends too early", judged, "object-session-judged", mutant.Value("time.Duration(v.TTL)*time.Second - margin - o.Now.Sub(o.Written)")},
		{"a session ends too late", judged, "object-session-judged", mutant.Value("time.Duration(v.TTL)*time.Second + early - o.Now.Sub(o.Written)")},
		{"the time left is not cut", judged, "object-left-is-cut", mutant.Return("left, nil")},
		{"a session is not closed before its entries go", "TestASessionHasEndedForEveryProcess", "object-session-closed", mutant.Stmt("what, err := Done, error(nil)")},
		{"a session is closed although it was renewed", "TestASessionThatIsRenewedMeanwhileGoesOn", "object-session-closed", mutant.Value(`func() (Object, Fate, error) { _, _, err := b.server.Put(ctx, b.sessionKey(id), stored{Closed: true}.bytes(), o.Version); return o, Done, err }()`)},
		{"a session that has ended is renewed", "TestASessionHasEndedForEveryProcess", "object-session-over-renewed", mutant.Line("case at.Version == \"nothing\":")},
		{"a session that has ended and comes back is renewed", "TestASessionThatHasEndedIsNotRenewedThoughItComesBack", "object-session-begun-again", mutant.Line("case v.Count < 0:")},
		{"a release that was sent twice is lost", "TestAReleaseThatIsSentTwiceIsNotLost", "object-swap-sent-twice", mutant.Cond("WAS && false")},
		{"a renewal that was sent twice is lost", "TestASessionLivesThoughItsWritesAreSentTwice", "object-renewal-sent-twice", mutant.Stmt("return store.ErrLost")},
		{"a renewal that was not answered is lost", "TestAnUnansweredRenewalIsFoundAgain", "object-renewal-answered-lost", mutant.Cond("false")},
		{"a write that met another is not sent again", "TestASessionIsBegunThoughAnotherRequestIsUnderWay/refused", "object-put-again", mutant.Cond("true")},
		{"a session that exists is taken for another's", "TestASessionIsBegunThoughAnotherRequestIsUnderWay/done", "object-begun-after-all", mutant.Cond("WAS || err == nil && what == Refused")},
		{"a session without renewals is kept", "TestAnUnrenewedSessionIsForgotten", "object-ended-session-is-kept", mutant.Delete()},
		{"calls are forgotten with their object", calls, "object-calls-forgotten", mutant.Value("called.Calls")},
		{"calls are counted again with their object", calls, "object-calls-counted", mutant.Value("stored{TTL: v.TTL, Calls: c.Calls + 1}")},
		{"a session is judged without a clock", "TestWithoutAClockASessionIsWatchedForItsTTL", "object-no-clock-judges", mutant.Cond("true")},
		{"a session without a clock is passed over before it is closed", "TestWithoutAClockASessionIsWatchedForItsTTL", "object-session-closed", mutant.Stmt("what, err := Done, error(nil)")},
		{"an unreadable note is taken for none", "TestAnUnreadableNoteEndsTheSearchForTheOldest", "object-oldest-is-unreadable", mutant.Line("case !gone:\nreturn record.Note{}, nil")},
		{"a young name is listed as old", "TestOldNamesAreListed", "object-young-listed", mutant.Cond("false")},
		{"a minimum hold ends early", "TestAMinimumHoldDoesNotEndEarlyByAnyTime", "record-minimum-hold-by-an-old-time", mutant.Delete()},
		{"a lock delay ends early", "TestALockDelayDoesNotEndEarlyByAnyTime", "record-lock-delay-by-an-old-time", mutant.Delete()},
		{"each process sweeps each time", "TestAllProcessesTogetherListOnceAnHour", "object-turn-of-another", mutant.Cond("since < 0")},
		{"each process checks each time whose turn it is", "TestAllProcessesTogetherListOnceAnHour", "object-turn-is-looked-for-each-time", mutant.Cond("false")},
		{"two processes sweep at once", "TestOfTwoThatComeToSweepOneDoes", "object-turn-of-two", mutant.Cond("err != nil && what != Done")},
		{"a store sweeps in no turn", "TestStoresSweepInTurns", "record-sweeps-by-turns", mutant.Stmt("_ = b")},
		{"a process that only reads sweeps", "TestAReaderSweepsNothing", "object-who-looks-sweeps", mutant.Cond("!b.turns.due()")},
		{"a sweep ends at an unreadable record", "TestASweepPassesOverWhatCannotBeRead", "object-sweep-passes-over", mutant.Stmt("whole = yield(n, err) && err == nil")},
		{"a sweep ends at each object that fails to be read", "TestASweepGoesOnBehindWhatItCannotRead", "object-sweep-passes-over", mutant.Stmt("whole = yield(n, err) && (err == nil || store.Definite(err))")},
		{"a damaged mark of a sweep is believed", "TestASweepIsDoneThoughItsObjectIsDamaged", "object-damaged-turn", mutant.Stmt("return \"\", \"\", false")},
		{"the mark of a newer version's sweep is overwritten", "TestASweepIsDoneThoughItsObjectIsDamaged", "object-turn-of-a-newer-version", mutant.Line("case t.V > 99:")},
		{"a read returns the time of the record", "TestAReadingHasTheTimeOfItsNotes", "object-now-of-the-notes", mutant.Stmt("_ = now")},
		{"an interrupted sweep goes on an hour later", "TestAnInterruptedSweepGoesOnAMinuteLater", "object-sweep-goes-on-soon", mutant.Delete()},
		{"each sweep begins again", "TestASweepGoesOnWhereTheOneBeforeEnded", "object-sweep-goes-on", mutant.Stmt("_ = version")},
		{"each caller makes a trial", "TestATrialServesAllThatComeMeanwhile", "object-trial-each", mutant.Cond("true")},
		{"a trial ends with its caller", "TestATrialServesAllThatComeMeanwhile", "object-trial-ends-with-its-caller", mutant.Value("context.WithTimeout(caller, trialPatience)")},
		{"a server that was stopped is taken for one with two clocks", "TestATrialLooksAgainAtAServerThatWasStopped/stopped", "object-trial-looks-again", mutant.Line("case true:")},
		{"a server with two clocks is used", "TestATrialLooksAgainAtAServerThatWasStopped/two_clocks", "object-trial-of-clocks", mutant.Line("case before >= written || age < 1<<62:")},
		{"directories are not kept", kept, "object-directories-are-kept", mutant.Cond("WAS || true")},
		{"a keeper of a directory is trusted before it is seen", kept, "object-kept-for-sure", mutant.Cond("WAS || what == Done")},
		{"each process keeps the directories", kept, "object-directories-are-kept", mutant.Cond("err != nil || b.Atomic(o.Server)")},
		{"a keeper of a directory is swept", swept, "object-keeper-is-kept", mutant.Line("case !b.Old(l):")},
		{"an idle name is deleted in two steps", swept, "object-idle-is-kept", mutant.Cond("!b.Old(o)")},
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
