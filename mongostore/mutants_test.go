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
		same    = "TestDifferential"
		promise = "TestStore/promise/"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"who expires at this instant lives", same, "mongo-expires-this-instant-lives", mutant.Return(`op("$gte", "$$e.expires", "$t.now")`)},
		{"a broken hold is whole", same, "mongo-broken-hold-whole", mutant.Return(`eq("", "")`)},
		{"a hold is matched by its id alone", same, "mongo-hold-matched-id-alone", mutant.Return(`and("$$e.granted", gt("$$e.token", "$t.zero"))`)},
		{"an upgrade outlives its hold", promise + "Upgrade_pending_is_void_while_its_expired_hold_is_in_the_way", "mongo-upgrade-outlives-hold", mutant.Return(`and("$$e.granted", gt("$$e.want", "$$e.weight"))`)},
		{"there is no lock delay", same, "mongo-lock-delay", mutant.Expr(`most("$$e.expires", cond("$$e.shown", add("$$e.since", "$$e.keep"), "$$e.expires"))`)},
		{"there is no minimum hold", same, "mongo-lock-delay", mutant.Expr(`most(add("$$e.expires", "$$e.delay"), "$$e.expires")`)},
		{"a minimum hold counts unshown", same, "mongo-lock-delay", mutant.Expr(`most(add("$$e.expires", "$$e.delay"), add("$$e.since", "$$e.keep"))`)},
		{"a token is the one before", same, "mongo-token-before", mutant.Return(`most(last, "$t.us")`)},
		{"a token does not begin with the time", same, "mongo-token-before", mutant.Return("add(last, long(1))")},
		{"the tokens of an idle name are forgotten", same, "mongo-tokens-idle-name-forgotten", mutant.Expr("cond(ours, long(0), long(0))")},
		{"one's own grant is news", same, "mongo-own-grant-news", mutant.Return(`cond(eq(id, ""), list, text(list, id, " ", digits(token), " ", digits(n), "\n"))`)},
		{"a block is one token", same, "mongo-block-token", mutant.Expr(`"$$first"`)},
		{"the small pass the wide", same, "mongo-small-pass-wide", mutant.Expr(`cond(and(not("$$value.stop"), lte(held, "$t.limit")), granted, stays(literal(false)))`)},
		{"an upgrade waits behind the queue", promise + "Upgrade_passes_all_that_wait", "mongo-upgrade-waits-behind-queue", mutant.Expr(`and(WAS, not("$t.waits"))`)},
		{"an upgrade does not wait for readers", same, "mongo-upgrade-wait-readers", mutant.Expr(`cond(lte("$t.up", "$t.limit"), upgraded, asTheyAre)`)},
		{"what is over is not written", same, "mongo-over-written", mutant.Expr(`set("t.wrote", or("$t.wrote", gt("$t.r.last", "$t.last")))`)},
		{"a reason is forgotten", same, "mongo-reason-forgotten", mutant.Expr(`object("call", "$t.p.call", "ok", ok, "why", "")`)},
		{"a place is not kept", same, "mongo-place-kept", mutant.Expr(`edited("$$e", "expires", "$$e.expires")`)},
		{"a try passes those who wait", same, "mongo-try-passes-those-wait", mutant.Expr(`and(eq("$t.up", long(0)), lte(add("$t.held", "$t.p.weight"), "$t.p.limit"))`)},
		{"a try passes an upgrade", promise + "Upgrade_that_is_pending_keeps_all_others_out", "mongo-try-passes-those-wait", mutant.Expr(`and(not("$t.waits"), lte(add("$t.held", "$t.p.weight"), "$t.p.limit"))`)},
		{"a second entry is appended to a lost one", same, "mongo-second-entry-appended-lost", mutant.Expr(`set("t.joins", and(not("$t.ok"), "$t.fits", or("$t.room", not("$t.p.try"))))`)},
		{"limits do not matter", same, "mongo-limits-matter", mutant.Expr("literal(true)")},
		{"a try waits", same, "mongo-second-entry-appended-lost", mutant.Expr(`set("t.joins", and(not("$t.known"), "$t.fits", literal(true)))`)},
		{"a repeated ask does not push", same, "mongo-repeated-ask-push", mutant.Expr(`each("$t.r.out", cond(and(isOwn(), "$t.ok", "$$e.granted"), edited("$$e", "expires", "$$e.expires"), "$$e"))`)},
		{"a renewal moves the expiry back", same, "mongo-renewal-moves-expiry-back", mutant.Expr(`add("$t.now", "$t.p.ttl")`)},
		{"a renewal does not show the token", same, "mongo-renewal-show-token", mutant.Expr(`"$$e.shown"`)},
		{"a renewal forgets the owner", same, "mongo-renewal-forgets-owner", mutant.Expr(`"$t.p.owner"`)},
		{"the newest token used goes back", promise + "Block_used_is_listed_as_the_largest_that_a_renewal_told", "mongo-newest-token-used-goes", mutant.Expr(`cond(used, subtract("$t.p.used", "$$e.token"), "$$e.turn")`)},
		{"a renewal is not repeated under the new id", promise + "Adopt_is_for_one_and_may_be_repeated", "mongo-renewal-repeated-under-new", mutant.Expr(`"$t.p.id"`)},
		{"an old turn undoes a new one", promise + "Upgrade_late_copies_undo_nothing", "mongo-old-turn-undoes-new", mutant.Expr(`op("$gte", "$t.p.turn", "$$e.turn")`)},
		{"any hold can be upgraded", same, "mongo-any-hold-can-upgraded", mutant.Expr("literal(true)")},
		{"a way back waits", promise + "Upgrade_cancelled_after_its_grant_gives_the_weight_back", "mongo-way-back-waits", mutant.Expr(`edited("$$e", "turn", "$t.p.turn", "want", "$t.p.weight", "weight", "$$e.weight")`)},
		{"a release frees a minimum hold", same, "mongo-release-frees-minimum-hold", mutant.Value(`and(literal(false), "$$e.shown", gt(add("$$e.since", "$$e.keep"), "$t.now"))`)},
		{"a released minimum hold has a delay", same, "mongo-released-minimum-hold-delay", mutant.Expr(`set("t.list", ifOwn("$t.list", "expires", "$t.now"))`)},
		{"a break needs no token", same, "mongo-break-needs-token", mutant.Expr(`gt("$t.p.token", long(0))`)},
		{"a break keeps the minimum hold", same, "mongo-break-keeps-minimum-hold", mutant.Expr(`set("t.list", ifOwn("$t.list", "want", "$$e.weight", "broken", "$t.p.reason"))`)},
		{"a break leaves an upgrade pending", promise + "Upgrade_pending_is_void_once_broken", "mongo-break-keeps-minimum-hold", mutant.Expr(`set("t.list", ifOwn("$t.list", "broken", "$t.p.reason", "keep", long(0)))`)},
		{"a document goes with its lease", "TestAReleaseKeepsTheTokenForADay", "mongo-document-goes-lease", mutant.Expr(`add(most("$t.now", mostOf(each("$t.out", ends()))), long(1))`)},
		{"each write acquires", "TestTheStoredFormIsWhatIsDocumented", "mongo-each-write-acquires", mutant.Expr(`"$t.now"`)},
		{"a foreign document is written", "TestAForeignDocumentIsLeftAlone", "mongo-foreign-document-written", mutant.Expr(`and("$t.wrote")`)},
		{"racing first claims fail", "TestTwoFirstClaimsThatMeetAreRepeated", "mongo-racing-first-claims-fail", mutant.Stmt("default: // somebody else was the first at this name\n\treturn r, false, s.failed(what, err)")},
		{"a server that tells no time is asked for it again", "TestWhereTheFirstReplyHasNoTimeTheOperationIsDoneOnce", "mongo-server-tells-time-asked", mutant.Expr("s.timeless.Store(false)")},
		{"renewals go one by one", "TestManyRenewalsAreTwoRoundTrips", "mongo-renewals-go", mutant.Cond("len(holds) > 1000")},
		{"a newer form is read", "TestAForeignDocumentIsLeftAlone", "mongo-newer-form-read", mutant.Cond("WAS+1")},
		{"nobody is told after a break", "TestABrokenStreamIsOpenedAgain", "mongo-nobody-told-after-break", mutant.Stmt("for {\n\tif stream != nil {\n\t\tpause = leastPause\n\t\ts.deliver(stream, p, sink)\n\t}\n\tselect {\n\tcase <-s.ctx.Done():\n\t\treturn\n\tcase <-time.After(pause/2 + rand.N(pause)):\n\t}\n\tpause = min(2*pause, mostPause)\n\tif stream, err = s.watch(s.ctx); err != nil {\n\t\tstream = nil\n\t\tcontinue\n\t}\n}")},
		{"hints of others are delivered", same, "mongo-hints-others-delivered", mutant.Cond("err == nil && h.ID.Process() != (store.Process{})")},
		{"one member's word is enough", "TestEveryWriteIsAcknowledgedByAMajorityAndItsJournals", "mongo-member-word-enough", mutant.Value("1")},
		{"the index is made at each ask", "TestTheIndexIsMadeOnceAndBesideTheLocking", "mongo-index-made-each-ask", mutant.Cond("s.indexed.Swap(false)")},
	} {
		all = append(all, mutant.Broken{
			Name: m.name, Pkg: "mongostore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)},
		})
	}
	// Each is found within some hundred steps, on the average: by this many for sure.
	mutant.Catch(t, all, "HOLDFAST_TEST_MONGODB="+standIn, "HOLDFAST_TEST_PATIENCE=3s", "HOLDFAST_TEST_STEPS=8000")
}
