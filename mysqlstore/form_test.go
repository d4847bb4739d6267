package mysqlstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
	"github.com/holdfast-go/holdfast/store/session"
)

// These names are equal to some collation.
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
			t.Errorf("%q: got %+v listed", name, st)
		}
	}
	n := 0
	for st, err := range s.List(t.Context(), "") {
		if n++; err != nil || len(st.Entries) != 1 || st.Entries[0].ID != held[st.Name].ID {
			t.Errorf("got %+v listed, %v", st, err)
		}
	}
	if n != len(names) {
		t.Errorf("got %d names listed of %d", n, len(names))
	}
	for _, name := range []string{"", strings.Repeat("n", 513)} {
		if _, err := s.Ask(t.Context(), mutex(name)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
}

func TestAForeignRowIsReportedAndLeftAlone(t *testing.T) {
	s := newShared(t)
	good := mutex("good")
	mustHold(t, s, good)
	for what, c := range map[string]struct {
		set  string
		want error
	}{
		"of a newer form":     {"form=4", store.ErrUnsupported},
		"of an older form":    {"form=2", store.ErrCorrupt},
		"with torn data":      {"data=LEFT(data,LENGTH(data)-1)", store.ErrCorrupt},
		"with other data":     {"data=x'ff00'", store.ErrUnsupported},
		"with no data":        {"data=x'00'", store.ErrCorrupt},
		"with a torn list":    {"taken='0,'", store.ErrCorrupt},
		"with no list":        {"taken=LEFT(taken,0)", store.ErrCorrupt},
		"of a newer one, too": {"form=30000,idle=0", store.ErrUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			name := "a row " + what
			claim, waits := mutex(name), mutex(name)
			hold := mustHold(t, s, claim)
			mustAsk(t, s, waits)
			mustExec(t, s.b.db, "UPDATE "+s.b.records+" SET "+c.set+",rev=rev+1 WHERE name="+text(name))
			before := dump(t, s)
			other := hold
			other.Owner = "other"
			if err := s.Renew(t.Context(), []store.Hold{other})[0].Err; !errors.Is(err, c.want) {
				t.Errorf("Renew: %v, want %v", err, c.want)
			}
			try := claim
			try.Try = true
			for op, f := range map[string]func() error{
				"ask":    func() error { _, err := s.Ask(t.Context(), claim); return err },
				"try":    func() error { _, err := s.Ask(t.Context(), try); return err },
				"new":    func() error { _, err := s.Ask(t.Context(), mutex(name)); return err },
				"look":   func() error { _, err := s.Poll(t.Context(), claim); return err },
				"change": func() error { _, err := s.Change(t.Context(), hold, 1, store.Full); return err },
				"break": func() error {
					return s.BreakHold(t.Context(), store.Break{Name: name, ID: claim.ID, Token: hold.Token})
				},
				"list": func() (err error) {
					for _, err = range s.List(t.Context(), name) {
					}
					return err
				},
				"release":     func() error { return s.Release(t.Context(), store.Hold{Name: name, ID: waits.ID, Token: 7}) },
				"release all": func() error { return s.Release(t.Context(), store.Hold{Name: name, ID: me.NewID()}) },
			} {
				if op == "new" && !strings.HasPrefix(c.set, "form") {
					continue // it may leave a note before it has read the row
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
			// The join is sent blindly, as by a process that does not know the name.
			join := record.Join{Session: session.NewID(), Notes: []record.Note{{Key: "k", Data: []byte("d")}}}
			if strings.HasPrefix(c.set, "form") {
				for _, version := range []string{"", "1-0"} {
					out, err := s.b.Swap(t.Context(), &record.Swap{Name: name, Old: record.Record{Version: version}, Data: []byte("x"), Join: &join})
					if out.Done || out.Joined {
						t.Errorf("a blind swap on version %q: got %+v, %v, want it refused", version, out, err)
					}
				}
			}
			if after := dump(t, s); after != before {
				t.Fatalf("a blind swap changed the table from\n%s\nto\n%s", before, after)
			}
			var found, others bool
			for st, err := range s.List(t.Context(), "") {
				found = found || st.Name == name && errors.Is(err, c.want)
				others = others || st.Name == good.Name && err == nil
			}
			if !found || !others {
				t.Errorf("listed all names: got this one %v, others %v", found, others)
			}
			mustExec(t, s.b.db, "DELETE FROM "+s.b.records+" WHERE name="+text(name))
		})
	}
}

func TestANameIsForgottenADayAfterItsLastEntry(t *testing.T) {
	const day = store.TokenRetention
	now := time.Now().UnixMicro()
	b := backendOn(t, sharedDSN(t), apart())
	b.clock = func() int64 { return now }
	b.Sweeps.Pause()
	s := storeOf(b)
	defer s.Close()
	if err := s.Release(t.Context(), mustHold(t, s, mutex("idle"))); err != nil {
		t.Fatal(err)
	}
	mustHold(t, s, mutex("used"))
	start := now
	check := func(after time.Duration, want int) {
		t.Helper()
		now = start + after.Microseconds()
		if err := b.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := b.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+b.records).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("after %v: got %d names, want %d", after, n, want)
		}
	}
	check(day-time.Second, 2)
	check(day+2*time.Duration(row.Tick(day))*time.Microsecond, 1)
	check(30*day, 1) // the row has an entry
	var n int
	if err := b.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+b.sessions).Scan(&n); err != nil || n != 0 {
		t.Errorf("got %d sessions left, %v, want none", n, err)
	}
}

