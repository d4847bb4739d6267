package dynamostore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A backend with one thing wrong fails a test. The part that it shares with other backends is tried in package object
// as well.
func TestTheTestsCatchEachMutantOfDynamoDB(t *testing.T) {
	t.Parallel()
	testserver.SharedDynamoDB(t) // the tests under mutation use it, too
	const (
		suite = "TestBackend/promise/"
		unfit = "TestAServerThatIgnoresConditionsIsRefused"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a swap depends on nothing", suite + "a_swap_on_no_version_is_done_only_where_nothing_is", "dynamo-first-swap-depends", mutant.Stmt(`u.when = "attribute_not_exists(#nothing)"`)},
		{"a first write depends on nothing", unfit, "dynamo-first-write-depends", mutant.Value(`"attribute_not_exists(#nothing)"`)}, // the control of that test is refused
		{"a later write depends on nothing", "TestServer", "dynamo-write-depends", mutant.Stmt(`u.when = "attribute_exists(#id)"`)},
		{"a deletion depends on nothing", "TestServer", "dynamo-delete-depends", mutant.Delete()},
		{"a note that was taken in stays", suite + "a_swap_takes_in_the_notes_of_its_inbox_and_no_other", "dynamo-note-goes", mutant.Delete()},
		{"a note is taken in that is not there", suite + "a_swap_with_one_note_too_many_takes_in_none", "dynamo-note-is-there", mutant.Stmt("_ = last")},
		{"a name that is used again stays idle", suite + "a_record_that_is_used_again_stays", "dynamo-used-again-stays", mutant.Delete()},
		{"a name that was just written is listed as old", "TestASweepPassesWhatIsYoung", "dynamo-young-listed", mutant.Cond("unwritten < 0")},
		{"an idle name is deleted early", suite + "an_idle_record_is_there_for_its_retention", "dynamo-idle-is-kept", mutant.Cond("unwritten > 0 && len(r.Inbox) == 0")},
		{"a read may be stale", "TestEachReadIsConsistent", "dynamo-read-is-consistent", mutant.Line("r, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(key)}, once)")},
		{"a request is sent again", "TestEachRequestIsSentOnce", "dynamo-sent-once", mutant.Delete()},
		{"the check takes a global table", "TestTheCheckRefusesAGlobalTable", "dynamo-check-of-regions", mutant.Cond("WAS && false")},
		{"the check takes a global table of 2017", "TestTheCheckRefusesAGlobalTable", "dynamo-check-of-old-regions", mutant.Stmt("global = false")},
		{"a release that was sent twice is lost", "TestAReleaseThatIsSentTwiceIsNotLost", "dynamo-swap-sent-twice", mutant.Cond("WAS && false")},
		{"a conflict ends a session", "TestAWriteThatMeetsAnotherRegionsIsMadeAgain", "dynamo-conflict-is-no-loss", mutant.Stmt("return objectOf(nil, now), object.Refused, nil")},
		{"an old answer sets the clock back", "TestAnOldAnswerDoesNotSetTheClockBack", "dynamo-old-answer-never-lowers", mutant.Cond("true")},
		{"a session with an early time is not written again", "TestASessionIsWrittenAgainIfItsTimeIsTooEarly", "dynamo-early-time-is-written-again", mutant.Cond("true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "dynamostore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	blind := mutant.Broken{Name: "a server is used that ignores conditions", Pkg: "dynamostore", Test: unfit}
	for _, mark := range []string{"object-trial-of-writers", "object-trial-of-late", "object-trial-of-none"} {
		blind.Edits = append(blind.Edits, mutant.At(mark, mutant.Cond("WAS && false")))
	}
	all = append(all, blind)
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
