package pgstore

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

const (
	// addrEnv has the address of the server that it shares with who started it.
	addrEnv = "HOLDFAST_TEST_POSTGRES"
	// patienceEnv has for how long it waits for what must happen.
	patienceEnv = "HOLDFAST_TEST_PATIENCE"
)

// tableMutants are one wrong thing each in the statements as they are sent.
var tableMutants = []struct{ name, test, old, new string }{
	{"a token is the last one again", "TestTheShortestStatementsKeepToTheRule", "greatest(t.last + 1, now) AS first", "greatest(t.last + 0, now) AS first"},
	{"a token behind others is the last one again", "TestTableDifferential", "greatest(v.last + 1, v.now) AS first", "greatest(v.last + 0, v.now) AS first"},
	{"what is over stays in the way", "TestTableDifferential", "WHERE NOT c.gone AND v.now < CASE", "WHERE NOT c.gone AND 0 < CASE"},
	{"any token gives back", "TestTheShortestStatementsKeepToTheRule", " AND token = ARRAY[$3::bigint]", " AND ARRAY[$3::bigint] <> token"},
	{"any token lets in the next", "TestAnOperationIsOneStatementAndTwoBesideOthers", " AND token[1] = $3::bigint", " AND token[1] <> $3::bigint"},
	{"any id lets in the next", "TestAnOperationIsOneStatementAndTwoBesideOthers", " AND id[1] = $2::bytea", " AND $2::bytea <> ''"},
	{"the next is let in beside a hold", "TestAnOperationIsOneStatementAndTwoBesideOthers", " AND 0 = ALL (token[2:])", ""},
	{"one who has left is let in", "TestAnOperationIsOneStatementAndTwoBesideOthers", "< ALL (expires) AND since", "< expires[1] AND since"},
	{"only one is let in", "TestAnOperationIsOneStatementAndTwoBesideOthers", " AND (cardinality(id) = 2 OR weight[2] > lim - weight[3])", ""},
	{"a token handed on is the last one again", "TestTheShortestStatementsKeepToTheRule", "greatest(last + 1, now) AS first", "greatest(last, now) AS first"},
	{"a block handed on is of one token", "TestAnOperationIsOneStatementAndTwoBesideOthers", "first + t.n[2] - 1", "first"},
	{"a token given back is drawn again", "TestAnOperationIsOneStatementAndTwoBesideOthers", "THEN $4::bigint ELSE t.last END AS last", "THEN $4::bigint - 1 ELSE t.last END AS last"},
	{"a known name that is held is granted", "TestAnOperationIsOneStatementAndTwoBesideOthers", "WHERE name = $1::bytea AND id = '{}' AND form", "WHERE name = $1::bytea AND form"},
	{"a token of a known name is the last one again", "TestTheShortestStatementsKeepToTheRule", "greatest(t.last + 1, now) AS first FROM (SELECT $11::bigint AS now OFFSET 0) c OFFSET 0) d)\nWHERE name", "greatest(t.last, now) AS first FROM (SELECT $11::bigint AS now OFFSET 0) c OFFSET 0) d)\nWHERE name"},
	{"a hand-over does not wait for the disk", "TestWhatWasGrantedAndRenewedOutlivesACrashOfTheServer", "RETURNING id <> '{}', CASE WHEN id = '{}' THEN", "RETURNING id <> '{}', CASE WHEN true THEN"},
	{"any token gives back beside others", "TestTableDifferential", "$3::bigint = 0 OR a.token = $3::bigint", "$3::bigint = 0 OR a.token <> 0"},
	{"a broken hold is renewed", "TestTheShortestStatementsKeepToTheRule", " AND t.broken[array_position(t.id, h.id)] = ''", ""},
	{"a broken hold is renewed beside others", "TestTableDifferential", "a.token <> 0 AND a.expires > t.now AND a.broken = ''", "a.token <> 0 AND a.expires > t.now"},
	{"an expired hold is renewed", "TestTableDifferential", "a.expires > t.now AND a.broken = '' THEN '' ELSE 'L'", "a.broken = '' THEN '' ELSE 'L'"},
	{"a renewal moves the expiry back", "TestTableDifferential", "greatest(t.expires[array_position(t.id, h.id)], ", "greatest(0, "},
	{"a writer is let in as a reader", "TestTableDifferential", "sum(CASE WHEN d.token = 0 THEN d.weight ELSE 0 END)", "sum(CASE WHEN d.token = 0 THEN 1 ELSE 0 END)"},
	{"who holds takes no room", "TestTableDifferential", "sum(weight) FILTER (WHERE token <> 0)", "sum(weight) FILTER (WHERE token < 0)"},
	{"a minimum hold is given back", "TestTableDifferential", " AND since[1] + keep[1] <= ", " AND since[1] + 0 <= "},
	{"a minimum hold ends with the lease", "TestTableDifferential", "CASE WHEN c.shown THEN c.since + c.keep END", "CASE WHEN c.shown THEN c.since END"},
	{"nothing is kept back after an expiry", "TestTableDifferential", "greatest(c.expires + c.delay,", "greatest(c.expires,"},
	{"what is given back is kept back", "TestTableDifferential", "CASE WHEN m.m THEN 0 ELSE e.delay END AS delay", "e.delay AS delay"},
	{"an upgrade is not wanted", "TestTableDifferential", "CASE WHEN m.m THEN $5::int ELSE e.want END AS want", "CASE WHEN m.m THEN least(e.weight, $5::int) ELSE e.want END AS want"},
	{"others pass an upgrade", "TestTableDifferential", "d.token = 0 AND r.upgrading IS NULL AND NOT", "d.token = 0 AND NOT"},
	{"a refused try takes a place", "TestTableDifferential", "(r.mismatch OR v.try AND NOT g.granted)", "(r.mismatch OR v.try AND false)"},
	{"a refused try comes to the row's lock", "TestARefusedTryWritesNothing", "AND (id <> '{}' OR form <> 1))", "AND (id = '{}' AND form <> 1))"},
	{"a row is decided on as it was before the wait", "TestWhoWaitedForTheRowDecidesOnWhatIsThereThen", "WHERE name = $1::bytea FOR UPDATE", "WHERE name = $1::bytea"},
	{"who is not granted is woken too", "TestOnlyWhoIsGrantedIsWoken", "WHERE (granted OR upgraded) AND own", "WHERE true AND own"},
	{"a grant does not wait for the disk", "TestWhatWasGrantedAndRenewedOutlivesACrashOfTheServer", "set_config('synchronous_commit', 'on', true)", "set_config('synchronous_commit', 'off', true)"},
}

