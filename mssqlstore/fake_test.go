package mssqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// answering is a driver that answers each statement with rows and then with its error, if it returns one. It does not imitate a server: it
// shows what the backend makes of answers.
type answering func(statement string) ([][]driver.Value, error)

func (a answering) Connect(context.Context) (driver.Conn, error) { return a, nil }
func (a answering) Driver() driver.Driver                        { return nil }
func (a answering) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (a answering) Close() error                                 { return nil }
func (a answering) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (a answering) CheckNamedValue(*driver.NamedValue) error     { return nil }

func (a answering) QueryContext(_ context.Context, statement string, _ []driver.NamedValue) (driver.Rows, error) {
	rows, err := a(statement)
	return &answer{rows, err}, nil
}

type answer struct {
	rows [][]driver.Value
	err  error
}

func (a *answer) Close() error { return nil }

func (a *answer) Columns() []string {
	if len(a.rows) == 0 {
		return nil
	}
	return make([]string, len(a.rows[0]))
}

func (a *answer) Next(to []driver.Value) error {
	if len(a.rows) > 0 {
		copy(to, a.rows[0])
		a.rows = a.rows[1:]
		return nil
	}
	if a.err != nil {
		return a.err
	}
	return io.EOF
}

// answered returns a backend that gets the same answer to each statement.
func answered(t *testing.T, err error, rows ...[]driver.Value) *backend {
	t.Helper()
	return answeredBy(t, func(string) ([][]driver.Value, error) { return rows, err })
}

func answeredBy(t *testing.T, a answering) *backend {
	t.Helper()
	db := sql.OpenDB(a)
	t.Cleanup(func() { db.Close() })
	b, failed := newBackend(db, nil)
	if failed != nil {
		t.Fatal(failed)
	}
	b.Checked.Done.Store(true)
	b.Sweeps.Pause()
	return b
}

// An answer without its row neither renews a session, which may have ended, nor refuses.
func TestAnAnswerWithoutItsRowIsNotUsed(t *testing.T) {
	t.Parallel()
	b := answered(t, nil)
	for what, f := range map[string]func() error{
		"load":  func() error { _, err := b.Load(t.Context(), "n"); return err },
		"swap":  func() error { _, err := b.Swap(t.Context(), &record.Swap{Name: "n"}); return err },
		"renew": func() error { _, err := b.Renew(t.Context(), session.ID{1}); return err },
		"facts": func() error { _, err := b.facts(t.Context()); return err },
	} {
		if err := f(); err == nil || store.Definite(err) {
			t.Errorf("%s: %v, want an indeterminate error", what, err)
		}
	}
}

// A session that the server does not mention may still be alive: only a row says that a session has ended.
func TestASessionThatIsNotInTheAnswerHasNotEnded(t *testing.T) {
	t.Parallel()
	a, b := session.ID{1}, session.ID{2}
	some := answered(t, nil, []driver.Value{a[:], int64(9), int64(5)})
	if left, err := some.Left(t.Context(), []session.ID{a, b}); err == nil || store.Definite(err) {
		t.Errorf("one of two: got %v, %v, want an indeterminate error", left, err)
	}
	both := answered(t, nil, []driver.Value{b[:], int64(0), int64(0)}, []driver.Value{a[:], int64(9), 5 + clockStep.Microseconds()})
	if left, err := both.Left(t.Context(), []session.ID{a, b}); err != nil || left[0] != 5*time.Microsecond || left[1] != 0 {
		t.Errorf("both: got %v, %v", left, err)
	}
}

// A row can arrive before its statement fails.
func TestARowOfAFailingStatementIsNotUsed(t *testing.T) {
	t.Parallel()
	b := answered(t, sqlError(50001), []driver.Value{int64(3), int64(1)})
	if calls, err := b.Renew(t.Context(), session.ID{1}); !is(err, 50001) {
		t.Errorf("a renewal whose statement fails: got %d, %v", calls, err)
	}
}

func TestAnUnappliedStatementIsRefused(t *testing.T) {
	t.Parallel()
	for _, number := range []int32{1205, 1222, 3960} {
		out, err := answered(t, sqlError(number)).Swap(t.Context(), &record.Swap{Name: "n", Join: &record.Join{}})
		if err != nil || out.Done || out.Joined || out.Current {
			t.Errorf("%d: got %+v, %v, want it refused", number, out, err)
		}
	}
	if out, err := answered(t, sqlError(8115)).Swap(t.Context(), &record.Swap{Name: "n"}); err == nil {
		t.Errorf("another error: got %+v, want an error", out)
	}
}

