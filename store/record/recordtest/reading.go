package recordtest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

var readPromises = []promise{
	{name: "a name never written reads as nothing", run: readsNothing},
	{name: "to read a name writes nothing", run: readWritesNothing},
	{name: "every process reads what was just written", run: readsNewest},
	{name: "every process reads the notes just left", run: readsNotes},
	{name: "notes are read in the order they came", run: notesInOrder},
	{name: "of many notes the oldest are read and More is true", run: oldestNotes},
	{name: "data comes back byte for byte", run: dataAsWritten},
	{name: "notes come back byte for byte", run: notesAsWritten},
	{name: "names of any bytes are kept apart", run: namesApart},
	{name: "a note is in the inbox or taken in", run: noteSomewhere},
	{name: "the clock is that of the server", run: clockOfServer, clock: true},
	{name: "without the inbox the record is read as before", run: peeksNewest, peeks: true},
	{name: "the oldest note is there until it is taken in", run: oldestNote, peeks: true},
}

func readsNothing(t *trial) {
	b := t.open()
	if r := t.load(b, fresh()); len(r.Data) > 0 || len(r.Inbox) > 0 {
		t.Errorf("Load: got %s", describe(r))
	}
}

func readWritesNothing(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	before := t.load(a, name)
	for range 3 {
		if r := t.load(b, name); r.Version != before.Version {
			t.Errorf("Load created version %q after %q", r.Version, before.Version)
		}
	}
	t.listed(a, func(all map[string]record.Record) {
		if _, there := all[name]; there {
			t.Error("a name that was only read is in the list")
		}
	})
	if out := t.swap(a, record.Swap{Name: name, Old: before, Data: []byte("x")}); !out.Done {
		t.Error("a Swap on the Load of a free name is refused")
	}
}

func readsNewest(t *trial) {
	a, name := t.open(), fresh()
	others := []record.Backend{t.open(), t.open()}
	for _, data := range []string{"one", "two", "three", "four"} {
		was := t.write(a, name, data)
		for _, b := range others {
			if r := t.load(b, name); !has(r, data) || r.Version != was.Version {
				t.Errorf("Load: got %s, want %q", describe(r), data)
			}
		}
		a, others[0] = others[0], a
	}
}

func readsNotes(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	n := note("n")
	t.joined(a, name, t.session(a), n)
	for _, r := range []record.Record{t.load(b, name), t.load(a, name)} {
		if len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key {
			t.Errorf("Load: got notes %v, want %v", keys(r.Inbox), n.Key)
		}
	}
}

func notesInOrder(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	ofA, ofB := t.session(a), t.session(b)
	var all []record.Note
	for i := range 12 {
		n := note("n")
		if all = append(all, n); i%2 == 0 {
			t.joined(a, name, ofA, n)
		} else {
			t.joined(b, name, ofB, n)
		}
	}
	if r := t.load(b, name); !slices.Equal(keys(r.Inbox), keys(all)) {
		t.Errorf("Load: got notes %v, want %v", keys(r.Inbox), keys(all))
	}
}

func oldestNotes(t *trial) {
	a, name := t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	var all, taken []string
	for range 5 {
		var some []record.Note
		for range record.MaxNotes {
			some = append(some, note("n"))
		}
		t.joined(a, name, id, some...)
		all = append(all, keys(some)...)
	}
	for len(taken) < len(all) {
		r := t.load(a, name)
		if n := len(r.Inbox); n < min(record.MaxNotes, len(all)-len(taken)) {
			t.Fatalf("Load: got %d of %d notes, want at least %d", n, len(all)-len(taken), record.MaxNotes)
		}
		if more := len(taken)+len(r.Inbox) < len(all); r.More != more {
			t.Fatalf("Load: got %d of %d notes, and More %v", len(r.Inbox), len(all)-len(taken), r.More)
		}
		taken = append(taken, keys(r.Inbox)...)
		if out := t.swap(a, record.Swap{Name: name, Old: r, Data: []byte("y")}); !out.Done {
			t.Fatal("a Swap on the newest version is refused")
		}
	}
	if !slices.Equal(taken, all) {
		t.Errorf("the notes were taken in as %v, want %v", taken, all)
	}
}

