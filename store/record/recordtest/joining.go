package recordtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

var joinPromises = []promise{
	{name: "a refused swap joins", run: refusedJoins},
	{name: "a swap that was refused before joins", run: lostJoins},
	{name: "a done swap does not join", run: doneDoesNotJoin},
	{name: "the largest join is done as a whole and in order", run: largestJoin},
	{name: "a join changes no version", run: joinChangesNoVersion},
	{name: "a join disturbs no swap under way", run: joinDisturbsNoSwap},
	{name: "a join tells the inbox", run: joinTellsInbox},
	{name: "joins never fail beside many swaps", run: joinsBesideSwaps},
	{name: "a note stays until it is taken in", run: noteStays},
	{name: "notes of one name are no other's", run: notesOfName},
	{name: "a join on an idle record is done", run: joinOnIdle},
}

var voidPromises = []promise{
	{name: "a join with an older count of calls is not done", run: joinOfCalled, void: record.VoidByCall},
	{name: "a join with the present count of calls is done", run: joinOfPresentCalls, void: record.VoidByCall},
	{name: "a join with a count of calls to come is not done", run: joinOfCallsToCome, void: record.VoidByCall},
	{name: "a call of another session voids no join", run: callOfOther, void: record.VoidByCall},
	{name: "a join of an ended session is not done", run: joinOfEnded, void: record.VoidByCall},
	{name: "a join of a lapsed session is not done", run: joinOfLapsed, void: record.VoidByCall},
	{name: "a join of no session is not done", run: joinOfNothing, void: record.VoidByCall},
	{name: "a call after a join leaves its note", run: callLeavesNote, void: record.VoidByCall},
	{name: "a join is void once a call is answered", run: callVoids, void: record.VoidByCall},
	{name: "the end of a session takes no other's notes", run: endTakesOwnNotes},
	{name: "a join is done whatever its session", run: joinOfAny, void: record.VoidByMark},
	{name: "a join that comes twice is no error", run: joinTwice},
}

var lateJoinPromises = []promise{
	{name: "a join held on its way is void after a call", run: joinHeldCalled, void: record.VoidByCall, linked: true},
	{name: "a join held on its way is void after the end", run: joinHeldEnded, void: record.VoidByCall, linked: true},
	{name: "a swap held on its way joins at most once", run: joinHeld, linked: true},
	{name: "a join whose reply is lost is done", run: joinMuted, linked: true},
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
		t.Errorf("Load: notes %v, want %v", keys(r.Inbox), n.Key)
	}
	if !has(r, "x") || r.Version != was.Version {
		t.Errorf("Load: %s, want %s", describe(r), describe(was))
	}
}

func lostJoins(t *trial) {
	a, name := t.open(), fresh()
	was := t.write(a, name, "x")
	n := note("n")
	s := t.joining(name, t.session(a), 0, n)
	s.Lost = true
	if out := t.swap(a, s); out.Done || !out.Joined {
		t.Errorf("a Join of a Swap that was refused before: %+v", out)
	}
	if r := t.load(a, name); len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key || !has(r, "x") || r.Version != was.Version {
		t.Errorf("Load: %s, notes %v", describe(r), keys(r.Inbox))
	}
}

func doneDoesNotJoin(t *trial) {
	a, name := t.open(), fresh()
	s := t.joining(name, t.session(a), 0, note("n"))
	s.Old, s.Data = t.write(a, name, "x"), []byte("done")
	if out := t.swap(a, s); !out.Done || out.Joined {
		t.Errorf("a Swap with a Join, on what is there: %+v", out)
	}
	if r := t.load(a, name); len(r.Inbox) > 0 {
		t.Errorf("Load: %s, though the Swap was done", describe(r))
	}
	// The first of a name, too.
	first := t.joining(fresh(), t.session(a), 0, note("n"))
	if out := t.swap(a, first); !out.Done || out.Joined {
		t.Errorf("the first Swap of a name, with a Join: %+v", out)
	}
	if r := t.load(a, first.Name); len(r.Inbox) > 0 {
		t.Errorf("Load: %s, though the Swap was done", describe(r))
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
		t.Fatalf("Load: %d notes %v, want %v", len(r.Inbox), keys(r.Inbox), keys(notes))
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
			t.Fatalf("a Join has made version %q of %q", r.Version, was.Version)
		}
	}
}

