package storetest_test

import "strings"

// A broken is package queue or memstore with one thing wrong.
type broken struct {
	name  string
	edits []edit
}

// An edit is a mutant.Edit whose fields need not be named.
type edit struct{ File, Old, New string }

const (
	rule   = "store/queue/queue.go"
	memory = "memstore/memstore.go"

	changeFinds    = "i, err := q.held(now, h.ID, h.Token)"
	changeSets     = "e.Turn, e.Want = turn, int32(weight)"
	settleUpgrades = "if !q.upgrade(now, name, self, held, &change) {\n\t\t\treturn change\n\t\t}\n\t\theld = int64(q.Limit)"
	upgradeDraws   = "e.Weight, e.Fence = e.Want, q.draw(now, 1)"
	wakesUpgraded  = "if e.ID != self {\n\t\t\tchange.Woken = append(change.Woken, store.Hint{Name: name, ID: e.ID})"

	renewFinds   = "i, err := q.held(now, id, h.Token)"
	releaseFinds = "i, err := q.hold(now, h.ID, h.Token)"
	askFinds     = "if i := q.find(c.ID); i >= 0 {"
	askRoom      = "room := waiting == 0 && !upgrading && held+c.Weight <= c.Limit"
	draw         = "first := max(q.Last+1, now.Wall)"
	wakesGranted = "if e.ID != self {\n\t\t\tchange.Woken = append(change.Woken, store.Hint{Name: name, ID: e.ID, Token"
	grantDraws   = "e.Token = q.draw(now, e.N)"
	releaseEach  = "out[i] = s.Release(ctx, h)"
)

