package recordtest

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/store/record"
)

var swapPromises = []promise{
	{name: "a swap on what is there is done", run: swapDone},
	{name: "a swap on no version is done only where nothing is", run: swapOnNothing},
	{name: "a swap on an older version is refused", run: swapOnOlder},
	{name: "a swap on the version of another record is refused", run: swapOnOther},
	{name: "a refused swap changes nothing", run: refusedChangesNothing},
	{name: "of many swaps on one version one is done", run: oneOfMany},
	{name: "of many first swaps of a name one is done", run: oneOfFirst},
	{name: "no swap is lost among many", run: noneLost},
	{name: "each swap makes a new version", run: newVersion},
	{name: "a version is never used again", run: versionsOnce},
	{name: "a swap on a version is refused though the data is the same", run: sameDataRefused},
	{name: "a swap takes in the notes of its inbox and no other", run: takesInThose},
	{name: "a swap whose notes were taken in is refused", run: takenInRefused},
	{name: "a swap with one note too many takes in none", run: takesInAllOrNone},
	{name: "a done swap returns its version", run: doneTells},
	{name: "a done swap returns the inbox as it is", run: doneTellsInbox},
	{name: "a refused swap returns what is there", run: refusedTells},
	{name: "a swap that was done is refused when it comes again", run: swapTwice},
	{name: "a swap that comes late is refused", run: swapLate},
	{name: "a first swap that comes late is refused", run: firstSwapLate},
	{name: "a swap held on its way is never done after another", run: swapHeld, linked: true},
	{name: "a swap held on its way is done if no other was", run: swapHeldDone, linked: true},
	{name: "a swap whose reply is lost is done once", run: swapMuted, linked: true},
	{name: "the largest record is written", run: largest},
}

func swapDone(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	for i, data := range []string{"one", "two", "three"} {
		from := []record.Backend{a, b}[i%2]
		if out := t.swap(from, record.Swap{Name: name, Old: t.load(from, name), Data: []byte(data)}); !out.Done {
			t.Fatalf("a Swap on the newest version is refused")
		}
		if r := t.load(a, name); !has(r, data) {
			t.Errorf("Load: got %s, want %q", describe(r), data)
		}
	}
}

func swapOnNothing(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	if out := t.swap(a, record.Swap{Name: name, Data: []byte("one")}); !out.Done {
		t.Fatal("a Swap on no version is refused, although there is no record")
	}
	for _, from := range []record.Backend{a, b} {
		if out := t.swap(from, record.Swap{Name: name, Data: []byte("two")}); out.Done {
			t.Error("a Swap on no version is done, although there is a record")
		}
	}
	if r := t.load(b, name); !has(r, "one") {
		t.Errorf("Load: got %s, want the first", describe(r))
	}
}

func swapOnOlder(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	var olds []record.Record
	for i := range 4 {
		olds = append(olds, t.write(a, name, strconv.Itoa(i)))
	}
	for _, old := range olds[:3] {
		for _, from := range []record.Backend{a, b} {
			if out := t.swap(from, record.Swap{Name: name, Old: old, Data: []byte("late")}); out.Done {
				t.Errorf("a Swap on version %q is done, although the newest is %q", old.Version, olds[3].Version)
			}
		}
	}
	if r := t.load(b, name); !has(r, "3") || r.Version != olds[3].Version {
		t.Errorf("Load: got %s, want the newest", describe(r))
	}
}

// The version is that of another name, as after the server was set back.
func swapOnOther(t *trial) {
	a, name, other := t.open(), fresh(), fresh()
	here := t.write(a, name, "here")
	var there record.Record
	for i := range 5 {
		there = t.write(a, other, strconv.Itoa(i))
	}
	if there.Version == here.Version {
		return // versions are counted per name
	}
	if out := t.swap(a, record.Swap{Name: name, Old: there, Data: []byte("x")}); out.Done {
		t.Errorf("a Swap on version %q is done, although the newest is %q", there.Version, here.Version)
	}
	if out := t.swap(a, record.Swap{Name: fresh(), Old: there, Data: []byte("x")}); out.Done {
		t.Errorf("a Swap on version %q is done, although there is no record", there.Version)
	}
}

