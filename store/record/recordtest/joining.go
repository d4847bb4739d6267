package recordtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

var joinPromises = []promise{
	{name: "a refused swap joins", run: refusedJoins},
	{name: "a swap that was refused before joins", run: lostJoins},
	{name: "a done swap does not join", run: doneDoesNotJoin},
	{name: "the largest join is done as a whole and in order", run: largestJoin},
	{name: "a join changes no version", run: joinChangesNoVersion},
	{name: "a join disturbs no swap under way", run: joinDisturbsNoSwap},
	{name: "a join returns the inbox", run: joinTellsInbox},
	{name: "joins never fail beside many swaps", run: joinsBesideSwaps},
	{name: "a note stays until it is taken in", run: noteStays},
	{name: "notes of one name are no other's", run: notesOfName},
	{name: "a join on an idle record is done", run: joinOnIdle},
}

func refusedJoins(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	was := t.write(a, name, "x")
	n := note("n")
	out := t.join(a, name, t.session(a), 0, n)
	if !out.Joined {
		t.Error("a Join whose Swap was refused is not done")
	}
	r := t.load(b, name)
	if len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key || string(r.Inbox[0].Data) != "n" {
		t.Errorf("Load: got notes %v, want %v", keys(r.Inbox), n.Key)
	}
	if !has(r, "x") || r.Version != was.Version {
		t.Errorf("Load: got %s, want %s", describe(r), describe(was))
	}
}

func lostJoins(t *trial) {
	a, name := t.open(), fresh()
	was := t.write(a, name, "x")
	n := note("n")
	s := t.joining(name, t.session(a), 0, n)
	s.Lost = true
	if out := t.swap(a, s); out.Done || !out.Joined {
		t.Errorf("a Join of a Swap that was refused before: got %+v", out)
	}
	if r := t.load(a, name); len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key || !has(r, "x") || r.Version != was.Version {
		t.Errorf("Load: got %s, notes %v", describe(r), keys(r.Inbox))
	}
}

func doneDoesNotJoin(t *trial) {
	a, name := t.open(), fresh()
	s := t.joining(name, t.session(a), 0, note("n"))
	s.Old, s.Data = t.write(a, name, "x"), []byte("done")
	if out := t.swap(a, s); !out.Done || out.Joined {
		t.Errorf("a Swap with a Join, on the newest version: got %+v", out)
	}
	if r := t.load(a, name); len(r.Inbox) > 0 {
		t.Errorf("Load: got %s, although the Swap was done", describe(r))
	}
	// The first join of a name, too.
	first := t.joining(fresh(), t.session(a), 0, note("n"))
	if out := t.swap(a, first); !out.Done || out.Joined {
		t.Errorf("the first Swap of a name, with a Join: got %+v", out)
	}
	if r := t.load(a, first.Name); len(r.Inbox) > 0 {
		t.Errorf("Load: got %s, although the Swap was done", describe(r))
	}
}

func largestJoin(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	var notes []record.Note
	for i := range record.MaxNotes {
		notes = append(notes, note(strings.Repeat("n", record.MaxNote-2)+strconv.Itoa(10+i)))
	}
	t.joined(a, name, t.session(a), notes...)
	r := t.load(b, name)
	if !slices.Equal(keys(r.Inbox), keys(notes)) {
		t.Fatalf("Load: got %d notes %v, want %v", len(r.Inbox), keys(r.Inbox), keys(notes))
	}
	for i, n := range r.Inbox {
		if string(n.Data) != string(notes[i].Data) {
			t.Errorf("note %d has other data", i)
		}
	}
}

func joinChangesNoVersion(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	was := t.write(a, name, "x")
	id := t.session(b)
	for range 3 {
		t.joined(b, name, id, note("n"))
		if r := t.load(a, name); r.Version != was.Version {
			t.Fatalf("a Join created version %q after %q", r.Version, was.Version)
		}
	}
}

func joinDisturbsNoSwap(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	old := t.write(a, name, "x")
	n := note("n")
	t.joined(b, name, t.session(b), n)
	if out := t.swap(a, record.Swap{Name: name, Old: old, Data: []byte("y")}); !out.Done {
		t.Error("a Swap is refused because of a Join")
	}
	if r := t.load(b, name); !has(r, "y") || len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key {
		t.Errorf("Load: got %s, want %q and the note", describe(r), "y")
	}
}

func joinTellsInbox(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	first, second := note("1"), note("2")
	t.joined(b, name, t.session(b), first)
	out := t.join(a, name, t.session(a), 0, second)
	if want := []string{first.Key, second.Key}; out.Inbox && !slices.Equal(keys(out.Now.Inbox), want) {
		t.Errorf("a Join returns notes %v, want %v", keys(out.Now.Inbox), want)
	}
	if out.Current && (!has(out.Now, "x") || out.Now.Version != t.load(b, name).Version) {
		t.Errorf("a Join returns %s", describe(out.Now))
	}
}