func TestASwapIsWhatTheServerSaysOfIt(t *testing.T) {
	t.Parallel()
	for did, want := range map[int64]record.Outcome{0: {}, 1: {Joined: true}, 2: {Done: true, Current: true, Inbox: true}} {
		out, err := answered(t, nil, []driver.Value{did, int64(0)}).Swap(t.Context(), &record.Swap{Name: "n"})
		if out.Now.Version = ""; err != nil || out.Done != want.Done || out.Joined != want.Joined || out.Current != want.Current || out.Inbox != want.Inbox {
			t.Errorf("%d: got %+v, %v, want %+v", did, out, err, want)
		}
	}
}

// A clock that moves in steps can be up to one step behind when a session begins or is renewed.
func TestAnOwnerAllowsForAStepOfTheClock(t *testing.T) {
	t.Parallel()
	const step = time.Second / 64 // the step of Windows
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 365 * 24 * time.Hour} {
		if lasts, err := answered(t, nil, []driver.Value{int64(1)}).Begin(t.Context(), session.ID{1}, ttl); err != nil || lasts > ttl-step || lasts < ttl-2*step {
			t.Errorf("%v: the session lasts %v, %v", ttl, lasts, err)
		}
	}
}

func TestARenewalOfASessionThatHasEndedIsLost(t *testing.T) {
	t.Parallel()
	for calls, want := range map[int64]error{-1: store.ErrLost, 0: nil, 7: nil} {
		n, err := answered(t, nil, []driver.Value{calls, int64(1)}).Renew(t.Context(), session.ID{1})
		if !errors.Is(err, want) || want == nil && n != calls {
			t.Errorf("%d: got %d, %v, want %v", calls, n, err, want)
		}
	}
}

// The numbers are: whether the table exists; the rights SELECT, INSERT, UPDATE and DELETE on it; CREATE TABLE; ALTER on the schema.
func TestRightsAreJudgedAsTheServerReportsThem(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		locks, sessions []int64
		ok              bool
	}{
		"all":                                  {[]int64{1, 1, 1, 1, 1, 0, 0}, []int64{1, 1, 1, 1, 1, 0, 0}, true},
		"no DELETE":                            {[]int64{1, 1, 1, 1, 0, 0, 0}, []int64{1, 1, 1, 1, 0, 0, 0}, true},
		"no SELECT":                            {[]int64{1, 0, 1, 1, 1, 1, 1}, []int64{1, 1, 1, 1, 1, 1, 1}, false},
		"no INSERT":                            {[]int64{1, 1, 0, 1, 1, 1, 1}, []int64{1, 1, 1, 1, 1, 1, 1}, false},
		"no UPDATE of the sessions":            {[]int64{1, 1, 1, 1, 1, 1, 1}, []int64{1, 1, 1, 0, 1, 1, 1}, false},
		"they can be created":                  {[]int64{0, 0, 0, 0, 0, 1, 1}, []int64{0, 0, 0, 0, 0, 1, 1}, true},
		"they cannot be created":               {[]int64{0, 0, 0, 0, 0, 0, 1}, []int64{0, 0, 0, 0, 0, 0, 1}, false},
		"they cannot be created in the schema": {[]int64{1, 1, 1, 1, 1, 1, 0}, []int64{0, 0, 0, 0, 0, 1, 0}, false},
	} {
		if err := mayUse("here", [][]int64{c.locks, c.sessions}); (err == nil) != c.ok || err != nil && !errors.Is(err, store.ErrDenied) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// ours holds the columns of both tables, as sql/columns.sql returns them.
var ours = [][]driver.Value{
	{int64(0), "name", "varbinary", int64(513), false, int64(1)}, {int64(0), "form", "smallint", int64(2), false, int64(0)},
	{int64(0), "rev", "bigint", int64(8), false, int64(0)}, {int64(0), "taken", "bigint", int64(8), false, int64(0)},
	{int64(0), "idle", "tinyint", int64(1), false, int64(0)}, {int64(0), "written", "bigint", int64(8), false, int64(0)},
	{int64(0), "data", "varbinary", int64(-1), false, int64(0)}, {int64(0), "inbox", "varchar", int64(-1), false, int64(0)},
	{int64(1), "id", "varbinary", int64(8), false, int64(1)}, {int64(1), "expires", "bigint", int64(8), false, int64(0)},
	{int64(1), "ttl", "bigint", int64(8), false, int64(0)}, {int64(1), "calls", "bigint", int64(8), false, int64(0)},
}

// The statement that creates the tables stops at a table that another process has just created, and another table may still be missing.
func TestTablesAreCreatedDespiteAConcurrentCreator(t *testing.T) {
	t.Parallel()
	made, sent := 0, 0
	b := answeredBy(t, func(statement string) ([][]driver.Value, error) {
		if !strings.Contains(statement, "CREATE TABLE") {
			return [][][]driver.Value{nil, ours[:8], ours}[made], nil
		}
		if sent++; made < 2 {
			made++
			return nil, sqlError(2714)
		}
		return nil, nil
	})
	b.Checked.Done.Store(false)
	if err := b.prepare(t.Context()); err != nil || sent != 3 {
		t.Errorf("CREATE TABLE was sent %d times: %v", sent, err)
	}
}

func TestATableWithOtherColumnsIsForeign(t *testing.T) {
	t.Parallel()
	changed := func(i int, row ...driver.Value) [][]driver.Value {
		all := append([][]driver.Value{}, ours...)
		all[i] = row
		return all
	}
	for what, c := range map[string]struct {
		rows  [][]driver.Value
		there bool
		says  string
	}{
		"ours":                 {ours, true, ""},
		"with one column more": {append(ours[:len(ours):len(ours)], []driver.Value{int64(0), "mine", "int", int64(4), true, int64(0)}), true, ""},
		"none":                 {nil, false, ""},
		"no sessions":          {ours[:8], false, ""},
		"a column is missing":  {ours[:11], true, `its column calls is ""`},
		"a longer key":         {append(ours[:len(ours):len(ours)], []driver.Value{int64(1), "mine", "int", int64(4), false, int64(2)}), true, "column mine"},
		"a key of two":         {changed(2, int64(0), "rev", "bigint", int64(8), false, int64(2)), true, "its column rev"},
		"no key":               {changed(0, int64(0), "name", "varbinary", int64(513), false, int64(0)), true, "its column name"},
		"text":                 {changed(0, int64(0), "name", "varchar", int64(513), false, int64(1)), true, "its column name"},
		"shorter":              {changed(8, int64(1), "id", "varbinary", int64(4), false, int64(1)), true, "its column id"},
		"a column may be NULL": {changed(9, int64(1), "expires", "bigint", int64(8), true, int64(0)), true, "or NULL"},
		"a number is smaller":  {changed(3, int64(0), "taken", "int", int64(4), false, int64(0)), true, "its column taken"},
	} {
		there, err := answered(t, nil, c.rows...).checkTables(t.Context())
		if there != c.there || errors.Is(err, store.ErrCorrupt) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, %v, want %q", what, there, err, c.says)
		}
	}
}

