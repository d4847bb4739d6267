//go:build linux || darwin

package prove

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Each mutant makes the judge see too little, or too much. The histories must catch it.
func TestTheTestsCatchEachMutantOfTheJudge(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	type wrong struct {
		name, mark string
		do         mutant.Op
	}
	add := func(test string, mutants ...wrong) {
		for _, m := range mutants {
			all = append(all, mutant.Broken{Name: m.name, Pkg: "prove", Test: test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
		}
	}
	add("TestASlowLinkIsSlowUntilItIsRestored", wrong{"a slow reply stays slow", "prove-slow-ends", mutant.Delete()})
	add("TestEachCheckFindsWhatItIsFor",
		wrong{"a deadline ends nothing", "judge-deadline-ends-nothing", mutant.Return("min(c.lost, c.release, c.died)")},
		wrong{"a reported loss ends nothing", "judge-deadline-ends-nothing", mutant.Return("min(c.until, c.release, c.died)")},
		wrong{"a release ends nothing before it returns", "judge-deadline-ends-nothing", mutant.Return("min(c.until, c.lost, c.released, c.died)")},
		wrong{"a death ends nothing", "judge-deadline-ends-nothing", mutant.Return("min(c.until, c.lost, c.release)")},
		wrong{"one may hold beside the whole", "judge-may-hold-beside-whole", mutant.Cond("WAS+1")},
		wrong{"a hold that ended is counted on", "judge-hold-ended-counted", mutant.Cond("o.to < s.from")},
		wrong{"nothing is excused", "judge-nothing-excused", mutant.Cond("false")},
		wrong{"everything is excused", "judge-everything-excused", mutant.Return("slices.Contains(voids[f], c)")},
		wrong{"what is excused has no end", "judge-excused-end", mutant.Value("never")},
		wrong{"what is excused ends with the fault", "judge-excused-end", mutant.Value("e.At")},
		wrong{"tokens may repeat in a hold that is handed over", "judge-tokens-may-repeat-hold", mutant.Cond("o != nil && o.id != s.c.id")},
		wrong{"tokens may go back", "judge-tokens-may-go-back", mutant.Cond("o.c == s.c || w+s.weight <= s.c.limit || o.token > 0")},
		wrong{"tokens of readers may not go back", "judge-tokens-may-go-back", mutant.Cond("o.c == s.c || w < 0 || o.token <= s.token")},
		wrong{"who is handed a hold has asked for it himself", "judge-handed-hold-asked-himself", mutant.Cond("s.c.call < o.from && (excuse || !o.c.sure() || !s.c.sure())")},
		wrong{"a re-entry may have any token", "judge-re-entry-may-any", mutant.Cond("token < 0")},
		wrong{"the fence may refuse a holder", "judge-fence-may-refuse-holder", mutant.Cond("false && e.At < c.end() && c.sure() && !within(excused, e.At, e.At+1)")},
		wrong{"the fence may refuse nobody", "judge-fence-may-refuse-holder", mutant.Cond("e.Refused && c.sure() && !within(excused, e.At, e.At+1)")},
		wrong{"what comes after what is excused is excused with it", "judge-cut-after-excuse", mutant.Return("len(excused) < 0")},
		wrong{"a lock has room for any", "judge-lock-room-any", mutant.Cond("tokens && (a.token <= s.last || whole && a.token <= s.any)")},
		wrong{"a lock may refuse as it likes", "judge-lock-may-refuse-likes", mutant.Expr("true")},
		wrong{"no ask arrives late", "judge-ask-arrives-late", mutant.Cond("false")},
		wrong{"any ask may arrive late", "judge-any-ask-may-arrive", mutant.Return("len(v.lates[c.proc]) > 0")},
		wrong{"nobody blocks a try", "judge-nobody-way-try", mutant.Cond(`c.verb == "try" && c.err == "held" && of(c.call) == of(c.back) && (longest >= 0 || j.excuses(c, longest))`)},
		wrong{"a client asks once", "judge-own-ghost-refuses", mutant.Cond("false")},
		wrong{"a name is stuck where nobody was there to ask", "judge-nobody-there-to-ask", mutant.Cond("false")},
		wrong{"a loss may be reported at any time", "judge-loss-may-told-any", mutant.Cond("late > 1000*tellBy")},
		wrong{"a loss has to be reported at once", "judge-loss-may-told-any", mutant.Cond("late > 0")},
		wrong{"a loss is late though its process stood still", "judge-loss-may-told-any", mutant.Value("until - c.over")},
		wrong{"what is over may be valid again", "judge-over-may-valid-again", mutant.Cond("false")},
		wrong{"a name may be taken late", "judge-name-may-taken-late", mutant.Cond("took > 100*bound")},
		wrong{"a worker by lines takes as long as a goroutine", "judge-lines-take-longer", mutant.Cond("false")},
		wrong{"a name need not be taken", "judge-name-need-taken", mutant.Cond("WAS && tried < 0")},
		wrong{"who waits need not be served", "judge-waits-need-served", mutant.Cond("took-stalled(j.calm+took) > 100*bound")},
		wrong{"a claim may never be answered", "judge-claim-may-never-answered", mutant.Cond("c.back < 0 && c.died == never && l.to != never")},
		wrong{"anything may be left", "judge-anything-may-left", mutant.Cond("e.Entries < 0")},
		wrong{"the last may be the first", "judge-last-may-first", mutant.Cond("first != nil && c.sent < 0")},
		wrong{"who comes before another has a position is before it", "judge-last-may-first", mutant.Cond("first != nil && j.placed[first.id].Sent < c.sent")},
		wrong{"a call may take for ever", "judge-call-may-take-ever", mutant.Cond("took > 100*(bound+slack)")},
		wrong{"a call is late though its process stood still", "judge-call-may-take-ever", mutant.Value("until - from")},
		wrong{"an upgrade may take for ever", "judge-upgrade-may-take-ever", mutant.Stmt(`_ = append(c.changes, change{"the upgrade", e.At, never, e.Bound})`)},
		wrong{"a downgrade may take for ever", "judge-downgrade-may-take-ever", mutant.Cond("e.Weight < 0")},
		wrong{"a change never returns", "judge-change-never-returns", mutant.Value("never")},
		wrong{"that the parent stood still is no stall", "judge-parent-stood-still-stall", mutant.Value("append(l.stalls, v.parent[:0]...)")},
		wrong{"a stall counts for each who tells of it", "judge-stall-counts-each-tells", mutant.Cond("n > 0 && s.from < 0")},
	)
	add("TestOnlyWhatAStoreLacksIsNotChecked",
		wrong{"a hold that was lost lasted until then", "judge-hold-lost-lasted-until", mutant.Return("true")},
		wrong{"a hold without a deadline may have ended at any time", "judge-hold-lost-lasted-until", mutant.Return("c.until != never")},
		wrong{"no deadline is one at the start", "judge-deadline-start", mutant.Cond("c.until < 0")},
		wrong{"no token is the token 0", "judge-lock-room-any", mutant.Cond("s.sum+a.weight > limit || (a.token <= s.last || whole && a.token <= s.any)")},
		wrong{"what is lacked is checked", "judge-lacked-checked", mutant.Return("len(l.checks) > 9")},
	)
	add("TestTooFewEventsAreNoProof",
		wrong{"a run without faults is proof", "judge-run-without-faults-proof", mutant.Expr(`add(false, "no fault struck")`)},
		wrong{"a fault that met nothing is one", "judge-fault-met-nothing", mutant.Stmt("f.Faults[string(e.Fault)]++")},
		wrong{"a run without waits is proof", "judge-run-without-waits-proof", mutant.Expr(`add(false && !v.Run.Peer, "nobody ever waited")`)},
		wrong{"a run with few grants is proof", "judge-run-few-grants-proof", mutant.Expr(`add(false, "%d grants were seen, and fewer than %d are no proof", f.Grants, v.Run.Floor)`)},
		wrong{"a run without an end is proof", "judge-run-without-end-proof", mutant.Expr(`add(false, "the run did not come to its end")`)},
		wrong{"a connection past the proxies is no matter", "judge-connection-past-proxies-matter", mutant.Expr(`add(false, "process %d made a connection past its own proxies: %s", e.Proc, e.Text)`)},
		wrong{"a process that died by itself is no matter", "judge-process-died-itself-matter", mutant.Expr(`add(false, "the run could not go on: %s", e.Text)`)},
	)
	add("TestTheReportSaysHowLongTheRunWasAndWhatWasSeen",
		wrong{"a run that was stopped was as long as it was to be", "judge-run-was-as-long-as-asked", mutant.Stmt("f.Faults, f.worked = map[string]int{}, v.Run.For")},
	)
	add("TestTheGuiltyOperationIsShownHoweverLate",
		wrong{"the guilty one is left out if it is late", "judge-late-guilty-one-is-shown", mutant.Value("e.Op > 0 && of[e.key()] && e.At <= w.To+v.Run.TTL")})
	add("TestTheGuiltyOperationIsShownAmongManyEvents",
		wrong{"the guilty one is cut out", "judge-guilty-one-is-shown", mutant.Cond("WAS && false")})
	add("TestTheVerdictSaysWhatWasNotJudged",
		wrong{"a check with nothing to judge is proof", "judge-idle-check-is-proof", mutant.Cond("len(idle) > 9")},
		wrong{"the verdict has all reasons", "prove-verdict-is-one-line", mutant.Cond("true")},
		wrong{"what was not judged is not said", "prove-verdict-says-not-judged", mutant.Cond("len(v.NotJudged) > 9")},
	)
	add("TestThePageShowsHoldersWaitersAndViolations",
		wrong{"overlaps are not marked", "prove-overlaps-are-marked", mutant.Cond("sum > 9*n.Limit")},
	)
	add("TestTheWindowOfAViolationHasOnlyWhatMatters",
		wrong{"a fault that was over is shown", "judge-fault-over-shown", mutant.Value("inside || e.Do == struck && e.At < w.From && ends[i] > 0")},
		wrong{"another's fault is shown", "judge-another-fault-shown", mutant.Value("mine && (true || len(procs) == 0)")},
		wrong{"a fault that was on is not shown", "judge-fault-over-shown", mutant.Value("inside || false")},
	)
	for test, m := range map[string]wrong{
		"TestTheFaultsEndWhenAllThatIsLateHasArrived":       {"the faults end before what is late has arrived", "prove-calm-after-late", mutant.Stmt("_ = by")},
		"TestALeaseLostBeforeItIsReadIsNotExtended":         {"a deadline that could not be read is believed", "judge-deadline-could-read-believed", mutant.Cond("!ahead && h.until < 0")},
		"TestAParentThatReadsLateIsAStall":                  {"a parent that is slow is no stall", "judge-parent-slow-stall", mutant.Cond("now < began")},
		"TestAPositionThatCountsFromASessionMayLapseSooner": {"a place counts from its ask", "judge-place-counts-from-session", mutant.Delete()},
		"TestAPositionConfirmedByPollsIsTheSame":            {"polls keep no place", "judge-polls-keep-places", mutant.Cond("a != nil && false")},
		"TestWaitersOfAStoreWithoutPositionsAreKnown":       {"who waits without a position is not noted", "judge-waits-without-place-noted", mutant.Cond("err != nil || c.Try")},
		"TestAPageOfManyGrantsStaysSmallAndShowsEachMoment": {"each bar is drawn", "judge-each-bar-drawn", mutant.Cond(`o.Class == "" && b.X < o.X+o.W && b.X+b.W <= o.X+2*thin && o.W < 2*thin`)},
		"TestAConnectionPastTheProxiesFailsTheRun":          {"nobody looks where connections go", "judge-nobody-looks-where-connections", mutant.Cond("!c.own(addr) && known[addr]")},
		"TestNoTTLAboveTenSecondsIsTried":                   {"the last TTL tried is twice the one before", "prove-longest-own", mutant.Stmt("r.lasts(2 * r.run.TTL)")},
		"TestTheWorkloadUsesOnlyWhatAStoreHas":              {"names of slots on a store without", "judge-names-slots-store-without", mutant.Return("len(r.leftOut(func(l leaving) bool { return l.mode == mode+mode })) == 0")},
	} {
		add(test, m)
	}
	mutant.Catch(t, all)
}