// A name that somebody uses while it is being deleted stays.
func TestANameThatIsUsedMeanwhileIsNotForgotten(t *testing.T) {
	now := time.Now().UnixMicro()
	b := backendOn(t, sharedDSN(t), apart())
	b.clock = func() int64 { return now }
	b.Sweeps.Pause()
	s := storeOf(b)
	defer s.Close()
	if err := s.Release(t.Context(), mustHold(t, s, mutex("a"))); err != nil {
		t.Fatal(err)
	}
	now += (2 * store.TokenRetention).Microseconds()
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "UPDATE "+b.records+" SET rev=rev+1"); err != nil {
		t.Fatal(err)
	}
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		if err := b.sweep(t.Context()); err != nil {
			t.Error(err)
		}
	})
	until(t, "a statement waits for the row", func() bool { return waiting(t, b.db, "DELETE r,n FROM "+b.records) == 1 })
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	sweeping.Wait()
	var n int
	if err := b.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+b.records).Scan(&n); err != nil || n != 1 {
		t.Errorf("got %d names, want 1: %v", n, err)
	}
}

// Names that nobody has written for long are found without a scan of all names.
func TestNamesOfCrashedHoldersAreListedByAge(t *testing.T) {
	b := backendOn(t, sharedDSN(t), apart())
	s := storeOf(b)
	defer s.Close()
	for i := range row.Page + 20 {
		mustHold(t, s, mutex(fmt.Sprintf("old/%04d", i)))
	}
	mustHold(t, s, mutex("new"))
	mustExec(t, b.db, "UPDATE "+b.records+" SET written=1 WHERE name LIKE 'old/%'")
	for age, want := range map[time.Duration]int{0: row.Page + 21, 2 * time.Hour: row.Page + 20} {
		names := map[string]bool{}
		for n, err := range b.List(t.Context(), age) {
			if err != nil || names[n.Name] {
				t.Fatalf("%q: got %v, twice: %v", n.Name, err, names[n.Name])
			}
			names[n.Name] = true
		}
		if len(names) != want {
			t.Errorf("of age %v: got %d names, want %d", age, len(names), want)
		}
	}
}

// The clock is set back, and tokens still increase.
func TestTokensGrowEvenIfTheClockGoesBack(t *testing.T) {
	now := time.Now().UnixMicro()
	var last int64
	o := apart()
	for range 5 {
		b := backendOn(t, sharedDSN(t), o)
		b.clock = func() int64 { return now }
		s := storeOf(b)
		h := mustHold(t, s, mutex("n"))
		if h.Token <= last {
			t.Errorf("got token %d after %d, want a larger one", h.Token, last)
		}
		last = h.Token
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		s.Close()
		now -= time.Hour.Microseconds()
	}
}

// A clock that is set back shortens no session.
func TestARenewalMovesNoExpiryBack(t *testing.T) {
	now := time.Now().UnixMicro()
	b := backendOn(t, sharedDSN(t), apart())
	defer b.Close()
	b.clock = func() int64 { return now }
	id := session.NewID()
	if _, err := b.Begin(t.Context(), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	now -= (30 * time.Second).Microseconds() // or a renewal that was sent then arrives now
	for range 2 {
		if _, err := b.Renew(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := b.Left(t.Context(), []session.ID{id}); err != nil || left[0] != 90*time.Second {
		t.Errorf("the session has %v left, %v, want 1m30s", left, err)
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
			t.Errorf("table %s: got %+v", s.b.o.Table, st)
		}
	}
}

// Notes that were taken in are deleted even while their name is in use.
func TestTakenInNotesAreDeleted(t *testing.T) {
	b := backendOn(t, sharedDSN(t), apart())
	defer b.Close()
	b.Sweeps.Pause()
	old := record.Record{}
	for i := range discardFrom + 2 {
		out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Old: old, Data: []byte("x")})
		if err != nil || !out.Done {
			t.Fatal(out, err)
		}
		join := &record.Join{Notes: []record.Note{{Key: fmt.Sprint(i), Data: []byte("d")}}}
		if out, err := b.Swap(t.Context(), &record.Swap{Name: "n", Data: []byte("x"), Join: join}); err != nil || !out.Joined {
			t.Fatal(out, err)
		}
		if old, err = b.Load(t.Context(), "n"); err != nil || len(old.Inbox) != 1 || old.Inbox[0].Key != fmt.Sprint(i) {
			t.Fatalf("note %d: got %+v, %v", i, old, err)
		}
	}
	if left := parseVersion(old.Version).taken; len(left) > 2 {
		t.Errorf("got notes %v listed in the record", left)
	}
	if err := b.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := b.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+b.notes).Scan(&n); err != nil || n > 3 {
		t.Errorf("got %d notes left, %v, want at most 3", n, err)
	}
}
