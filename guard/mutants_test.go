package guard_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Each guard with one thing wrong fails a test.
func TestTheTestsCatchEachMutantOfTheGuards(t *testing.T) {
	const inSQL, inRedis = "guard", "redisstore/redisguard"
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, pkg, mark string
		do                    mutant.Op
	}{
		{"a read lease raises", "AReadLeaseIsCheckedAndNeverRaises", inSQL, "guard-read-lease-raises-not", mutant.Return("true, nil")},
		{"a write lease does not raise", "TheFenceIsRaisedBeforeTheHolderReads", inSQL, "guard-write-lease-raises", mutant.Return("false, nil")},
		{"slots are checked like readers", "LeasesSayWhatTheyAre", inSQL, "guard-slots-refused", mutant.First("return false, nil")},
		{"no token is a token", "WhatIsNoLeaseIsAnError", inSQL, "guard-token-positive", mutant.Cond("l.Token() < 0")},
		{"a refusal is no loss", "APausedHolderWritesLate", inSQL, "guard-stale-is-lost", mutant.Return("target == holdfast.ErrHeld")},

		{"the holder's own token is refused", "TheFenceIsRaisedBeforeTheHolderReads", inSQL, "guard-fence-compared", mutant.Cond("fence >= token")},
		{"an older token passes", "TheFenceIsRaisedBeforeTheHolderReads", inSQL, "guard-fence-compared", mutant.Cond("fence > token+1")},
		{"the fence is the last token, not the newest", "WhatLandsIsInTheOrderOfTheTokens", inSQL, "guard-sqlite-raise",
			mutant.Value("`INSERT INTO holdfast_fence (name, fence) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET fence = excluded.fence RETURNING fence`")},
		{"the fence is never raised", "APausedHolderWritesLate", inSQL, "guard-sqlite-raise",
			mutant.Value("`INSERT INTO holdfast_fence (name, fence) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET fence = fence RETURNING fence`")},
		{"the check takes no lock", "NobodySlipsInBetweenTheCheckAndTheCommit", inSQL, "guard-check-raises", mutant.Stmt(`query = "SELECT fence FROM holdfast_fence WHERE name = ?"`)},
		{"one fence for all names", "NamesAreBytes", inSQL, "guard-fence-of-name", mutant.Value(`d.fence(ctx, tx, []byte("x"), token, raises)`)},
		{"names are cut off", "NamesAreBytes", inSQL, "guard-fence-of-name", mutant.Value("d.fence(ctx, tx, []byte(l.Name()[:min(1, len(l.Name()))]), token, raises)")},
		{"nobody was here yet is an error", "AReadLeaseIsCheckedAndNeverRaises", inSQL, "guard-no-fence-yet", mutant.Cond("false")},
		{"the fence is the last token in PostgreSQL", "OnServersTheOrderIsThatOfTheTokens", inSQL, "guard-postgres-raise",
			mutant.Value("`INSERT INTO holdfast_fence (name, fence) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET fence = excluded.fence RETURNING fence`")},
		{"the fence is the last token in MySQL", "OnServersTheOrderIsThatOfTheTokens", inSQL, "guard-mysql-raise",
			mutant.Value("`INSERT INTO holdfast_fence (name, fence) VALUES (?, LAST_INSERT_ID(?)) ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(?)`")},
		{"a reader locks nothing in PostgreSQL", "OnServersAReadersWriteDoesNotLandAfterANewerHolders", inSQL, "guard-postgres-read",
			mutant.Value("`SELECT fence FROM holdfast_fence WHERE name = $1`")},
		{"a reader locks nothing in MySQL", "OnServersAReadersWriteDoesNotLandAfterANewerHolders", inSQL, "guard-mysql-read",
			mutant.Value("`SELECT fence FROM holdfast_fence WHERE name = ?`")},
		{"a reader who is first locks nothing", "OnServersAReadersWriteDoesNotLandAfterANewerHolders", inSQL, "guard-first-reader-locks", mutant.Cond("true")},

		{"a conflict ends a Do", "DoBeginsAnewAfterAConflict", inSQL, "guard-conflicts", mutant.Cond(`"none"`)},
		{"a Do begins anew without end", "DoBeginsAnewAfterAConflict", inSQL, "guard-tries-end", mutant.Cond("try == doTries+1 || !conflict(err)")},
		{"a Do checks nothing", "DoCommitsOrLeavesNothing", inSQL, "guard-do-checks", mutant.Cond("false")},
		{"a Do commits what failed", "DoCommitsOrLeavesNothing", inSQL, "guard-do-rolls-back", mutant.First("tx.Commit()")},
		{"a Do goes on without its lease", "DoEndsWithTheLease", inSQL, "guard-do-ends-with-lease", mutant.Stmt("_ = lease.Context(ctx)")},
		{"a name is not forgotten", "AForgottenNameBeginsAnew", inSQL, "guard-forgets-name", mutant.Value(`tx.Exec(ctx, d.forget, []byte(name+"."))`)},

		{"the holder's own token is refused by Redis", "TheFenceIsRaisedBeforeTheHolderReads", inRedis, "redisguard-fence-compared", mutant.Line("if #fence > #token or (#fence == #token and fence >= token) then")},
		{"an older token passes in Redis", "APausedHolderWritesLate", inRedis, "redisguard-fence-compared", mutant.Line("if #fence > #token or (false) then")},
		{"tokens are compared as text", "TokensAreComparedExactly", inRedis, "redisguard-fence-compared", mutant.Line("if fence > token then")},
		{"tokens are compared as numbers", "TokensAreComparedExactly", inRedis, "redisguard-fence-compared", mutant.Line("if tonumber(fence) > tonumber(token) then")},
		{"the fence is never raised in Redis", "WhatLandsIsInTheOrderOfTheTokens", inRedis, "redisguard-fence-raised", mutant.Line("and raise == '2'")},
		{"a read lease raises in Redis", "AReadLeaseIsCheckedAndNeverRaises", inRedis, "redisguard-fence-raised", mutant.Delete()},
		{"the script sees the fence's key", "ARefusedScriptDoesNothing", inRedis, "redisguard-key-hidden", mutant.Line("local key = KEYS[#KEYS]")},
		{"the script sees the token", "ARefusedScriptDoesNothing", inRedis, "redisguard-token-hidden", mutant.Line("local raise, token = table.remove(ARGV), ARGV[#ARGV]")},
		{"what is no fence passes", "WhatCannotBeGuardedIsAnError", inRedis, "redisguard-is-a-fence", mutant.Delete()},
		{"the caller's array is written to", "ARefusedScriptDoesNothing", inRedis, "redisguard-keys-copied", mutant.Value("append(keys, fence)")},
		{"the fence is in a slot of its own", "OnAClusterTheFenceIsInTheSlotOfItsKeys", inRedis, "redisguard-fence-slot", mutant.Return(`"holdfast:fence:{" + first + "x}:" + name, nil`)},
		{"keys of two slots", "KeysThatOneFenceCannotGuard", inRedis, "redisguard-one-slot", mutant.Cond(`!ok || tag == ""`)},
		{"empty braces are a hash tag", "KeysThatOneFenceCannotGuard", inRedis, "redisguard-empty-braces", mutant.Cond("closed")},
		{"a pipeline is taken", "WhatCannotBeGuardedIsAnError", inRedis, "redisguard-no-pipeline", mutant.Cond("false && pipeline")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: m.pkg, Test: "TestGuard_" + m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all)
}
