package object

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

func load(t *testing.T, b *Backend) record.Record {
	t.Helper()
	r, err := b.Load(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// swap writes the name a, with the notes of old taken in.
func swap(t *testing.T, b *Backend, old record.Record, idle bool) record.Outcome {
	t.Helper()
	out, err := b.Swap(t.Context(), &record.Swap{Name: "a", Old: old, Data: []byte("x"), Idle: idle})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func join(t *testing.T, b *Backend, notes ...string) {
	t.Helper()
	s := &record.Swap{Name: "a", Data: []byte("x"), Lost: true, Join: &record.Join{Session: session.NewID()}}
	for _, n := range notes {
		s.Join.Notes = append(s.Join.Notes, record.Note{Key: n, Data: []byte(n)})
	}
	if out, err := b.Swap(t.Context(), s); err != nil || !out.Joined {
		t.Fatalf("Swap with a Join: got %+v, %v, want it joined", out, err)
	}
}

func notes(r record.Record) string {
	all := ""
	for _, n := range r.Inbox {
		all += n.Key + " "
	}
	return all
}

// The time that a reading tells is no older than that of the last note of it: many take a while to be read.
func TestAReadingHasTheTimeOfItsNotes(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	swap(t, b, record.Record{}, false)
	join(t, b, "one")
	before := load(t, b).Now
	m.meets(func(what, key string, _ []byte) answer {
		if what == "GET" && strings.HasPrefix(key, "locks/j/") {
			m.passes(3 * time.Second)
		}
		return 0
	})
	if now := load(t, b).Now; now-before != (3 * time.Second).Microseconds() {
		t.Errorf("the time of a read is %v after that of the one before, want 3s", time.Duration(now-before)*time.Microsecond)
	}
}

// A note that a record has taken in is in no inbox, whether its object is deleted already or not, and whoever reads at what time.
func TestATakenInNoteIsNeverReadAgain(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	swap(t, a, record.Record{}, false)
	join(t, a, "one", "two")
	join(t, b, "three")
	first := load(t, a)
	if got := notes(first); got != "one two three " {
		t.Fatalf("got notes %s", got)
	}
	m.meets(func(what, key string, _ []byte) answer { // it takes a while to delete them
		if what == "DELETE" {
			<-t.Context().Done()
		}
		return 0
	})
	two := first
	two.Inbox = first.Inbox[:1]
	if !swap(t, a, two, false).Done {
		t.Fatal("a Swap on the newest version was refused")
	}
	if got := notes(load(t, b)); got != "two three " {
		t.Errorf("after one of two notes of a call was taken in: got notes %s", got)
	}
	rest := load(t, b)
	if !swap(t, b, rest, false).Done {
		t.Fatal("a Swap on the newest version was refused")
	}
	if got := notes(load(t, a)); got != "" {
		t.Errorf("after all notes were taken in: got notes %s", got)
	}
	again := load(t, a)
	again.Inbox = rest.Inbox
	if swap(t, a, again, false).Done {
		t.Error("a Swap took in notes a second time")
	}
}

// Who has listed the notes reads the record after they were taken in, deleted, and forgotten by it.
func TestANoteDeletedDuringAReadIsNotTakenInAgain(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	swap(t, a, record.Record{}, false)
	join(t, a, "one")
	m.meets(func(what, key string, _ []byte) answer {
		if what != "GET" || !strings.HasPrefix(key, "locks/n/") {
			return 0
		}
		m.meets(nil) // the reader has listed the notes
		if !swap(t, a, load(t, a), false).Done {
			t.Error("a Swap on the newest version was refused")
		}
		a.Finish() // the note is deleted
		out := swap(t, a, load(t, a), false)
		if !out.Done || strings.Contains(out.Now.Version, "one") {
			t.Errorf("a deleted note is stored as taken in: %+v", out)
		}
		return 0
	})
	if got := notes(load(t, b)); got != "" {
		t.Errorf("got notes %s, which were taken in", got)
	}
}

// What was taken in by a process that has died is deleted by the next who finds it twice and writes, and is forgotten once
// that was answered.
func TestNotesADeadProcessTookInAreDeletedByTheNext(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	swap(t, a, record.Record{}, false)
	join(t, a, "one")
	r := load(t, a)
	a.end() // it deletes nothing any more
	m.meets(func(what, _ string, _ []byte) answer {
		if what == "DELETE" {
			t.Error("a dead process sent a DELETE")
		}
		return 0
	})
	a.server = dead{m}
	if !swap(t, a, r, false).Done {
		t.Fatal("a Swap on the newest version was refused")
	}
	a.Finish()
	m.meets(nil)
	for range 2 {
		swap(t, b, load(t, b), false)
		b.Finish()
	}
	if all := m.keys(); !slices.Equal(all, []string{"n/a.lock"}) {
		t.Errorf("got keys %q", all)
	}
	if out := swap(t, b, load(t, b), false); strings.Contains(out.Now.Version, "one") {
		t.Errorf("a deleted note is stored as taken in: %q", out.Now.Version)
	}
}

// Only the process that took in a note deletes it. Others forget it once a listing lacks it that began after they had
// read that it was taken in.
func TestATakenInNoteIsDeletedOnce(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	swap(t, a, record.Record{}, false)
	join(t, a, "one")
	deletes := atomic.Int32{}
	m.meets(func(what, key string, _ []byte) answer {
		if what == "DELETE" && strings.Contains(key, "one") {
			deletes.Add(1)
		}
		return 0
	})
	if !swap(t, a, load(t, a), false).Done {
		t.Fatal("a Swap on the newest version was refused")
	}
	a.Finish()
	out := swap(t, b, load(t, b), false)
	if !strings.Contains(out.Now.Version, "one") {
		t.Errorf("a note that was not known to be deleted is forgotten: %q", out.Now.Version)
	}
	out = swap(t, b, load(t, b), false)
	b.Finish()
	if n := deletes.Load(); n != 1 || strings.Contains(out.Now.Version, "one") {
		t.Errorf("got %d deletes, and the version %q; want 1, and no note in it", n, out.Now.Version)
	}
}

// The same by the first note of the inbox, which a release reads if it knows the record.
func TestANoteIsForgottenIfTheInboxIsEmpty(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	swap(t, a, record.Record{}, false)
	join(t, a, "one")
	swap(t, a, load(t, a), false)
	a.Finish()
	r, err := b.Peek(t.Context(), "a")
	if err != nil || !strings.Contains(r.Version, "one") {
		t.Fatalf("Peek: got %+v, %v, want a version that has the note", r, err)
	}
	if n, err := b.Oldest(t.Context(), "a"); err != nil || len(n.Data) > 0 {
		t.Fatalf("Oldest: got %+v, %v", n, err)
	}
	if out := swap(t, b, r, false); !out.Done || strings.Contains(out.Now.Version, "one") {
		t.Errorf("a deleted note is stored as taken in: %+v", out)
	}
}

// A dead process deletes nothing.
type dead struct{ *memory }

func (dead) Delete(_ context.Context, _, _ string) error { return errLost }

func TestNotesAreInTheOrderInWhichTheyCame(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	swap(t, b, record.Record{}, false)
	want := ""
	for i := range 30 {
		key := fmt.Sprintf("%c%d", 'z'-i%26, i)
		join(t, b, key)
		want += key + " "
	}
	if got := notes(load(t, b)); got != want {
		t.Errorf("got notes %s, want %s", got, want)
	}
}

// What crashes have left is swept once it is old, and nothing else; an idle name where that is one step.
func TestTheSweepDeletesWhatIsOld(t *testing.T) {
	for _, atomic := range []bool{true, false} {
		m := newMemory()
		b := New(m, "memory", "locks/")
		b.Atomic = func(string) bool { return atomic }
		t.Cleanup(func() { b.Close() })
		lives, over, called := begin(t, b, 1000*time.Hour), begin(t, b, MinTTL), begin(t, b, MinTTL)
		for _, id := range []session.ID{lives, called} {
			if err := b.Call(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		m.Delete(t.Context(), b.sessionKey(called), "")
		for _, key := range []string{"j/x.lock!0000000001-a", "t/X", "other/x", "s/x"} {
			m.Put(t.Context(), b.Prefix+key, []byte("{}"), "")
		}
		swap(t, b, record.Record{}, true) // idle
		sweep := func() {
			for r, err := range b.List(t.Context(), time.Second) {
				if err != nil {
					t.Errorf("%q: %v", r.Name, err)
				}
			}
			b.Finish()
		}
		m.passes(b.Retention)
		b.Finish()
		before := m.keys()
		sweep()
		if after := m.keys(); !slices.Equal(after, before) {
			t.Errorf("the sweep deleted keys that are not old: got %q, before %q", after, before)
		}
		m.passes(3 * time.Second)
		sweep()
		want := []string{"c/" + lives.String(), "n/a.lock", "other/x", "s/x", "s/" + lives.String()}
		if atomic {
			want = slices.Delete(want, 1, 2)
		}
		slices.Sort(want)
		if got := m.keys(); !slices.Equal(got, want) {
			t.Errorf("got keys %q, want %q; %v has ended", got, want, over)
		}
		if kept := m.kept(); !atomic && len(kept) < len(keepers) {
			t.Errorf("the sweep left %q of the objects that keep directories", kept)
		}
	}
}

// A note that came to an idle name keeps it, and so does a claim that comes as it is deleted.
func TestANameThatIsUsedAgainIsNotDeleted(t *testing.T) {
	m := newMemory()
	b := New(m, "memory", "locks/")
	b.Atomic = func(string) bool { return true }
	t.Cleanup(func() { b.Close() })
	idle := swap(t, b, record.Record{}, true)
	m.passes(b.Retention + 3*time.Second)
	join(t, b, "one")
	for range b.List(t.Context(), time.Second) {
	}
	if !slices.Contains(m.keys(), "n/a.lock") {
		t.Fatal("the record was deleted, although it has a note")
	}
	m.Delete(t.Context(), "locks/j/a.lock!0000000001-one", "")
	m.meets(func(what, key string, _ []byte) answer {
		if what == "DELETE" {
			m.meets(nil)
			if !swap(t, b, idle.Now, false).Done {
				t.Error("a Swap on the newest version was refused")
			}
		}
		return 0
	})
	for range b.List(t.Context(), time.Second) {
	}
	if !slices.Contains(m.keys(), "n/a.lock") {
		t.Error("the record was deleted, although it was claimed")
	}
}

// Of a listing only what is old is read.
func TestOldNamesAreListed(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	swap(t, b, record.Record{}, false)
	listed := func() (n int) {
		for r, err := range b.List(t.Context(), time.Hour) {
			if err != nil || r.Name != "a" || string(r.Data) != "x" {
				t.Errorf("%+v, %v", r, err)
			}
			n++
		}
		return n
	}
	if n := listed(); n != 0 {
		t.Errorf("got %d names that were just written in the list, want none", n)
	}
	m.passes(time.Hour)
	if n := listed(); n != 1 {
		t.Errorf("got %d names that were idle for an hour in the list, want 1", n)
	}
}

// No two names have the same key, and none is longer than servers that keep files allow.
func TestNamesHaveKeysOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("ü", 100)
	for _, name := range []string{"a", "A", "a ", "a+", "a%20", ".", "..", "a/b", "a.lock", "", "\x00", "a\x00", long, long + "a", long + "b", strings.Repeat("x", 180), strings.Repeat("x", 181), strings.Repeat("x", 512)} {
		key := keyOf(name)
		if was, is := seen[key]; is || len(key) > 255 || strings.Contains(key, "/") {
			t.Errorf("%q has the key %q, which is too long or that of %q", name, key, was)
		}
		seen[key] = name
	}
}

// Else who has read the one would write over the other.
func TestASwapOfTheSameIsAnotherVersion(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	body := func() string { return string(m.objects["locks/n/a.lock"].Body) }
	first := swap(t, b, record.Record{}, false)
	was := body()
	if !swap(t, b, first.Now, false).Done || body() == was {
		t.Error("two swaps wrote the same bytes: a server whose version is a hash gives both the same version")
	}
}

// A proxy may send a write twice: the first is done, and the second is refused.
func TestAReleaseThatIsSentTwiceIsNotLost(t *testing.T) {
	m := newMemory()
	s := storeOn(t, m)
	hold, is := asks(t, s, nil)
	if !is.Granted {
		t.Fatal("the claim was refused")
	}
	m.meets(func(what, key string, _ []byte) answer {
		if what != "PUT" || !strings.HasPrefix(key, "locks/n/") {
			return 0
		}
		m.meets(nil)
		return twice
	})
	if err := s.Release(t.Context(), hold); err != nil {
		t.Errorf("release: %v", err)
	}
	if _, is := asks(t, storeOn(t, m), nil); !is.Granted {
		t.Error("the name is not free")
	}
}

// A proxy may send the write of a note twice, and the second may arrive when the note was taken in and deleted.
func TestANoteThatComesBackKeepsNobodyFromWriting(t *testing.T) {
	m := newMemory()
	a := backendOn(t, m)
	swap(t, a, record.Record{}, false)
	join(t, a, "one")
	const key = "locks/j/a.lock!0000000001-one"
	one := m.objects[key]
	swap(t, a, load(t, a), false)
	a.Finish()
	for range 2 { // the record lists it as taken in, and then no longer
		if _, what, _ := m.Put(t.Context(), key, one.Body, ""); what != Done {
			t.Fatal("the note was not deleted")
		}
		if oldest, err := a.Oldest(t.Context(), "a"); err != nil || oldest.Key != "" {
			t.Errorf("the oldest note: got %q, %v", oldest.Key, err)
		}
		if r := load(t, a); notes(r) != "" || !swap(t, a, r, false).Done {
			t.Errorf("got notes %q, or a Swap on the newest version was refused", notes(r))
		}
		a.Finish()
		if all := m.keys(); !slices.Equal(all, []string{"n/a.lock"}) {
			t.Errorf("got keys %q", all)
		}
	}
}

// Who has read the record finds a note gone: that was taken in by a later one, which has it.
func TestANoteTakenInDuringAReadIsInTheRecord(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	swap(t, a, record.Record{}, false)
	join(t, a, "one")
	var taken record.Outcome
	m.meets(func(what, key string, _ []byte) answer {
		if what == "GET" && strings.HasPrefix(key, "locks/j/") {
			m.meets(nil)
			taken = swap(t, a, load(t, a), false)
			a.Finish()
		}
		return 0
	})
	if r := load(t, b); r.Version != taken.Now.Version || notes(r) != "" {
		t.Errorf("got record %q with notes %q, want the record that took them in, %q", r.Version, notes(r), taken.Now.Version)
	}
}

// A note that nobody can read hides nothing, and keeps nobody waiting.
func TestAnUnreadableNoteEndsTheSearchForTheOldest(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	swap(t, b, record.Record{}, false)
	join(t, b, "one")
	m.mu.Lock()
	for key, o := range m.objects {
		if strings.HasPrefix(key, "locks/j/") && !strings.HasSuffix(key, keep) {
			o.Body = nil
			m.objects[key] = o
		}
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	oldest, err := b.Oldest(ctx, "a")
	if err != nil || len(oldest.Data) == 0 {
		t.Errorf("got %+v, %v: as if the inbox were empty", oldest, err)
	}
	if got := notes(load(t, b)); got != "" {
		t.Errorf("got notes %s", got)
	}
}
