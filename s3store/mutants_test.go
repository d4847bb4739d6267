package s3store

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A backend with one thing wrong fails a test. The part that it shares with other backends is tried in package object
// as well.
func TestTheTestsCatchEachMutantOfS3(t *testing.T) {
	t.Parallel()
	testserver.SharedS3(t) // the tests under mutation use it, too
	const (
		suite   = "TestBackend/promise/"
		unfit   = "TestAServerThatIsUnfitIsRefused"
		arrives = "TestFaults/fault/an_ask_that_arrives_late_goes_beside_another_claim_of_its_process"
		sent    = "TestFaults/fault/an_ask_that_was_not_answered_is_granted_in_the_session_it_was_sent_in"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a write depends on nothing", suite + "a_swap_on_an_older_version_is_refused", "s3-write-depends", mutant.Value(`&s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: bytes.NewReader(body)}`)},
		{"a first write depends on nothing", suite + "a_swap_on_no_version_is_done_only_where_nothing_is", "s3-first-write-depends", mutant.Stmt("in.IfMatch = nil")},
		{"a request is sent again", "TestEachRequestIsSentOnce", "s3-sent-once", mutant.Delete()},
		{"a delete depends on nothing", "TestServer", "s3-delete-depends", mutant.Delete()},
		{"a server is used that keeps or deletes", unfit, "object-trial-of-rules", mutant.Cond("WAS && false")},
		{"the check is silent about times", "TestAServerWithoutTimesIsUsed", "s3-check-of-times", mutant.Cond("false")},
		{"the check tries no delete", "TestTheCheckTriesADelete", "object-check-of-deletes", mutant.Cond("WAS && false")},
		{"rules of the bucket are not read", "TestTheCheckReadsTheRules", "s3-rules-are-checked", mutant.Cond(`ends && at == "nobody"`)},
		{"an ETag of another write is believed", "TestNoWriteIsLostWhereETagsAreKeptApart", "s3-etag-is-of-the-body", mutant.Cond("WAS || true")},
		{"an ETag under a KMS key is taken for an MD5", "TestAnObjectUnderAKMSKeyIsRead", "s3-etag-under-a-key", mutant.Return("o, true, nil")},
		{"directories are not kept", "TestNoWriteMeetsADirectoryThatGoes", "object-directories-are-kept", mutant.Cond("WAS || true")},
		{"a late swap is left", arrives, "record-late-swap-is-left", mutant.Value("false")},
		{"a grant counts from another session", sent, "record-grant-counts-from-another-session", mutant.Value("s.sessions.Begun(c.TTL)")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "s3store", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
