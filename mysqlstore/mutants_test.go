package mysqlstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Each mutant, a backend with one of its rules broken, fails a test.
func TestTheTestsCatchEachMutantOfMySQL(t *testing.T) {
	t.Parallel()
	const (
		promise = "TestBackend/promise/"
		levels  = "/shared"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"what does not commit is written", "TestAConnectionWithoutAutocommitIsRefused", "mysql-commits", mutant.Value(`" AND 1=1"`)},
		{"a note that does not commit is left", "TestAConnectionWithoutAutocommitIsRefused", "mysql-joins-commit", mutant.Stmt(`rows = append(rows, "("+text(name)+","+text(row.Pack(notes[i:i+1]))+")")`)},
		{"what was not committed is read", "TestAConnectionThatReadsWhatIsNotCommittedIsRefused" + levels, "mysql-fit", mutant.Value(`"@@autocommit"`)},
		{"a swap depends on no version", promise + "a_swap_on_an_older_version_is_refused", "mysql-swap-depends", mutant.Line(`" AND " + returns + ">0" +`)},
		{"a note is taken in that has gone", promise + "a_swap_whose_notes_were_taken_in_is_refused", "mysql-note-is-there", mutant.Cond("WAS && false")},
		{"a note stays when it was taken in", promise + "a_swap_takes_in_the_notes_of_its_inbox_and_no_other", "mysql-notes-go", mutant.Line(`",taken=taken" +`)},
		{"a refused first swap tells that it is done", promise + "a_swap_on_no_version_is_done_only_where_nothing_is", "mysql-insert-tells", mutant.Line(`" ON DUPLICATE KEY UPDATE rev=rev"`)},
		{"an inbox is reported as empty that is not", promise + "a_done_swap_returns_the_inbox_as_it_is", "mysql-inbox-is-empty", mutant.Value(`record.Outcome{Done: true, Current: true, Inbox: true}`)},
		{"a note that was taken in counts", promise + "a_swap_takes_in_the_notes_of_its_inbox_and_no_other", "mysql-taken-in-counts-for-nothing", mutant.Cond("false")},
		{"a swap waits for a locked row", "TestASwapWaitsForNoLockedRowAndJoins" + levels, "mysql-waits-for-no-row", mutant.Value(`""`)},
		{"an ask leaves a statement that waits for a locked row", "TestAnAskForALockedRowLeavesNothingWaitingInTheServer", "mysql-waits-for-no-row", mutant.Value(`""`)},
		{"a swap waits for a locked row of MySQL", "TestASwapWaitsForNoLockedRowAndJoins/MySQL_9.7", "mysql-locks-what-is-free", mutant.Value(`"r.name="`)},
		{"a count hides notes from another", "TestACountHidesNoNoteFromAnother" + levels, "mysql-counts-shared", mutant.Value(`"FOR UPDATE SKIP LOCKED"`)},
		{"a lost swap is tried again", "TestALostSwapOnlyJoins", "mysql-lost-is-tried", mutant.Cond("err == nil")},
		{"who is refused joins whatever the form", "TestAForeignRowIsReportedAndLeftAlone", "mysql-joins-its-form", mutant.Cond("s.Join != nil")},
		{"a lock timeout is an error", "TestADeadlockOrALockTimeoutIsARefusal" + levels, "mysql-not-applied", mutant.Line("case is(err, deadlock):")},
		{"what was written just now is listed as old", "TestNamesOfCrashedHoldersAreListedByAge", "mysql-young-listed", mutant.Delete()},
		{"a name that was just used is forgotten", promise + "an_idle_record_is_there_for_its_retention", "mysql-sweep-old", mutant.Line(`"(1=1 OR written<" + old + ")",`)},
		{"a name that is held is forgotten", "TestANameIsForgottenADayAfterItsLastEntry", "mysql-sweep-idle", mutant.Line(`"1=1" +`)},
		{"a name that was used meanwhile is forgotten", "TestANameThatIsUsedMeanwhileIsNotForgotten", "mysql-sweep-unwritten", mutant.Line(`"-1<>%d"},`)},
		{"a session that has ended is renewed", promise + "a_renewal_of_a_session_that_has_lapsed_is_lost", "mysql-renewed-when-over", mutant.Line(`"1=1"+`)},
		{"a renewal moves the expiry back", "TestARenewalMovesNoExpiryBack", "mysql-renewed-back", mutant.Line(`now+"+ttl"+`)},
		{"a renewal goes to the row of a name", "TestALockedRowDoesNotStopOtherRenewals/shared", "mysql-session-by-its-key", mutant.After(`b.db.ExecContext(ctx, "SELECT 1 FROM "+b.records+" FOR UPDATE")`)},
		{"a session is looked for in all rows", "TestALockedSessionDelaysNoOtherSession/shared", "mysql-session-by-its-key", mutant.Value(`b.now(), " WHERE CONCAT(id)="+text(id[:])`)},
		{"old rows are deleted together", "TestALockedRowBlocksNoOtherNameBeingDeleted/shared", "mysql-swept-one-by-one", mutant.Before(`b.db.ExecContext(ctx, "DELETE FROM "+b.records+" WHERE idle=1 AND written<"+old)`)},
		{"a renewal that was not answered counts", "TestAHoldWhoseSessionsAreAllLockedIsLostByItsDeadline/shared", "session-renewed-if-answered", mutant.Line("case !errors.Is(err, store.ErrLost):")},
		{"an end is not final", "TestAnEndThatWaitsForARenewalDoesNotHappen" + levels, "mysql-end-is-final", mutant.Value("int64(0), int64(id[0]&0)+1, error(nil)")},
		{"an end is final though it was renewed meanwhile", "TestAnEndThatWaitsForARenewalDoesNotHappen" + levels, "mysql-end-is-final", mutant.Value(`b.tell(ctx, "UPDATE "+b.sessions+" SET expires=0 WHERE id="+text(id[:])+commits)`)},
		{"all servers are reported as one", "TestAfterAFailOverAProcessHasWhatTheReplicaHasAndNothingElse", "mysql-which-server", mutant.Return(`"LAST_INSERT_ID(4194304*" + number(1<<callsBits) + "+" + calls + ")"`)},
		{"a renewal counts its server among the calls", promise + "a_renewal_returns_how_often_its_session_was_called", "mysql-calls-of-a-renewal", mutant.Return("returned & (1<<(callsBits+1) - 1) + 1, err")},
		{"a row that has changed is an error", "TestARenewalThatWaitsForTheEndIsLost/shared/SERIALIZABLE,_notified_of_changes", "mysql-record-changed", mutant.Cond("true")},
		{"a group with many primaries is a server", "TestAGroupWithManyPrimariesIsRefused", "mysql-many-primaries", mutant.Cond("WAS || true")},
		{"a Galera cluster is a server", "TestAGaleraClusterIsWarnedOf", "mysql-galera", mutant.Cond("true")},
		{"a right by a role is none", "TestRights/a_right_by_a_role_is_not_visible,_and_no_failure", "mysql-role-is-not-seen", mutant.Cond("false")},
		{"what was seen once serves for good", "TestTheFirstCheckReadsNoTableAgain", "mysql-seen-long-ago", mutant.Value("all == nil")},
		{"what was seen serves for nothing", "TestTheFirstCheckReadsNoTableAgain", "mysql-seen-long-ago", mutant.Value("true")},
		{"tables of others fit", "TestAForeignTableIsReportedAndLeftAlone", "mysql-tables-as-created", mutant.Return("WAS || true")},
		{"another engine fits", "TestAForeignTableIsReportedAndLeftAlone", "mysql-engine-as-created", mutant.Stmt("t.engine = \"innodb\"")},
		{"tables that fit are looked at", "TestAProcessThatComesReadsNoInformationSchema", "mysql-tables-as-created", mutant.Return("WAS && false")},
		{"a right to insert is not tried", "TestTheFirstCheckFindsAMissingRight/INSERT", "mysql-rights-to-insert", mutant.Delete()},
		{"a right to update is not tried", "TestTheFirstCheckFindsAMissingRight/UPDATE", "mysql-rights-to-update", mutant.Stmt("_ = sets")},
		{"a right to delete is not tried", "TestTheFirstCheckFindsAMissingRight/DELETE", "mysql-rights-to-delete", mutant.Return("WAS || true")},
		{"case counts for no table", "TestATableIsFoundByItsNameAsTheServerHasIt", "mysql-tables-by-their-case", mutant.Cond("strings.EqualFold(table, is)")},
		{"case counts for each table", "TestATableIsFoundByItsNameAsTheServerHasIt", "mysql-tables-by-their-case", mutant.Cond("table == is && folds >= 0")},
		{"who gives back an idle name counts its notes", "TestAnIdleSwapCountsNoNotes", "mysql-idle-counts", mutant.Cond("false")},
		{"an idle name is said to have no notes", "TestAnIdleSwapCountsNoNotes", "mysql-inbox-is-empty", mutant.Value(`record.Outcome{Done: true, Current: true, Inbox: returned <= doneEmpty}`)},
		{"no pool is warned of", "TestTheCheckWarnsOfAPoolThatOthersCanEmpty", "mysql-pool-warned", mutant.Return("all")},
		{"a reader of the table is waited for", "TestFaults/fault/the_first_call_does_too/after_0", "row-first-call-waits-for-no-other", mutant.Stmt("o.busy <- struct{}{}")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "mysqlstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_MYSQL="+sharedDSN(t), "HOLDFAST_TEST_PATIENCE=5s")
}
