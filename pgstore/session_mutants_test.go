package pgstore

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Session and transaction mode, and what is beside the statements of the table, with one thing wrong fail a test.
func TestTheTestsCatchEachMutantOfSessions(t *testing.T) {
	t.Parallel()
	const promise = "SessionStore/promise/"
	var all []mutant.Broken
	for _, m := range []struct{ name, test, file, old, new string }{
		{"a loss is not told", "Session_AKilledBackendIsNoticedAtOnceAndPoisonsNothing", "sessionlink.go", "if told == nil || s.life.Err() != nil {", "if told != nil || s.life.Err() != nil {"},
		{"our own process is not in its way", promise + "a_held_name_refuses_a_try", "sessionops.go", "return len(u.holders) > 0 && (write || u.holders[0].write)", "return false"},
		{"a reader is in the way of readers", promise + "a_batch_of_renewals_may_name_one_name_twice", "sessionops.go",
			"(write || u.holders[0].write)", "(true || u.holders[0].write)"},
		{"two of one batch are granted", promise + "a_hundred_tries_at_once_have_one_winner", "sessionops.go", "case use.asked:\n", "case use.asked && false:\n"},
		{"any token gives back", promise + "a_release_with_a_wrong_token_is_lost_and_frees_nothing", "sessionops.go", "have == nil || j.hold.Token != 0 && j.hold.Token != have.token:", "have == nil:"},
		{"any token is renewed", promise + "a_renewal_with_a_wrong_token_is_lost_and_moves_nothing", "sessionops.go", "case have == nil || have.token != h.Token:", "case have == nil:"},
		{"what was unlocked behind us was ours to the end", "Session_AReleaseThatFindsTheLockGoneIsLost", "sessionlink.go", `if r.rows[0][0] != "t" {`, "if len(r.rows) == 0 {"},
		{"a pooler is taken for the server", "Session_OnAServerOfItsOwn/APoolerIsRefused", "sessiondial.go", "case rows[0][0] != pid:", "case rows[0][0] != pid && false:"},
		{"a session may be ended for being idle", "Session_OutlivesAServerThatEndsIdleSessions", "sessiondial.go", "('idle_session_timeout', '0'), ", ""},
		{"a session that holds is idle", "Session_OneForAllRoundsAndNoneWhenNobodyNeedsIt", "sessionlink.go", "unused := len(s.holds) == 0", "unused := len(s.holds) >= 0"},
		{"a server that says nothing is waited for", "Session_OnAServerOfItsOwn/OneThatSaysNothingIsGivenUpAndAllThatItHeldIsLost", "sessionlink.go",
			"ctx, cancel := context.WithTimeout(s.life, s.patience)", "ctx, cancel := context.WithTimeout(s.life, 1000*s.patience)"},
		{"any sequence will do", "Session_WhatIsNotOursIsLeftAlone", "sessiondial.go", `case row[0] != "t":`, `case row[0] != "t" && false:`},
		{"a pair is looked for as a number", "Key_IsThatOfTheServersOwnFunctions", "sessiondial.go", `kind = "2"`, `kind = "1"`},
		{"a key may be written in any way", "Key_WhatIsNearlyAKeyIsInvalid", "key.go", "if k.String() != name {", "if k == (Key{}) {"},
		{"a name is another key", "Key_TheMappingIsFrozen", "key.go", "sha256.Sum256([]byte(name))", `sha256.Sum256([]byte(name + "."))`},
		{"a transaction is granted what it has", "Tx_TheSameNameAgainIsADeadlock", "tx.go", `> 0 THEN 'own'"`, `> 0 AND false THEN 'own'"`},
		{"a lock that ended with its transaction is still known", "Tx_TheSameNameAgainIsADeadlock", "tx.go", `+ key + ", true)"`, `+ key + ", false)"`},
		{"a wait keeps its lock_timeout", "Tx_TimeoutsOfTheTransaction", "tx.go", `" left(%s || set_config('lock_timeout', $%d::text, true), 0)`, `" left(%s || coalesce($%d::text, ''), 0)`},
		{"the transaction's lock_timeout ends a wait", "Tx_TimeoutsOfTheTransaction", "tx.go", `set_config('lock_timeout', $%d::text, true) <> '' THEN"`, `set_config('lock_timeout', coalesce('1', $%d::text), true) <> '' THEN"`},
		{"a check locks nothing", "HeldTx_NobodyIsGrantedTheNameBeforeTheCommit", "sql/held.sql", " FOR SHARE", ""},
		{"what has expired passes", "HeldTx_OnlyAHoldThatLastsPasses", "txheld.go", "e.Expires > 0 &&", ""},
		{"what is broken passes", "HeldTx_OnlyAHoldThatLastsPasses", "txheld.go", ` && e.Broken == ""`, ""},
		{"any token passes", "HeldTx_OnlyAHoldThatLastsPasses", "txheld.go", "e.Has(token)", "e.Granted"},
		{"a renewal waits for the pool", "APoolThatOthersHaveEmptiedKeepsNoHoldFromBeingRenewed", "tablesql.go", "case s.renewFast, s.renew, ", "case "},
		{"a release waits for the pool", "APoolThatOthersHaveEmptiedKeepsNoHoldFromBeingRenewed", "tablesql.go", "s.releaseFast, s.releaseNext, s.release, ", ""},
		{"a look for old rows begins anywhere", "OldRowsGoAsFastAsTheyCame", "sql/sweep.sql", "CASE WHEN $2::bigint < 0 THEN", "CASE WHEN $2::bigint < 1000000 THEN"},
		{"the pause stays long", "OldRowsGoAsFastAsTheyCame", "tablesweep.go", "if gone >= sweepBlocks {", "if false {"},
		{"the pause stays short", "OldRowsGoAsFastAsTheyCame", "tablesweep.go", "min(2*w.pause, w.most)", "min(w.pause, w.most)"},
		{"the check gives up behind a pooler", "TheCheckWorksBehindPgBouncer", "tablecheck.go", `s.send(ctx, "SELECT 1", nil, func() {}, none)`, `s.db.query(ctx, "SELECT 1", nil, how{}, none)`},
		{"the pooler is asked to listen", "ListenNamesTheServerItselfBesideAPooler", "tablewatch.go", `if host == "" {`, "if true {"},
		{"a wait that ends costs the transaction", "Tx_ARefusalAndATimeoutLeaveTheTransactionAsItWas", "txrun.go", `"ROLLBACK TO SAVEPOINT "+savepoint`, `"RELEASE SAVEPOINT "+savepoint`},
		{"a reader locks out readers", "Tx_ReadersShareAndKeepAWriterOut", "tx.go", "\tif write {\n\t\tshared = \"\"\n", "\tif true {\n\t\tshared = \"\"\n"},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "pgstore", Test: "Test" + m.test, Edits: []mutant.Edit{{File: "pgstore/" + m.file, Old: m.old, New: m.new}},
			Hangs: slices.Contains([]string{"a server that says nothing is waited for", "the transaction's lock_timeout ends a wait", "a renewal waits for the pool", "a release waits for the pool"}, m.name)})
	}
	mutant.Catch(t, all, addrEnv+"="+sharedAddr(t), patienceEnv+"=5s")
}
