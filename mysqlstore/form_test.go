package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// Names that a collation would take for one.
func TestNamesAreBytes(t *testing.T) {
	s := newShared(t)
	names := []string{"a", "A", "a ", "a  ", " a", "ä", "a\u0308", "é", "e", "ß", "ss", "a\x00", "a\x00b", "a\\", "a'b", `a"b`, "a\nb", "🔒",
		strings.Repeat("n", 511), strings.Repeat("n", 512)}
	held := map[string]store.Hold{}
	for _, name := range names {
		held[name] = mustHold(t, s, mutex(name))
	}
	for _, name := range names {
		if st := state(t, s, name); len(st.Entries) != 1 || st.Entries[0].ID != held[name].ID || st.Name != name {
			t.Errorf("%q is listed as %+v", name, st)
		}
	}
	n := 0
	for st, err := range s.List(t.Context(), "") {
		if n++; err != nil || len(st.Entries) != 1 || st.Entries[0].ID != held[st.Name].ID {
			t.Errorf("the list has %+v, %v", st, err)
		}
	}
	if n != len(names) {
		t.Errorf("the list has %d names of %d", n, len(names))
	}
	for _, name := range []string{"", strings.Repeat("n", 513)} {
		if _, err := s.Ask(t.Context(), mutex(name)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
}

func TestWhatIsBehindTheFirstEntryIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []queue.Entry
		for i := range rapid.IntRange(0, 5).Draw(t, "entries") {
			num := func() int64 { return rapid.Int64().Draw(t, "n") }
			e := queue.Entry{
				ID: store.Process{byte(i)}.NewID(), Weight: int32(num()), Want: int32(num()), Turn: int32(num()), N: uint16(num()),
				Granted: rapid.Bool().Draw(t, "granted"), Shown: rapid.Bool().Draw(t, "shown"),
				Token: num(), Fence: num(), Since: num(), Expires: num(), Keep: num(), Delay: num(),
				Owner: rapid.StringN(0, -1, 300).Draw(t, "owner"),
			}
			if r := rapid.StringN(0, -1, 200).Draw(t, "reason"); r != "" {
				e.Broken = &r
			}
			all = append(all, e)
		}
		b := appendRest(nil, all)
		have, err := parseRest(nil, b)
		if err != nil || fmt.Sprintf("%+v", reasons(have)) != fmt.Sprintf("%+v", reasons(all)) {
			t.Fatalf("%+v, %v, want %+v", have, err, all)
		}
		if len(b) > 0 {
			cut := rapid.IntRange(1, len(b)-1).Draw(t, "cut")
			if have, err := parseRest(nil, b[:cut]); err == nil && len(have) == len(all) {
				t.Fatalf("cut to %d of %d bytes: %+v", cut, len(b), have)
			}
		}
	})
}

// reasons are entries without pointers.
func reasons(all []queue.Entry) (out []string) {
	for _, e := range all {
		reason := e.Reason()
		e.Broken = nil
		out = append(out, fmt.Sprintf("%+v %q", e, reason))
	}
	return out
}

func TestARowThatIsNotOursIsReportedAndLeftAlone(t *testing.T) {
	s := newShared(t)
	good := mutex("good")
	mustHold(t, s, good)
	for what, c := range map[string]struct {
		set  string
		want error
	}{
		"of a newer form":       {"form=2", store.ErrUnsupported},
		"of a newer form, idle": {"form=2, total=-1", store.ErrUnsupported},
		"of no form":            {"form=0", store.ErrCorrupt},
		"with too few entries":  {"total=3", store.ErrCorrupt},
		"with too many":         {"total=1", store.ErrCorrupt},
		"with half an id":       {"id=x'0102'", store.ErrCorrupt},
		"with strange flags":    {"flags=8", store.ErrCorrupt},
		"with a torn rest":      {"rest=LEFT(rest, LENGTH(rest)-1)", store.ErrCorrupt},
		"with another rest":     {"rest=x'ff00'", store.ErrCorrupt},
		"with no weight":        {"weight=0", store.ErrCorrupt},
		"with too much weight":  {"weight=lim+1", store.ErrCorrupt},
		"with no token":         {"token=0", store.ErrCorrupt},
		"with no number":        {"rev=0", store.ErrCorrupt},
	} {
		t.Run(what, func(t *testing.T) {
			name := "a row " + what
			claim, waits := mutex(name), mutex(name)
			hold := mustHold(t, s, claim)
			mustAsk(t, s, waits)
			mustExec(t, s.db, "UPDATE "+s.sql.table+" SET "+c.set+" WHERE name="+text(name))
			before := dump(t, s)
			try := claim
			try.Try = true
			for op, f := range map[string]func() error{
				"ask":    func() error { _, err := s.Ask(t.Context(), claim); return err },
				"try":    func() error { _, err := s.Ask(t.Context(), try); return err },
				"new":    func() error { _, err := s.Ask(t.Context(), mutex(name)); return err },
				"look":   func() error { _, err := s.Look(t.Context(), claim); return err },
				"renew":  func() error { return s.Renew(t.Context(), []store.Hold{hold})[0].Err },
				"many":   func() error { return s.Renew(t.Context(), []store.Hold{hold, {Name: "x", TTL: time.Second}})[0].Err },
				"change": func() error { _, err := s.Change(t.Context(), hold, 1, store.Full); return err },
				"adopt": func() error {
					other := hold
					other.NewID = me.NewID()
					return s.Renew(t.Context(), []store.Hold{other})[0].Err
				},
				"release":     func() error { return s.Release(t.Context(), store.Hold{Name: name, ID: waits.ID, Token: 7}) },
				"release all": func() error { return s.Release(t.Context(), store.Hold{Name: name, ID: claim.ID}) },
				"break": func() error {
					return s.BreakHold(t.Context(), store.Break{Name: name, ID: claim.ID, Token: hold.Token})
				},
				"list": func() (err error) {
					for _, err = range s.List(t.Context(), name) {
					}
					return err
				},
			} {
				if op == "renew" && c.set == "total=1" || op == "many" && c.set == "total=1" {
					continue // it has no way to see that
				}
				if err := f(); !errors.Is(err, c.want) || !store.Definite(err) {
					t.Errorf("%s: %v, want %v", op, err, c.want)
				} else if !strings.Contains(err.Error(), what) {
					t.Errorf("%s: the error does not name the row: %v", op, err)
				}
				if after := dump(t, s); after != before {
					t.Fatalf("%s changed the table from\n%s\nto\n%s", op, before, after)
				}
			}
			var found, other bool
			for st, err := range s.List(t.Context(), "") {
				found = found || st.Name == name && errors.Is(err, c.want)
				other = other || st.Name == good.Name && err == nil
			}
			if !found || !other {
				t.Errorf("in the list of all names: this one %v, another %v", found, other)
			}
			mustExec(t, s.db, "DELETE FROM "+s.sql.table+" WHERE name="+text(name))
		})
	}
}

