package guard_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Each guard with one thing wrong fails a test.
func TestTheTestsCatchEachMutantOfTheGuards(t *testing.T) {
	const (
		rule, sql, redis = "guard/guard.go", "guard/sql.go", "guard/redisguard/redisguard.go"
		inSQL, inRedis   = "guard", "guard/redisguard"
		do               = "guard/do.go"
	)
	var all []mutant.Broken
	for _, m := range []struct{ name, test, pkg, file, old, new string }{
		{"a read lease raises", "AReadLeaseIsCheckedAndNeverRaises", inSQL, rule, "case holdfast.ModeRead:\n\t\treturn false", "case holdfast.ModeRead:\n\t\treturn true"},
		{"a write lease does not raise", "TheFenceIsRaisedBeforeTheHolderReads", inSQL, rule, "case holdfast.ModeWrite:\n\t\treturn true", "case holdfast.ModeWrite:\n\t\treturn false"},
		{"slots are checked like readers", "LeasesSayWhatTheyAre", inSQL, rule, "case holdfast.ModeSlots:\n", "case holdfast.ModeSlots:\n\t\treturn false, nil\n\tcase 99:\n"},
		{"no token is a token", "WhatIsNoLeaseIsAnError", inSQL, rule, "if l.Token() <= 0 {", "if l.Token() < 0 {"},
		{"a refusal is no loss", "APausedHolderWritesLate", inSQL, rule, "return target == holdfast.ErrLost", "return target == holdfast.ErrHeld"},

		{"the holder's own token is refused", "TheFenceIsRaisedBeforeTheHolderReads", inSQL, sql, "if fence > token {", "if fence >= token {"},
		{"an older token passes", "TheFenceIsRaisedBeforeTheHolderReads", inSQL, sql, "if fence > token {", "if fence > token+1 {"},
		{"the fence is the last token, not the newest", "WhatLandsIsInTheOrderOfTheTokens", inSQL, sql, "max(fence, excluded.fence)", "excluded.fence"},
		{"the fence is never raised", "APausedHolderWritesLate", inSQL, sql, "max(fence, excluded.fence)", "fence"},
		{"the check takes no lock", "NobodySlipsInBetweenTheCheckAndTheCommit", inSQL, sql, "query, args = d.raise, append(args, token)", "query = \"SELECT fence FROM holdfast_fence WHERE name = ?\""},
		{"one fence for all names", "NamesAreBytes", inSQL, sql, "[]byte(l.Name()), token", "[]byte(\"x\"), token"},
		{"names are cut off", "NamesAreBytes", inSQL, sql, "[]byte(l.Name())", "[]byte(l.Name()[:min(1, len(l.Name()))])"},
		{"nobody was here yet is an error", "AReadLeaseIsCheckedAndNeverRaises", inSQL, sql, "case errors.Is(err, sql.ErrNoRows):", "case false:"},
		{"the fence is the last token in PostgreSQL", "OnServersTheOrderIsThatOfTheTokens", inSQL, sql, "greatest(holdfast_fence.fence, excluded.fence)", "excluded.fence"},
		{"the fence is the last token in MySQL", "OnServersTheOrderIsThatOfTheTokens", inSQL, sql, "LAST_INSERT_ID(GREATEST(fence, ?))", "LAST_INSERT_ID(?)"},
		{"a reader locks nothing in PostgreSQL", "OnServersAReadersWriteDoesNotLandAfterANewerHolders", inSQL, sql, " WHERE name = $1 FOR SHARE", " WHERE name = $1"},
		{"a reader locks nothing in MySQL", "OnServersAReadersWriteDoesNotLandAfterANewerHolders", inSQL, sql, " WHERE name = ? LOCK IN SHARE MODE", " WHERE name = ?"},
		{"a reader who is first locks nothing", "OnServersAReadersWriteDoesNotLandAfterANewerHolders", inSQL, sql, "if d.seed == \"\" {", "if true {"},

		{"a conflict ends a Do", "DoBeginsAnewAfterAConflict", inSQL, do, `case "40001", "40P01":`, `case "none":`},
		{"a Do begins anew without end", "DoBeginsAnewAfterAConflict", inSQL, do, "try == doTries ||", "try == doTries+1 ||"},
		{"a Do checks nothing", "DoCommitsOrLeavesNothing", inSQL, do, "if err := d.Check(ctx, tx, l); err != nil {", "if err := d.Check(ctx, tx, l); false {"},
		{"a Do commits what failed", "DoCommitsOrLeavesNothing", inSQL, do, "if err := fn(ctx, tx); err != nil {", "if err := fn(ctx, tx); err != nil {\n\t\t\ttx.Commit()"},
		{"a Do goes on without its lease", "DoEndsWithTheLease", inSQL, do, "ctx = lease.Context(ctx)", "_ = lease.Context(ctx)"},
		{"a name is not forgotten", "AForgottenNameBeginsAnew", inSQL, sql, "tx.Exec(ctx, d.forget, []byte(name))", "tx.Exec(ctx, d.forget, []byte(name+\".\"))"},

		{"the holder's own token is refused by Redis", "TheFenceIsRaisedBeforeTheHolderReads", inRedis, redis, "fence > token) then", "fence >= token) then"},
		{"an older token passes in Redis", "APausedHolderWritesLate", inRedis, redis, "#fence == #token and fence > token", "false"},
		{"tokens are compared as text", "TokensAreComparedExactly", inRedis, redis, "if #fence > #token or (#fence == #token and fence > token) then", "if fence > token then"},
		{"tokens are compared as numbers", "TokensAreComparedExactly", inRedis, redis, "if #fence > #token or (#fence == #token and fence > token) then", "if tonumber(fence) > tonumber(token) then"},
		{"the fence is never raised in Redis", "WhatLandsIsInTheOrderOfTheTokens", inRedis, redis, "if raise == '1' and", "if raise == '2' and"},
		{"a read lease raises in Redis", "AReadLeaseIsCheckedAndNeverRaises", inRedis, redis, "if raise == '1' and fence ~= token", "if fence ~= token"},
		{"the script sees the fence's key", "ARefusedScriptDoesNothing", inRedis, redis, "table.remove(KEYS), table", "KEYS[#KEYS], table"},
		{"the script sees the token", "ARefusedScriptDoesNothing", inRedis, redis, "table.remove(ARGV), table.remove(ARGV)", "table.remove(ARGV), ARGV[#ARGV]"},
		{"what is no fence passes", "WhatCannotBeGuardedIsAnError", inRedis, redis, "if not string.match(fence, '^[0-9]+$') then", "if false then"},
		{"the caller's array is written to", "ARefusedScriptDoesNothing", inRedis, redis, "append(keys[:len(keys):len(keys)], fence)", "append(keys, fence)"},
		{"the fence is in a slot of its own", "OnAClusterTheFenceIsInTheSlotOfItsKeys", inRedis, redis, "\"holdfast:fence:{\" + first + \"}:\"", "\"holdfast:fence:{\" + first + \"x}:\""},
		{"keys of two slots", "KeysThatOneFenceCannotGuard", inRedis, redis, "!ok || tag != first", "!ok || tag == \"\""},
		{"empty braces are a hash tag", "KeysThatOneFenceCannotGuard", inRedis, redis, "closed && tag != \"\"", "closed"},
		{"a pipeline is taken", "WhatCannotBeGuardedIsAnError", inRedis, redis, "err == nil && pipeline", "false && pipeline"},
	} {
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: m.pkg, Test: "TestGuard_" + m.test, Edits: []mutant.Edit{{File: m.file, Old: m.old, New: m.new}},
		})
	}
	mutant.Catch(t, all)
}
