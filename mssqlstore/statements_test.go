package mssqlstore

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/microsoft/go-mssqldb"

	"github.com/holdfast-go/holdfast/store/session"
)

func unsent(t *testing.T) *backend {
	t.Helper()
	s, err := Open("sqlserver://127.0.0.1:1?database=d", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.b
}

// statements returns the texts of all statements, and of their parts.
func statements(t *testing.T, b *backend) map[string]string {
	t.Helper()
	entries, err := files.ReadDir("sql")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".sql")
		all[name], _ = b.text(name)
	}
	return all
}

// arguments lists what each statement gets besides @form. Parts are not statements.
var arguments = map[string]string{
	"load": "name", "swap": "name data notes old rev taken cut idle join room tick", "first": "name data notes old rev taken cut idle join room tick",
	"list": "name page", "list_old": "name page tick age", "idle": "page tick age", "forget": "name rev", "lapsed": "page tick age", "forget_session": "name rev",
	"begin": "id ttl", "renew": "id", "call": "id", "end": "id", "expire": "id", "left": "", "columns": "locks sessions", "facts": "", "rights": "locks sessions schema",
}

var parts = []string{"head", "name", "join", "rows", "schema", "server"}

var (
	variable = regexp.MustCompile(`(^|[^@\w])@([a-z]\w*)`)
	declared = regexp.MustCompile(`(?:DECLARE |,)@([a-z]\w*) (?:bigint|int|smallint|varbinary|varchar|TABLE)`)
)

func TestEachStatementHasItsVariables(t *testing.T) {
	t.Parallel()
	b := unsent(t)
	for name := range statements(t, b) {
		if slices.Contains(parts, name) {
			continue
		}
		given, ok := arguments[name]
		if !ok {
			t.Errorf("%s is missing in the table of arguments", name)
		}
		text, args := b.text(name)
		if len(args) == 0 {
			t.Errorf("%s has no argument: it would not use sp_executesql, and would change its connection", name)
		}
		have := append(strings.Fields(given), "form")
		for _, d := range declared.FindAllStringSubmatch(text, -1) {
			have = append(have, d[1])
		}
		for _, v := range variable.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(have, v[2]) {
				t.Errorf("%s: @%s is neither declared nor an argument in\n%s", name, v[2], text)
			}
		}
		if strings.ContainsAny(strings.NewReplacer("{ids}", "", "{asked}", "").Replace(text), "{}") {
			t.Errorf("%s has an unfilled placeholder:\n%s", name, text)
		}
	}
}

// A pool returns a connection with the settings that somebody else has made.
func TestEachStatementSetsWhatItDependsOn(t *testing.T) {
	t.Parallel()
	b := unsent(t)
	for name, text := range statements(t, b) {
		if slices.Contains(parts, name) {
			continue
		}
		last := -1
		for _, set := range []string{
			"IF @@TRANCOUNT<>0", "THROW 51000", "SET IMPLICIT_TRANSACTIONS OFF;", "SET NOCOUNT ON;", "SET XACT_ABORT ON;", "SET ROWCOUNT 0;", "SET TEXTSIZE 2147483647;",
			"SET LOCK_TIMEOUT 3000;", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;", "DECLARE @now",
		} {
			at := strings.Index(text, set)
			if at <= last {
				t.Errorf("%s: %q is missing or out of order", name, set)
			}
			last = at
		}
	}
}

// Each of these would make a statement correct only by its locks, or only on some servers.
func TestNoStatementNeedsLockClausesOrOptimizerHints(t *testing.T) {
	t.Parallel()
	b := unsent(t)
	for name, text := range statements(t, b) {
		for _, word := range []string{"UPDLOCK", "HOLDLOCK", "XLOCK", "NOLOCK", "READPAST", "ROWLOCK", "WITH", "MERGE", "SP_GETAPPLOCK", "OPENJSON", "BEGIN TRAN", "BEGIN TRANSACTION", "COMMIT", "WAITFOR", "GREATEST", "STRING_SPLIT"} {
			if regexp.MustCompile(`\b` + word + `\b`).MatchString(strings.ToUpper(text)) {
				t.Errorf("%s contains %s:\n%s", name, word, text)
			}
		}
		// The rows of a bare OUTPUT are sent before their statement has ended.
		if strings.Count(text, "OUTPUT ") != strings.Count(text, " INTO @done") {
			t.Errorf("%s has OUTPUT without INTO:\n%s", name, text)
		}
	}
}

// A server sends an answer only as fast as the client reads it, and a SELECT may keep its rows locked until then: a process that is stopped
// would block the names that it reads.
func TestNoAnswerHasRowsLocked(t *testing.T) {
	t.Parallel()
	b := unsent(t)
	for name, text := range statements(t, b) {
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.HasPrefix(statement, "SELECT ") && !strings.HasPrefix(statement, "SELECT @have=") && strings.Contains(statement, "holdfast_locks") {
				t.Errorf("%s returns rows from a table:\n%s", name, statement)
			}
		}
	}
}

