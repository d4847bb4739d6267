package recordtest

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store/record"
)

var listPromises = []promise{
	{name: "each name that was written is listed once", run: listsAll},
	{name: "what is not written is not listed", run: listsNothingElse},
	{name: "what was not written for long is listed", run: listsUnwritten},
	{name: "a listing ends when its caller stops", run: listEnds},
	{name: "a name is written while names are listed", run: listedAndWritten},
}

// listed passes the listing to f. Other tests use the server as well.
func (t *trial) listed(b record.Backend, f func(map[string]record.Record)) {
	t.Helper()
	f(t.list(b, 0))
}

func (t *trial) list(b record.Backend, unwritten time.Duration) map[string]record.Record {
	t.Helper()
	all := map[string]record.Record{}
	for r, err := range b.List(t.ctx, unwritten) {
		if err != nil {
			t.Errorf("List: got %q: %v", r.Name, err)
			continue
		}
		if _, twice := all[r.Name]; twice {
			t.Errorf("List: got %q twice", r.Name)
		}
		all[r.Name] = r.Record
	}
	return all
}

func listsAll(t *trial) {
	a, b := t.open(), t.open()
	want := map[string]record.Record{}
	for _, one := range odd {
		name := fresh() + one
		want[name] = t.write(a, name, "data of "+name)
	}
	for range 30 {
		name := fresh()
		want[name] = t.write(a, name, "data of "+name)
	}
	for range 250 { // more than a page of most servers
		name := fresh()
		out := t.swap(a, record.Swap{Name: name, Data: []byte("data of " + name)})
		if !out.Current {
			out.Now = t.load(a, name)
		}
		want[name] = record.Record{Data: []byte("data of " + name), Version: out.Now.Version}
	}
	id := t.session(a)
	for name := range want {
		t.joined(a, name, id, note("n"))
		break
	}
	all := t.list(b, 0)
	for name, was := range want {
		if r, there := all[name]; !there {
			t.Errorf("List: %q is missing", name)
		} else if string(r.Data) != string(was.Data) || r.Version != was.Version {
			t.Errorf("List: %q: got %s, want %s", name, describe(r), describe(was))
		}
	}
	// Its results can be used as Old.
	for name := range want {
		if out := t.swap(b, record.Swap{Name: name, Old: record.Record{Version: all[name].Version}, Data: []byte("x")}); !out.Done {
			t.Error("a Swap on a version from the list is refused")
		}
		break
	}
}

func listsNothingElse(t *trial) {
	a, b, read, idle := t.open(), t.open(), fresh(), fresh()
	t.load(a, read)
	t.idle(a, idle)
	all := t.list(b, 0)
	if r, there := all[read]; there {
		t.Errorf("List: got a name that was only read: %s", describe(r))
	}
	if r, there := all[idle]; there && !has(r, "idle") {
		t.Errorf("List: got an idle record: %s", describe(r))
	}
	t.write(a, idle, "used")
	if r := t.list(b, 0)[idle]; !has(r, "used") {
		t.Errorf("List: got %s for a record that was idle and is used again", describe(r))
	}
}

func listsUnwritten(t *trial) {
	a, b := t.open(), t.open()
	names := []string{fresh(), fresh(), fresh()}
	for _, name := range names {
		t.write(a, name, name)
	}
	t.until("the records are old enough for the list", func() bool {
		all := t.list(b, time.Millisecond)
		for _, name := range names {
			if !has(all[name], name) {
				return false
			}
		}
		return true
	})
	for name, r := range t.list(b, 24*time.Hour) {
		for _, ours := range names {
			if name == ours && !has(r, name) { // it may be left out
				t.Errorf("List: %q: got %s", name, describe(r))
			}
		}
	}
}

func listEnds(t *trial) {
	b := t.open()
	t.write(b, fresh(), "x")
	t.write(b, fresh(), "x")
	for r, err := range b.List(t.ctx, 0) { // another yield would panic
		if err != nil {
			t.Errorf("List: %q: %v", r.Name, err)
		}
		break
	}
	t.write(b, fresh(), "y")
}

// A backend that lists on its only connection, or in a transaction that blocks others, never finishes.
func listedAndWritten(t *trial) {
	b := t.open()
	names := []string{fresh(), fresh(), fresh()}
	for _, name := range names {
		t.write(b, name, "x")
	}
	for r, err := range b.List(t.ctx, 0) {
		if err != nil {
			t.Errorf("List: %q: %v", r.Name, err)
		}
		if !slices.Contains(names, r.Name) {
			continue
		}
		ctx, cancel := context.WithTimeout(t.ctx, patience) // for one swap: listing all may take longer
		out, err := b.Swap(ctx, &record.Swap{Name: r.Name, Old: r.Record, Data: []byte("y")})
		if cancel(); err != nil || !out.Done {
			t.Fatalf("a Swap on a version from the list, before the next name: got %+v, %v", out, err)
		}
	}
	for _, name := range names {
		if r := t.load(b, name); !has(r, "y") {
			t.Errorf("Load: got %s, want %q, which was written during the list", describe(r), "y")
		}
	}
}
