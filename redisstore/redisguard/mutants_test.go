package redisguard_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Each mutant, the guard in Redis with one thing wrong, fails a test.
func TestTheTestsCatchEachMutantOfTheGuardInRedis(t *testing.T) {
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"the holder's own token is refused by Redis", "TheFenceIsRaisedBeforeTheHolderReads", "redisguard-fence-compared", mutant.Line("if #fence > #token or (#fence == #token and fence >= token) then")},
		{"an older token passes in Redis", "APausedHolderWritesLate", "redisguard-fence-compared", mutant.Line("if #fence > #token or (false) then")},
		{"tokens are compared as text", "TokensAreComparedExactly", "redisguard-fence-compared", mutant.Line("if fence > token then")},
		{"tokens are compared as numbers", "TokensAreComparedExactly", "redisguard-fence-compared", mutant.Line("if tonumber(fence) > tonumber(token) then")},
		{"the fence is never raised in Redis", "WhatLandsIsInTheOrderOfTheTokens", "redisguard-fence-raised", mutant.Line("and raise == '2'")},
		{"a read lease raises in Redis", "AReadLeaseIsCheckedAndNeverRaises", "redisguard-fence-raised", mutant.Delete()},
		{"the script sees the fence's key", "ARefusedScriptDoesNothing", "redisguard-key-hidden", mutant.Line("local key = KEYS[#KEYS]")},
		{"the script sees the token", "ARefusedScriptDoesNothing", "redisguard-token-hidden", mutant.Line("local raise, token = table.remove(ARGV), ARGV[#ARGV]")},
		{"what is no fence passes", "WhatCannotBeGuardedIsAnError", "redisguard-is-a-fence", mutant.Delete()},
		{"the caller's array is written to", "ARefusedScriptDoesNothing", "redisguard-keys-copied", mutant.Value("append(keys, fence)")},
		{"the fence is in a slot of its own", "OnAClusterTheFenceIsInTheSlotOfItsKeys", "redisguard-fence-slot", mutant.Return(`"holdfast:fence:{" + first + "x}:" + name, nil`)},
		{"keys of two slots", "KeysThatOneFenceCannotGuard", "redisguard-one-slot", mutant.Cond(`!ok || tag == ""`)},
		{"empty braces are a hash tag", "KeysThatOneFenceCannotGuard", "redisguard-empty-braces", mutant.Cond("closed")},
		{"a name is not forgotten in Redis", "ADeletedKeyStartsWithoutAFence", "redisguard-forgets", mutant.Return("client.Exists(ctx, fence).Err()")},
		{"another name is forgotten in Redis", "ADeletedKeyStartsWithoutAFence", "redisguard-forgotten-name", mutant.Value(`fenceKey(name+".", []string{key})`)},
		{"a pipeline is taken", "WhatCannotBeGuardedIsAnError", "redisguard-no-pipeline", mutant.Cond("false && pipeline")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "redisstore/redisguard", Test: "TestGuard_" + m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all)
}
