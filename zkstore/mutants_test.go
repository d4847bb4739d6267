package zkstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A backend with one thing wrong fails a test. Promises of every backend are tested in recordtest, those of every store
// in storetest.
func TestTheTestsCatchEachMutantOfZooKeeper(t *testing.T) {
	t.Parallel()
	testserver.SharedZooKeeper(t) // the tests under mutation use it, too
	const (
		granted   = "TestATTLThatTheServerDoesNotGrantIsAnErrorThatSaysSo"
		atDefault = "TestACrashedHolderIsGoneWithinTheTTLAndASecond"
		rights    = "TestTheRightsOfItsPathSuffice"
		deletion  = "TestAVersionFromBeforeADeletionIsInvalid"
		late      = "TestAnAskThatArrivesAfterItsWithdrawalIsNotDone"
		foreign   = "TestForeignAndNewerNodesAreLeftAlone"
		members   = "TestAnAnswerOfOneMemberIsVisibleOnAll"
		suite     = "TestBackend/promise/"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"the whole timeout counts", granted, "zk-timeout-that-counts", mutant.Return("timeout")},
		{"what the server grants is not read", granted, "zk-session-grants", mutant.Value("timeout")},
		{"the whole TTL is asked for", granted, "zk-timeout-asked-for", mutant.Value("ttl")},
		{"less is asked for where ticks are short", granted, "zk-less-asked-than-ttl", mutant.Return("ttl - time.Second/2")},
		{"a session longer than was asked for is none", atDefault, "zk-session-too-long", mutant.Cond("grants > timeout")},
		{"a session is proved by a read", "TestASessionIsProvedByAWrite", "zk-renewal-tells-calls", mutant.Value("multi(ctx, o.link, exists(b.renewalNode(id)), &zk.SetDataRequest{Path: b.path + \"/r\", Version: -1})")},
		{"a renewal does not heed calls", suite + "a_renewal_returns_how_often_its_session_was_called", "zk-renewal-tells-calls", mutant.Value("multi(ctx, o.link, exists(b.callsNode(id)), write)")},
		{"pings renew a session", suite + "a_session_that_is_not_renewed_ends", "zk-pings-pass", mutant.Cond("false")},
		{"a new connection renews a session", "TestAnUnrenewedSessionEndsEvenIfItsConnectionBreaks", "zk-reconnect-renews", mutant.Stmt("wanted, changed := true, w.changed")},
		{"an observer is not notified", suite + "who_watches_a_record_hears_of_each_swap_of_it", "zk-observer-not-told", mutant.Delete()},
		{"a Listen that failed goes on", suite + "a_Listen_that_failed_delivers_nothing_and_can_be_repeated", "zk-failed-listen-goes-on", mutant.Delete()},
		{"that a session is not there may be old", members, "zk-end-is-fresh", mutant.Cond("false")},
		{"what is read may be old", members, "zk-read-is-fresh", mutant.Cond("fresh && w == nil")},
		{"a version is good in any epoch", suite + "no_version_comes_back_with_a_name_that_was_deleted", "zk-version-of-another-epoch", mutant.Cond("g.stat == nil")},
		{"a swap is good in any epoch", deletion, "zk-swap-in-its-epoch", mutant.Value("append(ops, exists(b.path+\"/i\"))")},
		{"a deletion begins no epoch", deletion, "zk-deleted-in-an-epoch", mutant.Value("[]any{exists(d.node), exists(b.path + \"/i\")}")},
		{"a swap is good after a wipe", "TestAVersionFromBeforeAllWasDeletedIsInvalid", "zk-swap-after-a-wipe", mutant.Value("[]any{exists(b.path + \"/i\")}")},
		{"a wipe ends what is under way", "TestCallsInFlightAreAnsweredAfterADeletionOfAll", "zk-leaves-what-is-under-way", mutant.Delete()},
		{"a wipe is not noticed", "TestAWipeIsReportedAndTheNextIsGranted", "zk-all-was-deleted", mutant.Delete()},
		{"a swap is done on any version", late, "zk-swap-on-its-version", mutant.After("version = -1")},
		{"a record that was deleted by hand begins again", "TestADeletedRecordIsNotRecreated", "zk-record-is-known", mutant.Return("[]any{b.create(b.nameNode(name), \"\", zk.FlagPersistent), exists(b.path + \"/k\")}")},
		{"a session has ended once one of its nodes is gone", "TestASessionHasEndedOnceBothItsNodesAreGone", "zk-both-nodes-gone", mutant.Stmt("g, err = get(ctx, d.link, b.renewalNode(id), true)")},
		{"a version that is none is written", "TestAReservedVersionIsSkipped", "zk-version-that-is-none", mutant.Delete()},
		{"an epoch is of a version that is none", "TestAReservedEpochIsSkipped", "zk-epoch-that-is-none", mutant.Delete()},
		{"what has just become idle is deleted", "TestANewlyIdleRecordStays", "zk-idle-is-kept", mutant.Cond("free")},
		{"notes stay", suite + "a_swap_takes_in_the_notes_of_its_inbox_and_no_other", "zk-note-goes", mutant.Stmt("_ = i")},
		{"the inbox is not read", suite + "a_refused_swap_joins", "zk-inbox-is-read", mutant.Cond("false")},
		{"notes are in any order", "TestNotesAreInTheOrderInWhichTheyCame", "zk-note-order", mutant.Return("fmt.Sprintf(\"%016x-%02x-%s-%s\", 1, place, n.Key, letters.EncodeToString(n.Data))")},
		{"a join does not heed calls", suite + "a_join_with_an_older_count_of_calls_is_not_done", "zk-join-uncalled", mutant.Value("append([]any{exists(b.callsNode(s.Join.Session))}, parent...)")},
		{"a late join does not heed calls", late, "zk-join-uncalled", mutant.Value("append([]any{exists(b.callsNode(s.Join.Session))}, parent...)")},
		{"a note needs a record", "TestANoteOfANameThatWasDeletedMeanwhileIsLeft", "zk-note-without-record", mutant.Delete()},
		{"who has gone has all miss their notifications", suite + "who_does_not_listen_delays_nobody", "zk-told-one-by-one", mutant.Stmt("_, _ = ctx, i")},
		{"nobody looks once a mailbox is recreated", "TestAListenerPollsOnceItsSessionHasEnded", "zk-nobody-looks-once-watch", mutant.Delete()},
		{"letters pile up", "TestOldNotificationsAreDeletedWhenTheyAreMany", "zk-letters-pile-up", mutant.Cond("lulled")},
		{"each letter is deleted at once", "TestOldNotificationsAreDeletedWhenTheyAreMany", "zk-letters-pile-up", mutant.Cond("true || lulled")},
		{"a swap is sent that would be refused", "TestANoteOfALostSwapIsLeftAlone", "zk-lost-swap-is-sent", mutant.Cond("false")},
		{"letters of those who listen are thrown away", "TestNotificationsOfDeadProcessesAreDeleted", "zk-letters-of-the-living", mutant.Cond("err != nil")},
		{"the clock is taken to have gone on since we asked", "TestTheServersClockIsNotTakenToBeAhead", "zk-clock-ahead", mutant.Stmt("b.clock = clock{written.Mtime * 1000, sent, sent}")},
		{"a member that falls silent is waited for", "TestASilentMemberIsLeftBeforeTheSessionExpires", "zk-silent-member-dropped", mutant.Stmt("_ = sent")},
		{"the end of a connection wakes nobody", "TestTheEndOfAConnectionWakesAllListeners", "zk-end-wakes", mutant.Stmt("_ = what")},
		{"who expects something after the end waits for ever", "TestTheEndOfAConnectionWakesAllListeners", "zk-expects-after-the-end", mutant.Delete()},
		{"a new connection wakes nobody", "TestAnEventWakesItsListener", "zk-new-connection-wakes", mutant.Cond("false")},
		{"what is read is not watched", "TestAWaiterWatchesOnlyTheBlockingEntry", "zk-read-watches", mutant.Stmt("asked, fresh := w.asked[what] > 9, w.fresh[what] > 0")},
		{"anybody may read", rights, "zk-nodes-ours-alone", mutant.Stmt("_ = zk.AuthACL")},
		{"nobody learns who we are", rights, "zk-session-authenticates", mutant.Value("l.b.o.Auth[:0]")},
		{"two names have one node", "TestNoTwoNamesHaveTheSameNode", "zk-names-are-apart", mutant.Return("url.QueryEscape(strings.ReplaceAll(name, \".\", \" \"))")},
		{"what is foreign is read", foreign, "zk-foreign-record-refused", mutant.Cond("false")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "zkstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	all = append(all, mutant.Broken{Name: "a member that hangs is waited for", Pkg: "zkstore", Test: "TestAHungMemberIsSkipped", Edits: []mutant.Edit{
		mutant.At("zk-greeting-bounded", mutant.Cond("c.w == nil && (t.IsZero() || t.After(latest))")),
		mutant.At("zk-silent-member-dropped", mutant.Stmt("_ = sent")),
	}})
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=5s")
}
