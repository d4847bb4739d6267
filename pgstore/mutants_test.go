package pgstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
)

// The store with one thing wrong fails a test. Those of the table's statements
// are in brokenTable.
func TestTheTestsCatchEachMutantOfTheTable(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"what has expired passes", "HeldTx_OnlyAHoldThatLastsPasses", "pg-held-lasts", mutant.Cond(`e.Has(token) && e.Broken == ""`)},
		{"what is broken passes", "HeldTx_OnlyAHoldThatLastsPasses", "pg-held-lasts", mutant.Cond("e.Has(token) && e.Expires > 0")},
		{"any token passes", "HeldTx_OnlyAHoldThatLastsPasses", "pg-held-lasts", mutant.Cond(`e.Granted && e.Expires > 0 && e.Broken == ""`)},
		{"a check locks nothing", "HeldTx_NobodyIsGrantedTheNameBeforeTheCommit", "pg-held-share", mutant.Delete()},
		{"a look for old rows begins anywhere", "OldRowsGoAsFastAsTheyCame", "pg-sweep-begin", mutant.Line("$2::bigint < 1000000")},
		{"a renewal waits for the pool", "APoolThatOthersHaveEmptiedKeepsNoHoldFromBeingRenewed", "pg-urgent-statements", mutant.Cond("s.releaseFast, s.releaseNext, s.release, s.releaseAll, s.change")},
		{"a release waits for the pool", "APoolThatOthersHaveEmptiedKeepsNoHoldFromBeingRenewed", "pg-urgent-statements", mutant.Cond("s.renewFast, s.renew, s.releaseAll, s.change")},
		{"a release of several waits for the pool", "APoolThatOthersHaveEmptiedKeepsNoHoldFromBeingRenewed", "pg-urgent-statements", mutant.Cond("s.renewFast, s.renew, s.releaseFast, s.releaseNext, s.release, s.change")},
		{"a renewal waits for a connection of pgx that does not come", "AConnectionThatDoesNotComeKeepsNoHoldFromBeingRenewed", "pg-pool-soon", mutant.Value("context.WithCancel(ctx)")},
		{"a renewal waits for a connection of database/sql that does not come", "AConnectionThatDoesNotComeKeepsNoHoldFromBeingRenewed", "pg-sql-pool-soon", mutant.Value("context.WithCancel(ctx)")},
		{"replicas that lose what was granted are ok", "AsynchronousReplicasAreWarnedOf", "pg-replicas-asynchronous", mutant.Cond("false")},
		{"no pool is warned of", "TheCheckWarnsOfAPoolThatOthersCanEmpty", "pg-pool-warned", mutant.Cond("n < 0")},
		{"each pool is warned of", "TheCheckWarnsOfAPoolThatOthersCanEmpty", "pg-pool-warned", mutant.Cond("n >= 0")},
		{"a blank in a URL becomes a plus", "SettingsOfAURLReachTheServerAsTheyAreWritten", "pg-url-as-written", mutant.Stmt(`theirs = append(theirs, strings.ReplaceAll(setting, "%20", "+"))`)},
		{"a plus in a URL becomes a blank", "SettingsOfAURLReachTheServerAsTheyAreWritten", "pg-url-own", mutant.Before(`value = strings.ReplaceAll(value, "+", " ")`)},
		{"no transaction is a panic", "HeldTx_OnlyAHoldThatLastsPasses", "pg-held-tx-nil", mutant.Cond("false")},
		{"the pause stays long", "OldRowsGoAsFastAsTheyCame", "pg-sweep-pause-shortens", mutant.Cond("false")},
		{"the pause stays short", "OldRowsGoAsFastAsTheyCame", "pg-sweep-pause-grows", mutant.Return("min(w.pause, w.most)")},
		{"the check gives up behind a pooler", "TheCheckWorksBehindPgBouncer", "pg-check-behind-pooler", mutant.Value(`s.db.query(ctx, "SELECT 1", nil, how{}, none)`)},
		{"the pooler is asked to listen", "ListenNamesTheServerItselfBesideAPooler", "pg-listen-host", mutant.Cond("true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "pgstore", Test: "Test" + m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	all = append(all, brokenTable()...)
	mutant.Catch(t, all, pgtest.AddrEnv+"="+sharedAddr(t), "HOLDFAST_TEST_STEPS=5000", pgtest.PatienceEnv+"=5s")
}
