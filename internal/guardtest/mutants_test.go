package guardtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// A guard in SQL with one thing wrong fails a test.
func TestTheTestsCatchEachMutantOfTheGuards(t *testing.T) {
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a read lease raises", "AReadLeaseIsCheckedAndNeverRaises", "guard-read-lease-raises-not", mutant.Return("true, nil")},
		{"a write lease does not raise", "TheFenceIsRaisedBeforeTheHolderReads", "guard-write-lease-raises", mutant.Return("false, nil")},
		{"slots are checked like readers", "LeasesSayWhatTheyAre", "guard-slots-refused", mutant.First("return false, nil")},
		{"no token is a token", "AnInvalidLeaseIsAnError", "guard-token-positive", mutant.Cond("l.Token() < 0")},
		{"a refusal is no loss", "APausedHolderWritesLate", "guard-stale-is-lost", mutant.Return("target == holdfast.ErrHeld")},

		{"the holder's own token is refused", "TheFenceIsRaisedBeforeTheHolderReads", "guard-fence-compared", mutant.Cond("fence >= token")},
		{"an older token passes", "TheFenceIsRaisedBeforeTheHolderReads", "guard-fence-compared", mutant.Cond("fence > token+1")},
		{"the fence is the last token, not the newest", "WhatLandsIsInTheOrderOfTheTokens", "guard-sqlite-raise",
			mutant.Value("`INSERT INTO holdfast_fence (name, fence) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET fence = excluded.fence RETURNING fence`")},
		{"the fence is never raised", "APausedHolderWritesLate", "guard-sqlite-raise",
			mutant.Value("`INSERT INTO holdfast_fence (name, fence) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET fence = fence RETURNING fence`")},
		{"the check takes no lock", "CheckAndCommitAreAtomic", "guard-check-raises", mutant.Stmt(`query = "SELECT fence FROM holdfast_fence WHERE name = ?"`)},
		{"one fence for all names", "NamesAreBytes", "guard-fence-of-name", mutant.Value(`d.fence(ctx, tx, []byte("x"), token, raises)`)},
		{"names are cut off", "NamesAreBytes", "guard-fence-of-name", mutant.Value("d.fence(ctx, tx, []byte(l.Name()[:min(1, len(l.Name()))]), token, raises)")},
		{"a missing fence is an error", "AReadLeaseIsCheckedAndNeverRaises", "guard-no-fence-yet", mutant.Cond("false")},
		{"the fence is the last token in PostgreSQL", "OnServersTheOrderIsThatOfTheTokens", "guard-postgres-raise",
			mutant.Value("`INSERT INTO holdfast_fence (name, fence) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET fence = excluded.fence RETURNING fence`")},
		{"the fence is the last token in MySQL", "OnServersTheOrderIsThatOfTheTokens", "guard-mysql-raise",
			mutant.Value("`INSERT INTO holdfast_fence (name, fence) VALUES (?, LAST_INSERT_ID(?)) ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(?)`")},
		{"a reader locks nothing in PostgreSQL", "OnServersAReadersWriteNeverFollowsANewer", "guard-postgres-read",
			mutant.Value("`SELECT fence FROM holdfast_fence WHERE name = $1`")},
		{"a reader locks nothing in MySQL", "OnServersAReadersWriteNeverFollowsANewer", "guard-mysql-read",
			mutant.Value("`SELECT fence FROM holdfast_fence WHERE name = ?`")},
		{"the first reader locks nothing", "OnServersAReadersWriteNeverFollowsANewer", "guard-first-reader-locks", mutant.Cond("true")},

		{"a conflict ends a Do", "DoRestartsAfterAConflict", "guard-conflicts", mutant.Cond(`"none"`)},
		{"a deadlock ends a Do", "DoRestartsAfterADeadlock", "guard-conflicts", mutant.Cond(`"none"`)},
		{"a Do restarts without end", "DoRestartsAfterAConflict", "guard-tries-end", mutant.Cond("try == doTries+1 || !conflict(err)")},
		{"a Do checks nothing", "DoCommitsOrLeavesNothing", "guard-do-checks", mutant.Cond("false")},
		{"a Do commits a failed transaction", "DoCommitsOrLeavesNothing", "guard-do-rolls-back", mutant.First("tx.Commit()")},
		{"a Do goes on without its lease", "DoEndsWithTheLease", "guard-do-ends-with-lease", mutant.Stmt("_ = lease.Context(ctx)")},
		{"a name is not forgotten", "ADeletedNameStartsWithoutAFence", "guard-forgets-name", mutant.Value(`tx.Exec(ctx, d.forget, []byte(name+"."))`)},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "internal/guardtest", Test: "TestGuard_" + m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all)
}