func refusedChangesNothing(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	old := t.write(a, name, "old")
	t.write(a, name, "new")
	n := note("n")
	t.joined(a, name, t.session(a), n)
	before := t.load(b, name)
	old.Inbox = before.Inbox
	if out := t.swap(a, record.Swap{Name: name, Old: old, Data: []byte("refused"), Idle: true}); out.Done || out.Joined {
		t.Errorf("a Swap on an older version, without a Join: got %+v", out)
	}
	after := t.load(b, name)
	if after.Version != before.Version || !has(after, "new") || len(after.Inbox) != 1 || after.Inbox[0].Version != before.Inbox[0].Version {
		t.Errorf("Load: got %s, want %s as before", describe(after), describe(before))
	}
}

// race runs many swaps at once, and returns those that were done.
func (t *trial) race(name string, old record.Record) (done []string) {
	t.Helper()
	const each = 8
	var mu sync.Mutex
	var racing sync.WaitGroup
	begin := make(chan struct{})
	for i := range 3 {
		b := t.open()
		for j := range each {
			racing.Go(func() {
				<-begin
				data := fmt.Sprint("racer ", i*each+j)
				out, err := b.Swap(t.ctx, &record.Swap{Name: name, Old: old, Data: []byte(data)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("Swap, one of many at the same time: %v", err)
				}
				if out.Done {
					done = append(done, data)
				}
			})
		}
	}
	close(begin)
	racing.Wait()
	return done
}

func oneOfMany(t *trial) {
	a, name := t.open(), fresh()
	for range 5 {
		old := t.write(a, name, "before")
		done := t.race(name, old)
		if len(done) > 1 {
			t.Fatalf("%d Swaps on one version are done, want at most one", len(done))
		}
		want := append(done, "before")[0]
		if r := t.load(a, name); !has(r, want) {
			t.Errorf("Load: got %s, want %q, which was done", describe(r), want)
		}
	}
}

func oneOfFirst(t *trial) {
	a := t.open()
	for range 5 {
		name := fresh()
		done := t.race(name, t.load(a, name))
		if len(done) > 1 {
			t.Fatalf("%d first Swaps of a name are done, want at most one", len(done))
		}
		r := t.load(a, name)
		if len(done) == 1 && !has(r, done[0]) || len(done) == 0 && len(r.Data) > 0 {
			t.Errorf("Load: got %s, but done: %v", describe(r), done)
		}
	}
}

// Several processes count up, each from the value that it has read or that an answer had.
func noneLost(t *trial) {
	name := fresh()
	t.write(t.open(), name, "0")
	const each, processes = 15, 4
	var counting sync.WaitGroup
	var lost atomic.Int64
	for range processes {
		b := t.open()
		counting.Go(func() {
			for done := 0; done < each; {
				r, err := b.Load(t.ctx, name)
				if err != nil {
					t.Errorf("Load, while others write: %v", err)
					return
				}
				n, err := strconv.Atoi(string(r.Data))
				if err != nil {
					t.Errorf("Load: %v", err)
					return
				}
				out, err := b.Swap(t.ctx, &record.Swap{Name: name, Old: r, Data: []byte(strconv.Itoa(n + 1))})
				switch {
				case err != nil:
					t.Errorf("Swap, while others write: %v", err)
					return
				case out.Done:
					done++
				default:
					lost.Add(1)
				}
			}
		})
	}
	counting.Wait()
	if r := t.load(t.open(), name); !t.Failed() && !has(r, strconv.Itoa(each*processes)) {
		t.Errorf("got the count %s, want %d: a Swap was done on an older version (%d were refused)", r.Data, each*processes, lost.Load())
	}
}

func newVersion(t *trial) {
	a, name := t.open(), fresh()
	seen := map[string]bool{"": true}
	for range 5 {
		if r := t.write(a, name, "same"); seen[r.Version] {
			t.Errorf("a Swap with the same data created version %q again", r.Version)
		} else {
			seen[r.Version] = true
		}
	}
}

func versionsOnce(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	seen := map[string]string{}
	for i := range 20 {
		from := []record.Backend{a, b}[i%2]
		r := t.write(from, name, []string{"a", "bb", "a"}[i%3])
		if was, used := seen[r.Version]; used {
			t.Fatalf("version %q was created twice, %s", r.Version, was)
		}
		seen[r.Version] = fmt.Sprintf("by write %d, and by write %d", i, i+1)
	}
}

func sameDataRefused(t *trial) {
	a, name := t.open(), fresh()
	old := t.write(a, name, "a")
	t.write(a, name, "b")
	t.write(a, name, "a")
	if out := t.swap(a, record.Swap{Name: name, Old: old, Data: []byte("c")}); out.Done {
		t.Error("a Swap is done on an older version with the same data")
	}
}

func takesInThose(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	first, second, third := note("1"), note("2"), note("3")
	t.joined(a, name, id, first, second)
	old := t.load(b, name)
	t.joined(a, name, id, third)
	if out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("y")}); !out.Done {
		t.Fatal("a Swap is refused because of a new note")
	}
	if r := t.load(a, name); len(r.Inbox) != 1 || r.Inbox[0].Key != third.Key {
		t.Errorf("Load: got notes %v, want %v, which came later", keys(r.Inbox), third.Key)
	}
	// A swap on the remaining notes, too, removes only what Load returned.
	old = t.load(b, name)
	t.joined(a, name, id, note("4"))
	if out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("z")}); !out.Done {
		t.Fatal("a Swap is refused because of a new note")
	}
	if r := t.load(a, name); len(r.Inbox) != 1 || string(r.Inbox[0].Data) != "4" {
		t.Errorf("Load: got notes %v, want the last", keys(r.Inbox))
	}
}

