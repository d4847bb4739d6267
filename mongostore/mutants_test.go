package mongostore

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The store with one thing wrong fails a test.
func TestTheTestsCatchEachMutant(t *testing.T) {
	t.Parallel()
	if uri := os.Getenv("HOLDFAST_TEST_MONGODB"); uri != "" && uri != standIn {
		t.Skip("the mutants are tried on the stand-in, and a server is named: HOLDFAST_TEST_MONGODB")
	}
	const (
		rule, ops, renew, document, watch, whole = "mongostore/rule.go", "mongostore/ops.go", "mongostore/renew.go", "mongostore/document.go", "mongostore/watch.go", "mongostore/mongostore.go"
		same                                     = "TestDifferential"
		promise                                  = "TestStore/promise/"
	)
	var all []mutant.Broken
	for _, m := range []struct{ name, test, file, old, new string }{
		{"who expires at this instant lives", same, rule, `gt("$$e.expires", "$t.now")`, `op("$gte", "$$e.expires", "$t.now")`},
		{"a broken hold is whole", same, rule, `eq("$$e.broken", "")`, `eq("", "")`},
		{"a hold is matched by its id alone", same, rule, `eq("$$e.token", "$t.p.token")`, `gt("$$e.token", "$t.zero")`},
		{"an upgrade outlives its hold", promise + "Upgrade_pending_is_void_while_its_expired_hold_is_in_the_way", rule, `gt("$$e.want", "$$e.weight"), isLive())`, `gt("$$e.want", "$$e.weight"))`},
		{"there is no lock delay", same, rule, `add("$$e.expires", "$$e.delay")`, `"$$e.expires"`},
		{"there is no minimum hold", same, rule, `cond("$$e.shown", add("$$e.since", "$$e.keep"), "$$e.expires")`, `"$$e.expires"`},
		{"a minimum hold counts unshown", same, rule, `cond("$$e.shown", add("$$e.since", "$$e.keep"), "$$e.expires")`, `add("$$e.since", "$$e.keep")`},
		{"a token is the one before", same, rule, `most(add(last, long(1)), "$t.us")`, `most(last, "$t.us")`},
		{"a token does not begin with the time", same, rule, `most(add(last, long(1)), "$t.us")`, `add(last, long(1))`},
		{"the tokens of an idle name are forgotten", same, rule, `orElse("$fencingToken", long(0))`, `long(0)`},
		{"one's own grant is news", same, rule, `cond(eq(id, "$t.id"), list,`, `cond(eq(id, ""), list,`},
		{"a block is one token", same, rule, `"last", add("$$first", n, long(-1))`, `"last", "$$first"`},
		{"the small pass the wide", same, rule, `granted, stays(literal(true))`, `granted, stays(literal(false))`},
		{"an upgrade waits behind the queue", promise + "Upgrade_passes_all_that_wait", rule, `set("t.r", cond(gt("$t.up", long(0)),`, `set("t.r", cond(and(gt("$t.up", long(0)), not("$t.waits")),`},
		{"an upgrade does not wait for readers", same, rule, `lte(add("$t.held", "$t.up"), "$t.limit")`, `lte("$t.up", "$t.limit")`},
		{"what is over is not written", same, rule, `or("$t.wrote", lt(sizeOf("$t.kept"), sizeOf("$t.all")), gt("$t.r.last", "$t.last"))`, `or("$t.wrote", gt("$t.r.last", "$t.last"))`},
		{"a reason is forgotten", same, rule, `orElse(mostOf("$t.mine.broken"), "")`, `""`},
		{"a place is not kept", same, rule, `most("$$e.expires", add("$t.now", "$t.p.place"))`, `"$$e.expires"`},
		{"a try passes those who wait", same, rule, `and(not("$t.waits"), eq("$t.up", long(0)), lte(`, `and(eq("$t.up", long(0)), lte(`},
		{"a try passes an upgrade", promise + "Upgrade_that_is_pending_keeps_all_others_out", rule, `and(not("$t.waits"), eq("$t.up", long(0)), lte(`, `and(not("$t.waits"), lte(`},
		{"a second entry is appended to a lost one", same, rule, `and(not("$t.known"), "$t.fits"`, `and(not("$t.ok"), "$t.fits"`},
		{"limits do not matter", same, rule, `or(eq(sizeOf("$t.r.out"), long(0)), eq("$t.limit", "$t.p.limit"))`, `literal(true)`},
		{"a try waits", same, rule, `or("$t.room", not("$t.p.try"))`, `literal(true)`},
		{"a repeated ask does not push", same, rule, `most("$$e.expires", add("$t.now", "$t.p.ttl"))), "$$e"))),`, `"$$e.expires"), "$$e"))),`},
		{"a renewal moves the expiry back", same, rule, `"expires", most("$$e.expires", add("$t.now", "$t.p.ttl")),`, `"expires", add("$t.now", "$t.p.ttl"),`},
		{"a renewal does not show the token", same, rule, `			"shown", literal(true),`, `			"shown", "$$e.shown",`},
		{"a renewal forgets the owner", same, rule, `cond(eq("$t.p.owner", ""), "$$e.owner", "$t.p.owner")`, `"$t.p.owner"`},
		{"the newest token used goes back", promise + "Block_used_is_listed_as_the_largest_that_a_renewal_told", rule, `most("$$e.turn", subtract("$t.p.used", "$$e.token"))`, `subtract("$t.p.used", "$$e.token")`},
		{"a renewal is not repeated under the new id", promise + "Adopt_is_for_one_and_may_be_repeated", rule, `cond(in("$t.p.new", "$t.all.id"), "$t.p.new", "$t.p.id")`, `"$t.p.id"`},
		{"an old turn undoes a new one", promise + "Upgrade_late_copies_undo_nothing", rule, `gt("$t.p.turn", "$$e.turn")`, `op("$gte", "$t.p.turn", "$$e.turn")`},
		{"any hold can be upgraded", same, rule, `or(eq("$$e.weight", long(store.Upgradeable)), ne("$$e.fence", long(0)))`, `literal(true)`},
		{"a way back waits", promise + "Upgrade_cancelled_after_its_grant_gives_the_weight_back", rule, `least("$$e.weight", "$t.p.weight")`, `"$$e.weight"`},
		{"a release frees a minimum hold", same, rule, `stays := and("$$e.granted",`, `stays := and(literal(false),`},
		{"a released minimum hold has a delay", same, rule, `"expires", "$t.now", "delay", long(0)`, `"expires", "$t.now"`},
		{"a break needs no token", same, rule, `or(eq("$t.p.token", "$$e.fence"),`, `or(gt("$t.p.token", long(0)),`},
		{"a break keeps the minimum hold", same, rule, `"broken", "$t.p.reason", "keep", long(0)`, `"broken", "$t.p.reason"`},
		{"a break leaves an upgrade pending", promise + "Upgrade_pending_is_void_once_broken", rule, `"want", "$$e.weight", "broken"`, `"broken"`},
		{"a document goes with its lease", "TestAReleaseKeepsTheTokenForADay", rule, `mostOf(each("$t.out", ends()))), long(retain))`, `mostOf(each("$t.out", ends()))), long(1))`},
		{"each write acquires", "TestTheStoredFormIsWhatIsDocumented", rule, `cond(gt("$t.end", "$t.last"), "$t.now", "$acquiredAt")`, `"$t.now"`},
		{"a foreign document is written", "TestAForeignDocumentIsLeftAlone", rule, `cond(and("$t.ours", "$t.wrote"),`, `cond(and("$t.wrote"),`},
		{"racing first claims fail", "TestTwoFirstClaimsThatMeetAreRepeated", ops, `case !hasCode(err, duplicateKey):`, `default:`},
		{"a server that tells no time is asked for it again", "TestWhereTheFirstReplyHasNoTimeTheOperationIsDoneOnce", ops, `s.timeless.Store(true)`, `s.timeless.Store(false)`},
		{"renewals go one by one", "TestManyRenewalsAreTwoRoundTrips", renew, `len(holds) > 1 && times[h.Name] == 1`, `len(holds) > 1000`},
		{"a newer form is read", "TestAForeignDocumentIsLeftAlone", document, `if v > form {`, `if v > form+1 {`},
		{"nobody is told after a break", "TestABrokenStreamIsOpenedAgain", watch, `			sink(store.Hint{}) // some may have been missed` + "\n", ``},
		{"hints of others are delivered", same, watch, ` && h.ID.Process() == p {`, ` && h.ID.Process() != (store.Process{}) {`},
		{"one member's word is enough", "TestEveryWriteIsAcknowledgedByAMajorityAndItsJournals", whole, `W: "majority", Journal: &journal`, `W: 1, Journal: &journal`},
		{"the index is made at each ask", "TestTheIndexIsMadeOnceAndBesideTheLocking", whole, `if s.indexed.Swap(true) {`, `if s.indexed.Swap(false) {`},
	} {
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: "mongostore", Test: m.test, Edits: []mutant.Edit{{File: m.file, Old: m.old, New: m.new}},
		})
	}
	// Each is found within some hundred steps, on the average: by this many for sure.
	mutant.Catch(t, all, "HOLDFAST_TEST_MONGODB="+standIn, "HOLDFAST_TEST_PATIENCE=3s", "HOLDFAST_TEST_STEPS=20000")
}