// Each statement writes one row, found by its key, and decides by what is in that row.
func TestEachWriteIsOfOneRowByItsKey(t *testing.T) {
	t.Parallel()
	all := statements(t, unsent(t))
	writes := regexp.MustCompile(`(?s)(UPDATE|DELETE FROM) (\[[^;]*)`)
	n := 0
	for name, text := range all {
		for _, w := range writes.FindAllStringSubmatch(text, -1) {
			n++
			if !strings.Contains(w[2], "WHERE name=@key") && !strings.Contains(w[2], "WHERE id=@id") && !strings.Contains(w[2], "WHERE id=@key") {
				t.Errorf("%s writes without the key: %s", name, w[0])
			}
		}
	}
	if n < 10 {
		t.Errorf("got %d writes, want 10 or more", n)
	}
	for name, condition := range map[string]string{
		"swap": "WHERE name=@key\nAND rev=@old;", "first": "WHERE NOT EXISTS (SELECT 1 FROM [dbo].[holdfast_locks] WHERE name=@key);", "join": "AND form=@form AND DATALENGTH(inbox)<2*@room;",
		"renew": "WHERE id=@id\nAND expires>@now;", "expire": "WHERE id=@id AND expires<>0\nAND expires<=@now;", "forget": "WHERE name=@key\nAND rev=@rev;", "forget_session": "WHERE id=@key AND expires<=@now;",
	} {
		if !strings.Contains(all[name], condition) {
			t.Errorf("%s lacks %q:\n%s", name, condition, all[name])
		}
	}
}

// SQL Server compares as if the shorter value were padded with zero bytes.
func TestNamesThatDifferInZeroBytesAreDifferentKeys(t *testing.T) {
	t.Parallel()
	equal := func(a, b string) bool { return strings.TrimRight(a, "\x00") == strings.TrimRight(b, "\x00") }
	names := []string{"a", "a\x00", "a\x00\x00", "\x00", "\x00\x00", "\x01", "a\x01", "a\x00\x01", "a\x01\x00", strings.Repeat("\x00", 512)}
	stored := func(name string) string {
		return string(key(name).Value.(mssql.VarCharMax))
	}
	for i, a := range names {
		for j, b := range names {
			if i != j && equal(unhex(t, stored(a)), unhex(t, stored(b))) {
				t.Errorf("%q and %q have the same key", a, b)
			}
		}
		if k := unhex(t, stored(a)); len(k) > 513 || strings.TrimSuffix(k, terminator) != a || k == "" {
			t.Errorf("%q is stored as %q", a, k)
		}
	}
	if k := stored(""); k != "" {
		t.Errorf("the key before all names: got %q", k)
	}
}

func unhex(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(text); i += 2 {
		n := strings.IndexByte("0123456789abcdef", text[i])<<4 | strings.IndexByte("0123456789abcdef", text[i+1])
		b.WriteByte(byte(n))
	}
	return b.String()
}

// The driver puts the length of a []byte into its type, and the server keeps a plan for each list of types.
func TestArgumentsHaveFewTypes(t *testing.T) {
	t.Parallel()
	for _, length := range []int{0, 1, 8000, 8001} {
		if _, ok := binary("data", make([]byte, length)).Value.(mssql.VarCharMax); !ok {
			t.Errorf("%d bytes are not a VARCHAR(MAX)", length)
		}
	}
	b, texts := unsent(t), map[string]bool{}
	for n := 1; n <= maxIDs; n++ {
		text, args := leftFor(b, make([]session.ID, n))
		texts[text] = true
		if len(args) > 2100 || len(args) < n || strings.Count(text, "(@i") > 1000 {
			t.Fatalf("got %d arguments for %d sessions", len(args), n)
		}
	}
	if len(texts) != 10 {
		t.Errorf("got %d texts, want 10", len(texts))
	}
}

func TestTheTablesAreWhatIsDocumented(t *testing.T) {
	t.Parallel()
	schema, err := Schema(&Options{Schema: "ops", Table: "l"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `SET ANSI_PADDING ON;
IF OBJECT_ID(N'[ops].[l]',N'U') IS NULL
CREATE TABLE [ops].[l] (
[name] varbinary(513) NOT NULL PRIMARY KEY,
[form] smallint NOT NULL,
[rev] bigint NOT NULL,
[taken] bigint NOT NULL,
[idle] tinyint NOT NULL,
[written] bigint NOT NULL,
[data] varbinary(max) NOT NULL,
[inbox] varchar(max) NOT NULL,
UNIQUE ([written],[name])
);
IF OBJECT_ID(N'[ops].[l_sessions]',N'U') IS NULL
CREATE TABLE [ops].[l_sessions] (
[id] varbinary(8) NOT NULL PRIMARY KEY,
[expires] bigint NOT NULL,
[ttl] bigint NOT NULL,
[calls] bigint NOT NULL
);
`
	if schema != want {
		t.Errorf("%s", schema)
	}
}

// A clock set by a test replaces the server's clock and nothing else.
func TestAClockOfATestIsAnArgument(t *testing.T) {
	t.Parallel()
	b := unsent(t)
	plain, _ := b.text("load")
	b.clock = func() int64 { return 7 }
	text, args := b.text("load")
	if strings.Replace(text, "@clock", serverNow, 1) != plain || len(args) != 2 || args[1].(sql.NamedArg).Value != int64(7) {
		t.Errorf("got %s with %v", text, args)
	}
}

// A read never reports that a session lasts longer than it does, nor that it has ended before it has.
func TestAReadAllowsForAStepOfTheClock(t *testing.T) {
	t.Parallel()
	step := clockStep.Microseconds()
	for shown, want := range map[int64]int64{-step: -step, 0: 0, 1: 1, step: 1, step + 1: 1, step + 7: 7, 60e6: 60e6 - step} {
		if got := surely(shown); got != want {
			t.Errorf("for %d µs: got %d, want %d", shown, got, want)
		}
	}
}
