package pgadvisory

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
)

// Each mutant, the store or a lock in a transaction with one thing wrong, fails a test.
func TestTheTestsCatchEachMutantOfAdvisoryLocks(t *testing.T) {
	t.Parallel()
	const promise = "SessionStore/promise/"
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a loss is not reported", "Session_AKilledBackendIsNoticedAtOnceAndPoisonsNothing", "pg-session-loss-told", mutant.Cond("report != nil || s.life.Err() != nil")},
		{"our own process is not in its way", promise + "a_held_name_refuses_a_try", "pg-session-blocked-by-ourselves", mutant.Return("false")},
		{"a reader blocks readers", promise + "a_batch_of_renewals_may_name_one_name_twice", "pg-session-blocked-by-ourselves", mutant.Return("len(u.holders) > 0 && (true || u.holders[0].write)")},
		{"two of one batch are granted", promise + "a_hundred_tries_at_once_have_one_winner", "pg-session-asked-in-batch", mutant.Cond("use.asked && false")},
		{"any token gives back", promise + "a_release_with_a_wrong_token_is_lost_and_frees_nothing", "pg-session-release-token", mutant.Cond("have == nil")},
		{"any token is renewed", promise + "a_renewal_with_a_wrong_token_is_lost_and_moves_nothing", "pg-session-renew-token", mutant.Cond("have == nil")},
		{"what was unlocked behind us was ours to the end", "Session_AReleaseThatFindsTheLockGoneIsLost", "pg-session-unlocked-by-others", mutant.Cond("len(r.rows) == 0")},
		{"a pooler is taken for the server", "Session_OnAServerOfItsOwn/APoolerIsRefused", "pg-session-pooler", mutant.Cond("WAS && false")},
		{"a session may be ended for being idle", "Session_OutlivesAServerThatEndsIdleSessions", "pg-session-settings", mutant.Line(`"" +`)},
		{"a session that holds is idle", "Session_OneForAllRoundsAndNoneWhenUnused", "pg-session-unused", mutant.Value("len(s.holds) >= 0")},
		{"a server that says nothing is waited for", "Session_OnAServerOfItsOwn/OneThatSaysNothingIsGivenUpAndAllThatItHeldIsLost", "pg-session-patience", mutant.Value("context.WithTimeout(s.life, 1000*s.patience)")},
		{"a grant is for somebody", "Session_RightsThatSuffice", "pg-session-grant-names-its-user", mutant.Cond("err == nil && len(rows) < 0")},
		{"a session without tokens is ok", "Session_ACheckWarnsWhereThereAreNoTokens", "pg-session-no-tokens-told", mutant.Cond("WAS && false")},
		{"a session that is open tells nothing of tokens", "Session_ACheckWarnsWhereThereAreNoTokens", "pg-session-no-tokens-told", mutant.Cond("WAS && !open")},
		{"any sequence will do", "Session_ForeignLocksAreLeftAlone", "pg-session-sequence", mutant.Cond("WAS && false")},
		{"a pair is looked for as a number", "Key_IsThatOfTheServersOwnFunctions", "pg-session-key-kind", mutant.Value(`"1"`)},
		{"a key may be written in any way", "Key_WhatIsNearlyAKeyIsInvalid", "pg-key-written-one-way", mutant.Cond("k == (Key{})")},
		{"a name is another key", "Key_TheMappingIsFrozen", "pg-key-of-name", mutant.Value(`sha256.Sum256([]byte(name + "."))`)},
		{"a transaction is granted what it has", "Tx_TheSameNameAgainIsADeadlock", "pg-tx-own", mutant.Line(`" > 0 AND false" +`)},
		{"a lock that ended with its transaction is still known", "Tx_TheSameNameAgainIsADeadlock", "pg-tx-locks-known", mutant.Line(`"false" +`)},
		{"a wait keeps its lock_timeout", "Tx_TimeoutsOfTheTransaction", "pg-tx-lock-timeout-after", mutant.Line(`"coalesce($%d::text, '')"+`)},
		{"the transaction's lock_timeout ends a wait", "Tx_TimeoutsOfTheTransaction", "pg-tx-lock-timeout-during", mutant.Line(`"coalesce('1', $%d::text)"+`)},
		{"a wait that ends costs the transaction", "Tx_ARefusalAndATimeoutLeaveTheTransactionAsItWas", "pg-tx-wait-rolled-back", mutant.Value(`t.do(ctx, "RELEASE SAVEPOINT "+savepoint)`)},
		{"a check takes a session that is being opened for one", "Session_OnAServerOfItsOwn/ACheckBesideOneThatIsBeingOpenedOpensItsOwn", "pg-session-check-open", mutant.Value("s.busy")},
		{"a reader locks out readers", "Tx_ReadersShareAndKeepAWriterOut", "pg-tx-shared", mutant.Cond("true")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "pgstore/pgadvisory", Test: "Test" + m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all, pgtest.AddrEnv+"="+sharedAddr(t), testwait.PatienceEnv+"=5s")
}
