//go:build linux || darwin

package prove

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Each of these makes the judge see less, or too much. The histories must tell.
func TestAJudgeWithSomethingWrongIsCaught(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	add := func(test string, mutants ...[4]string) {
		for _, m := range mutants {
			all = append(all, mutant.Broken{Name: m[0], Pkg: "internal/prove", Test: test,
				Edits: []mutant.Edit{{File: "internal/prove/" + m[1], Old: m[2], New: m[3]}}})
		}
	}
	add("TestEachCheckFindsWhatItIsFor",
		[4]string{"a deadline ends nothing", "claims.go", "return min(c.until, c.lost,", "return min(c.lost,"},
		[4]string{"a told loss ends nothing", "claims.go", "return min(c.until, c.lost,", "return min(c.until,"},
		[4]string{"a release ends nothing before it returns", "claims.go", "c.lost, c.release, c.died)", "c.lost, c.released, c.died)"},
		[4]string{"a death ends nothing", "claims.go", "c.release, c.died)", "c.release)"},
		[4]string{"one may hold beside the whole", "overlap.go", "case sum <= limit:", "case sum <= limit+1:"},
		[4]string{"a hold that ended is counted on", "overlap.go", "if o.to <= s.from {", "if o.to < s.from {"},
		[4]string{"nothing is excused", "claims.go", "case e.Do == struck && v.Run.voided(e.Fault, c):", "case false:"},
		[4]string{"everything is excused", "fault.go", "return slices.Contains(r.Forgets, f) && slices", "return slices"},
		[4]string{"what is excused has no end", "claims.go", "all[i].to = e.At + v.Run.TTL", "all[i].to = never"},
		[4]string{"what is excused ends with the fault", "claims.go", "all[i].to = e.At + v.Run.TTL", "all[i].to = e.At"},
		[4]string{"tokens may repeat in a hold that is handed over", "overlap.go", "o != nil && o != s.c {", "o != nil && o.id != s.c.id {"},
		[4]string{"tokens may go back", "overlap.go", "w+s.weight <= s.c.limit || o.token <= s.token {", "w+s.weight <= s.c.limit || o.token > 0 {"},
		[4]string{"tokens of readers may not go back", "overlap.go", "o.c == s.c || w+s.weight <= s.c.limit || o", "o.c == s.c || w < 0 || o"},
		[4]string{"who is handed a hold has asked for it himself", "overlap.go", "asked[s.c.id] < o.from && (excuse", "s.c.call < o.from && (excuse"},
		[4]string{"a re-entry may have any token", "overlap.go", "if token != c.token {", "if token < 0 {"},
		[4]string{"the fence may refuse a holder", "overlap.go", "if e.Refused && e.At", "if false && e.At"},
		[4]string{"the fence may refuse nobody", "overlap.go", "e.Refused && e.At < c.end() &&", "e.Refused &&"},
		[4]string{"a lock has room for any", "linear.go", "if s.sum+a.weight > limit ||", "if"},
		[4]string{"a lock may refuse as it likes", "linear.go", "return s.sum+a.weight > limit, s", "return true, s"},
		[4]string{"no ask arrives late", "linear.go", "if j.askedLate(c) {", "if false {"},
		[4]string{"any ask may arrive late", "silence.go", "within(v.lates[c.proc], c.call, min(c.back, v.end)+1)", "len(v.lates[c.proc]) > 0"},
		[4]string{"nobody is in the way of a try", "linear.go", " && !j.excuses(c, longest):", " && (longest >= 0 || j.excuses(c, longest)):"},
		[4]string{"a loss may be told at any time", "overlap.go", "late > tellBy {", "late > 1000*tellBy {"},
		[4]string{"a loss has to be told at once", "overlap.go", "late > tellBy {", "late > 0 {"},
		[4]string{"a loss is late though its process stood still", "overlap.go", "late := until - c.over - l.stalled(c.over, until)", "late := until - c.over"},
		[4]string{"what is over may be valid again", "overlap.go", "if c.revived {", "if false {"},
		[4]string{"a name may be taken late", "overlap.go", "stalled(first.back); took > bound {", "stalled(first.back); took > 100*bound {"},
		[4]string{"a name need not be taken", "overlap.go", "} else if first == nil {", "} else if first == nil && tried < 0 {"},
		[4]string{"who waits need not be served", "overlap.go", "took-stalled(j.calm+took) > bound {", "took-stalled(j.calm+took) > 100*bound {"},
		[4]string{"a claim may never be answered", "overlap.go", "c.back == never && c.died == never && l.to != never {", "c.back < 0 && c.died == never && l.to != never {"},
		[4]string{"anything may be left", "overlap.go", "if e.Entries > 0 {", "if e.Entries < 0 {"},
		[4]string{"the last may be the first", "overlap.go", "if first != nil && j.placed[first.id].At < c.sent {", "if first != nil && c.sent < 0 {"},
		[4]string{"who comes before another has a place is before it", "overlap.go", "j.placed[first.id].At < c.sent {", "j.placed[first.id].Sent < c.sent {"},
		[4]string{"a call may take for ever", "overlap.go", "took > bound+slack {", "took > 100*(bound+slack) {"},
		[4]string{"a call is late though its process stood still", "overlap.go", "took := until - from - l.stalled(from, until);", "took := until - from;"},
		[4]string{"an upgrade may take for ever", "claims.go", "\tcase upgrade:\n\t\tc.changes = append", "\tcase upgrade:\n\t\t_ = append"},
		[4]string{"a downgrade may take for ever", "claims.go", "e.Weight < last.weight {", "e.Weight < 0 {"},
		[4]string{"a change never returns", "claims.go", "c.changes[n-1].to = at", "c.changes[n-1].to = never"},
		[4]string{"that the parent stood still is no stall", "claims.go", "v.parent...)", "v.parent[:0]...)"},
		[4]string{"a stall counts for each who tells of it", "claims.go", "n > 0 && s.from <= kept[n-1].to {", "n > 0 && s.from < 0 {"},
	)
	add("TestWhatAStoreLacksIsNotCheckedAndAllElseIs",
		[4]string{"a hold that was lost lasted until then", "claims.go", "return c.until != never || c.clean() && c.lost == never", "return true"},
		[4]string{"a hold without a deadline may have ended at any time", "claims.go", "return c.until != never || c.clean() && c.lost == never", "return c.until != never"},
		[4]string{"no deadline is one at the start", "claims.go", "c.until == 0 {", "c.until < 0 {"},
		[4]string{"no token is the token 0", "linear.go", "limit || tokens && (", "limit || ("},
		[4]string{"what is lacked is checked", "lacks.go", "slices.Contains(l.checks, c)", "len(l.checks) > 9"},
	)
	add("TestTooLittleIsNoProof",
		[4]string{"a run without faults is proof", "check.go", "add(met == 0,", "add(false,"},
		[4]string{"a fault that met nothing is one", "check.go", "f.Faults[string(e.Fault)] += count(e.Hits > 0)", "f.Faults[string(e.Fault)]++"},
		[4]string{"a run without waits is proof", "check.go", "add(f.Waits == 0 &&", "add(false &&"},
		[4]string{"a run with few grants is proof", "check.go", "add(f.Grants < v.Run.Floor,", "add(false,"},
		[4]string{"a run without an end is proof", "check.go", "add(v.calm == never,", "add(false,"},
		[4]string{"a connection past the proxies is no matter", "check.go", "add(e.Do == astray,", "add(false,"},
		[4]string{"a process that died by itself is no matter", "check.go", "add(e.Do == failed,", "add(false,"},
	)
	add("TestTheWindowOfAViolationHasOnlyWhatMatters",
		[4]string{"a fault that was over is shown", "check.go", "ends[i] > w.From", "ends[i] > 0"},
		[4]string{"another's fault is shown", "check.go", "mine = mine && (procs[e.Proc] || len(w.claims) == 0)", "mine = mine && (true || len(procs) == 0)"},
		[4]string{"a fault that was on is not shown", "check.go", "e.Do == struck && e.At < w.From && ends[i] > w.From", "false"},
	)
	for test, m := range map[string][4]string{
		"TestALeaseThatWasOverBeforeItCouldBeReadIsNotTakenForLonger": {"a deadline that could not be read is believed", "worker.go", "!ahead && h.until > at {", "!ahead && h.until < 0 {"},
		"TestAParentThatIsSlowToHearIsAStall":                         {"a parent that is slow is no stall", "child.go", "now-began >= leastStall {", "now < began {"},
		"TestOfAStoreWithoutPlacesItIsKnownWhoWaited":                 {"who waits without a place is not noted", "recorder.go", "c.Try && (!r.waits || answer.Granted)", "c.Try"},
		"TestAPageOfManyGrantsStaysSmallAndShowsEachMoment":           {"each bar is drawn", "html.go", "o.Class == b.Class && b.X", "o.Class == \"\" && b.X"},
		"TestAConnectionPastTheProxiesFailsTheRun":                    {"nobody looks where connections go", "route.go", "if !c.own(addr) && !told[addr] {", "if !c.own(addr) && told[addr] {"},
		"TestWhatAStoreLacksIsNotInTheWorkload":                       {"names of slots on a store without", "lacks.go", "return l.mode == mode", "return l.mode == mode+mode"},
	} {
		add(test, m)
	}
	mutant.Catch(t, all)
}
