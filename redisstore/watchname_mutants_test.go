package redisstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

func TestTheTestsCatchEachMutantOfWatchedNames(t *testing.T) {
	t.Parallel()
	const (
		announced = "TestOnlyWhatSaysSoIsAnnouncedAndOnlyWhatChanges"
		suite     = "TestStore/promise/who_looks_is_notified_of_"
		whole     = "TestStore/promise/who_looks_at_a_name_is_notified_of_"
		broken    = "TestAWatcherOfANameLearnsOfMissedNotifications"
		nobody    = "TestAnUnwatchedNameIsUnsubscribed"
		denied    = "TestANameThatMayNotBeWatchedIsDeniedAndOthersAreWatched"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"each lock is announced", announced, "redis-announces-each-lock", mutant.Cond("true")},
		{"each lock sends more", "TestAnUnwatchedLockSendsNothingMore", "redis-announces-each-lock", mutant.Cond("true")},
		{"each renewal is announced", announced, "redis-announces", mutant.Line("if announces then redis.pcall('PUBLISH', KEYS[1], '') end")},
		{"what no lock says is announced", announced, "redis-announces", mutant.Line("if news then redis.pcall('PUBLISH', KEYS[1], '') end")},
		{"a grant of a free name is not announced", whole + "each_who_gets_it_and_gives_it_back", "redis-free-grant-announced", mutant.Delete()},
		{"a grant beside what was broken is not announced", announced, "redis-grant-is-news", mutant.Delete()},
		{"a release beside which nobody is is not announced", whole + "each_who_gets_it_and_gives_it_back", "redis-lone-release-announced", mutant.Delete()},
		{"a release to who waits is not announced", whole + "each_who_gets_it_and_gives_it_back", "redis-release-announced", mutant.Delete()},
		{"a withdrawal is not announced", suite + "a_withdrawn_hold", "redis-release-is-news", mutant.Delete()},
		{"another note is not announced", suite + "another_owner", "redis-note-is-news", mutant.Delete()},
		{"another id is not announced", suite + "another_id", "redis-another-id-is-news", mutant.Line("e.id, e.moved = id, true")},
		{"a break is not announced", whole + "a_break", "redis-break-announced", mutant.Delete()},
		{"a hold that ends with a minimum is not announced", suite + "a_release_with_a_minimum_hold", "redis-minimum-hold-is-news", mutant.Delete()},
		{"nobody is notified", whole + "a_break", "redis-watcher-is-told", mutant.Delete()},
		{"a watcher that has stopped is notified", "TestStore/promise/a_watcher_that_has_stopped_is_not_notified", "redis-name-watched-for-ever", mutant.Cond("true")},
		{"after a break nobody is notified", broken, "redis-names-subscribed-again", mutant.Delete()},
		{"what nobody watches is subscribed to", nobody, "redis-name-unsubscribed", mutant.Delete()},
		{"who may not watch a name waits for that", denied, "redis-denied-name-is-given-up", mutant.Value("false && err != nil")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "redisstore", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_PATIENCE=8s")
}