// mutants are the mistakes that a store of a new kind is likely to make.
var mutants = []broken{
	// Many at once.
	{"release_all_stops_at_the_first_failure", []edit{{memory, releaseEach, releaseEach + "\nif out[i] != nil {\nbreak\n}"}}},
	{"release_all_tells_all_of_the_last", []edit{{memory, releaseEach, "err := s.Release(ctx, h)\nfor j := range out {\nout[j] = err\n}\n_ = i"}}},
	{"release_all_of_no_more_than_a_thousand", []edit{{memory, releaseEach, "if i >= 1000 {\nbreak\n}\n" + releaseEach}}},
	{"release_all_leaves_out_the_last", []edit{{memory, releaseEach, "if i > 0 && i == len(holds)-1 {\nbreak\n}\n" + releaseEach}}},
	{"release_all_without_comparing_the_token", []edit{{memory, releaseEach, "if h.Token > 0 && len(holds) > 1 && s.names[h.Name] != nil {\nfor _, e := range s.names[h.Name].Entries {\nif e.ID == h.ID && e.Granted {\nh.Token = e.Token\n}\n}\n}\n" + releaseEach}}},
	{"release_all_without_comparing_the_id", []edit{{memory, releaseEach, "if h.Token > 0 && len(holds) > 1 && s.names[h.Name] != nil {\nfor _, e := range s.names[h.Name].Entries {\nif e.Token == h.Token {\nh.ID = e.ID\n}\n}\n}\n" + releaseEach}}},
	{"release_all_wakes_nobody", []edit{{memory, releaseEach, "out[i] = s.do(ctx, \"release\", h.Name, func(now queue.Time, q *queue.Queue) (queue.Change, error) {\n_, err := q.Release(now, &h)\nreturn queue.Change{}, err\n})"}}},
	{"release_all_keeps_no_minimum_hold", []edit{{memory, releaseEach, "if h.Token > 0 {\nh.Token = 0\nif s.names[h.Name] != nil {\nfor j := range s.names[h.Name].Entries {\ns.names[h.Name].Entries[j].Keep = 0\n}\n}\n}\n" + releaseEach}}},
	{"release_all_without_its_context", []edit{{memory, releaseEach, "if ctx.Err() != nil {\nout[i] = store.ErrLost\ncontinue\n}\n" + releaseEach}}},

	// Who owns a hold.
	{"release_without_comparing_the_id", []edit{{rule, releaseFinds, "id := h.ID\nfor _, e := range q.Entries {\nif e.Token == h.Token {\nid = e.ID\n}\n}\ni, err := q.hold(now, id, h.Token)"}}},
	{"release_without_comparing_the_token", []edit{{rule, releaseFinds, "token := h.Token\nif i := q.find(h.ID); i >= 0 && q.Entries[i].Granted {\ntoken = q.Entries[i].Token\n}\ni, err := q.hold(now, h.ID, token)"}}},
	{"renew_without_comparing_the_id", []edit{{rule, renewFinds, "for _, e := range q.Entries {\nif e.Token == h.Token {\nid = e.ID\n}\n}\n" + renewFinds}}},
	{"renew_without_comparing_the_token", []edit{{rule, renewFinds, "token := h.Token\nif i := q.find(id); i >= 0 && q.Entries[i].Granted {\ntoken = q.Entries[i].Token\n}\ni, err := q.held(now, id, token)"}}},
	{"renew_of_an_expired_entry", []edit{{rule, renewFinds, "i, err := q.held(Time{}, id, h.Token)"}}},
	{"release_of_an_expired_entry", []edit{{rule, releaseFinds, "i, err := q.hold(Time{}, h.ID, h.Token)"}}},
	{"renew_of_a_waiting_entry", []edit{{rule, "!e.Granted || e.Token != token", "e.Token != token"}}},
	{"renew_or_release_of_a_waiting_entry_with_any_token", []edit{{rule, "!e.Granted || e.Token != token", "e.Granted && e.Token != token"}}},
	{"renew_that_creates_again", []edit{{rule, renewFinds, "if len(q.Entries) == 0 && h.Token > 0 {\nq.Limit = store.Full\nq.Entries = append(q.Entries, Entry{ID: h.ID, Weight: 1, Want: 1, N: 1, Granted: true, Token: h.Token, Expires: now.Clock + 1})\n}\n" + renewFinds}}},
	{"release_of_nothing_is_nil", []edit{{rule, "if h.Token == 0 {\n\t\twrote", "if q.find(h.ID) < 0 || h.Token == 0 {\n\t\twrote"}}},

	// Repeats.
	{"ask_after_expiry_appended_anew", []edit{{rule, askFinds, "if i := q.find(c.ID); i >= 0 && q.Entries[i].live(now) {"}}},
	{"a_repeat_appends_twice", []edit{{rule, askFinds, "if i := q.find(c.ID); i >= len(q.Entries) {"}}},
	{"a_repeated_grant_draws_a_new_token", []edit{{rule, "e.Expires = max(e.Expires, now.Clock+micros(c.TTL))", "e.Expires = max(e.Expires, now.Clock+micros(c.TTL))\nif e.Since != now.Clock {\nq.Last++\ne.Token = q.Last\n}"}}},
	{"a_repeated_ask_moves_to_the_end", []edit{{rule, "e.Expires = max(e.Expires, now.Clock+micros(c.Place))", "e.Expires = max(e.Expires, now.Clock+micros(c.Place))\nmoved := *e\nq.drop(i)\nq.Entries = append(q.Entries, moved)"}}},
	{"a_repeated_ask_keeps_no_place", []edit{{rule, "e.Expires = max(e.Expires, now.Clock+micros(c.Place))", ""}}},
	{"a_repeated_ask_renews_no_hold", []edit{{rule, "e.Expires = max(e.Expires, now.Clock+micros(c.TTL))", "if e.Expires == 0 {\ne.Expires = now.Clock + micros(c.TTL)\n}"}}},

	// Entries left behind.
	{"a_refused_try_leaves_an_entry", []edit{{rule, "if c.Try && !room {", "if c.Try && room && !room {"}}},
	{"a_cancelled_waiter_stays", []edit{{rule, "i >= 0 && q.Entries[i].live(now) {", "i >= 0 && q.Entries[i].live(now) && q.Entries[i].Granted {"}}},
	{"a_withdrawn_hold_stays", []edit{{rule, "i >= 0 && q.Entries[i].live(now) {", "i >= 0 && q.Entries[i].live(now) && !q.Entries[i].Granted {"}}},
	{"a_withdrawal_of_nothing_is_lost", []edit{{rule, "change := q.settle(now, h.Name, h.ID)\n\t\tchange.Wrote = change.Wrote || wrote\n\t\treturn change, nil", "change := q.settle(now, h.Name, h.ID)\n\t\tchange.Wrote = change.Wrote || wrote\n\t\tif !wrote {\nreturn change, store.ErrLost\n}\nreturn change, nil"}}},

	// Time.
	{"expiry_ignored", []edit{{rule, "if q.Entries[i].end() > now.Clock {", "if q.Entries[i].end() > 0 {"}}},
	{"a_renewal_moves_the_expiry_back", []edit{{rule, "e.Expires = max(e.Expires, now.Clock+micros(h.TTL))", "e.Expires = now.Clock + micros(h.TTL)"}}},
	{"a_repeated_ask_moves_the_expiry_back", []edit{{rule, "e.Expires = max(e.Expires, now.Clock+micros(c.TTL))", "e.Expires = now.Clock + micros(c.TTL)"}}},
	{"a_renewal_moves_nothing", []edit{{rule, "e.Expires = max(e.Expires, now.Clock+micros(h.TTL))", ""}}},
	{"one_readers_ttl_cuts_anothers", []edit{{rule, "a := store.Answer{TTL: c.TTL,", "for j := range q.Entries {\nq.Entries[j].Expires = min(q.Entries[j].Expires, e.Expires)\n}\na := store.Answer{TTL: c.TTL,"}}},
	{"one_readers_ttl_keeps_anothers", []edit{{rule, "e.Shown = true\n\te.Owner", "for j := range q.Entries {\nif q.Entries[j].Granted {\nq.Entries[j].Expires = max(q.Entries[j].Expires, e.Expires)\n}\n}\ne.Shown = true\n\te.Owner"}}},
	{"a_place_is_kept_for_the_ttl", []edit{{rule, "q.Entries[i].Expires = now.Clock + micros(c.Place)", "q.Entries[i].Expires = now.Clock + micros(c.TTL)"}}},
	{"a_place_never_lapses", []edit{{rule, "q.Entries[i].Expires = now.Clock + micros(c.Place)", "q.Entries[i].Expires = 1 << 62"}}},
	{"a_grant_by_another_lasts_for_the_ttl", []edit{{rule, "q.grant(now, i)\n\t\theld", "q.grant(now, i)\n\t\te.Expires = now.Clock + 60_000_000\n\t\theld"}}},

	// Minimum hold and lock delay.
	{"minimum_hold_kept_for_one_that_expired_unseen", []edit{{rule, "\tif e.Shown {", "\tif e.Granted {"}}},
	{"minimum_hold_kept_for_one_that_withdrew", []edit{{rule, "q.drop(i) // nobody ran", "q.Entries[i].Shown = true\nq.leave(now, i) // nobody ran"}}},
	{"minimum_hold_kept_for_one_that_withdrew_once_shown", []edit{{rule, "q.drop(i) // nobody ran", "q.leave(now, i) // nobody ran"}}},
	{"minimum_hold_ignored_by_release", []edit{{rule, "if e.Granted && e.Shown && e.Since+e.Keep > now.Clock {", "if e.Granted && !e.Granted {"}}},
	{"minimum_hold_ignored_by_expiry", []edit{{rule, "\tif e.Shown {", "\tif e.Shown && e.N == 0 {"}, {rule, "e.Expires, e.Delay = now.Clock, 0", "e.Expires, e.Delay, e.N = now.Clock, 0, 0"}}},
	{"minimum_hold_counted_from_the_release", []edit{{rule, "e.Expires, e.Delay = now.Clock, 0", "e.Expires, e.Delay, e.Since = now.Clock, 0, now.Clock"}}},
	{"a_released_hold_in_the_way_is_still_its_owners", []edit{{rule, "e.Expires, e.Delay = now.Clock, 0", "e.Delay = 0"}}},
	{"lock_delay_ignored", []edit{{rule, "end := e.Expires + e.Delay", "end := e.Expires"}}},
	{"lock_delay_after_a_release", []edit{{rule, "if e.Granted && e.Shown && e.Since+e.Keep > now.Clock {", "if e.Granted && e.Delay > 0 {\ne.Expires = now.Clock\nreturn\n}\nif e.Granted && e.Shown && e.Since+e.Keep > now.Clock {"}}},
	{"lock_delay_of_a_place", []edit{{rule, "if !e.Granted {\n\t\treturn e.Expires\n\t}\n\tend", "if !e.Granted {\n\t\treturn e.Expires + e.Delay\n\t}\n\tend"}}},

	// Tokens.
	{"token_starts_again_when_idle", []edit{{rule, draw, "first := q.Last + 1"}, {memory, "n.Last, n.Entries = s.last,", "n.Last, n.Entries = 0,"}}},
	{"token_drawn_at_the_append", []edit{
		{rule, grantDraws, "if e.Token == 0 {\ne.Token = q.draw(now, e.N)\n} else {\nq.Last = e.Token\n}"},
		{rule, "q.Entries[i].Expires = now.Clock + micros(c.Place)", "q.Entries[i].Expires = now.Clock + micros(c.Place)\nq.Last++\nq.Entries[i].Token = q.Last"},
	}},
	{"token_is_the_clock_alone", []edit{{rule, draw, "first := now.Wall &^ 0xfffff"}}},
	{"readers_share_a_token", []edit{{rule, grantDraws, "if held, _, _ := q.weights(now); held > 1 && e.Weight == 1 {\nq.Last--\n}\ne.Token = q.draw(Time{Wall: now.Wall &^ 0xfffff}, e.N)"}}},

	// Order and room.
	{"a_reader_passes_a_waiting_writer", []edit{{rule, askRoom, "room := (waiting == 0 || c.Weight == 1 && c.Limit == store.Full) && !upgrading && held+c.Weight <= c.Limit"}}},
	{"a_try_passes_a_waiter", []edit{{rule, askRoom, "room := (waiting == 0 || c.Try) && !upgrading && held+c.Weight <= c.Limit"}}},
	{"a_narrow_claim_passes_a_wide_one", []edit{{rule, askRoom, "room := (waiting == 0 || c.Limit < store.Full) && !upgrading && held+c.Weight <= c.Limit"}}},
	{"a_release_skips_the_blocked", []edit{{rule, "if held+int64(e.Weight) > int64(q.Limit) {\n\t\t\tbreak", "if held+int64(e.Weight) > int64(q.Limit) {\n\t\t\tcontinue"}}},
	{"a_release_grants_one_at_most", []edit{{rule, "held += int64(e.Weight)\n\t\twaiting--", "held += int64(q.Limit)\n\t\twaiting--"}}},
	{"last_in_first_out", []edit{{rule, "\tq.Entries = append(q.Entries, Entry{", "\tif len(q.Entries) > 1 {\ndefer func() {\nif n := len(q.Entries); n > 2 && !q.Entries[n-2].Granted {\nq.Entries[n-2], q.Entries[n-1] = q.Entries[n-1], q.Entries[n-2]\n}\n}()\n}\n\tq.Entries = append(q.Entries, Entry{"}}},
	{"limit_and_one_more_at_the_ask", []edit{{rule, askRoom, "room := waiting == 0 && !upgrading && held+c.Weight <= c.Limit+1"}}},
	{"limit_and_one_more_at_the_release", []edit{{rule, "held+int64(e.Weight) > int64(q.Limit)", "held+int64(e.Weight) > int64(q.Limit)+1"}}},
	{"a_full_semaphore_keeps_one_back", []edit{{rule, askRoom, "room := waiting == 0 && !upgrading && (held+c.Weight < c.Limit || held == 0)"}}},
	{"a_different_limit_accepted", []edit{{rule, "len(q.Entries) > 0 && int64(q.Limit) != c.Limit", "len(q.Entries) > 99999 && int64(q.Limit) != c.Limit"}}},
	{"a_different_limit_remembered_for_ever", []edit{{rule, "len(q.Entries) > 0 && int64(q.Limit) != c.Limit", "q.Limit > 0 && int64(q.Limit) != c.Limit"}}},

	// Hints.
	{"wakes_nobody", []edit{{rule, wakesGranted, strings.Replace(wakesGranted, "self", "self && held < 0", 1)}}},
	{"wakes_all", []edit{{rule, "if held+int64(e.Weight) > int64(q.Limit) {\n\t\t\tbreak", "if held+int64(e.Weight) > int64(q.Limit) {\n\t\t\tfor _, w := range q.Entries[i:] {\nchange.Woken = append(change.Woken, store.Hint{Name: name, ID: w.ID})\n}\nbreak"}}},
	{"an_ask_wakes_nobody", []edit{{memory, "a, change, err = q.Ask(now, c.Name, &c)", "a, change, err = q.Ask(now, c.Name, &c)\nchange.Woken = nil"}}},
	{"what_is_lost_wakes_nobody", []edit{{memory, "change, err = f(now, q)", "change, err = f(now, q)\nif err != nil {\nchange.Woken = nil\n}"}}},
	{"a_renewal_wakes_nobody", []edit{{memory, "out[i], change = q.Renew(now, h)", "out[i], change = q.Renew(now, h)\nchange.Woken = nil"}}},
	{"wakes_one_at_most", []edit{{memory, "for _, h := range change.Woken {", "for i, h := range change.Woken {\nif i > 0 {\nbreak\n}"}}},
	{"wakes_without_the_token", []edit{{memory, "sink(h)", "h.Token = 0\nsink(h)"}}},

	// Changes of weight.
	{"an_upgrade_is_a_second_entry", []edit{{rule, changeSets, "e.Turn = turn\nif weight == store.Full {\nq.Entries = append(q.Entries, Entry{ID: store.NewProcess().NewID(), Weight: store.Full, Want: store.Full, Expires: e.Expires})\ne = &q.Entries[i]\n} else {\ne.Want = int32(weight)\n}"}}},
	{"an_upgrade_lets_waiters_in_while_it_is_pending", []edit{{rule, settleUpgrades, "if q.upgrade(now, name, self, held, &change) {\nheld = int64(q.Limit)\n}"}}},
	{"an_upgrade_lets_tries_in_while_it_is_pending", []edit{{rule, askRoom, "_ = upgrading\nroom := waiting == 0 && held+c.Weight <= c.Limit"}}},
	{"an_upgrade_waits_behind_those_that_wait", []edit{{rule, settleUpgrades, "if waiting > 0 {\nreturn change\n}\n" + settleUpgrades}}},
	{"an_upgrade_ignores_readers", []edit{{rule, "if held-int64(e.Weight)+int64(e.Want) > int64(q.Limit) {", "if held < 0 {"}}},
	{"an_upgrade_replaces_the_token_of_the_grant", []edit{{rule, upgradeDraws, upgradeDraws + "\ne.Token = e.Fence"}}},
	{"an_upgrade_draws_no_fence", []edit{{rule, upgradeDraws, "e.Weight, e.Fence = e.Want, e.Token"}}},
	{"an_upgrade_draws_one_fence_for_good", []edit{{rule, upgradeDraws, "e.Weight = e.Want\nif e.Fence == 0 {\ne.Fence = q.draw(now, 1)\n}"}}},
	{"an_upgrade_is_void_for_its_repeat", []edit{{rule, "&& !q.upgradeable(i) {", "&& !q.upgradeable(i) || err == nil && q.Entries[i].Weight == store.Full && weight == store.Full {\n"}}},
	{"an_upgrade_that_is_pending_outlives_its_hold", []edit{{rule, "e.Want > e.Weight && e.live(now)", "e.Want > e.Weight"}}},
	{"an_upgrade_that_is_pending_outlives_a_break", []edit{{rule, "e.Want = e.Weight // nobody", "// nobody"}}},
	{"an_upgrade_wakes_nobody", []edit{{rule, wakesUpgraded, strings.Replace(wakesUpgraded, "self", "self && held < 0", 1)}}},
	{"an_upgrade_is_told_with_a_token", []edit{{rule, wakesUpgraded, strings.Replace(wakesUpgraded, "ID: e.ID}", "ID: e.ID, Token: e.Fence}", 1)}}},
	{"an_upgrade_moves_the_expiry", []edit{{rule, changeSets, changeSets + "\ne.Expires = max(e.Expires, now.Clock+60_000_000)"}}},
	{"an_upgrade_tells_its_own_hold_to_be_in_the_way", []edit{{rule, "e.Granted && e.ID != self", "e.Granted"}}},
	{"a_refusal_tells_the_delay_behind_an_upgrade", []edit{{rule, "first = min(first, e.Expires) // its", "// its"}}},
	{"turns_are_ignored", []edit{{rule, "fresh := turn > e.Turn", "fresh := turn > 0"}}},
	{"turns_are_not_kept", []edit{{rule, changeSets, "e.Want = int32(weight)"}}},
	{"a_turn_may_come_again", []edit{{rule, "fresh := turn > e.Turn", "fresh := turn >= e.Turn"}}},
	{"a_cancel_only_clears_the_want", []edit{{rule, "e.Weight = min(e.Weight, e.Want)", "e.Want = max(e.Weight, e.Want)"}}},
	{"a_downgrade_leaves_a_gap", []edit{{rule, "e.Weight = min(e.Weight, e.Want)", "if e.Want < e.Weight {\nmoved := *e\nmoved.Weight = moved.Want\nq.drop(i)\nq.settle(now, h.Name, h.ID)\nq.Entries = append(q.Entries, moved)\n}"}}},
	{"a_downgrade_gives_no_room", []edit{{rule, "change := q.settle(now, h.Name, h.ID)\n\tchange.Wrote = change.Wrote || fresh", "var change Change\nif weight == store.Full {\nchange = q.settle(now, h.Name, h.ID)\n}\nchange.Wrote = change.Wrote || fresh"}}},
	{"a_downgrade_drops_the_fence", []edit{{rule, "e.Weight = min(e.Weight, e.Want)", "if e.Want < e.Weight {\ne.Weight, e.Fence = e.Want, 0\n}"}}},
	{"a_change_compares_no_token", []edit{{rule, changeFinds, "token := h.Token\nif i := q.find(h.ID); i >= 0 && q.Entries[i].Granted {\ntoken = q.Entries[i].Token\n}\ni, err := q.held(now, h.ID, token)"}}},
	{"a_change_compares_no_id", []edit{{rule, changeFinds, "id := h.ID\nfor _, e := range q.Entries {\nif e.Granted && e.Token == h.Token {\nid = e.ID\n}\n}\nh = &store.Hold{Name: h.Name, ID: id, Token: h.Token}\n" + changeFinds}}},
	{"a_change_of_an_expired_hold", []edit{{rule, changeFinds, "i, err := q.held(Time{}, h.ID, h.Token)\nif err == nil && q.Entries[i].end() <= now.Clock {\ni, err = -1, store.ErrLost\n}"}}},
	{"a_change_of_a_broken_hold", []edit{{rule, changeFinds, "i, err := q.hold(now, h.ID, h.Token)"}}},
	{"a_change_of_any_hold", []edit{{rule, "err == nil && !q.upgradeable(i)", "err != nil && i >= 0 && !q.upgradeable(i)"}}},
	{"a_change_of_slots", []edit{{rule, "return q.Limit == store.Full && (", "return q.Limit > 0 && ("}}},
	{"a_change_without_a_check", []edit{{memory, "if err := store.CheckChange(h.Name, turn, weight); err != nil {", "if err := ctx.Err(); err != nil {"}}},
	{"a_renewal_tells_no_fence", []edit{{rule, "Want: int64(e.Want), Fence: e.Fence}, change", "Want: int64(e.Want)}, change"}}},
	{"a_renewal_tells_no_want", []edit{{rule, "Want: int64(e.Want), Fence: e.Fence}, change", "Want: int64(e.Weight), Fence: e.Fence}, change"}}},
	{"a_list_shows_the_want_of_the_expired", []edit{{rule, "if !e.wants(now) {\n\t\ts.Want", "if e.Want < 0 {\ns.Want"}}},

	// Blocks of tokens.
	{"a_block_is_drawn_as_one", []edit{{rule, "q.Last = first + int64(n) - 1", "q.Last = first"}}},
	{"a_block_drawn_by_another_is_one", []edit{{rule, "q.Entries[i].Expires = now.Clock + micros(c.Place)", "q.Entries[i].Expires = now.Clock + micros(c.Place)\nq.Entries[i].N = 1"}}},
	{"a_block_for_readers", []edit{{rule, "N: uint16(c.Tokens())", "N: uint16(min(max(c.Block, 1), store.MaxBlock))"}}},
	{"a_block_without_a_bound", []edit{{rule, "N: uint16(c.Tokens())", "N: uint16(max(c.Block, c.Tokens()))"}}},
	{"a_block_is_not_told_by_hints", []edit{{rule, "Token: e.Token, N: int(e.N)})", "Token: e.Token, N: 1})"}}},
	{"a_block_given_back_whole", []edit{{rule, "q.Last, e.N = h.Used,", "q.Last, e.N = e.Token,"}}},
	{"a_block_given_back_with_the_last_one_used", []edit{{rule, "q.Last, e.N = h.Used,", "q.Last, e.N = h.Used-1,"}}},
	{"a_block_given_back_by_who_tells_nothing", []edit{{rule, "if end := e.Token", "if h.Used == 0 {\nh.Used = e.Token\n}\nif end := e.Token"}}},
	{"a_block_given_back_by_a_token_outside", []edit{{rule, "&& h.Used < end && q.Last == end", "&& q.Last == end"}}},
	{"a_block_is_never_given_back", []edit{{rule, "&& h.Used < end && q.Last == end", "&& h.Used < end && q.Last < end"}}},
	{"a_block_given_back_is_still_the_holds", []edit{{rule, "q.Last, e.N = h.Used, uint16(h.Used-e.Token+1)", "q.Last = h.Used"}}},
	{"a_block_is_not_what_the_hold_is_broken_by", []edit{{rule, "return s.Has(token)", "return s.Has(token) && (token == e.Token || token == e.Fence)"}}},
	{"a_fence_is_not_what_the_hold_is_broken_by", []edit{{rule, "return s.Has(token)", "return s.Has(token) && token != e.Fence"}}},
	{"any_token_of_the_block_is_the_holds_identity", []edit{{rule, "e.Token != token || !e.live(now)", "token < e.Token || token >= e.Token+int64(e.N) || !e.live(now)"}}},
	{"the_newest_token_used_goes_back", []edit{{rule, "e.Turn = max(e.Turn, int32(h.Used-e.Token))", "e.Turn = int32(h.Used - e.Token)"}}},
	{"a_token_outside_the_block_is_used", []edit{{rule, "h.Used < e.Token+int64(e.N) {", "h.Used < e.Token+2*int64(e.N) {"}}},
	{"a_renewal_forgets_the_owner", []edit{{rule, "cmp.Or(h.Owner, e.Owner)", "h.Owner"}}},
	{"a_renewal_keeps_the_first_owner", []edit{{rule, "cmp.Or(h.Owner, e.Owner)", "cmp.Or(e.Owner, h.Owner)"}}},

	// Other ids.
	{"an_adopted_hold_keeps_its_id_too", []edit{{rule, "\te.ID = id\n", "if e.ID != id {\nq.Entries = append(q.Entries, *e)\nq.Entries[len(q.Entries)-1].ID = id\n}\n"}}},
	{"an_adopted_hold_keeps_its_id", []edit{{rule, "id = cmp.Or(h.NewID, id)\n", ""}}},
	{"an_adopted_hold_has_another_token", []edit{{rule, "\te.ID = id\n", "if e.ID != id {\ne.Token = q.draw(now, e.N)\n}\ne.ID = id\n"}}},
	{"an_adoption_repeated_is_lost", []edit{{rule, "id = h.NewID // it", "// it"}}},
	{"an_adoption_for_all", []edit{{rule, renewFinds, "if h.NewID != (store.ID{}) {\nfor _, e := range q.Entries {\nif e.Token == h.Token {\nid = e.ID\n}\n}\n}\n" + renewFinds}}},
	{"an_adoption_after_the_end", []edit{{rule, renewFinds, "if h.NewID != (store.ID{}) && q.find(id) < 0 && len(q.Entries) == 0 {\nq.Limit = store.Full\nq.Entries = append(q.Entries, Entry{ID: id, Weight: 1, Want: 1, N: 1, Granted: true, Token: h.Token, Expires: now.Clock + 1})\n}\n" + renewFinds}}},
	{"an_adoption_of_a_waiting_entry", []edit{{rule, renewFinds, renewFinds + "\nif err != nil && i >= 0 && h.NewID != (store.ID{}) && !q.Entries[i].Granted {\nq.Entries[i].ID = h.NewID\n}"}}},
	{"an_adoption_of_a_broken_hold", []edit{{rule, renewFinds, "held := q.held\nif h.NewID != (store.ID{}) {\nheld = q.hold\n}\ni, err := held(now, id, h.Token)"}}},
	{"an_adoption_pushes_no_expiry", []edit{{rule, "e.Expires = max(e.Expires, now.Clock+micros(h.TTL))", "if h.NewID == (store.ID{}) {\ne.Expires = max(e.Expires, now.Clock+micros(h.TTL))\n}"}}},
	{"an_adoption_begins_the_hold_anew", []edit{{rule, "\te.ID = id\n", "if e.ID != id {\ne.Since, e.Keep = now.Clock, 0\n}\ne.ID = id\n"}}},
	{"an_adoption_forgets_the_upgrade", []edit{{rule, "\te.ID = id\n", "if e.ID != id {\ne.Want, e.Turn = e.Weight, 0\n}\ne.ID = id\n"}}},

	// Breaking and looking.
	{"a_broken_hold_may_be_renewed", []edit{{rule, "if err == nil && q.Entries[i].Broken != nil {", "if err == nil && q.Entries[i].Turn < 0 {"}}},
	{"a_broken_hold_may_be_asked_for", []edit{{rule, "if e.Broken != nil || !e.live(now) {", "if !e.live(now) {"}}},
	{"a_broken_hold_cannot_be_released", []edit{{rule, "e.Shown = true\n\tif end", "if e.Broken != nil {\nreturn Change{}, lost(e)\n}\ne.Shown = true\n\tif end"}}},
	{"a_broken_hold_is_removed", []edit{{rule, "if b.Now {", "if b.Now || !b.Now {"}}},
	{"a_break_forgets_its_reason", []edit{{rule, "cmp.Or(b.Reason, \"no reason given\")", "cmp.Or(\"broken\", b.Reason)"}}},
	{"a_break_leaves_the_minimum_hold", []edit{{rule, "\t\te.Keep = 0\n", ""}}},
	{"a_break_ends_the_lock_delay", []edit{{rule, "\t\te.Keep = 0\n", "\t\te.Keep = 0\ne.Delay = 0\n"}}},
	{"a_break_compares_no_token", []edit{{rule, "!q.Entries[i].has(now, b.Token)", "!q.Entries[i].Granted"}}},
	{"a_break_of_a_waiting_entry", []edit{{rule, "!q.Entries[i].has(now, b.Token)", "q.Entries[i].Granted && !q.Entries[i].has(now, b.Token)"}}},
	{"a_look_appends", []edit{{rule, "copied := *q\n", "if held, waiting, _ := q.weights(now); held > 0 && waiting == 0 && q.find(c.ID) < 0 {\nq.Ask(now, name, c)\n}\ncopied := *q\n"}}},
	{"a_look_keeps_the_place", []edit{{rule, "copied := *q\n", "if i := q.find(c.ID); i >= 0 && q.Entries[i].live(now) && !q.Entries[i].Granted {\nq.Entries[i].Expires = now.Clock + micros(c.Place)\n}\ncopied := *q\n"}}},
	{"a_look_renews", []edit{{rule, "copied := *q\n", "if i, err := q.hold(now, c.ID, q.Last); err == nil {\nq.Entries[i].Expires = max(q.Entries[i].Expires, now.Clock+micros(c.TTL))\n}\ncopied := *q\n"}}},
	{"a_look_draws_a_token", []edit{{rule, "a.Last = q.Last\n\tif a.Token > q.Last {", "q.Last = a.Last\n\tif a.Token > q.Last {"}}},
	{"a_look_drops", []edit{{rule, "copied := *q\n", "q.settle(now, name, c.ID)\ncopied := *q\n"}}},

	// What is told.
	{"a_refusal_tells_the_last_end", []edit{{rule, "first = min(first, e.end())", "if first == math.MaxInt64 || e.end() > first {\nfirst = e.end()\n}"}}},
	{"a_refusal_forgets_those_who_wait", []edit{{rule, "a.Waiting++", "a.Waiting = 0"}}},
	{"a_refusal_counts_itself", []edit{{rule, "if j >= i && !e.Granted {", "if j > i && !e.Granted {"}}},
	{"a_refusal_names_all_holders", []edit{{rule, "if len(a.Holders) < store.MaxHolders {", "if len(a.Holders) < 99999 {"}}},
	{"a_refusal_forgets_the_newest_token", []edit{{rule, "a := store.Answer{Last: q.Last}", "a := store.Answer{}"}}},
	{"the_owner_is_not_kept", []edit{{rule, "Delay: micros(c.Delay), Owner: c.Owner,", "Delay: micros(c.Delay), Owner: \"somebody\","}}},
	{"a_batch_ends_at_the_first_loss", []edit{{memory, "if err != nil {\n\t\t\tout[i].Err = err\n\t\t}", "if err != nil {\nout[i].Err = err\n}\nif out[i].Err != nil {\nfor j := i; j < len(out); j++ {\nout[j].Err = out[i].Err\n}\nbreak\n}"}}},

	// Names.
	{"names_folded_in_case", []edit{{memory, "\tn := s.names[name]\n\tif n == nil {\n\t\tif len", "\tname = strings.ToLower(name)\n\tn := s.names[name]\n\tif n == nil {\n\t\tif len"}}},
	{"names_without_trailing_blanks", []edit{{memory, "\tn := s.names[name]\n\tif n == nil {\n\t\tif len", "\tname = strings.TrimRight(name, \" \")\n\tn := s.names[name]\n\tif n == nil {\n\t\tif len"}}},
	{"names_end_at_a_NUL", []edit{{memory, "\tn := s.names[name]\n\tif n == nil {\n\t\tif len", "\tname, _, _ = strings.Cut(name, \"\\x00\")\n\tn := s.names[name]\n\tif n == nil {\n\t\tif len"}}},
	{"names_cut_at_511_bytes", []edit{{memory, "\tn := s.names[name]\n\tif n == nil {\n\t\tif len", "\tname = name[:min(len(name), 511)]\n\tn := s.names[name]\n\tif n == nil {\n\t\tif len"}}},
	{"an_ended_context_is_ignored", []edit{{memory, "if err := ctx.Err(); err != nil {\n\t\treturn err\n\t}\n\tif s.fail", "if s.fail"}}},
	{"an_ended_context_is_a_loss", []edit{{memory, "if err := ctx.Err(); err != nil {\n\t\treturn err\n\t}\n\tif s.fail", "if err := ctx.Err(); err != nil {\n\t\treturn store.ErrLost\n\t}\n\tif s.fail"}}},
	{"two_first_ones_at_once_both_insert", []edit{{memory, "n.one[:0]\n\t\ts.names", "n.one[:0]\n\t\ts.mu.Unlock()\n\t\ttime.Sleep(10 * time.Millisecond)\n\t\ts.mu.Lock()\n\t\ts.names"}}},

	// Checks.
	{"a_check_that_tells_nothing", []edit{{memory, "return []store.Finding{{About", "return []store.Finding{}\nreturn []store.Finding{{About"}}},
	{"a_check_that_does_not_tell_what_it_looked_at", []edit{{memory, `About: "memory", `, ""}}},
	{"a_check_that_fails_where_locks_work", []edit{{memory, "it excludes no other\"", "it excludes no other\", Err: store.ErrUnavailable"}}},
}