// A listing takes its time from the row, and reports a torn row as torn.
func TestARowIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	name := []byte("n" + terminator)
	for what, c := range map[string]struct {
		row  []driver.Value
		want error
	}{
		"none":        {[]driver.Value{int64(5), name, nil, nil, nil, nil, nil}, nil},
		"ours":        {[]driver.Value{int64(5), name, int64(1), int64(7), int64(0), []byte("d"), "00016b0164"}, nil},
		"a torn one":  {[]driver.Value{int64(5), name, int64(1), int64(7), int64(0), []byte("d"), "0001f"}, store.ErrCorrupt},
		"a newer one": {[]driver.Value{int64(5), name, int64(2), int64(7), int64(0), []byte("d"), "00"}, store.ErrUnsupported},
	} {
		b := answered(t, nil, c.row)
		if r, err := b.Load(t.Context(), "n"); !errors.Is(err, c.want) || r.Now != 5 {
			t.Errorf("%s: got %+v, %v, want %v", what, r, err, c.want)
		} else if what == "ours" && (r.Version != "7-0" || len(r.Inbox) != 1 || r.Inbox[0].Key != "k" || string(r.Inbox[0].Data) != "d") {
			t.Errorf("%s: got %+v", what, r)
		}
		for n, err := range b.List(t.Context(), time.Hour) {
			if n.Name != "n" || !errors.Is(err, c.want) {
				t.Errorf("%s: got %+v listed, %v", what, n, err)
			}
		}
	}
}

// The server that answers now may have lost what the one before had confirmed.
func TestEachBeginAndRenewalSaysWhichServerAnswered(t *testing.T) {
	t.Parallel()
	server := int64(7)
	b := answeredBy(t, func(statement string) ([][]driver.Value, error) {
		if strings.Contains(statement, "@calls") {
			return [][]driver.Value{{int64(3), server}}, nil
		}
		return [][]driver.Value{{server}}, nil
	})
	if b.Server() != 0 {
		t.Errorf("before any answer: got server %d, want 0", b.Server())
	}
	if _, err := b.Begin(t.Context(), session.ID{1}, time.Minute); err != nil || b.Server() != 7 {
		t.Errorf("Begin: %v, server %d, want 7", err, b.Server())
	}
	server = 8
	if calls, err := b.Renew(t.Context(), session.ID{1}); err != nil || calls != 3 || b.Server() != 8 {
		t.Errorf("Renew: %d, %v, server %d, want 3 and 8", calls, err, b.Server())
	}
}
