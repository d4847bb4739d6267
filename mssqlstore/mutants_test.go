package mssqlstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

type broken struct {
	name, test, mark string
	do               mutant.Op
}

func catch(t *testing.T, mutants []broken, env ...string) {
	t.Helper()
	var all []mutant.Broken
	for _, m := range mutants {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "mssqlstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, append(env, "HOLDFAST_TEST_PATIENCE=5s")...)
}

// Each mutant, a backend with one of its rules broken, fails a test that needs no server.
func TestTheTestsCatchEachMutantWithoutAServer(t *testing.T) {
	t.Parallel()
	const (
		writes = "TestEachWriteIsOfOneRowByItsKey"
		sets   = "TestEachStatementSetsWhatItDependsOn"
	)
	catch(t, []broken{
		{"a swap depends on no version", writes, "mssql-swap-depends", mutant.Line("AND rev<>@old+@rev;")},
		{"a session that has ended is renewed", writes, "mssql-renewed-when-over", mutant.Line(";")},
		{"an end is final though it was renewed meanwhile", writes, "mssql-end-is-final", mutant.Line(";")},
		{"a name that is used meanwhile is forgotten", writes, "mssql-sweep-unwritten", mutant.Line(";")},
		{"the isolation level is that of the pool", sets, "mssql-isolation", mutant.Delete()},
		{"an open transaction is written in", sets, "mssql-commits", mutant.Line("IF 1=0")},
		{"names differ in zero bytes only", "TestNamesThatDifferInZeroBytesAreDifferentKeys", "mssql-terminator", mutant.Stmt(`name += "\x00"`)},
		{"a context is not heeded", "TestACallReturnsWhenItsContextEndsWithoutAnAnswer", "mssql-context-is-heeded", mutant.Stmt("case <-context.Background().Done():\nreturn nil, ctx.Err()")},
		{"a log-in ends with its caller", "TestALogInContinuesWithoutItsCaller", "mssql-login-outlives-its-caller", mutant.Return("c.Connector.Connect(ctx)")},
		{"a silent server is waited for", "TestEachRequestIsSentOnceAndASilentServerIsGivenUp", "mssql-silence-ends", mutant.Value("cmp.Or(c.ConnTimeout, 0*time.Second)")},
		{"an owner counts on what a step of the clock takes", "TestAnOwnerAllowsForAStepOfTheClock", "mssql-clock-steps", mutant.Return("ttl, err")},
		{"a look counts on what a step of the clock takes", "TestAReadAllowsForAStepOfTheClock", "mssql-look-counts-a-step", mutant.Return("shown")},
		{"an answer without a row is believed", "TestAnAnswerWithoutItsRowIsNotUsed", "mssql-one-row", mutant.Line("case len(all) > 1:")},
		{"a session that is not in the answer has ended", "TestASessionThatIsNotInTheAnswerHasNotEnded", "mssql-each-session-is-answered", mutant.Cond("WAS && len(all) == 0")},
		{"a row is believed whose statement failed", "TestARowOfAFailingStatementIsNotUsed", "mssql-answer-is-read-to-its-end", mutant.Stmt("_ = rows.Err()")},
		{"a begin does not tell its server", "TestEachBeginAndRenewalSaysWhichServerAnswered", "mssql-server-of-a-begin", mutant.Stmt("_ = server")},
		{"a renewal does not tell its server", "TestEachBeginAndRenewalSaysWhichServerAnswered", "mssql-server-of-a-renewal", mutant.Delete()},
		{"a lock timeout is an error", "TestAnUnappliedStatementIsRefused", "mssql-not-applied", mutant.Line("case is(err, deadlock):")},
		{"a table is left to another process", "TestTablesAreCreatedDespiteAConcurrentCreator", "mssql-made-by-another", mutant.Cond("!is(err, alreadyThere) || made == 0")},
		{"no pool is warned of", "TestTheCheckWarnsOfAPoolThatOthersCanEmpty", "mssql-pool-warned", mutant.Return("all")},
		{"another table is taken for ours", "TestATableWithOtherColumnsIsForeign", "mssql-not-ours", mutant.Cond("want == name")},
	})
}

// On a server, each mutant whose rule only a server shows fails a test too.
func TestTheTestsCatchEachMutantOnAServer(t *testing.T) {
	t.Parallel()
	url := testserver.SQLServer(t)
	const promise = "TestBackend/promise/"
	catch(t, []broken{
		{"what does not commit is written", "TestAConnectionWithAnOpenTransactionIsRefused", "mssql-commits", mutant.Line("IF 1=0")},
		{"what was not committed is read", "TestNothingIsReadThatWasNotCommitted", "mssql-isolation", mutant.Delete()},
		{"a swap depends on no version", promise + "a_swap_on_an_older_version_is_refused", "mssql-swap-depends", mutant.Line("AND rev<>@old+@rev;")},
		{"a note is taken in that has gone", promise + "a_swap_whose_notes_were_taken_in_is_refused", "row-note-is-there", mutant.Cond("WAS && false")},
		{"a note stays when it was taken in", promise + "a_swap_takes_in_the_notes_of_its_inbox_and_no_other", "mssql-notes-go", mutant.Line("inbox=inbox")},
		{"a refused first swap tells that it is done", promise + "a_swap_on_no_version_is_done_only_where_nothing_is", "mssql-insert-tells", mutant.Line("SET @told=2;")},
		{"the first of a name that meets another fails", "TestASwapThatWaitsForAnotherIsRefusedAndJoins", "mssql-duplicate", mutant.Line("IF 1=1")},
		{"a lock timeout is an error", "TestALockTimeoutIsARefusal", "mssql-not-applied", mutant.Line("case is(err, deadlock):")},
		{"what was written just now is listed as old", "TestNamesOfCrashedHoldersAreListedByAge", "mssql-young-listed", mutant.Delete()},
		{"a name that was just used is forgotten", promise + "an_idle_record_is_there_for_its_retention", "mssql-sweep-old", mutant.Delete()},
		{"a name that is used meanwhile is forgotten", "TestANameThatIsUsedMeanwhileIsNotForgotten", "mssql-sweep-unwritten", mutant.Line(";")},
		{"a session that has ended is renewed", promise + "a_renewal_of_a_session_that_has_lapsed_is_lost", "mssql-renewed-when-over", mutant.Line(";")},
		{"a renewal moves the expiry back", "TestARenewalMovesNoExpiryBack", "mssql-renewed-back", mutant.Line("expires=@now+ttl")},
		{"an end is final though it was renewed meanwhile", "TestAnEndThatWaitsForARenewalDoesNotHappen", "mssql-end-is-final", mutant.Line(";")},
		{"a row is believed whose statement failed", "TestARowOfAFailedStatementIsNotUsed", "mssql-answer-is-read-to-its-end", mutant.Stmt("_ = rows.Err()")},
		{"names differ in zero bytes only", promise + "names_of_any_bytes_are_kept_apart", "mssql-terminator", mutant.Stmt(`name += "\x00"`)},
	}, "HOLDFAST_TEST_SQLSERVER="+url)
}
