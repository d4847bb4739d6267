package mysqlstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The backend with one of its rules broken fails a test.
func TestTheTestsCatchEachMutantOfMySQL(t *testing.T) {
	t.Parallel()
	const (
		promises = "TestBackend"
		levels   = "/shared"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"what does not commit is written", "TestAConnectionWithoutAutocommitIsRefusedAndNothingIsWritten", "mysql-commits", mutant.Value(`" AND 1=1"`)},
		{"what was not committed is read", "TestAConnectionThatReadsWhatIsNotCommittedIsRefused" + levels, "mysql-fit", mutant.Value(`"@@autocommit"`)},
		{"a swap depends on no version", promises, "mysql-swap-depends", mutant.Value(`"0<>" + number(old.rev)`)},
		{"a note is taken in that has gone", promises, "mysql-note-is-there", mutant.Cond("WAS && false")},
		{"a note stays when it was taken in", promises, "mysql-notes-go", mutant.Line(`set("inbox", "inbox", joins) +`)},
		{"a refused first swap tells that it is done", promises, "mysql-insert-tells", mutant.Line(`" ON DUPLICATE KEY UPDATE inbox=IF(" + room + "," + joins + ",inbox)"`)},
		{"an inbox is told to be empty that is not", promises, "mysql-inbox-is-empty", mutant.Value(`record.Outcome{Done: true, Told: true, Inbox: true}`)},
		{"a lock timeout is an error", "TestADeadlockOrALockTimeoutIsARefusal" + levels, "mysql-not-applied", mutant.Line("case is(err, deadlock):")},
		{"what was written just now is listed as old", "TestWhatCrashedHoldersLeftIsListedByItsAge", "mysql-young-listed", mutant.Delete()},
		{"a name that was just used is forgotten", promises, "mysql-sweep-old", mutant.Line(`{"SELECT HEX(name),rev FROM " + b.records + " WHERE idle=1",`)},
		{"a name that is held is forgotten", "TestANameIsForgottenADayAfterItsLastEntry", "mysql-sweep-old", mutant.Line(`{"SELECT HEX(name),rev FROM " + b.records + " WHERE written<" + old,`)},
		{"a session that has ended is renewed", promises, "mysql-renewed-when-over", mutant.Value(`b.tell(ctx, "UPDATE "+b.sessions+" SET expires=GREATEST(expires,"+now+"+ttl),calls=LAST_INSERT_ID(calls+1)-1"+of+commits)`)},
		{"a renewal moves the expiry back", "TestARenewalMovesNoExpiryBack", "mysql-renewed-when-over", mutant.Value(`b.tell(ctx, "UPDATE "+b.sessions+" SET expires="+now+"+ttl,calls=LAST_INSERT_ID(calls+1)-1"+of+" AND expires>"+now+commits)`)},
		{"an end is not final", promises, "mysql-end-is-final", mutant.Value("0, 1, error(nil)")},
		{"an end is final though it was renewed meanwhile", "TestAnEndThatWaitsForARenewalDoesNotHappen" + levels, "mysql-end-is-final", mutant.Value(`b.tell(ctx, "UPDATE "+b.sessions+" SET expires=0 WHERE id="+text(id[:])+commits)`)},
		{"whoever looks at the table is waited for", "TestFaults/fault/the_first_call_does_too/after_0", "mysql-first-call-waits-for-no-other", mutant.Stmt("b.checking <- struct{}{}")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "mysqlstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_MYSQL="+sharedDSN(t), "HOLDFAST_TEST_PATIENCE=5s")
}