// Some processes write and take in the notes, others join: each note is taken in once, in the order of the joins of
// its process.
func joinsBesideSwaps(t *trial) {
	name := fresh()
	t.write(t.open(), name, ".")
	const writers, joiners, each = 2, 4, 20
	var writing, joining sync.WaitGroup
	stop := make(chan struct{})
	for range writers {
		b := t.open()
		writing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := takeIn(t.ctx, b, name); err != nil {
					t.Errorf("take in, while others join: %v", err)
					return
				}
			}
		})
	}
	all := make([][]string, joiners)
	for i := range joiners {
		b := t.open()
		id := t.session(b)
		joining.Go(func() {
			for range each {
				n := note("n")
				s := t.joining(name, id, 0, n)
				out, err := b.Swap(t.ctx, &s)
				if err != nil || !out.Joined {
					t.Errorf("a Join during swaps: got %+v, %v", out, err)
					return
				}
				all[i] = append(all[i], n.Key)
			}
		})
	}
	joining.Wait()
	close(stop)
	writing.Wait()
	b := t.open()
	for len(t.load(b, name).Inbox) > 0 {
		if err := takeIn(t.ctx, b, name); err != nil {
			t.Fatal(err)
		}
	}
	taken := strings.Split(strings.Trim(string(t.load(b, name).Data), "."), ".")
	for i, one := range all {
		var in []string
		for _, key := range taken {
			if slices.Contains(one, key) {
				in = append(in, key)
			}
		}
		if !slices.Equal(in, one) {
			t.Errorf("joiner %d: notes %v were taken in, want %v", i, in, one)
		}
	}
	if len(taken) != joiners*each {
		t.Errorf("%d notes were taken in, want %d", len(taken), joiners*each)
	}
}

// takeIn appends the keys of the notes in the inbox to the record.
func takeIn(ctx context.Context, b record.Backend, name string) error {
	r, err := b.Load(ctx, name)
	if err != nil || len(r.Inbox) == 0 {
		return err
	}
	_, err = b.Swap(ctx, &record.Swap{Name: name, Old: r, Data: []byte(string(r.Data) + strings.Join(keys(r.Inbox), ".") + ".")})
	return err
}

func noteStays(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	n := note("n")
	t.joined(a, name, t.session(a), n)
	for range 5 { // writers that do not take it in
		t.write(b, name, "y")
		t.join(b, name, t.session(b), 99, note("void"))
	}
	if r := t.load(b, name); len(r.Inbox) == 0 || r.Inbox[0].Key != n.Key {
		t.Errorf("Load: got notes %v, want %v first, which no swap has taken in", keys(r.Inbox), n.Key)
	}
}

func notesOfName(t *trial) {
	a, base := t.open(), fresh()
	names := []string{base, base + "/", base + ".", base + "/x", base + "\x00", base + "x"}
	id := t.session(a)
	for _, name := range names {
		t.write(a, name, "x")
	}
	for _, name := range names {
		t.joined(a, name, id, note(name))
	}
	r := t.load(a, base)
	if out := t.swap(a, record.Swap{Name: base, Old: r, Data: []byte("y")}); !out.Done {
		t.Fatal("a Swap on the newest version is refused")
	}
	for i, name := range names {
		r := t.load(a, name)
		if want := min(i, 1); len(r.Inbox) != want || want == 1 && string(r.Inbox[0].Data) != name {
			t.Errorf("Load of %q: got %d notes, want %d", name, len(r.Inbox), want)
		}
	}
}

func joinOnIdle(t *trial) {
	a, name := t.open(), fresh()
	t.write(a, name, "x")
	old, _ := t.idle(a, name)
	n := note("n")
	t.joined(a, name, t.session(a), n)
	r := t.load(a, name)
	if len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key || r.Version != old.Version {
		t.Errorf("Load: got %s, want the note, and version %q", describe(r), old.Version)
	}
}

func joinOfNothing(t *trial) {
	a, name := t.open(), fresh()
	t.write(a, name, "x")
	t.notJoined(a, name, newSession(), 0, "no session")
}

func endTakesOwnNotes(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	ends, lives := t.session(a), t.session(b)
	stays := note("stays")
	t.joined(a, name, ends, note("goes"))
	t.joined(b, name, lives, stays)
	t.end(a, ends)
	r := t.load(b, name)
	if len(r.Inbox) == 0 || r.Inbox[len(r.Inbox)-1].Key != stays.Key {
		t.Errorf("Load: got notes %v, want %v, whose session goes on", keys(r.Inbox), stays.Key)
	}
	if out := t.swap(b, record.Swap{Name: name, Old: r, Data: []byte("y")}); !out.Done {
		t.Error("a Swap on the newest version is refused")
	}
}

func joinOfAny(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	ended := t.session(a)
	t.end(a, ended)
	called := t.session(a)
	t.called(b, called)
	var want []string
	for _, id := range []session.ID{ended, called, newSession()} {
		n := note("n")
		want = append(want, n.Key)
		t.joined(a, name, id, n)
	}
	if r := t.load(b, name); !slices.Equal(keys(r.Inbox), want) {
		t.Errorf("Load: got notes %v, want %v", keys(r.Inbox), want)
	}
}

func joinTwice(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id, n, other := t.session(a), note("n"), note("other")
	t.joined(a, name, id, n)
	t.joined(b, name, t.session(b), other)
	t.joined(a, name, id, n) // it is there
	r := t.load(b, name)
	if !slices.Contains(keys(r.Inbox), n.Key) || !slices.Contains(keys(r.Inbox), other.Key) {
		t.Errorf("Load: got notes %v, want %v and %v", keys(r.Inbox), n.Key, other.Key)
	}
	if out := t.swap(b, record.Swap{Name: name, Old: r, Data: []byte("y")}); !out.Done {
		t.Error("a Swap on the newest version is refused")
	}
	if r := t.load(b, name); len(r.Inbox) > 0 {
		t.Errorf("Load: got notes %v, which were taken in", keys(r.Inbox))
	}
}