func takenInRefused(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	t.joined(a, name, t.session(a), note("n"))
	old := t.load(b, name)
	t.swap(a, record.Swap{Name: name, Old: old, Data: []byte("y")})
	// A process has read the inbox before, and the record after: the notes are deleted.
	now := t.load(b, name)
	if len(now.Inbox) > 0 {
		t.Fatalf("Load: got notes %v, which were taken in", keys(now.Inbox))
	}
	now.Inbox = old.Inbox
	if out := t.swap(b, record.Swap{Name: name, Old: now, Data: []byte("z")}); out.Done {
		t.Error("a Swap is done that takes in a note a second time")
	}
	if r := t.load(a, name); !has(r, "y") {
		t.Errorf("Load: got %s, want %q", describe(r), "y")
	}
}

func takesInAllOrNone(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	gone, stays := note("gone"), note("stays")
	t.joined(a, name, id, gone)
	old := t.load(a, name)
	t.swap(a, record.Swap{Name: name, Old: old, Data: []byte("y")})
	t.joined(a, name, id, stays)
	now := t.load(b, name)
	now.Inbox = append(now.Inbox, old.Inbox...)
	if out := t.swap(b, record.Swap{Name: name, Old: now, Data: []byte("z")}); out.Done {
		t.Error("a Swap is done, although one of its notes does not exist")
	}
	if r := t.load(a, name); !has(r, "y") || len(r.Inbox) != 1 || r.Inbox[0].Key != stays.Key {
		t.Errorf("Load: got %s, want it as before", describe(r))
	}
}

func doneTells(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	old := t.load(a, name)
	for i := range 5 {
		out := t.swap(a, record.Swap{Name: name, Old: old, Data: []byte(strconv.Itoa(i))})
		if !out.Done {
			t.Fatalf("Swap %d on what the one before returned is refused", i)
		}
		if !out.Current {
			out.Now = t.load(a, name)
		}
		if r := t.load(b, name); r.Version != out.Now.Version || !has(r, strconv.Itoa(i)) {
			t.Errorf("a done Swap returns version %q, Load %s", out.Now.Version, describe(r))
		}
		old = record.Record{Version: out.Now.Version}
	}
}

func doneTellsInbox(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(b)
	first, second := note("1"), note("2")
	t.joined(b, name, id, first)
	old := t.load(a, name)
	t.joined(b, name, id, second)
	out := t.swap(a, record.Swap{Name: name, Old: old, Data: []byte("y")})
	if !out.Done {
		t.Fatal("a Swap is refused because of a new note")
	}
	if got := keys(out.Now.Inbox); out.Inbox && (len(got) != 1 || got[0] != second.Key) {
		t.Errorf("a done Swap returns notes %v, want %v", got, second.Key)
	}
	if out.Inbox && out.Current { // it serves as Old
		if out := t.swap(a, record.Swap{Name: name, Old: out.Now, Data: []byte("z")}); !out.Done {
			t.Error("a Swap on what a done one returned is refused")
		}
		if r := t.load(b, name); len(r.Inbox) > 0 {
			t.Errorf("Load: got notes %v, which were taken in", keys(r.Inbox))
		}
	}
}