func joinDisturbsNoSwap(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	old := t.write(a, name, "x")
	n := note("n")
	t.joined(b, name, t.session(b), n)
	if out := t.swap(a, record.Swap{Name: name, Old: old, Data: []byte("y")}); !out.Done {
		t.Error("a Swap is refused, as somebody has joined")
	}
	if r := t.load(b, name); !has(r, "y") || len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key {
		t.Errorf("Load: %s, want %q and the note", describe(r), "y")
	}
}

func joinTellsInbox(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	first, second := note("1"), note("2")
	t.joined(b, name, t.session(b), first)
	out := t.join(a, name, t.session(a), 0, second)
	if want := []string{first.Key, second.Key}; out.Inbox && !slices.Equal(keys(out.Now.Inbox), want) {
		t.Errorf("a Join tells notes %v, want %v", keys(out.Now.Inbox), want)
	}
	if out.Told && (!has(out.Now, "x") || out.Now.Version != t.load(b, name).Version) {
		t.Errorf("a Join tells %s", describe(out.Now))
	}
}

// Some write, taking in what is there, others join: each note is taken in once, and in the order of
// those who left it.
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
					t.Errorf("beside others: %v", err)
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
					t.Errorf("a Join beside swaps: %+v, %v", out, err)
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
			t.Errorf("of joiner %d notes %v were taken in, want %v", i, in, one)
		}
	}
	if len(taken) != joiners*each {
		t.Errorf("%d notes were taken in, want %d", len(taken), joiners*each)
	}
}

// takeIn writes the keys of the notes that are there behind what is there.
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
	for range 5 { // whoever does not take it in
		t.write(b, name, "y")
		t.join(b, name, t.session(b), 99, note("void"))
	}
	if r := t.load(b, name); len(r.Inbox) == 0 || r.Inbox[0].Key != n.Key {
		t.Errorf("Load: notes %v, want %v first, which nobody has taken in", keys(r.Inbox), n.Key)
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
		t.Fatal("a Swap on what is there is refused")
	}
	for i, name := range names {
		r := t.load(a, name)
		if want := min(i, 1); len(r.Inbox) != want || want == 1 && string(r.Inbox[0].Data) != name {
			t.Errorf("Load of %q: %d notes, want %d", name, len(r.Inbox), want)
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
		t.Errorf("Load: %s, want the note, and version %q", describe(r), old.Version)
	}
}

// notJoined has a join that must not be done.
func (t *trial) notJoined(b record.Backend, name string, id session.ID, calls int64, why string) {
	t.Helper()
	if t.join(b, name, id, calls, note("void")).Joined {
		t.Errorf("a Join of %s is done", why)
	}
	if r := t.load(b, name); len(r.Inbox) > 0 {
		t.Errorf("a Join of %s has left notes %v", why, keys(r.Inbox))
	}
}

func joinOfCalled(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	for calls := range int64(3) {
		t.called(b, id)
		for before := range calls + 1 {
			t.notJoined(a, name, id, before, "a session that was called since")
		}
	}
}

// called calls a session.
func (t *trial) called(b record.Backend, id session.ID) {
	t.Helper()
	if err := b.Call(t.ctx, id); err != nil {
		t.Fatalf("Call: %v", err)
	}
}

func joinOfPresentCalls(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	for calls := range int64(3) {
		if got := t.renew(a, id); got != calls {
			t.Fatalf("Renew: %d calls, want %d", got, calls)
		}
		if !t.join(a, name, id, calls, note("n")).Joined {
			t.Errorf("a Join of a session that was called %d times, with that count, is not done", calls)
		}
		t.called(b, id)
	}
	if r := t.load(b, name); len(r.Inbox) != 3 {
		t.Errorf("Load: %d notes, want 3", len(r.Inbox))
	}
}

func joinOfCallsToCome(t *trial) {
	a, name := t.open(), fresh()
	t.write(a, name, "x")
	t.notJoined(a, name, t.session(a), 1, "a session that was not called so often")
}

func callOfOther(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	t.called(b, t.session(a))
	t.called(a, t.session(b))
	t.joined(a, name, id, note("n"))
}

func joinOfEnded(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	t.end(a, id)
	t.notJoined(a, name, id, 0, "a session that has ended")
	t.notJoined(b, name, id, 0, "a session that has ended")
}

func joinOfLapsed(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.begin(a, 0)
	t.lapsed(b, id, t.sessions.MinTTL)
	t.notJoined(a, name, id, 0, "a session that has lapsed")
}

