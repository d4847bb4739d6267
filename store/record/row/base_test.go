package row

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/store"
)

func TestMissingTablesAreCreated(t *testing.T) {
	denied := errors.New("denied")
	for what, c := range map[string]struct {
		there []bool // what looks at them find
		check error
		make  error
		want  error
		calls string
	}{
		"there":              {[]bool{true}, nil, nil, nil, "look"},
		"missing":            {[]bool{false, true}, nil, nil, nil, "look make look"},
		"of another program": {[]bool{true}, store.ErrCorrupt, nil, store.ErrCorrupt, "look"},
		"cannot be created":  {[]bool{false}, nil, denied, denied, "look make"},
		"cannot be seen":     {[]bool{false, false}, nil, nil, store.ErrDenied, "look make look"},
	} {
		b, calls := NewBase("here"), []string{}
		prepare := func() error {
			return b.Prepare(t.Context(), func() (bool, error) {
				calls = append(calls, "look")
				there := c.there[min(len(calls)/2, len(c.there)-1)]
				return there, c.check
			}, func() error {
				calls = append(calls, "make")
				return c.make
			})
		}
		if err := prepare(); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || strings.Join(calls, " ") != c.calls {
			t.Errorf("%s: got %v with %q, want %v with %q", what, err, calls, c.want, c.calls)
		}
		if c.want == nil {
			calls = nil
			if err := prepare(); err != nil || len(calls) != 0 {
				t.Errorf("%s, again: got %v with %q", what, err, calls)
			}
		}
	}
}

func TestANameInAStatementIsPlain(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "_a1": true, "A" + strings.Repeat("b", 9): true, "": false, "1a": false, "a b": false, "a]b": false, "a`b": false, "ä": false, "A" + strings.Repeat("b", 10): false} {
		if err := CheckName("the table", name, 10); (err == nil) != ok || err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAURLNamesOneServer(t *testing.T) {
	bad := func(format string, args ...any) error { return fmt.Errorf(format, args...) }
	for rawURL, says := range map[string]string{
		"A://u:secret@host/db": "", "b://host": "",
		"a://u:sec%ret@host": "cannot be read", "c://u:secret@host": "a:// or b://", "a://u:secret@": "no host", "a://u:secret@x,y": "several hosts", "a://u:secret@host#secret": "%23",
	} {
		u, err := ParseURL(rawURL, bad, "a", "b")
		if says == "" && (err != nil || u.Hostname() != "host") || says != "" && (err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: got %v, %v, want %q", rawURL, u, err, says)
		}
	}
}

func TestTheDoctorGetsTheFindings(t *testing.T) {
	b := NewBase("here")
	for readOnly, want := range map[string]error{"": nil, "READ_ONLY": store.ErrUnavailable} {
		if f := b.CheckRole(readOnly); !errors.Is(f.Err, want) || f.Found == "" {
			t.Errorf("%q: %+v", readOnly, f)
		}
	}
	for setting, run := range map[string]string{"": "", "it is off": "SET it ON"} {
		if f := b.CheckDisk(setting, run); f.Warning != (setting != "") || f.Run != run || !strings.Contains(f.Found, setting) {
			t.Errorf("%q: %+v", setting, f)
		}
	}
	for most, warns := range map[int]bool{0: false, 5: true} {
		if f := b.CheckPool(most); (len(f) == 1 && f[0].Warning && f[0].About == "pool" && strings.Contains(f[0].Found, "at most 5 ")) != warns || len(f) != 0 != warns {
			t.Errorf("the caller's pool with a limit of %d: got %+v", most, f)
		}
	}
	own := NewBase("here")
	own.Own = closer(func() error { return nil })
	if f := own.CheckPool(5); f != nil {
		t.Errorf("the store's own pool: got %+v, want no finding", f)
	}
	for want, f := range map[string]store.Finding{"first use creates it": CheckTable("t", false, false, "grants"), "may not DELETE": CheckTable("t", true, true, "grants"), "exists": CheckTable("t", true, false, "grants")} {
		if (f.Run == "grants") != (want == "may not DELETE") || !strings.Contains(f.Found, want) || f.Err != nil || f.Warning {
			t.Errorf("%q: %+v", want, f)
		}
	}
}

// Close waits for the sweep that is under way, which ends with it.
func TestCloseEndsTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, begun, ended := NewBase("here"), make(chan bool), false
		b.Sweeps.at = store.Now() // it is time to
		b.SweepInTime(func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			time.Sleep(time.Hour) // it takes a while
			ended = true
			return ctx.Err()
		})
		<-begun
		b.SweepInTime(func(context.Context) error { t.Error("a second sweep started at once"); return nil })
		closes := 0
		b.Own = closer(func() error { closes++; return nil })
		if err := b.Close(); err != nil || !ended || closes != 1 {
			t.Errorf("Close: %v; the sweep has ended: %v; the pool was closed %d times", err, ended, closes)
		}
	})
}

type closer func() error

func (c closer) Close() error { return c() }

func TestTheTestsCatchEachMutantOfBases(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"missing tables are taken for existing ones", "TestMissingTablesAreCreated", "row-made-is-checked", mutant.Cond("err == nil && there")},
		{"a name may be anything", "TestANameInAStatementIsPlain", "row-name-is-plain", mutant.Cond("len(name) > most")},
		{"no warning about a small pool", "TestTheDoctorGetsTheFindings", "row-pool-warned", mutant.Cond("true")},
		{"a warning about a pool without a limit", "TestTheDoctorGetsTheFindings", "row-pool-warned", mutant.Cond("b.Own != nil")},
		{"a warning about the store's own pool", "TestTheDoctorGetsTheFindings", "row-pool-warned", mutant.Cond("most == 0")},
		{"the sweep does not end with Close", "TestCloseEndsTheSweep", "row-close-waits", mutant.Delete()},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "store/record/row", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all)
}
