package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The store with one thing wrong that only replicas, clusters and fail-overs
// show fails a test. What the rule itself is comes out in storetest.
func TestTheTestsCatchEachMutantOfTheFleet(t *testing.T) {
	t.Parallel()
	const tooFew = "TestNothingIsToldAsOursThatTooFewReplicasConfirm"
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a new grant needs no replica", tooFew, "redis-grants-confirmed", mutant.Value(`one("ask", "G")`)},
		{"a repeated grant needs no replica", tooFew, "redis-grants-confirmed", mutant.Value(`one("ask", "0123456789")`)},
		{"a renewal needs no replica", tooFew, "redis-renewals-confirmed", mutant.Value(`one("renew", "")`)},
		{"an upgrade needs no replica", tooFew, "redis-upgrades-confirmed", mutant.Value(`one("change", "")`)},
		{"one replica less will do", tooFew, "redis-replicas-suffice", mutant.Cond("err == nil && got < int64(s.replicas)-1")},
		{"a refusal needs replicas", tooFew, "redis-confirms-what-gives", mutant.Return("true || WAS")},
		{"replicas are asked by another connection", "TestAReplicaThatHangsConfirmsNothing", "redis-wait-on-its-connection", mutant.Stmt("to.server.Process(ctx, wait)")},
		{"replicas are waited for longer than the client waits", "TestTheWaitForReplicasEndsBeforeTheClientGivesUp", "redis-wait-bounded", mutant.Value("4 * t")},
		{"a hint tells what no replica may have", "TestAHintCarriesNoGrantWhereReplicasMustConfirm", "redis-hint-without-grant", mutant.Cond("s.replicas > 1")},
		{"a mailbox is content with a ping", "TestAMailboxAtAPrimaryThatWasCutOffIsOpenedAtTheNewOne", "redis-mailbox-at-primary", mutant.Value("sub.Ping(ctx, message.Name())")},
		{"what scripts may not is said by older servers alone", "TestEachListedRightIsNeeded/Redis_8", "redis-denied-texts",
			mutant.Cond(`has("NOPERM", "NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH ", "No permissions", "The user executing the script")`)},
		{"an idle name is kept for a day", "TestANameIsRememberedForAsLongAsSaidAfterItsLastEntry", "redis-name-remembered", mutant.Value("store.TokenRetention + max(c.TTL+c.Delay, c.Keep) + time.Millisecond")},
		{"nobody looks who has taken over", "TestAFailOverOfAClusterServerLosesNoLeaseThatItsReplicaHasHeardOf", "redis-fail-over-looked-for", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "redisstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	const full = "TestOnAFullServerLeasesAreRenewedAndGivenBack/Redis"
	for _, m := range []struct{ name, test, file, old, new string }{
		{"what is there already is given unwritten", "TestEachAnswerThatGivesSomethingIsWrittenForIt", "queue", "\twrote = true\n\treturn done(answer)", "\treturn done(answer)"},
		{"an upgrade that is there is given unwritten", "TestEachAnswerThatGivesSomethingIsWrittenForIt", "change", "return give('G'", "return done('G'"},
		{"a lone hold is not given back to a full server", full, "release", "if not redis.pcall('SET'", "if not redis.call('SET'"},
		{"a full server lets others wait", full, "ask", "wrote, added = true, true", "wrote = true"},
		{"all tokens are kept for a day", "TestANameIsRememberedForAsLongAsSaidAfterItsLastEntry", "queue", "RETENTION + math", "86400000 + math"},
	} {
		all = append(all, inLua(t, m.name, m.test, m.file, m.old, m.new))
	}
	all = append(all, mutant.Broken{Name: "a full server loses what is held", Pkg: "redisstore", Test: full, Edits: []mutant.Edit{{
		File: "internal/redislua/redislua.go", Old: "save, 1)", New: `strings.Replace(save, "redis.pcall('PEXPIRE', KEYS[1], ms)", "", 1), 1)`,
	}}})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=8s")
}

// inLua is a mutant of a script. It is made when the script is loaded, so that
// all are in one binary.
func inLua(t *testing.T, name, test, file, old, new string) mutant.Broken {
	t.Helper()
	b, err := lua.ReadFile("lua/" + file + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), old); n != 1 {
		t.Fatalf("%s: %q is in %s.lua %d times, want once", name, old, file, n)
	}
	return mutant.Broken{Name: name, Pkg: "redisstore", Test: test, Edits: []mutant.Edit{{
		File: "redisstore/script.go", Old: "return string(b)",
		New: fmt.Sprintf("if text := string(b); name == %q { return strings.Replace(text, %q, %q, 1) }; return string(b)", file+".lua", old, new),
	}}}
}