func refusedTells(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	old := t.write(a, name, "old")
	t.write(a, name, "new")
	n := note("n")
	t.joined(a, name, t.session(a), n)
	out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("refused")})
	if out.Done {
		t.Fatal("a Swap on an older version is done")
	}
	if !out.Current {
		return
	}
	if r := t.load(a, name); out.Now.Version != r.Version || !has(out.Now, "new") || len(out.Now.Inbox) != 1 || out.Now.Inbox[0].Key != n.Key || (out.Now.Now > 0) != (r.Now > 0) {
		t.Errorf("a refused Swap returns %s, Load %s", describe(out.Now), describe(r))
	}
	if out := t.swap(b, record.Swap{Name: name, Old: out.Now, Data: []byte("newer")}); !out.Done {
		t.Error("a Swap on what a refused one returned is refused")
	}
}

func swapTwice(t *trial) {
	a, name := t.open(), fresh()
	s := record.Swap{Name: name, Old: t.write(a, name, "old"), Data: []byte("new")}
	if out := t.swap(a, s); !out.Done {
		t.Fatal("a Swap on the newest version is refused")
	}
	was := t.load(a, name)
	if out := t.swap(a, s); out.Done {
		t.Error("a repeated Swap is done a second time")
	}
	if r := t.load(a, name); r.Version != was.Version {
		t.Errorf("Load: got version %q, want %q as before", r.Version, was.Version)
	}
}

func swapLate(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	late := record.Swap{Name: name, Old: t.write(a, name, "old"), Data: []byte("late")}
	t.write(b, name, "other")
	t.write(b, name, "old")
	if out := t.swap(a, late); out.Done {
		t.Error("a Swap is done after others were")
	}
	if r := t.load(b, name); !has(r, "old") {
		t.Errorf("Load: got %s", describe(r))
	}
}

func firstSwapLate(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	late := record.Swap{Name: name, Old: t.load(a, name), Data: []byte("late")}
	t.write(b, name, "other")
	if out := t.swap(a, late); out.Done {
		t.Error("the first Swap of a name is done after another was")
	}
}

// A request that the connection held arrives after the connection was reset.
func swapHeld(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	old := t.write(a, name, "old")
	link.HoldAfter(0)
	t.unanswered(link, swapping(a, name, old, "late"))
	t.write(b, name, "new")
	link.Reset()
	link.Deliver()
	t.never("a late Swap is done", func() bool { return !has(t.load(b, name), "new") })
}

func swapHeldDone(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	old := t.write(a, name, "old")
	link.HoldAfter(0)
	t.unanswered(link, swapping(a, name, old, "late"))
	if r := t.load(b, name); !has(r, "old") {
		t.Fatalf("Load: got %s, although the Swap was held", describe(r))
	}
	link.Reset()
	link.Deliver()
	// The swap may have been lost with the connection, or come later.
	done := has(t.load(b, name), "late")
	if out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("new")}); out.Done {
		if done {
			t.Error("two Swaps on one version are done")
		}
		t.never("a late Swap is done", func() bool { return !has(t.load(b, name), "new") })
	} else if r := t.load(b, name); !has(r, "late") {
		t.Errorf("Load: got %s, but a Swap on the version before was refused", describe(r))
	}
}

func swapMuted(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	old := t.write(a, name, "old")
	link.MuteAfter(0)
	t.givenUp("the Swap without an answer is done", func() bool { return has(t.load(b, name), "done") }, swapping(a, name, old, "done"))
	link.Reset()
	link.Deliver()
	r := t.load(b, name)
	t.never("the Swap is done again", func() bool { return t.load(b, name).Version != r.Version })
	if out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("again")}); out.Done {
		t.Error("a Swap is done on a version that is no longer the newest")
	}
}

func largest(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	data := make([]byte, t.traits.MaxRecord)
	for i := range data {
		data[i] = byte(i * 7)
	}
	t.write(a, name, string(data))
	if r := t.load(b, name); !has(r, string(data)) {
		t.Errorf("Load: got %d bytes, want %d", len(r.Data), len(data))
	}
}
