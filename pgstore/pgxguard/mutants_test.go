package pgxguard_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testwait"
)

// Each mutant, the guard on pgx with one thing wrong, fails a test.
func TestTheTestsCatchEachMutantOfTheGuardOnPgx(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a Do on pgx checks nothing", "TheRuleIsKeptOnPgx", "pgxguard-checks", mutant.Cond("false")},
		{"a Do on pgx commits what failed", "DoOnPgxRestartsAfterAConflict", "pgxguard-heeds-fn", mutant.First("tx.Commit(ctx)")},
		{"a Do on pgx commits nothing", "TheRuleIsKeptOnPgx", "pgxguard-commits", mutant.Value("error(nil)")},
		{"a commit on pgx that fails is none", "OnPgxACommitThatFailsIsAnError", "pgxguard-commits", mutant.Cond("false")},
		{"a Do on pgx rolls nothing back", "DoOnPgxRestartsAfterAConflict", "pgxguard-rolls-back", mutant.Stmt("_ = rollback")},
		{"a roll-back on pgx waits without end", "OnPgxAFrozenServerEndsARollback", "pgxguard-rollback-limit", mutant.Value("context.WithCancel(context.WithoutCancel(ctx))")},
		{"a name is not forgotten on pgx", "OnPgxADeletedNameStartsWithoutAFence", "pgxguard-forgets", mutant.Return("nil")},
		{"another name is forgotten on pgx", "OnPgxADeletedNameStartsWithoutAFence", "pgxguard-forgets", mutant.Return(`guard.PostgreSQL.ForgetTx(ctx, onPgx{tx}, name+".")`)},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "pgstore/pgxguard", Test: "TestGuard_" + m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, testwait.PatienceEnv+"=5s")
}