func joinOfNothing(t *trial) {
	a, name := t.open(), fresh()
	t.write(a, name, "x")
	t.notJoined(a, name, newSession(), 0, "no session")
}

func callLeavesNote(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	n := note("n")
	t.joined(a, name, id, n)
	t.called(b, id)
	if r := t.load(b, name); len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key {
		t.Errorf("Load: notes %v, want %v, which was done before the Call", keys(r.Inbox), n.Key)
	}
}

// Joins and a call at once: what the inbox is after the call was answered it stays.
func callVoids(t *trial) {
	a, b, c, name := t.open(), t.open(), t.open(), fresh()
	t.write(a, name, "x")
	for range 10 {
		id := t.session(a)
		var joining sync.WaitGroup
		begin := make(chan struct{})
		for range 8 {
			joining.Go(func() {
				<-begin
				s := t.joining(name, id, 0, note("n"))
				if _, err := a.Swap(t.ctx, &s); err != nil {
					t.Errorf("Swap beside a Call: %v", err)
				}
			})
		}
		close(begin)
		t.called(b, id)
		r := t.load(c, name)
		joining.Wait()
		if after := t.load(c, name); !slices.Equal(keys(after.Inbox), keys(r.Inbox)) {
			t.Fatalf("%d notes were there after the Call was answered, and %d later", len(r.Inbox), len(after.Inbox))
		}
		if out := t.swap(c, record.Swap{Name: name, Old: r, Data: []byte("x")}); !out.Done {
			t.Fatal("a Swap on what was read is refused")
		}
	}
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
		t.Errorf("Load: notes %v, want %v, whose session goes on", keys(r.Inbox), stays.Key)
	}
	if out := t.swap(b, record.Swap{Name: name, Old: r, Data: []byte("y")}); !out.Done {
		t.Error("a Swap on what is there is refused")
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
		t.Errorf("Load: notes %v, want %v", keys(r.Inbox), want)
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
		t.Errorf("Load: notes %v, want %v and %v", keys(r.Inbox), n.Key, other.Key)
	}
	if out := t.swap(b, record.Swap{Name: name, Old: r, Data: []byte("y")}); !out.Done {
		t.Error("a Swap on what is there is refused")
	}
	if r := t.load(b, name); len(r.Inbox) > 0 {
		t.Errorf("Load: notes %v, which were taken in", keys(r.Inbox))
	}
}

func joinHeldCalled(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	t.write(b, name, "x")
	id := t.session(a)
	t.heldJoin(a, link, name, id)
	t.called(b, id)
	was := t.load(b, name)
	link.Reset()
	link.Deliver()
	t.never("a join is done that was held, and was void", func() bool { return len(t.load(b, name).Inbox) != len(was.Inbox) })
}

func (t *trial) heldJoin(a record.Backend, link storetest.Link, name string, id session.ID) {
	t.Helper()
	link.HoldAfter(0)
	t.unanswered(link, func(ctx context.Context) error {
		s := t.joining(name, id, 0, note("n"))
		_, err := a.Swap(ctx, &s)
		return err
	})
}

func joinHeldEnded(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	t.write(b, name, "x")
	id := t.begin(a, time.Second)
	t.heldJoin(a, link, name, id)
	t.lapsed(b, id, time.Second)
	link.Reset()
	link.Deliver()
	t.never("a join is done that was held until its session had ended", func() bool { return len(t.load(b, name).Inbox) > 0 })
}

func joinHeld(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	t.write(b, name, "x")
	t.heldJoin(a, link, name, t.session(a))
	link.Reset()
	link.Deliver()
	t.never("a join that was held is done twice", func() bool { return len(t.load(b, name).Inbox) > 1 })
	if r := t.load(b, name); !has(r, "x") {
		t.Errorf("Load: %s, want %q", describe(r), "x")
	}
}

// One request is answered after another: the join is done by the time that an answer was lost
// where it is of the same request, or not sent.
func joinMuted(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	t.write(b, name, "x")
	id := t.session(a)
	link.MuteAfter(0)
	t.unanswered(link, func(ctx context.Context) error {
		s := t.joining(name, id, 0, note("n"))
		_, err := a.Swap(ctx, &s)
		return err
	})
	link.Reset()
	link.Deliver()
	// It may have been on its way until now.
	joined := 0
	t.never("a join that was not answered comes twice, goes, or changes the record", func() bool {
		r, was := t.load(b, name), joined
		joined = len(r.Inbox)
		return !has(r, "x") || joined > 1 || joined < was
	})
}
