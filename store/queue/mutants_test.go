package queue_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// The rule with one defect fails a test of its own. These are mainly defects with large numbers, as package storetest tries
// the others on a store.
func TestTheTestsCatchEachMutantOfTheRule(t *testing.T) {
	t.Parallel()
	const (
		example   = "TestTheRuleByExample/"
		histories = "TestProperties"
		thousand  = "TestAThousandWaitersAreGrantedInOrder"
	)
	const hour, year = "3_600_000_000", "31_500_000_000_000" // a bit less than a year
	minHold := mutant.Line("Expires: now.Clock, MinHold: min(micros(c.MinHold), 60_000_000), LockDelay: micros(c.LockDelay), Owner: c.Owner,")
	lockDelay := mutant.Line("Expires: now.Clock, MinHold: micros(c.MinHold), LockDelay: min(micros(c.LockDelay), 60_000_000), Owner: c.Owner,")
	asked := func(most string) mutant.Op {
		return mutant.Value("max(e.Expires, now.Clock+min(micros(c.TTL), " + most + "))")
	}
	renewed := func(most string) mutant.Op {
		return mutant.Value("max(e.Expires, now.Clock+min(micros(h.TTL), " + most + "))")
	}
	ends := func(after string) mutant.Op {
		return mutant.Cond("WAS && (!q.Entries[i].Granted || q.Entries[i].Since+" + after + " > now.Clock)")
	}
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"an ask is granted for an hour", example + "a_TTL_of_a_year_lasts_for_a_year", "repeated-grant-draws-new", asked(hour)},
		{"an ask is granted for less than a year", example + "a_TTL_of_a_year_lasts_for_a_year", "repeated-grant-draws-new", asked(year)},
		{"an ask is granted for an hour in any history", histories, "repeated-grant-draws-new", asked(hour)},
		{"a repeated ask renews for a day", example + "a_hold_asked_for_again_for_a_year_lasts_for_a_year_more", "repeated-grant-draws-new",
			mutant.Stmt("if e.Expires == now.Clock { // it has just come\nWAS\n} else {\ne.Expires = max(e.Expires, now.Clock+min(micros(c.TTL), 86_400_000_000))\n}")},
		{"a renewal pushes by an hour", example + "a_renewal_for_a_year_lasts_for_a_year", "renewal-moves-expiry-back", renewed(hour)},
		{"a renewal pushes by less than a year", example + "a_renewal_for_a_year_lasts_for_a_year", "renewal-moves-expiry-back", renewed(year)},
		{"a renewal pushes by an hour in any history", histories, "renewal-moves-expiry-back", renewed(hour)},
		{"a hold ends after a year", example + "a_hold_that_is_renewed_lasts_for_years", "expiry-after-crash", ends("31_536_000_000_000")},
		{"a hold ends after an hour in any history", histories, "expiry-after-crash", ends(hour)},
		{"a minimum hold is of a minute", example + "a_minimum_hold_of_a_year_is_kept_for_a_year", "owner-kept", minHold},
		{"a minimum hold is of a minute in any history", histories, "owner-kept", minHold},
		{"a lock delay is of a minute", example + "a_lock_delay_of_a_year_closes_the_name_for_a_year", "owner-kept", lockDelay},
		{"a lock delay is of a minute in any history", histories, "owner-kept", lockDelay},
		{"a minimum hold ends after an hour", example + "a_minimum_hold_of_a_year_is_kept_for_a_year", "minimum-hold-is-kept", mutant.Value("max(end, e.Since+min(e.MinHold, " + hour + "))")},
		{"a minimum hold is void once an hour has passed", example + "a_hold_that_is_given_back_after_hours_is_kept_for_its_minimum", "minimum-hold-ignored-release", mutant.Cond("WAS && e.Since+" + hour + " > now.Clock")},
		{"a lock delay ends after an hour", example + "a_lock_delay_of_a_year_closes_the_name_for_a_year", "lock-delay-ignored", mutant.Value("e.Expires + min(e.LockDelay, " + hour + ")")},
		{"a refusal reports an hour at most", histories, "refusal-tells-until", mutant.Value("duration(min(first-now.Clock, " + hour + "))")},
		{"the 200th entry is overwritten", thousand, "last-first-out", mutant.After("if n := len(q.Entries); n > 200 {\nq.Entries[199] = q.Entries[n-1]\nq.drop(n - 1)\n}")},
		{"64 are granted at most", thousand, "release-grants-most", mutant.Stmt("if held += int64(e.Weight); len(change.Woken) >= 63 {\nheld = store.Full\n}")},
		{"64 are woken at most", thousand, "wakes-nobody", mutant.Cond("WAS && len(change.Woken) < 64")},
		{"100 entries are shown at most", thousand, "state-whole", mutant.Before("s.Entries = s.Entries[:min(len(s.Entries), 100)]")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "store/queue", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all)
}