func TestANameIsForgottenADayAfterItsLastEntry(t *testing.T) {
	const day = store.TokenRetention
	now := time.Now().UnixMicro()
	s := storeAt(t, dbOn(t, sharedDSN(t)), apart(), func() int64 { return now })
	defer s.Close()
	ctx := context.Background()
	idle, dead, kept, used, many := mutex("idle"), mutex("dead"), mutex("kept"), mutex("used"), mutex("many")
	dead.TTL, kept.Keep, kept.Delay = time.Hour, 2*day, time.Hour
	if err := s.Release(ctx, mustHold(t, s, idle)); err != nil {
		t.Fatal(err)
	}
	mustHold(t, s, dead)
	h := mustHold(t, s, kept)
	if r := s.Renew(ctx, []store.Hold{h})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	mustHold(t, s, used)
	h = mustHold(t, s, many)
	mustAsk(t, s, mutex("many"))
	if err := s.Release(ctx, h); err != nil { // the other has it for the time of its place
		t.Fatal(err)
	}
	start := now
	left := func() (all []string) {
		t.Helper()
		for range 3 {
			if _, err := s.sweepPage(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.rows(ctx, s.db, s.sql.page("", "1=1", 100), func(r row, err error) error {
			all = append(all, r.name)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	check := func(after time.Duration, want ...string) {
		t.Helper()
		now = start + after.Microseconds()
		if have := left(); fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("after %v there are %q, want %q", after, have, want)
		}
	}
	check(day-time.Second, "dead", "idle", "kept", "many", "used")
	check(day, "dead", "kept", "many", "used")
	check(day+many.Place, "dead", "kept", "used")
	check(day+time.Minute+time.Second, "dead", "kept")
	check(day+time.Hour-time.Second, "dead", "kept")
	check(day+time.Hour, "kept")
	check(3*day-time.Second, "kept")
	check(3 * day)
}

// Rows are swept from the name that was used on, and then from the first.
func TestSweepingGoesRound(t *testing.T) {
	s := newShared(t)
	for i := range page + 20 {
		h := mustHold(t, s, mutex(fmt.Sprintf("old/%04d", i)))
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	mustHold(t, s, mutex("p/held"))
	long := store.TokenRetention + time.Minute
	mustExec(t, s.db, fmt.Sprintf("UPDATE %s SET expires=expires-%d WHERE total=0", s.sql.table, long.Microseconds()))
	s.swept.mu.Lock()
	s.swept.after, s.swept.next = "old/0300", time.Now()
	s.swept.mu.Unlock()
	s.sweep("p/held")
	until(t, "only the name that is held is left", func() bool {
		var n int
		if err := s.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+s.sql.table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	if st := state(t, s, "p/held"); len(st.Entries) != 1 {
		t.Errorf("the name that is held: %+v", st)
	}
}

func TestTokensGoOnWhenTheClockOfTheServerIsBehind(t *testing.T) {
	now := time.Now().UnixMicro()
	s := storeAt(t, dbOn(t, sharedDSN(t)), apart(), func() int64 { return now })
	defer s.Close()
	var last int64
	for range 5 {
		h := mustHold(t, s, mutex("n"))
		if h.Token <= last {
			t.Errorf("token %d after %d", h.Token, last)
		}
		last = h.Token
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		now -= time.Hour.Microseconds()
	}
}

func TestTablesAreApart(t *testing.T) {
	db := dbOn(t, sharedDSN(t))
	a, b := storeOn(t, db, apart()), storeOn(t, db, apart())
	defer a.Close()
	defer b.Close()
	ha, hb := mustHold(t, a, mutex("n")), mustHold(t, b, mutex("n"))
	for s, h := range map[*Store]store.Hold{a: ha, b: hb} {
		if st := state(t, s, "n"); len(st.Entries) != 1 || st.Entries[0].ID != h.ID {
			t.Errorf("table %s has %+v", s.o.Table, st)
		}
	}
}
