package redlockstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The store with one thing wrong fails a test. What the protocol may not lack is
// found out in TestTheProtocolWithOneLineWrongIsFound; here it is that the
// scripts and the client are as it says.
func TestTheTestsCatchEachMutantOfRedlock(t *testing.T) {
	t.Parallel()
	const (
		model     = "TestEveryNodeAnswersAsTheModel"
		forgets   = "TestANodeThatWasRestartedOrWipedGrantsNothingUntilAllItGrantedIsOver"
		majority  = "TestTheMajorityAnswersAsTheModel/3_nodes"
		twoFrozen = "TestTwoNodesOfThreeThatAreFrozenAreUnavailableAndNothingIsLost"
		from      = "TestALeaseCountsFromBeforeTheFirstNodeWasAsked"
		clocks    = "TestAClientWhoseClockIsWrongIsServedInItsTurn"
		full      = "TestOnFullNodesLeasesAreRenewedAndGivenBack/Redis"
		overdue   = "TestARenewalThatIsToldAfterTheOldDeadlineIsALossAndMendsNothing"
	)
	var all []mutant.Broken
	for _, m := range []struct{ name, test, file, old, new string }{
		{"half is a majority", "TestItIsGrantedExactlyWhenAMajorityIsFree", "redlockstore.go", "n, majority := len(s.nodes), len(s.nodes)/2+1", "n, majority := len(s.nodes), (len(s.nodes)+1)/2"},
		{"a slot takes a majority", "TestOnFiveNodesThreeSlotsAreHeldByThree", "redlockstore.go", "q := int(int64(n)*limit/(limit+1)) + 1", "q := majority"},
		{"a slot takes one vote less", "TestASemaphoresQuorumLetsNoMoreInThanSlots", "redlockstore.go", "q := int(int64(n)*limit/(limit+1)) + 1", "q := int(int64(n)*limit/(limit+1))"},
		{"a slot waits for a majority", "TestASlotWaitsForASlowNodeThatHasToGrantIt", "ask.go", "return t.answered() >= need })", "return t.answered() > len(s.nodes)/2 })"},
		{"a grant may take longer than its TTL", "TestAGrantSlowerThanItsTTLIsNoneAndIsGivenBack", "ask.go", "if store.Now() >= sent.Add(cl.TTL-drift(cl.TTL)) {", "if false {"},
		{"a lease counts from the answer", from, "ask.go", "return s.granted(cl, cl.TTL, sent), nil", "return s.granted(cl, cl.TTL, store.Now()), nil"},
		{"clocks do not differ", from, "ask.go", "return ttl/100 + 2*time.Millisecond", "return 0 * ttl"},
		{"a renewal counts from the answer", from, "hold.go", "r := store.Renewal{TTL: h.TTL, From: sent}", "r := store.Renewal{TTL: h.TTL, From: now}"},
		{"what was granted late is kept", twoFrozen, "ask.go", "\ts.giveBack(cl, err == nil)\n", ""},
		{"a node that was away is told nothing", "TestWhatIsReleasedWhileANodeIsOutOfReachIsReleasedThereWhenItIsBack", "node.go", "n.owed = append(n.owed, &again)", "_ = again"},
		{"few answers refuse", twoFrozen, "ask.go", "case t.answered() < need:", "case t.answered() < 1:"},
		{"a renewal counts after the deadline", overdue, "hold.go", "if now >= cl.deadline {", "if false {"},
		{"nothing is mended", "TestAVoteThatANodeHasLostIsGivenBackByARenewal", "hold.go", "\tm.nodes = append(m.nodes, n)\n", ""},
		{"a hint carries the number", "TestAHintNeverCarriesAToken", "watch.go", "return store.Hint{Name: name, ID: id}, p, ok", "return store.Hint{Name: name, ID: id, Token: p, N: 1}, p, ok"},
		{"a node may grant as soon as it runs", forgets + "/restarted_with_an_old_record", "join.go", "old = n.s.maxTTL + time.Second - time.Duration(uptime)*time.Second", "old = 0 * time.Duration(uptime)"},
		{"a try gives up the place of its claim", majority, "ask.go", "cl.Try = cl.Try && !placed // who", "_ = placed // who"},
		{"who asks again goes to the end", majority, "claim.go", "} else if !cl.held && cl.place != 0 && now >= cl.place {", "} else if !cl.held && cl.place != 0 && now != 0 {"},
		{"who asks again for a hold has shown its token", majority, "ask.go", `s.renew(ctx, []store.Hold{h}, "")[0]`, `s.renew(ctx, []store.Hold{h}, "shown")[0]`},
		{"what is in the way is over when the first hold is, places or not", majority, "tally.go", "if sure > 0 && !places {", "if sure > 0 && (!places || true) {"},
		{"a wrong clock is somebody ahead", "TestANodeWhoseClockIsOffIsUnavailableAndNamed", "ask.go", "case t.onlyClocks(need):", "case false:"},
		{"a grant tells no clock", clocks + "/told_by_what_it_was_granted", "tally.go", "t.accepted = append(t.accepted, r.n)\n\t\tt.learn(s, r.n, float(rest))", "t.accepted = append(t.accepted, r.n)"},
		{"a refusal tells no clock", clocks + "/told_by_the_refusal_itself", "tally.go", "\t\tt.learn(s, r.n, f.now)\n", ""},
		{"a claim keeps the order of a wrong clock", clocks + "/told_by_the_refusal_itself", "ask.go", "case again < maxRounds && s.reorder(cl, t):", "case false:"},
		{"what is known of a clock is undone by a slow answer", "TestAnAnswerThatTookLongUndoesNoBetterOne", "wall.go", "had < least || had > most", "had < least || had >= least"},
		{"a full node is asked as fast as it refuses", "TestANodeThatTakesNoWritesIsLeftInPeace/full", "node.go", "time.Now().Before(n.again)", "false"},
		{"a full node is out of use for renewals too", full, "node.go", "(!full(err) || !j.isAsk()) && n.gone(err)", "n.gone(err)"},
		{"a full node is not joined", full, "join.go", "case full(err) && !stuck:", "case false:"},
		{"one server has two votes", "TestTwoClientsOfOneServerAreNotTwoNodes", "join.go", "\t\tif same {", "\t\tif same && false {"},
	} {
		all = append(all, broken(m.name, m.test, mutant.Edit{File: "redlockstore/" + m.file, Old: m.old, New: m.new}))
	}
	for _, m := range []struct{ name, test, file, old, new string }{
		{"a number need not be above the newest", model, "ask", "(own.p > last or ARGV[6] == 'r')", "true"},
		{"what is repaired lowers the newest number", model, "ask", "math.max(last, own.p + own.n - 1)", "own.p + own.n - 1"},
		{"a repair needs a number above the newest", "TestAVoteThatANodeHasLostIsGivenBackByARenewal", "ask", " or ARGV[6] == 'r')", ")"},
		{"nor where nobody is", model, "ask", "if p > newest and p + n - 1 <= now + AHEAD then", "if p + n - 1 <= now + AHEAD then"},
		{"a block counts as one token", model, "ask", "math.max(last, own.p + own.n - 1)", "math.max(last, own.p)"},
		{"a number may be far ahead", model, "ask", "if new.p + new.n - 1 > now + AHEAD then", "if false then"},
		{"an older ask is obeyed", model, "ask", "if own and new.p < own.p then", "if false then"},
		{"a repeat takes the grant back", model, "ask", "local fresh, was, dropped = not own or new.p > own.p,", "local fresh, was, dropped = true,"},
		{"a lost record lowers the tokens", model, "node", "last = now -- so", "last = 0 -- so"},
		{"who comes first is better", model, "node", "if a.order ~= b.order then return a.order < b.order end", ""},
		{"a hold is any of its claim's", model, "node", "if not e.accepted or e.p ~= p or e.expires <= now then", "if not e.accepted or e.expires <= now then"},
		{"a release takes a newer ask", model, "release", "if e and e.p <= p and e.expires > now then", "if e and e.expires > now then"},
		{"a wiped node grants", forgets + "/wiped", "ask", "if not record then", "if not record then record = ARGV[5] elseif false then"},
		{"a wiped node grants the second", forgets + "/wiped", "ask", "if opens > now then", "if false then"},
		{"a lone hold is not released on a full node", full, "release", "if not redis.pcall('SET'", "if not redis.call('SET'"},
		{"a full node lets others wait", full, "ask", "\t\tadded = true\n", ""},
		{"another maximum is not seen", "TestANodeThatComesToHaveAnotherMaximumGrantsNothing", "ask", "if have ~= most then", "if false then"},
	} {
		all = append(all, inLua(t, m.name, m.test, m.file, m.old, m.new))
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}

func broken(name, test string, edits ...mutant.Edit) mutant.Broken {
	return mutant.Broken{Name: name, Pkg: "redlockstore", Test: test, Edits: edits}
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
	return broken(name, test, mutant.Edit{
		File: "redlockstore/script.go", Old: "return string(b)",
		New: fmt.Sprintf("if text := string(b); name == %q { return strings.Replace(text, %q, %q, 1) }; return string(b)", file, old, new),
	})
}