// odd holds bytes that a server may misinterpret.
var odd = []string{
	"\x00", "a\x00b", "\xff\xfe\x80", "a/b", "a.b", ".", "..", "*", ">", "a b", "a ", " a", "a\t", "a\n", "%41", "=41", "_", "é", "e\u0301",
	"'", `"`, `\`, "$a", "{}", "--", ";",
}

func dataAsWritten(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, data := range append(slices.Clone(odd), string(every), strings.Repeat("x", min(10_000, t.traits.MaxRecord)), strings.Repeat("y", t.traits.MaxRecord)) {
		t.write(a, name, data)
		if r := t.load(b, name); !has(r, data) {
			t.Errorf("Load: got %.40q (%d bytes), want %.40q (%d bytes)", r.Data, len(r.Data), data, len(data))
		}
	}
}

func notesAsWritten(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	var all []record.Note
	for _, data := range append(slices.Clone(odd), strings.Repeat("n", record.MaxNote)) {
		all = append(all, note(data))
	}
	long := note("long")
	long.Key = strings.Repeat("0z", record.MaxKey/2)
	all = append(all, long)
	t.joined(a, name, id, all...)
	r := t.load(b, name)
	if len(r.Inbox) != len(all) {
		t.Fatalf("Load: got %d notes, want %d", len(r.Inbox), len(all))
	}
	versions := map[string]bool{}
	for i, n := range r.Inbox {
		if n.Key != all[i].Key || !bytes.Equal(n.Data, all[i].Data) {
			t.Errorf("Load: got note %q with %.40q, want %q with %.40q", n.Key, n.Data, all[i].Key, all[i].Data)
		}
		versions[n.Version] = true
	}
	if len(versions) != len(all) {
		t.Errorf("%d notes have %d versions", len(all), len(versions))
	}
}

func namesApart(t *trial) {
	a, b, base := t.open(), t.open(), fresh()
	names := []string{base, base + "x", base + "X", base + "\x00", base + "\x00\x00", base + "x/", base + "x.y"}
	for _, one := range odd {
		names = append(names, base+one, base+one+base)
	}
	long := base + strings.Repeat("n", store.MaxName-len(base)-1)
	names = append(names, long+"a", long+"b", long+"A", long+"\xff")
	slices.Sort(names)
	names = slices.Compact(names)
	before := map[string]record.Record{}
	for _, name := range names {
		before[name] = t.load(a, name)
		if len(before[name].Data) > 0 {
			t.Fatalf("Load of %.60q, which was never written: got %s", name, describe(before[name]))
		}
	}
	for _, name := range names {
		if out := t.swap(a, record.Swap{Name: name, Old: before[name], Data: []byte(name)}); !out.Done {
			t.Fatalf("a Swap of %.60q on its newest version is refused: another name has its record", name)
		}
	}
	id := t.session(a)
	for _, name := range names {
		t.joined(a, name, id, note(name))
	}
	for _, name := range names {
		r := t.load(b, name)
		if !has(r, name) || len(r.Inbox) != 1 || string(r.Inbox[0].Data) != name {
			t.Errorf("Load of %.60q: got %s, want its own record", name, describe(r))
		}
	}
}

// One process takes in notes as they come, and another reads meanwhile. Every note from before a read is in its
// result, in the inbox or the record.
func noteSomewhere(t *trial) {
	a, b, c, name := t.open(), t.open(), t.open(), fresh()
	t.write(a, name, ".")
	id := t.session(a)
	failed := make(chan error, 1)
	stop := make(chan struct{})
	taking := make(chan struct{})
	go func() { // takes them in
		defer close(taking)
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := c.Load(t.ctx, name)
			if err != nil {
				failed <- err
				return
			}
			if len(r.Inbox) > 0 {
				if _, err := c.Swap(t.ctx, &record.Swap{Name: name, Old: r, Data: []byte(string(r.Data) + strings.Join(keys(r.Inbox), ".") + ".")}); err != nil {
					failed <- err
					return
				}
			}
		}
	}()
	for range record.MaxNotes { // a Load may return no more
		n := note("n")
		t.joined(a, name, id, n)
		r := t.load(b, name)
		if !slices.Contains(keys(r.Inbox), n.Key) && !strings.Contains(string(r.Data), n.Key) {
			t.Errorf("a note that was answered is neither in the inbox nor taken in")
			break
		}
	}
	close(stop)
	<-taking
	select {
	case err := <-failed:
		t.Errorf("in another goroutine: %v", err)
	default:
	}
}

// The server's clock, whatever it shows, advances like the local one, and is the same for all processes.
func clockOfServer(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	behind := 10_000_000 + t.traits.Age.Microseconds()
	first, begin := t.load(a, name).Now, store.Now()
	if first <= 0 {
		t.Fatalf("Load: got Now %d", first)
	}
	for i := range 10 {
		from := []record.Backend{a, b}[i%2]
		sent := store.Now()
		now := t.load(from, name).Now
		// first was read before begin, and may have been behind then.
		if late := first + sent.Sub(begin).Microseconds() - now; late > behind {
			t.Errorf("Load: Now is %d µs behind", late)
		}
		if ahead := now - (first + store.Now().Sub(begin).Microseconds()); ahead > behind {
			t.Errorf("Load: Now is %d µs ahead", ahead)
		}
		if i == 0 {
			t.write(a, name, "x")
		}
	}
}

func peeksNewest(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	for _, data := range []string{"one", "two", "three"} {
		was := t.write(a, name, data)
		r, err := b.(record.Peeker).Peek(t.ctx, name)
		if err != nil || !has(r, data) || r.Version != was.Version {
			t.Errorf("Peek: got %s, %v, want %q", describe(r), err, data)
		}
		if t.traits.Clock && r.Now == 0 {
			t.Error("Peek returns no clock")
		}
		a, b = b, a
	}
}

func oldestNote(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	oldest := func(of record.Backend) record.Note {
		t.Helper()
		n, err := of.(record.Peeker).Oldest(t.ctx, name)
		if err != nil {
			t.Fatalf("Oldest: %v", err)
		}
		return n
	}
	if n := oldest(b); n.Key != "" || len(n.Data) > 0 {
		t.Errorf("Oldest: got %+v, but the inbox is empty", n)
	}
	all := []record.Note{note("first"), note("second"), note("third")}
	for _, n := range all {
		t.joined(a, name, t.session(a), n)
	}
	for _, of := range []record.Backend{a, b} {
		if n := oldest(of); n.Key != all[0].Key || string(n.Data) != "first" {
			t.Errorf("Oldest: got %+v, want the first", n)
		}
	}
	some := t.load(a, name)
	some.Inbox = some.Inbox[:2]
	if out := t.swap(a, record.Swap{Name: name, Old: some, Data: []byte("y")}); !out.Done {
		t.Fatal("a Swap on the newest version is refused")
	}
	for _, of := range []record.Backend{a, b} {
		t.until("the third note is the oldest", func() bool { return oldest(of).Key == all[2].Key })
	}
	if out := t.swap(b, record.Swap{Name: name, Old: t.load(b, name), Data: []byte("z")}); !out.Done {
		t.Fatal("a Swap on the newest version is refused")
	}
	for _, of := range []record.Backend{a, b} {
		t.until("there is no note", func() bool { return oldest(of).Key == "" })
	}
}
