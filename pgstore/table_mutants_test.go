package pgstore

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// These tests catch many mutants of the statements.
const (
	short     = "TestTheShortestStatementsKeepToTheRule"
	promise   = "TestTable/promise/"
	same      = "TestTableDifferential"
	oneOrTwo  = "TestAnOperationIsOneStatementOrTwoUnderContention"
	behind    = "TestAClaimBehindOthersWaitsOnlyIfItMust"
	freed     = "TestAFreedHoldIsReleasedAsLost/"
	retained  = "TestARowIsKeptForADayAfterTheLastOfItHasEnded/"
	newer     = "TestTheShortStatementsLeaveANewerFormAlone/"
	announces = "TestOnlyWhatSaysSoIsAnnouncedAndOnlyWhatChanges/"
	crash     = "TestGrantsAndRenewalsSurviveAServerCrash"
)

// tableMutants are the statements, each with one thing wrong.
var tableMutants = []struct {
	name, test string
	edits      []mutant.Edit
}{
	{"a token is the last one again", short, []mutant.Edit{mutant.At("pg-ask-fast-token", mutant.Line("greatest(t.last + 0, now) AS first")), mutant.At("pg-ask-idle-token", mutant.Line("greatest(t.last + 0, now) AS first"))}},
	{"a token behind others is the last one again", same, []mutant.Edit{mutant.At("pg-settle-token", mutant.Line("greatest(v.last + 0, v.now) AS first"))}},
	{"a grant is remembered for no longer than a day", retained + "a_new_name", []mutant.Edit{mutant.At("pg-kept-granted", mutant.Value("0 * c.TTL"))}},
	{"the TTL of a grant is not remembered", retained + "a_known_name", []mutant.Edit{mutant.At("pg-kept-granted", mutant.Value("c.MinHold"))}},
	{"the lock delay of a grant is not remembered", retained + "a_new_name", []mutant.Edit{mutant.At("pg-kept-granted", mutant.Value("max(c.TTL, c.MinHold)"))}},
	{"the minimum hold of a grant is not remembered", retained + "a_minimum_hold_of_a_new_name", []mutant.Edit{mutant.At("pg-kept-granted", mutant.Value("c.TTL + c.LockDelay"))}},
	{"a renewal is not remembered", retained + "a_renewal", []mutant.Edit{mutant.At("pg-kept-renewed", mutant.Line("0"))}},
	{"the lock delay behind a renewal is not remembered", retained + "a_renewal", []mutant.Edit{mutant.At("pg-kept-renewed", mutant.Line("h.ttl"))}},
	{"what lasts beside others is not remembered", retained + "beside_another", []mutant.Edit{mutant.At("pg-kept-expires", mutant.Delete())}},
	{"the lock delay beside others is not remembered", retained + "beside_another", []mutant.Edit{mutant.At("pg-kept-expires", mutant.Line("max(CASE WHEN x.session = '' THEN x.expires ELSE v.now END),"))}},
	{"a minimum hold beside others is not remembered", retained + "a_minimum_hold_beside_another", []mutant.Edit{mutant.At("pg-kept-minimum", mutant.Line("0"))}},
	{"the minimum hold of who waited is not remembered", retained + "a_minimum_hold_of_who_waited", []mutant.Edit{mutant.At("pg-kept-next", mutant.Line("0"))}},
	{"a quick release overwrites a newer form", newer + "release", []mutant.Edit{mutant.At("pg-release-fast-form", mutant.Delete())}},
	{"a quick release before the next overwrites a newer form", newer + "release_next", []mutant.Edit{mutant.At("pg-release-next-form", mutant.Delete())}},
	{"a quick release of many overwrites a newer form", newer + "release_all", []mutant.Edit{mutant.At("pg-release-all-form", mutant.Delete())}},
	{"a quick renewal overwrites a newer form", newer + "renew", []mutant.Edit{mutant.At("pg-renew-fast-form", mutant.Delete())}},
	{"a quick ask overwrites a newer form", newer + "ask", []mutant.Edit{mutant.At("pg-ask-idle-form", mutant.Delete())}},
	{"a sweep deletes a newer form", newer + "sweep", []mutant.Edit{mutant.At("pg-sweep-form", mutant.Delete())}},
	{"what is over goes on blocking", same, []mutant.Edit{mutant.At("pg-over", mutant.Line("0"))}},
	{"an upgrade asks with each turn", promise + "Upgrade_repeated_notifies_no_holder_again", []mutant.Edit{mutant.At("pg-upgrade-asks-each-turn", mutant.Delete())}},
	{"an upgrade notifies itself that it asks", promise + "Upgrade_does_not_notify_itself_that_it_asks", []mutant.Edit{mutant.At("pg-upgrade-notifies-itself", mutant.Delete())}},
	{"an upgrade asks itself", promise + "Upgrade_that_is_pending_asks_each_other_holder_to_give_up", []mutant.Edit{mutant.At("pg-upgrade-asks-itself", mutant.Delete())}},
	{"any token gives back", short, []mutant.Edit{mutant.At("pg-release-fast-token", mutant.Line("AND ARRAY[$3::bigint] <> token"))}},
	{"any token lets in the next", oneOrTwo, []mutant.Edit{mutant.At("pg-release-next-held-token", mutant.Line("AND token[1] <> $3::bigint"))}},
	{"any id lets in the next", oneOrTwo, []mutant.Edit{mutant.At("pg-release-next-id", mutant.Line("AND $2::bytea <> ''"))}},
	{"the next is let in beside a hold", oneOrTwo, []mutant.Edit{mutant.At("pg-release-next-alone", mutant.Delete())}},
	{"one who has left is let in", oneOrTwo, []mutant.Edit{mutant.At("pg-release-next-expired", mutant.Line("AND {now} < expires[1]"))}},
	{"only one is let in", oneOrTwo, []mutant.Edit{mutant.At("pg-release-next-one", mutant.Delete())}},
	{"a token handed on is the last one again", short, []mutant.Edit{mutant.At("pg-release-next-token", mutant.Line("greatest(last, now) AS first"))}},
	{"a block handed on is of one token", oneOrTwo, []mutant.Edit{mutant.At("pg-release-next-block", mutant.Line("first"))}},
	{"a token given back is drawn again", oneOrTwo, []mutant.Edit{mutant.At("pg-release-next-unused", mutant.Line("WAS - 1")), mutant.At("pg-release-unused", mutant.Line("WAS - 1"))}},
	{"a known name that is held is granted", oneOrTwo, []mutant.Edit{mutant.At("pg-ask-idle", mutant.Delete())}},
	{"a token of a known name is the last one again", short, []mutant.Edit{mutant.At("pg-ask-idle-token", mutant.Line("greatest(t.last, now) AS first"))}},
	{"a hand-over does not wait for the disk", crash, []mutant.Edit{mutant.At("pg-release-next-durable", mutant.Line("true"))}},
	{"any token gives back beside others", promise + "a_release_with_a_wrong_token_is_lost_and_frees_nothing", []mutant.Edit{mutant.At("pg-release-token", mutant.Line("OR a.token <> 0"))}},
	{"a broken hold is renewed", short, []mutant.Edit{mutant.At("pg-renew-fast-broken", mutant.Delete())}},
	{"a broken hold is renewed beside others", promise + "Adopt_of_a_broken_hold_is_lost_and_the_reason_is_returned", []mutant.Edit{mutant.At("pg-renew-broken", mutant.Delete()), mutant.At("pg-renew-broken-changed", mutant.Delete()), mutant.At("pg-change-broken", mutant.Delete())}},
	{"an expired hold is renewed", promise + "a_renewal_does_not_revive_an_expired_hold", []mutant.Edit{mutant.At("pg-renew-expired", mutant.Delete())}},
	{"a renewal waits for a row that is locked", "TestALockedRowDelaysOnlyItsOwnName", []mutant.Edit{mutant.At("pg-renew-fast-skips", mutant.Line("FOR UPDATE"))}},
	{"what leaves a session never expires", "TestAHoldRenewedByHandHasAnExpiryOfItsOwn", []mutant.Edit{mutant.At("pg-renew-fast-out-of-a-session", mutant.Line("true"))}},
	{"what leaves a session beside others never expires", "TestAHoldRenewedByHandLastsAsLongAsReported", []mutant.Edit{mutant.At("pg-renew-out-of-a-session", mutant.Line("true"))}},
	{"a renewal moves the expiry back", promise + "a_shorter_renewal_moves_no_expiry_back", []mutant.Edit{mutant.At("pg-renew-fast-expiry", mutant.Line("THEN 0 END, {now} + h.ttl)"))}},
	{"a writer is let in as a reader", promise + "Upgrade_passes_all_that_wait", []mutant.Edit{mutant.At("pg-weight", mutant.Line("sum(CASE WHEN d.token = 0 THEN 1 ELSE 0 END)"))}},
	{"who holds takes no room", promise + "a_crowd_on_a_semaphore_fills_it_and_no_more", []mutant.Edit{mutant.At("pg-held", mutant.Line("coalesce(sum(weight) FILTER (WHERE token < 0), 0) AS held,"))}},
	{"a smaller total is forgotten", promise + "a_waiter_is_granted_only_under_the_totals_of_all_holders", []mutant.Edit{mutant.At("pg-least", mutant.Line("{full} AS least,"))}},
	{"the smaller total of who is granted with it is forgotten", promise + "waiters_granted_together_fit_the_smallest_of_their_totals", []mutant.Edit{mutant.At("pg-least-of-those-granted", mutant.Line("max(CASE WHEN d.token = 0 THEN d.lim END)"))}},
	{"a minimum hold is given back", promise + "an_early_release_keeps_the_name_taken", []mutant.Edit{mutant.At("pg-release-fast-keep", mutant.Line("AND since[1] + 0 <= {now}")), mutant.At("pg-release-next-keep", mutant.Line("AND since[1] + 0 <= {now}"))}},
	{"a minimum hold ends with the lease", promise + "a_hold_that_expired_once_shown_blocks_for_its_minimum", []mutant.Edit{mutant.At("pg-keep", mutant.Line("CASE WHEN c.shown THEN c.since END"))}},
	{"nothing is kept back after an expiry", promise + "an_expired_hold_closes_the_name_for_its_lock_delay", []mutant.Edit{mutant.At("pg-delay", mutant.Line("c.expires,"))}},
	{"what is freed blocks", same, []mutant.Edit{mutant.At("pg-freed-in-the-way", mutant.Line("false"))}},
	{"what is freed has a limit", promise + "a_hold_broken_now_blocks_nothing", []mutant.Edit{mutant.At("pg-freed-has-limit", mutant.Line("min(lim) FILTER (WHERE NOT fresh) AS had,"))}},
	{"what is broken now is dropped", promise + "a_renewal_of_a_hold_broken_now_returns_the_reason", []mutant.Edit{mutant.At("pg-freed-dropped", mutant.Line("m.m AND $5::boolean AS gone,"))}},
	{"what has ended is not dropped by a break now", "TestAHoldThatHasEndedIsDroppedByABreakNow", []mutant.Edit{mutant.At("pg-freed-dropped", mutant.Line("false AS gone,"))}},
	{"what is freed is kept back", same, []mutant.Edit{mutant.At("pg-freed-delay", mutant.Line("CASE WHEN m.m AND $5::boolean AND false THEN 0 ELSE e.delay END AS delay,"))}},
	{"what is freed is broken again", promise + "a_hold_broken_now_is_listed_until_it_is_given_back", []mutant.Edit{mutant.At("pg-freed-broken-twice", mutant.Delete())}},
	{"what is freed is given back as a hold", freed + "beside", []mutant.Edit{mutant.At("pg-freed-given-back", mutant.Delete())}},
	{"what is freed stays when it is given back", "TestAFreedHoldThatIsReleasedIsDroppedAfterTheClockWentBack", []mutant.Edit{mutant.At("pg-freed-given-back-dropped", mutant.Line("false AS gone,"))}},
	{"what is freed is given back as a hold alone", freed + "alone", []mutant.Edit{mutant.At("pg-release-fast-freed", mutant.Delete())}},
	{"what is freed is given back as a hold before the next", freed + "next", []mutant.Edit{mutant.At("pg-release-next-freed", mutant.Delete())}},
	{"what is freed is given back as a hold with others", freed + "with_others", []mutant.Edit{mutant.At("pg-release-all-freed", mutant.Delete())}},
	{"what is given back is kept back", promise + "a_release_has_no_lock_delay", []mutant.Edit{mutant.At("pg-release-delay", mutant.Line("e.delay AS delay,"))}},
	{"an upgrade is not wanted", promise + "Upgrade_is_listed", []mutant.Edit{mutant.At("pg-want", mutant.Line("CASE WHEN m.m THEN least(e.weight, $5::int) ELSE e.want END AS want,"))}},
	{"others pass an upgrade", promise + "Upgrade_that_is_pending_keeps_all_others_out", []mutant.Edit{mutant.At("pg-upgrading", mutant.Delete())}},
	{"a refused try takes a place", promise + "a_readers_short_ttl_never_cuts_anothers", []mutant.Edit{mutant.At("pg-try", mutant.Line("OR v.try AND false"))}},
	{"a refused try comes to the row's lock", "TestARefusedTryWritesNothing", []mutant.Edit{mutant.At("pg-refused-try", mutant.Line("AND (id = '{}' AND form <> 1)"))}},
	{"a row is decided on as it was before the wait", "TestAnAskThatWaitedForTheRowUsesItsNewState", []mutant.Edit{mutant.At("pg-row-lock", mutant.Delete())}},
	{"who is not granted is woken too", "TestOnlyTheGrantedWaiterIsNotified", []mutant.Edit{mutant.At("pg-woken", mutant.Line("true"))}},
	{"the release of what a session keeps does not wait for the disk", crash, []mutant.Edit{mutant.At("pg-release-kept-is-durable", mutant.Line("$5::boolean THEN set_config('synchronous_commit', 'off', true) ELSE set_config('synchronous_commit', 'off', true) END,"))}},
	{"what a session of another keeps is renewed", "TestAHoldThatASessionOfAnotherKeepsIsNotRenewed", []mutant.Edit{mutant.At("pg-renew-kept-by-another", mutant.Delete()), mutant.At("pg-renew-fast-kept-by-another", mutant.Delete())}},
	{"what has ended is not written", "TestAnUnrenewedClaimIsRemovedFromALiveSession", []mutant.Edit{mutant.At("pg-ended-is-written", mutant.Delete())}},
	{"a row that a session keeps is swept", "TestAHoldThatIsOnlyRenewedByItsSessionIsNotSwept", []mutant.Edit{mutant.At("pg-sweep-kept", mutant.Delete()), mutant.At("pg-sweep-kept-still", mutant.Delete())}},
	{"a session that lapsed is renewed", "TestSessions/promise/a_renewal_of_a_session_that_has_lapsed_is_lost", []mutant.Edit{mutant.At("pg-session-renewed-when-over", mutant.Delete())}},
	{"a session that was renewed meanwhile is ended", "TestASessionIsSkippedOnlyOnceItsEndIsFinal", []mutant.Edit{mutant.At("pg-session-end-is-asked", mutant.Line("($2::boolean OR true)"))}},
	{"what was adopted meanwhile goes with what was adopted half way", "TestAHoldAdoptedDuringACleanUpOfOrphansStays", []mutant.Edit{mutant.At("pg-orphan-that-was-moved", mutant.Stmt("all.add(id[:], 0)"))}},
	{"a session that lives is deleted", "TestSessionsThatHaveEndedAreDeletedAndOthersAreNot", []mutant.Edit{mutant.At("pg-session-sweep", mutant.Line("expires IS NOT NULL"))}},
	{"an ask waits for its row and then for nothing", "TestAnAskThatWaitedTooLongForTheRowAddsNoEntry", []mutant.Edit{mutant.At("pg-ask-behind-lock", mutant.Delete())}},
	{"a lock is waited for as slots", behind, []mutant.Edit{mutant.At("pg-ask-behind-limit", mutant.Line("AND $3::int > 0"))}},
	{"a name that is free is waited for", behind, []mutant.Edit{mutant.At("pg-ask-behind-nobody", mutant.Delete())}},
	{"a claim waits twice", behind, []mutant.Edit{mutant.At("pg-ask-behind-itself", mutant.Delete())}},
	{"what has expired is waited for", behind, []mutant.Edit{mutant.At("pg-ask-behind-expired", mutant.Delete())}},
	{"an ask waits behind others however late", "TestAnAskThatComesTooLateAddsNoEntry", []mutant.Edit{mutant.At("pg-ask-behind-late", mutant.Line("AND $9::bigint > 0"))}},
	{"who asks again behind others writes", "TestARepeatedAskBehindOthersWritesNothing", []mutant.Edit{mutant.At("pg-asked-again-is-written", mutant.Line("OR true"))}},
	{"an ask takes a place however late", "TestAnAskThatComesTooLateAddsNoEntry", []mutant.Edit{mutant.At("pg-late-ask-is-void", mutant.Line("AND ($13::bigint > 0 OR true)"))}},
	{"a position moves out of any session", "TestAPositionIsKeptIfItsServerIsReplacedDuringAMove", []mutant.Edit{mutant.At("pg-position-moves-out-of-where-it-is", mutant.Line("AND $3::text <> ''"))}},
	{"each lock is announced", announces + "lock", []mutant.Edit{
		mutant.At("pg-announces", mutant.Line("WHERE true")), mutant.At("pg-ask-fast-announced", mutant.Line("true")),
	}},
	{"each grant of a known name is announced", announces + "lock", []mutant.Edit{mutant.At("pg-ask-idle-announced", mutant.Line("true"))}},
	{"each release is announced", announces + "lock", []mutant.Edit{mutant.At("pg-release-fast-announced", mutant.Line("true"))}},
	{"each hand-over is announced", announces + "lock", []mutant.Edit{mutant.At("pg-release-next-announced", mutant.Line("true"))}},
	{"each release of several is announced", announces + "lock", []mutant.Edit{mutant.At("pg-release-all-announced", mutant.Line("true"))}},
	{"a grant of a new name is not announced", announces + "election", []mutant.Edit{mutant.At("pg-ask-fast-announced", mutant.Line("$11::boolean AND false"))}},
	{"a grant of a known name is not announced", announces + "election", []mutant.Edit{mutant.At("pg-ask-idle-announced", mutant.Line("$11::boolean AND false"))}},
	{"a grant beside others is not announced", announces + "election", []mutant.Edit{mutant.At("pg-grant-is-news", mutant.Delete())}},
	{"a release is not announced", announces + "election", []mutant.Edit{mutant.At("pg-release-fast-announced", mutant.Line("$6::boolean AND false"))}},
	{"a release to the next is not announced", announces + "election", []mutant.Edit{mutant.At("pg-release-next-announced", mutant.Line("$6::boolean AND false"))}},
	{"a release of several is not announced", announces + "election", []mutant.Edit{mutant.At("pg-release-all-announced", mutant.Line("h.announces AND false"))}},
	{"a release with a minimum hold is not announced", promise + "a_watcher_is_notified_of_a_release_with_a_minimum_hold", []mutant.Edit{mutant.At("pg-release-is-news", mutant.Line("false"))}},
	{"another note is not announced", promise + "a_watcher_is_notified_of_another_owner", []mutant.Edit{mutant.At("pg-note-is-news", mutant.Delete())}},
	{"another id is not announced", promise + "a_watcher_is_notified_of_another_id", []mutant.Edit{mutant.At("pg-another-id-is-news", mutant.Delete())}},
	{"a grant does not wait for the disk", crash, []mutant.Edit{mutant.At("pg-durable", mutant.Line(`"'off'"+`))}},
}

// brokenTable returns the mutants of the statements.
func brokenTable() (all []mutant.Broken) {
	for _, m := range tableMutants {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "pgstore", Test: m.test, Edits: m.edits, Says: func(r *mutant.Run) string {
			switch output := string(r.Output); {
			case strings.Contains(output, "SQLSTATE"):
				return "was sent what is no statement any more"
			case m.test == same && !strings.Contains(output, "the model "):
				return "fails, but not as it differs from the model"
			}
			return ""
		}})
	}
	return all
}