// sharedAddr is where the server is that the tests of this package share, and
// the mutants with them.
func sharedAddr(t testing.TB) string {
	t.Helper()
	if addr := os.Getenv(addrEnv); addr != "" {
		return addr
	}
	return testserver.SharedPostgres(t)
}

// edited makes the statements of s those of the mutant that this process is to
// be, if it is one.
func edited(t testing.TB, s *Store) *Store {
	t.Helper()
	i, ok := mutant.Here()
	if !ok {
		return s
	}
	met := 0
	for _, one := range s.do.all() {
		met += strings.Count(*one, tableMutants[i].old)
		*one = strings.ReplaceAll(*one, tableMutants[i].old, tableMutants[i].new)
	}
	if met == 0 {
		t.Fatal("nothing is edited: no statement has it")
	}
	return s
}

// Each statement with one thing wrong is found out.
func TestTheTestsCatchEachMutantOfTheStatements(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	for _, m := range tableMutants {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "pgstore", Test: m.test})
	}
	mutant.CatchHere(t, all, func(b mutant.Broken, output string) string {
		switch {
		case strings.Contains(output, "nothing is edited"):
			return "was not changed by it"
		case strings.Contains(output, "SQLSTATE"):
			return "was sent what is no statement any more"
		case b.Test == "TestTableDifferential" && !strings.Contains(output, "the model "):
			return "fails, but not as it differs from the model"
		}
		return ""
	}, addrEnv+"="+sharedAddr(t), "HOLDFAST_TEST_STEPS=20000", patienceEnv+"=5s")
}
