package mongostore

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// A backend with one of its rules broken fails a test.
func TestTheTestsCatchEachMutant(t *testing.T) {
	t.Parallel()
	if uri := os.Getenv("HOLDFAST_TEST_MONGODB"); uri != "" && uri != standIn {
		t.Skip("the mutants are tried on the stand-in, and a server is named: HOLDFAST_TEST_MONGODB")
	}
	const (
		promise = "TestBackend/promise/"
		sure    = "TestEveryWriteIsAcknowledgedByAMajorityAndEachReadIsSureOfIt"
		unsafe  = "TestAnUnsafeServerIsRefused"
		form    = "TestTheStoredFormIsWhatIsDocumented"
		foreign = "TestAForeignDocumentIsLeftAlone"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a swap depends on no version", promise + "a_swap_on_an_older_version_is_refused", "mongo-swap-depends", mutant.Value(`object("_id", nameID(s.Name), "v", int32(form), "rev", old)[:2]`)},
		{"a note is taken in that has gone", promise + "a_swap_whose_notes_were_taken_in_is_refused", "mongo-note-is-there", mutant.Stmt(`_ = query`)},
		{"a note stays when it was taken in", promise + "a_swap_takes_in_the_notes_of_its_inbox_and_no_other", "mongo-note-goes", mutant.Delete()},
		{"all notes go with a swap", promise + "a_join_disturbs_no_swap_under_way", "mongo-swap-leaves-notes", mutant.Value(`object("$currentDate", now, "$pull", object("inbox", object("key", object("$exists", true))))`)},
		{"one member's word is enough", sure, "mongo-one-member-is-enough", mutant.Value(`object("w", int32(1), "j", true)`)},
		{"a journal is not waited for", sure, "mongo-one-member-is-enough", mutant.Value(`object("w", "majority", "j", false)`)},
		{"a primary that was replaced is read", sure, "mongo-level", mutant.Value(`"local"`)},
		{"that a session has gone is not confirmed", sure, "mongo-end-is-confirmed", mutant.Stmt("raw, err := bson.Raw(nil), error(nil)")},
		{"an end is not final", promise + "a_session_that_was_ended_has_ended_for_all", "mongo-end-is-final", mutant.Return(`object("_id", sessionID(id), "v", int32(form))`)},
		{"an end is not made final", "TestARenewalThatComesLateRevivesNoEndedSession", "mongo-end-is-made-final", mutant.Stmt("ended, err := d, error(nil)\n_ = unrenewed")},
		{"a session that is renewed meanwhile is ended", "TestASessionThatIsRenewedMeanwhileIsNotEnded", "mongo-renewed-meanwhile", mutant.Value("living(id)")},
		{"that dates are cut is forgotten", "TestARenewalThatComesLateRevivesNoEndedSession", "mongo-dates-are-cut", mutant.Return("ttl, nil")},
		{"that the date of a look is cut is forgotten", "TestASessionLastsAsLongAsAReadSays", "mongo-look-is-cut", mutant.Return("left, nil")},
		{"a session is kept for a day whatever its TTL", "TestLiveDocumentsAreNotDeleted", "mongo-session-is-kept", mutant.Value(`object("ttl", ttl.Milliseconds(), expires, date(b.time().latest(), b.retention+slack))`)},
		{"a session that nobody renews is kept", "TestAnUnrenewedSessionIsForgotten", "mongo-ended-session-is-kept", mutant.Delete()},
		{"an idle name is deleted at once", promise + "an_idle_record_is_there_for_its_retention", "mongo-idle-is-kept", mutant.Stmt(`set = append(set, bson.E{Key: expires, Value: date(b.time().latest(), 0)})`)},
		{"a name that is used again is deleted", promise + "a_record_that_is_used_again_stays", "mongo-used-again-stays", mutant.Stmt("_ = update")},
		{"what is young is listed as old", "TestYoungNamesAreNotListedAsOld", "mongo-young-listed", mutant.Delete()},
		{"a server that lets two win is good enough", unsafe, "mongo-one-wins", mutant.Cond("winners < 1")},
		{"what is there after a trial is not read", unsafe, "mongo-trial-is-read", mutant.Cond("err != nil || d.V != form")},
		{"Cosmos DB is good enough", unsafe, "mongo-cosmos-is-refused", mutant.Cond("false")},
		{"who may not write may not look", "TestAReadOnlyUserCanLook", "mongo-reader-looks", mutant.Cond("err != nil")},
		{"a newer form is read", foreign, "mongo-newer-form", mutant.Cond("WAS && false")},
		{"a foreign document is read", foreign, "mongo-foreign-document", mutant.Cond("err != nil")},
		{"the index is made with each swap", "TestTheIndexIsCreatedOnceWithoutDelayingLocks", "mongo-index-made-each-swap", mutant.Cond("b.indexed.Swap(false)")},
		{"nobody is notified after a break", "TestABrokenStreamIsOpenedAgain", "mongo-nobody-told-after-break", mutant.Delete()},
		{"who watches a name is not notified of a change", "TestBackend/promise/who_watches_a_record_hears_of_each_swap_of_it", "mongo-observer-not-told", mutant.Delete()},
		{"notifications as they were are no change", "TestTheSameNotificationComesWithEachSwap", "mongo-same-letter-again", mutant.Value(`letter{processOf(all[i].ID.Process()), bson.Binary{Data: record.AppendNotifications(nil, all[i:i+1])}, bson.Binary{}}`)},
		{"notifications of others are delivered", "TestTheSameNotificationComesWithEachSwap", "mongo-letters-of-others", mutant.Cond("n.N >= 0")},
	} {
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: "mongostore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)},
		})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_MONGODB="+standIn, "HOLDFAST_TEST_PATIENCE=5s")
}
