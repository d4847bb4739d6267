package storetest_test

import "github.com/holdfast-go/holdfast/internal/mutant"

// A broken is package queue or memstore with one thing wrong.
type broken struct {
	name  string
	edits []mutant.Edit
}

// mutants are the mistakes that a store of a new kind is likely to make.
var mutants = []broken{
	// Many at once.
	{"release_all_stops_at_the_first_failure", []mutant.Edit{mutant.At("release-all-stops-first", mutant.After("if out[i] != nil {\nbreak\n}"))}},
	{"release_all_tells_all_of_the_last", []mutant.Edit{mutant.At("release-all-stops-first", mutant.Stmt("err := s.Release(ctx, h)\nfor j := range out {\nout[j] = err\n}\n_ = i"))}},
	{"release_all_of_no_more_than_a_thousand", []mutant.Edit{mutant.At("release-all-more-thousand", mutant.First("if i >= 1000 {\nbreak\n}"))}},
	{"release_all_leaves_out_the_last", []mutant.Edit{mutant.At("release-all-more-thousand", mutant.First("if i > 0 && i == len(holds)-1 {\nbreak\n}"))}},
	{"release_all_without_comparing_the_token", []mutant.Edit{mutant.At("release-all-more-thousand", mutant.First("s.mu.Lock()\nif h.Token > 0 && len(holds) > 1 && s.names[h.Name] != nil {\nfor _, e := range s.names[h.Name].Entries {\nif e.ID == h.ID && e.Granted {\nh.Token = e.Token\n}\n}\n}\ns.mu.Unlock()"))}},
	{"release_all_without_comparing_the_id", []mutant.Edit{mutant.At("release-all-more-thousand", mutant.First("s.mu.Lock()\nif h.Token > 0 && len(holds) > 1 && s.names[h.Name] != nil {\nfor _, e := range s.names[h.Name].Entries {\nif e.Token == h.Token {\nh.ID = e.ID\n}\n}\n}\ns.mu.Unlock()"))}},
	{"release_all_wakes_nobody", []mutant.Edit{mutant.At("release-all-stops-first", mutant.Value("s.do(ctx, \"release\", h.Name, func(now queue.Time, q *queue.Queue) (queue.Change, error) {\n_, err := q.Release(now, &h)\nreturn queue.Change{}, err\n})"))}},
	{"release_all_keeps_no_minimum_hold", []mutant.Edit{mutant.At("release-all-more-thousand", mutant.First("if h.Token > 0 {\nh.Token = 0\ns.mu.Lock()\nif s.names[h.Name] != nil {\nfor j := range s.names[h.Name].Entries {\ns.names[h.Name].Entries[j].MinHold = 0\n}\n}\ns.mu.Unlock()\n}"))}},
	{"release_all_without_its_context", []mutant.Edit{mutant.At("release-all-more-thousand", mutant.First("if ctx.Err() != nil {\nout[i] = store.ErrLost\ncontinue\n}"))}},

	// Who owns a hold.
	{"release_without_comparing_the_id", []mutant.Edit{mutant.At("compare-release", mutant.Stmt("id := h.ID\nfor _, e := range q.Entries {\nif e.Token == h.Token {\nid = e.ID\n}\n}\ni, err := q.hold(now, id, h.Token)"))}},
	{"release_without_comparing_the_token", []mutant.Edit{mutant.At("compare-release", mutant.Stmt("token := h.Token\nif i := q.find(h.ID); i >= 0 && q.Entries[i].Granted {\ntoken = q.Entries[i].Token\n}\ni, err := q.hold(now, h.ID, token)"))}},
	{"renew_without_comparing_the_id", []mutant.Edit{mutant.At("renew-without-comparing-id", mutant.After("for _, e := range q.Entries {\nif e.Token == h.Token {\nid = e.ID\n}\n}"))}},
	{"renew_without_comparing_the_token", []mutant.Edit{mutant.At("renewal-re-creates", mutant.Stmt("token := h.Token\nif i := q.find(id); i >= 0 && q.Entries[i].Granted {\ntoken = q.Entries[i].Token\n}\ni, err := q.held(now, id, token)"))}},
	{"renew_of_an_expired_entry", []mutant.Edit{mutant.At("renewal-re-creates", mutant.Value("q.held(Time{}, id, h.Token)"))}},
	{"release_of_an_expired_entry", []mutant.Edit{mutant.At("compare-release", mutant.Value("q.hold(Time{}, h.ID, h.Token)"))}},
	{"renew_of_a_waiting_entry", []mutant.Edit{mutant.At("renew-waiting-entry", mutant.Cond("e.Token != token || !e.live(now)"))}},
	{"renew_or_release_of_a_waiting_entry_with_any_token", []mutant.Edit{mutant.At("renew-waiting-entry", mutant.Cond("e.Granted && e.Token != token || !e.live(now)"))}},
	{"renew_that_creates_again", []mutant.Edit{mutant.At("renew-without-comparing-id", mutant.After("if len(q.Entries) == 0 && h.Token > 0 {\nq.Entries = append(q.Entries, Entry{ID: h.ID, Limit: store.Full, Weight: 1, Want: 1, N: 1, Granted: true, Token: h.Token, Expires: now.Clock + 1})\n}"))}},
	{"release_of_nothing_is_nil", []mutant.Edit{mutant.At("release-nothing-nil", mutant.Cond("q.find(h.ID) < 0 || WAS"))}},

	// Repeats.
	{"ask_after_expiry_appended_anew", []mutant.Edit{mutant.At("ask-after-expiry-appended", mutant.Cond("i >= 0 && q.Entries[i].live(now)"))}},
	{"a_repeat_appends_twice", []mutant.Edit{mutant.At("ask-after-expiry-appended", mutant.Cond("i >= len(q.Entries)"))}},
	{"a_repeated_grant_draws_a_new_token", []mutant.Edit{mutant.At("repeated-grant-draws-new", mutant.After("if e.Since != now.Clock {\nq.Last++\ne.Token = q.Last\n}"))}},
	{"a_repeated_ask_moves_to_the_end", []mutant.Edit{mutant.At("repeated-ask-moves-end", mutant.After("moved := *e\nq.drop(i)\nq.Entries = append(q.Entries, moved)"))}},
	{"a_repeated_ask_keeps_no_position", []mutant.Edit{mutant.At("repeated-ask-moves-end", mutant.Delete())}},
	{"a_repeated_ask_renews_no_hold", []mutant.Edit{mutant.At("repeated-grant-draws-new", mutant.Stmt("if e.Expires == 0 {\ne.Expires = now.Clock + micros(c.TTL)\n}"))}},

	// Entries left behind.
	{"a_refused_try_leaves_an_entry", []mutant.Edit{mutant.At("refused-try-leaves-entry", mutant.Cond("c.Try && room && !room"))}},
	{"a_cancelled_waiter_stays", []mutant.Edit{mutant.At("cancelled-waiter-stays", mutant.Cond("WAS && q.Entries[i].Granted"))}},
	{"a_withdrawn_hold_stays", []mutant.Edit{mutant.At("cancelled-waiter-stays", mutant.Cond("WAS && !q.Entries[i].Granted"))}},
	{"a_withdrawal_of_nothing_is_lost", []mutant.Edit{mutant.At("withdrawal-nothing-lost", mutant.After("if !wrote {\nreturn change, store.ErrLost\n}"))}},

	// Time.
	{"expiry_ignored", []mutant.Edit{mutant.At("expiry-after-crash", mutant.Cond("q.Entries[i].end() > 0"))}},
	{"a_renewal_moves_the_expiry_back", []mutant.Edit{mutant.At("renewal-moves-expiry-back", mutant.Value("now.Clock + micros(h.TTL)"))}},
	{"a_repeated_ask_moves_the_expiry_back", []mutant.Edit{mutant.At("repeated-grant-draws-new", mutant.Value("now.Clock + micros(c.TTL)"))}},
	{"a_renewal_moves_nothing", []mutant.Edit{mutant.At("renewal-moves-expiry-back", mutant.Delete())}},
	{"one_readers_ttl_cuts_anothers", []mutant.Edit{mutant.At("repeated-grant-draws-new", mutant.After("for j := range q.Entries {\nq.Entries[j].Expires = min(q.Entries[j].Expires, e.Expires)\n}"))}},
	{"one_readers_ttl_keeps_anothers", []mutant.Edit{mutant.At("renewal-moves-expiry-back", mutant.After("for j := range q.Entries {\nif q.Entries[j].Granted {\nq.Entries[j].Expires = max(q.Entries[j].Expires, e.Expires)\n}\n}"))}},
	{"a_position_is_kept_for_the_ttl", []mutant.Edit{mutant.At("cancelled-wait-leaves-place-behind-too", mutant.Value("now.Clock + micros(c.TTL)"))}},
	{"a_position_never_lapses", []mutant.Edit{mutant.At("cancelled-wait-leaves-place-behind-too", mutant.Value("1 << 62"))}},
	{"a_grant_by_another_lasts_for_the_ttl", []mutant.Edit{mutant.At("grant-another-lasts-ttl", mutant.After("e.Expires = now.Clock + 60_000_000"))}},

	// Minimum hold and lock delay.
	{"minimum_hold_kept_for_one_that_expired_unseen", []mutant.Edit{mutant.At("minimum-hold-kept-expired", mutant.Cond("e.Granted"))}},
	{"minimum_hold_kept_for_one_that_withdrew", []mutant.Edit{mutant.At("minimum-hold-kept-withdrew", mutant.Stmt("q.Entries[i].Shown = true\nq.leave(now, i)"))}},
	{"minimum_hold_kept_for_one_that_withdrew_once_shown", []mutant.Edit{mutant.At("minimum-hold-kept-withdrew", mutant.Expr("q.leave(now, i)"))}},
	{"minimum_hold_ignored_by_release", []mutant.Edit{mutant.At("minimum-hold-ignored-release", mutant.Cond("e.Granted && !e.Granted"))}},
	{"minimum_hold_ignored_by_expiry", []mutant.Edit{mutant.At("minimum-hold-kept-expired", mutant.Cond("e.Shown && e.N == 0")), mutant.At("minimum-hold-ignored-expiry", mutant.Stmt("e.Expires, e.LockDelay, e.N = now.Clock, 0, 0"))}},
	{"a_repeated_release_begins_the_minimum_hold_anew", []mutant.Edit{mutant.At("compare-release", mutant.After("if j := q.find(h.ID); err != nil && j >= 0 && q.Entries[j].Token == h.Token && q.Entries[j].Shown {\nq.Entries[j].Since = now.Clock\n}"))}},
	{"a_repeated_release_ends_the_minimum_hold", []mutant.Edit{mutant.At("compare-release", mutant.After("if j := q.find(h.ID); err != nil && j >= 0 && q.Entries[j].Token == h.Token && q.Entries[j].Shown {\nq.Entries[j].MinHold = 0\n}"))}},
	{"minimum_hold_counted_from_the_release", []mutant.Edit{mutant.At("minimum-hold-ignored-expiry", mutant.Stmt("e.Expires, e.LockDelay, e.Since = now.Clock, 0, now.Clock"))}},
	{"a_released_hold_in_the_way_is_still_its_owners", []mutant.Edit{mutant.At("minimum-hold-ignored-expiry", mutant.Stmt("e.LockDelay = 0"))}},
	{"lock_delay_ignored", []mutant.Edit{mutant.At("lock-delay-ignored", mutant.Value("e.Expires"))}},
	{"lock_delay_after_a_release", []mutant.Edit{mutant.At("lock-delay-after-release", mutant.After("if e.Granted && e.LockDelay > 0 {\ne.Expires = now.Clock\nreturn\n}"))}},
	{"lock_delay_of_a_position", []mutant.Edit{mutant.At("lock-delay-place", mutant.Return("e.Expires + e.LockDelay"))}},

	// Tokens.
	{"token_starts_again_when_idle", []mutant.Edit{mutant.At("tokens-repeat-after-wipe", mutant.Value("q.Last + 1")), mutant.At("token-starts-again-idle", mutant.Value("0, n.one[:0]"))}},
	{"token_drawn_at_the_append", []mutant.Edit{
		mutant.At("token-drawn-append", mutant.Stmt("if e.Token == 0 {\nWAS\n} else {\nq.Last = e.Token\n}")),
		mutant.At("cancelled-wait-leaves-place-behind-too", mutant.After("q.Last++\nq.Entries[i].Token = q.Last")),
	}},
	{"token_is_the_clock_alone", []mutant.Edit{mutant.At("tokens-repeat-after-wipe", mutant.Value("now.Wall &^ 0xfffff"))}},
	{"readers_share_a_token", []mutant.Edit{mutant.At("token-drawn-append", mutant.Stmt("if held, _, _, _ := q.weights(now); held > 1 && e.Weight == 1 {\nq.Last--\n}\ne.Token = q.draw(Time{Wall: now.Wall &^ 0xfffff}, e.N)"))}},

	// Order and room.
	{"a_reader_passes_a_waiting_writer", []mutant.Edit{mutant.At("reader-passes-waiting-writer", mutant.Value("(waiting == 0 || c.Weight == 1 && c.Limit == store.Full) && !upgrading && held+c.Weight <= min(least, c.Limit)"))}},
	{"a_try_passes_a_waiter", []mutant.Edit{mutant.At("reader-passes-waiting-writer", mutant.Value("(waiting == 0 || c.Try) && !upgrading && held+c.Weight <= min(least, c.Limit)"))}},
	{"a_narrow_claim_passes_a_wide_one", []mutant.Edit{mutant.At("reader-passes-waiting-writer", mutant.Value("(waiting == 0 || c.Limit < store.Full) && !upgrading && held+c.Weight <= min(least, c.Limit)"))}},
	{"a_release_skips_the_blocked", []mutant.Edit{mutant.At("release-skips-blocked", mutant.Stmt("continue"))}},
	{"a_release_grants_one_at_most", []mutant.Edit{mutant.At("release-grants-most", mutant.Value("store.Full"))}},
	{"last_in_first_out", []mutant.Edit{mutant.At("last-first-out", mutant.After("if len(q.Entries) > 2 {\ndefer func() {\nif n := len(q.Entries); n > 2 && !q.Entries[n-2].Granted {\nq.Entries[n-2], q.Entries[n-1] = q.Entries[n-1], q.Entries[n-2]\n}\n}()\n}"))}},
	{"limit_and_one_more_at_the_ask", []mutant.Edit{mutant.At("reader-passes-waiting-writer", mutant.Value("WAS+1"))}},
	{"limit_and_one_more_at_the_release", []mutant.Edit{mutant.At("limit-more-release", mutant.Cond("WAS+1"))}},
	{"a_full_semaphore_keeps_one_back", []mutant.Edit{mutant.At("reader-passes-waiting-writer", mutant.Value("waiting == 0 && !upgrading && (held+c.Weight < min(least, c.Limit) || held == 0)"))}},
	{"a_different_limit_accepted", []mutant.Edit{mutant.At("different-limit-accepted", mutant.Cond("WAS && have < 0"))}},
	{"two_totals_are_a_mismatch", []mutant.Edit{mutant.At("lock-beside-semaphore", mutant.Return("true"))}},
	{"a_smaller_total_is_forgotten_at_the_ask", []mutant.Edit{mutant.At("reader-passes-waiting-writer", mutant.Value("waiting == 0 && !upgrading && held+c.Weight <= c.Limit+0*least"))}},
	{"the_own_total_is_forgotten_at_the_ask", []mutant.Edit{mutant.At("reader-passes-waiting-writer", mutant.Value("waiting == 0 && !upgrading && held+c.Weight <= least"))}},
	{"a_smaller_total_is_forgotten_at_the_release", []mutant.Edit{mutant.At("limit-more-release", mutant.Cond("held+int64(e.Weight) > int64(e.Limit)"))}},
	{"the_own_total_is_forgotten_at_the_release", []mutant.Edit{mutant.At("release-heeds-own-limit", mutant.Delete())}},
	{"the_total_of_who_is_granted_with_it_is_forgotten", []mutant.Edit{mutant.At("release-heeds-own-limit", mutant.Stmt("least := min(least, int64(e.Limit))"))}},
	{"only_the_total_of_the_newest_holder_is_heeded", []mutant.Edit{mutant.At("smaller-total-heeded", mutant.Value("int64(e.Limit)"))}},
	{"a_different_limit_remembered_for_ever", []mutant.Edit{mutant.At("different-limit-accepted", mutant.Cond("WAS || have == 0 && q.Last > 0 && c.Limit < store.Full"))}},

	// Notifications.
	{"wakes_nobody", []mutant.Edit{mutant.At("wakes-nobody", mutant.Cond("WAS && held < 0"))}},
	{"wakes_all", []mutant.Edit{mutant.At("limit-more-release", mutant.First("for _, w := range q.Entries[i:] {\nchange.Woken = append(change.Woken, store.Notification{Name: name, ID: w.ID})\n}"))}},
	{"an_ask_wakes_nobody", []mutant.Edit{mutant.At("ask-wakes-nobody", mutant.After("change.Woken = nil"))}},
	{"what_is_lost_wakes_nobody", []mutant.Edit{mutant.At("lost-wakes-nobody", mutant.After("if err != nil {\nchange.Woken = nil\n}"))}},
	{"a_renewal_wakes_nobody", []mutant.Edit{mutant.At("renewal-wakes-nobody", mutant.After("change.Woken = nil"))}},
	{"wakes_one_at_most", []mutant.Edit{mutant.At("wakes-most", mutant.Line("for i, h := range change.Woken {\nif i > 0 {\nbreak\n}"))}},
	{"wakes_without_the_token", []mutant.Edit{mutant.At("wakes-without-token", mutant.First("h.Token = 0"))}},

	// Looking at a name.
	{"who_looks_is_not_notified", []mutant.Edit{mutant.At("watches-nobody", mutant.Line("for changed := range map[*func()]bool{} {"))}},
	{"who_looks_is_notified_for_ever", []mutant.Edit{mutant.At("watched-for-ever", mutant.Line("if len(s.looks[name]) == 0 {"))}},

	// Asking a holder to give up.
	{"a_renewal_does_not_say_who_asks", []mutant.Edit{mutant.At("renewal-tells-give-up", mutant.Delete())}},
	{"a_holder_is_not_notified_of_who_asks", []mutant.Edit{mutant.At("give-up-notifies", mutant.Delete())}},
	{"a_holder_is_notified_at_each_ask", []mutant.Edit{mutant.At("give-up-asked-once", mutant.Value("true"))}},
	{"nobody_can_ask_later", []mutant.Edit{mutant.At("give-up-asked-later", mutant.Delete())}},
	{"who_was_granted_asks_on", []mutant.Edit{mutant.At("granted-asks-no-more", mutant.Delete())}},
	{"one_holder_alone_is_asked", []mutant.Edit{mutant.At("give-up-asks-those-alive", mutant.Cond("j == 0 && WAS"))}},
	{"the_last_who_asks_is_heard", []mutant.Edit{mutant.At("renewal-tells-give-up", mutant.Stmt("for j := range q.Entries {\nif reason := q.Entries[j].Asks(); reason != \"\" {\nr.GiveUp = reason\n}\n}"))}},
	{"a_try_asks_to_give_up", []mutant.Edit{mutant.At("refused-try-leaves-entry", mutant.First("if c.GiveUp != \"\" && len(q.Entries) > 0 {\nchange.Woken = append(change.Woken, store.Notification{Name: name, ID: q.Entries[0].ID})\n}"))}},

	// Changes of weight.
	{"an_upgrade_is_a_second_entry", []mutant.Edit{mutant.At("upgrade-second-entry", mutant.Stmt("e.Turn = turn\nif weight == store.Full {\nq.Entries = append(q.Entries, Entry{ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full, Want: store.Full, Expires: e.Expires})\ne = &q.Entries[i]\n} else {\ne.Want = int32(weight)\n}"))}},
	{"an_upgrade_lets_waiters_in_while_it_is_pending", []mutant.Edit{mutant.At("upgrade-lets-waiters-while", mutant.Stmt("if upgrading { // before all that wait; there is one at most\nif q.upgrade(now, name, self, held, &change) {\nheld = store.Full\n}\n\t}"))}},
	{"an_upgrade_lets_tries_in_while_it_is_pending", []mutant.Edit{mutant.At("reader-passes-waiting-writer", mutant.Stmt("_ = upgrading\nroom := waiting == 0 && held+c.Weight <= min(least, c.Limit)"))}},
	{"an_upgrade_waits_behind_those_that_wait", []mutant.Edit{mutant.At("upgrade-waits-behind-those", mutant.Before("if waiting > 0 {\nreturn change\n}"))}},
	{"an_upgrade_ignores_readers", []mutant.Edit{mutant.At("upgrade-see-readers", mutant.Cond("held < 0"))}},
	{"an_upgrade_replaces_the_token_of_the_grant", []mutant.Edit{mutant.At("upgrade-replaces-token-grant", mutant.After("e.Token = e.UpgradeToken"))}},
	{"an_upgrade_draws_no_upgrade_token", []mutant.Edit{mutant.At("upgrade-replaces-token-grant", mutant.Expr("e.Token"))}},
	{"an_upgrade_draws_one_upgrade_token_for_good", []mutant.Edit{mutant.At("upgrade-replaces-token-grant", mutant.Stmt("e.Weight = e.Want\nif e.UpgradeToken == 0 {\ne.UpgradeToken = q.draw(now, 1)\n}"))}},
	{"an_upgrade_is_void_for_its_repeat", []mutant.Edit{mutant.At("upgrade-void-repeat", mutant.Line("if err == nil && !q.upgradeable(i) || err == nil && q.Entries[i].Weight == store.Full && weight == store.Full {"))}},
	{"an_upgrade_that_is_pending_outlives_its_hold", []mutant.Edit{mutant.At("upgrade-pending-outlives-hold", mutant.Return("e.Granted && e.Want > e.Weight"))}},
	{"an_upgrade_that_is_pending_outlives_a_break", []mutant.Edit{mutant.At("upgrade-pending-outlives-break", mutant.Delete())}},
	{"an_upgrade_wakes_nobody", []mutant.Edit{mutant.At("upgrade-wakes-nobody", mutant.Cond("WAS && held < 0"))}},
	{"an_upgrade_is_told_with_a_token", []mutant.Edit{mutant.At("upgrade-told-token", mutant.Value("append(change.Woken, store.Notification{Name: name, ID: e.ID, Token: e.UpgradeToken})"))}},
	{"an_upgrade_moves_the_expiry", []mutant.Edit{mutant.At("upgrade-second-entry", mutant.After("e.Expires = max(e.Expires, now.Clock+60_000_000)"))}},
	{"an_upgrade_tells_its_own_hold_to_be_in_the_way", []mutant.Edit{mutant.At("upgrade-tells-own-hold", mutant.Cond("e.Granted"))}},
	{"a_refusal_tells_the_delay_behind_an_upgrade", []mutant.Edit{mutant.At("refusal-tells-delay-behind", mutant.Delete())}},
	{"turns_are_ignored", []mutant.Edit{mutant.At("turns-ignored", mutant.Value("turn > 0"))}},
	{"turns_are_not_kept", []mutant.Edit{mutant.At("upgrade-second-entry", mutant.Stmt("e.Want = int32(weight)"))}},
	{"a_turn_may_come_again", []mutant.Edit{mutant.At("turns-ignored", mutant.Value("turn >= e.Turn"))}},
	{"a_cancel_only_clears_the_want", []mutant.Edit{mutant.At("cancel-only-clears-want", mutant.Stmt("e.Want = max(e.Weight, e.Want)"))}},
	{"a_downgrade_leaves_a_gap", []mutant.Edit{mutant.At("cancel-only-clears-want", mutant.Stmt("if e.Want < e.Weight {\nmoved := *e\nmoved.Weight = moved.Want\nq.drop(i)\nq.settle(now, h.Name, h.ID)\nq.Entries = append(q.Entries, moved)\n}"))}},
	{"a_downgrade_gives_no_room", []mutant.Edit{mutant.At("downgrade-gives-room", mutant.Stmt("var change Change\nif weight == store.Full {\nchange = q.settle(now, h.Name, h.ID)\n}"))}},
	{"a_downgrade_drops_the_upgrade_token", []mutant.Edit{mutant.At("cancel-only-clears-want", mutant.Stmt("if e.Want < e.Weight {\ne.Weight, e.UpgradeToken = e.Want, 0\n}"))}},
	{"a_change_compares_no_token", []mutant.Edit{mutant.At("change-compares-token", mutant.Stmt("token := h.Token\nif i := q.find(h.ID); i >= 0 && q.Entries[i].Granted {\ntoken = q.Entries[i].Token\n}\ni, err := q.held(now, h.ID, token)"))}},
	{"a_change_compares_no_id", []mutant.Edit{mutant.At("change-compares-id", mutant.First("id := h.ID\nfor _, e := range q.Entries {\nif e.Granted && e.Token == h.Token {\nid = e.ID\n}\n}\nh = &store.Hold{Name: h.Name, ID: id, Token: h.Token}"))}},
	{"a_change_of_an_expired_hold", []mutant.Edit{mutant.At("change-compares-token", mutant.Stmt("i, err := q.held(Time{}, h.ID, h.Token)\nif err == nil && q.Entries[i].end() <= now.Clock {\ni, err = -1, store.ErrLost\n}"))}},
	{"a_change_of_a_broken_hold", []mutant.Edit{mutant.At("change-compares-token", mutant.Value("q.hold(now, h.ID, h.Token)"))}},
	{"a_change_of_any_hold", []mutant.Edit{mutant.At("upgrade-void-repeat", mutant.Cond("err != nil && i >= 0 && !q.upgradeable(i)"))}},
	{"a_change_of_slots", []mutant.Edit{mutant.At("change-slots", mutant.Return("e.Limit > 0 && (q.Entries[i].Weight == store.Upgradeable || q.Entries[i].UpgradeToken != 0)"))}},
	{"a_change_without_a_check", []mutant.Edit{mutant.At("change-without-check", mutant.Value("ctx.Err()"))}},
	{"a_renewal_tells_no_upgrade_token", []mutant.Edit{mutant.At("renewal-tells-fence", mutant.Value("store.Renewal{TTL: h.TTL, Weight: int64(e.Weight), Want: int64(e.Want)}"))}},
	{"a_renewal_tells_no_want", []mutant.Edit{mutant.At("renewal-tells-fence", mutant.Value("store.Renewal{TTL: h.TTL, Weight: int64(e.Weight), Want: int64(e.Weight), UpgradeToken: e.UpgradeToken}"))}},
	{"a_list_shows_the_want_of_the_expired", []mutant.Edit{mutant.At("list-shows-want-expired", mutant.Stmt("if e.Want < 0 {\ns.Want = s.Weight\n\t}"))}},

	// Blocks of tokens.
	{"a_block_is_drawn_as_one", []mutant.Edit{mutant.At("block-drawn", mutant.Value("first"))}},
	{"a_block_drawn_by_another_is_one", []mutant.Edit{mutant.At("cancelled-wait-leaves-place-behind-too", mutant.After("q.Entries[i].N = 1"))}},
	{"a_block_for_readers", []mutant.Edit{mutant.At("block-readers", mutant.Expr("uint16(min(max(c.Block, 1), store.MaxBlock))"))}},
	{"a_block_without_a_bound", []mutant.Edit{mutant.At("block-readers", mutant.Expr("uint16(max(c.Block, c.Tokens()))"))}},
	{"a_block_is_not_told_by_notifications", []mutant.Edit{mutant.At("block-told-hints", mutant.Value("append(change.Woken, store.Notification{Name: name, ID: e.ID, Token: e.Token, N: 1})"))}},
	{"a_block_given_back_whole", []mutant.Edit{mutant.At("block-given-back-whole", mutant.Value("e.Token, uint16(h.Used-e.Token+1)"))}},
	{"a_block_given_back_with_the_last_one_used", []mutant.Edit{mutant.At("block-given-back-whole", mutant.Value("h.Used-1, uint16(h.Used-e.Token+1)"))}},
	{"a_block_given_back_by_who_tells_nothing", []mutant.Edit{mutant.At("block-given-back-tells", mutant.After("if h.Used == 0 {\nh.Used = e.Token\n}"))}},
	{"a_block_given_back_by_a_token_outside", []mutant.Edit{mutant.At("block-given-back-token", mutant.Cond("e.Token <= h.Used && q.Last == end"))}},
	{"a_block_is_never_given_back", []mutant.Edit{mutant.At("block-given-back-token", mutant.Cond("e.Token <= h.Used && h.Used < end && q.Last < end"))}},
	{"a_block_given_back_is_still_the_holds", []mutant.Edit{mutant.At("block-given-back-whole", mutant.Stmt("q.Last = h.Used"))}},
	{"a_block_is_not_what_the_hold_is_broken_by", []mutant.Edit{mutant.At("block-hold-broken", mutant.Return("WAS && (token == e.Token || token == e.UpgradeToken)"))}},
	{"a_upgrade_token_is_not_what_the_hold_is_broken_by", []mutant.Edit{mutant.At("block-hold-broken", mutant.Return("WAS && token != e.UpgradeToken"))}},
	{"any_token_of_the_block_is_the_holds_identity", []mutant.Edit{mutant.At("renew-waiting-entry", mutant.Cond("!e.Granted || token < e.Token || token >= e.Token+int64(e.N) || !e.live(now)"))}},
	{"the_newest_token_used_goes_back", []mutant.Edit{mutant.At("newest-token-used-goes", mutant.Value("int32(h.Used - e.Token)"))}},
	{"a_token_outside_the_block_is_used", []mutant.Edit{mutant.At("token-outside-block-used", mutant.Cond("e.Token < h.Used && h.Used < e.Token+2*int64(e.N)"))}},
	{"a_renewal_forgets_the_owner", []mutant.Edit{mutant.At("renewal-forgets-owner", mutant.Value("h.Owner"))}},
	{"a_renewal_keeps_the_first_owner", []mutant.Edit{mutant.At("renewal-forgets-owner", mutant.Value("cmp.Or(e.Owner, h.Owner)"))}},
	{"holds_of_one_name_are_renewed_backwards", []mutant.Edit{mutant.At("renewals-in-their-order", mutant.After("i = len(holds) - 1 - i\nh = &holds[i]"))}},

	// Other ids.
	{"an_adopted_hold_keeps_its_id_too", []mutant.Edit{mutant.At("adopted-hold-keeps-id", mutant.Stmt("if e.ID != id {\nq.Entries = append(q.Entries, *e)\nq.Entries[len(q.Entries)-1].ID = id\n}"))}},
	{"an_adopted_hold_keeps_its_id", []mutant.Edit{mutant.At("adopted-hold-keeps-id-7", mutant.Delete())}},
	{"an_adopted_hold_has_another_token", []mutant.Edit{mutant.At("adopted-hold-keeps-id-7", mutant.After("if e.ID != id {\ne.Token = q.draw(now, e.N)\n}"))}},
	{"an_adoption_repeated_is_lost", []mutant.Edit{mutant.At("adoption-repeated-lost", mutant.Delete())}},
	{"an_adoption_for_all", []mutant.Edit{mutant.At("renew-without-comparing-id", mutant.After("if h.NewID != (store.ID{}) {\nfor _, e := range q.Entries {\nif e.Token == h.Token {\nid = e.ID\n}\n}\n}"))}},
	{"an_adoption_after_the_end", []mutant.Edit{mutant.At("renew-without-comparing-id", mutant.After("if h.NewID != (store.ID{}) && q.find(id) < 0 && len(q.Entries) == 0 {\nq.Entries = append(q.Entries, Entry{ID: id, Limit: store.Full, Weight: 1, Want: 1, N: 1, Granted: true, Token: h.Token, Expires: now.Clock + 1})\n}"))}},
	{"an_adoption_of_a_waiting_entry", []mutant.Edit{mutant.At("renewal-re-creates", mutant.After("if err != nil && i >= 0 && h.NewID != (store.ID{}) && !q.Entries[i].Granted {\nq.Entries[i].ID = h.NewID\n}"))}},
	{"an_adoption_of_a_broken_hold", []mutant.Edit{mutant.At("renewal-re-creates", mutant.Stmt("held := q.held\nif h.NewID != (store.ID{}) {\nheld = q.hold\n}\ni, err := held(now, id, h.Token)"))}},
	{"an_adoption_pushes_no_expiry", []mutant.Edit{mutant.At("renewal-moves-expiry-back", mutant.Stmt("if h.NewID == (store.ID{}) {\nWAS\n}"))}},
	{"an_adoption_begins_the_hold_anew", []mutant.Edit{mutant.At("adopted-hold-keeps-id-7", mutant.After("if e.ID != id {\ne.Since, e.MinHold = now.Clock, 0\n}"))}},
	{"an_adoption_forgets_the_upgrade", []mutant.Edit{mutant.At("adopted-hold-keeps-id-7", mutant.After("if e.ID != id {\ne.Want, e.Turn = e.Weight, 0\n}"))}},

	// Breaking and looking.
	{"a_broken_hold_may_be_renewed", []mutant.Edit{mutant.At("broken-hold-may-renewed", mutant.Cond("err == nil && q.Entries[i].Turn < 0"))}},
	{"a_broken_hold_may_be_asked_for", []mutant.Edit{mutant.At("broken-hold-may-asked", mutant.Cond("!e.live(now)"))}},
	{"a_broken_hold_cannot_be_released", []mutant.Edit{mutant.At("broken-hold-cannot-released", mutant.After("if e.Broken != nil {\nreturn Change{}, lost(e)\n}"))}},
	{"a_broken_hold_is_removed", []mutant.Edit{mutant.At("broken-hold-removed", mutant.Cond("b.Now || !b.Now"))}},
	{"a_break_forgets_its_reason", []mutant.Edit{mutant.At("break-forgets-reason", mutant.Value(`cmp.Or("broken", b.Reason)`))}},
	{"a_break_leaves_the_minimum_hold", []mutant.Edit{mutant.At("break-leaves-minimum-hold", mutant.Delete())}},
	{"a_break_ends_the_lock_delay", []mutant.Edit{mutant.At("break-leaves-minimum-hold", mutant.After("e.LockDelay = 0"))}},
	{"a_break_compares_no_token", []mutant.Edit{mutant.At("break-compares-token", mutant.Cond("i < 0 || !q.Entries[i].Granted || q.Entries[i].end() <= now.Clock"))}},
	{"a_break_of_a_waiting_entry", []mutant.Edit{mutant.At("break-compares-token", mutant.Cond("i < 0 || q.Entries[i].Granted && !q.Entries[i].has(now, b.Token) || q.Entries[i].end() <= now.Clock"))}},
	{"a_hold_broken_now_is_dropped", []mutant.Edit{mutant.At("freed-hold-dropped", mutant.Cond("b.Now"))}},
	{"a_hold_broken_now_is_in_the_way", []mutant.Edit{mutant.At("freed-hold-in-the-way", mutant.Cond("e.Freed() && e.Token < 0"))}},
	{"a_hold_broken_now_has_a_limit", []mutant.Edit{mutant.At("freed-hold-has-limit", mutant.Cond("least == 0 || e.Limit < least"))}},
	{"a_hold_broken_now_is_told_in_refusals", []mutant.Edit{mutant.At("freed-hold-told", mutant.Cond("e.Freed() && e.Token < 0"))}},
	{"a_hold_broken_now_is_given_back_like_any", []mutant.Edit{mutant.At("freed-hold-given-back", mutant.Cond("q.Entries[i].Freed() && q.Entries[i].Token < 0"))}},
	{"a_poll_appends", []mutant.Edit{mutant.At("look-appends", mutant.First("if held, _, waiting, _ := q.weights(now); held > 0 && waiting == 0 && q.find(c.ID) < 0 {\nq.Ask(now, name, c)\n}"))}},
	{"a_poll_keeps_the_position", []mutant.Edit{mutant.At("look-appends", mutant.First("if i := q.find(c.ID); i >= 0 && q.Entries[i].live(now) && !q.Entries[i].Granted {\nq.Entries[i].Expires = now.Clock + micros(c.PositionTTL)\n}"))}},
	{"a_poll_renews", []mutant.Edit{mutant.At("look-appends", mutant.First("if i, err := q.hold(now, c.ID, q.Last); err == nil {\nq.Entries[i].Expires = max(q.Entries[i].Expires, now.Clock+micros(c.TTL))\n}"))}},
	{"a_poll_draws_a_token", []mutant.Edit{mutant.At("look-draws-token", mutant.Stmt("q.Last = a.Last"))}},
	{"a_poll_drops", []mutant.Edit{mutant.At("look-appends", mutant.First("q.settle(now, name, c.ID)"))}},

	// What is told.
	{"a_refusal_tells_the_last_end", []mutant.Edit{mutant.At("refusal-tells-last-end", mutant.Stmt("if first == math.MaxInt64 || e.end() > first {\nfirst = e.end()\n}"))}},
	{"a_refusal_forgets_those_who_wait", []mutant.Edit{mutant.At("refusal-forgets-those-wait", mutant.Stmt("a.Waiting = 0"))}},
	{"a_refusal_counts_itself", []mutant.Edit{mutant.At("refusal-counts-itself", mutant.Cond("j > i && !e.Granted"))}},
	{"a_refusal_names_all_holders", []mutant.Edit{mutant.At("refusal-names-all-holders", mutant.Cond("len(a.Holders) < 99999"))}},
	{"a_refusal_forgets_the_newest_token", []mutant.Edit{mutant.At("refusal-forgets-newest-token", mutant.Value("store.Answer{}"))}},
	{"the_owner_is_not_kept", []mutant.Edit{mutant.At("owner-kept", mutant.Line(`Expires: now.Clock, MinHold: micros(c.MinHold), LockDelay: micros(c.LockDelay), Owner: "somebody",`))}},
	{"a_batch_ends_at_the_first_loss", []mutant.Edit{mutant.At("batch-ends-first-loss", mutant.After("}\nif out[i].Err != nil {\nfor j := i; j < len(out); j++ {\nout[j].Err = out[i].Err\n}\nbreak"))}},

	// Names.
	{"names_folded_in_case", []mutant.Edit{mutant.At("names-folded-case", mutant.First("name = strings.ToLower(name)"))}},
	{"names_without_trailing_blanks", []mutant.Edit{mutant.At("names-folded-case", mutant.First(`name = strings.TrimRight(name, " ")`))}},
	{"names_end_at_a_NUL", []mutant.Edit{mutant.At("names-folded-case", mutant.First(`name, _, _ = strings.Cut(name, "\x00")`))}},
	{"names_cut_at_511_bytes", []mutant.Edit{mutant.At("names-folded-case", mutant.First("name = name[:min(len(name), 511)]"))}},
	{"an_ended_context_is_ignored", []mutant.Edit{mutant.At("ended-context-ignored", mutant.Delete())}},
	{"an_ended_context_is_a_loss", []mutant.Edit{mutant.At("ended-context-loss", mutant.Return("store.ErrLost"))}},
	{"two_first_ones_at_once_both_insert", []mutant.Edit{mutant.At("names-folded-case", mutant.First("if comes(name) == 40 { // of a crowd: it has looked before the first has inserted\ndelete(s.names, name)\n}"))}},

	// Checks.
	{"a_check_that_tells_nothing", []mutant.Edit{mutant.At("check-tells-nothing", mutant.First("return []store.Finding{}"))}},
	{"a_check_that_does_not_tell_what_it_looked_at", []mutant.Edit{mutant.At("check-tell-looked", mutant.Return(`[]store.Finding{{Found: "of this process: it excludes no other"}}`))}},
	{"a_check_that_fails_where_locks_work", []mutant.Edit{mutant.At("check-tell-looked", mutant.Return(`[]store.Finding{{About: "memory", Found: "of this process: it excludes no other", Err: store.ErrUnavailable}}`))}},
}
