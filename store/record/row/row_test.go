package row

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

func TestTheInboxIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var notes []record.Note
		for range rapid.IntRange(0, 5).Draw(t, "notes") {
			notes = append(notes, record.Note{Key: rapid.StringN(0, -1, 40).Draw(t, "key"), Data: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")})
		}
		taken := int64(rapid.Uint32().Draw(t, "taken"))
		b := append(slices.Clone(Empty), Pack(notes)...)
		have, err := Unpack(taken, b)
		if err != nil || len(have) != len(notes) {
			t.Fatalf("got %d notes, %v, want %d", len(have), err, len(notes))
		}
		next := taken
		for i := range have {
			if have[i].Key != notes[i].Key || string(have[i].Data) != string(notes[i].Data) {
				t.Fatalf("got %+v, want %+v", have[i], notes[i])
			}
			at := Parse(have[i].Version)
			if at.Rev != next {
				t.Fatalf("note %d starts at %d, but the one before ended at %d", i, at.Rev, next)
			}
			next = at.Taken
		}
		if next != taken+int64(len(b)-1) {
			t.Fatalf("the last note ends at %d, want %d", next, taken+int64(len(b)-1))
		}
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if have, err := Unpack(taken, b[:cut]); err == nil && len(have) == len(notes) && len(notes) > 0 {
			t.Fatalf("got all notes from %d of %d bytes: %+v", cut, len(b), have)
		}
	})
}

func TestAChangeTakesInTheNotesOfItsRecordAndNoOthers(t *testing.T) {
	r := Row{Form: 2, Version: Version{7, 100}, Data: []byte("d"), Inbox: append(slices.Clone(Empty), Pack([]record.Note{{Key: "a", Data: []byte("1")}, {Key: "b", Data: []byte("22")}})...)}
	old, err := r.Record(2)
	if err != nil {
		t.Fatal(err)
	}
	c := NewChange(&old)
	if c.First || c.Old != (Version{7, 100}) || c.New.Rev <= 0 || c.New.Taken != 100+int64(len(r.Inbox)-1) || c.Cut != int64(len(r.Inbox)) {
		t.Errorf("a change that takes in all: got %+v", c)
	}
	if d := NewChange(&old); d.New.Rev == c.New.Rev {
		t.Error("two changes have the same number")
	}
	some := old
	some.Inbox = old.Inbox[:1]
	if c := NewChange(&some); c.Cut != 1+4 || c.New.Taken != 104 {
		t.Errorf("a change that takes in the first: got %+v", c)
	}
	for what, inbox := range map[string][]record.Note{"the second": old.Inbox[1:], "the first twice": {old.Inbox[0], old.Inbox[0]}} {
		gone := old
		gone.Inbox = inbox
		if c := NewChange(&gone); c.First || c.Old.Rev != -1 {
			t.Errorf("%s: got %+v, want it to depend on a version that cannot exist", what, c)
		}
	}
	if c := NewChange(&record.Record{}); !c.First || c.Cut != 1 || c.New.Taken != 0 {
		t.Errorf("the first change: got %+v", c)
	}
	for left, empty := range map[int64]bool{0: true, 5: false} {
		if o := c.Done(left); !o.Done || !o.Current || o.Inbox != empty || o.Now.Version != c.New.String() {
			t.Errorf("with %d bytes left: got %+v", left, o)
		}
	}
}

func TestARowOfAnotherFormatIsNoRecord(t *testing.T) {
	for form, want := range map[int64]error{1: store.ErrCorrupt, 2: nil, 3: store.ErrUnsupported} {
		r := Row{Form: form, Data: []byte("d"), Inbox: Empty}
		if _, err := r.Record(2); !errors.Is(err, want) {
			t.Errorf("format %d: got %v, want %v", form, err, want)
		}
	}
}

func TestAListContinuesAfterTheLastNameOfAPage(t *testing.T) {
	var asked []string
	n := 0
	for found, err := range List(func(after string) (all []Found, err error) {
		asked = append(asked, after)
		for range Page {
			if n < Page+3 {
				all = append(all, Found{Named: record.Named{Name: fmt.Sprintf("%04d", n)}})
				n++
			}
		}
		return all, nil
	}) {
		if err != nil || found.Name == "" {
			t.Fatal(found, err)
		}
	}
	if n != Page+3 || !slices.Equal(asked, []string{"", fmt.Sprintf("%04d", Page-1)}) {
		t.Errorf("got %d names, with pages after %q", n, asked)
	}
}

// A renewal may be under way: it wins, and is heeded.
func TestTheEndOfASessionIsFinalBeforeItIsReported(t *testing.T) {
	a, b, c, d := session.ID{1}, session.ID{2}, session.ID{3}, session.ID{4}
	rows := map[session.ID]*Left{a: {a, 9, 5}, b: {b, 3, -1}, c: {c, 0, -4}, d: {d, 4, 0}}
	var ended []session.ID
	left, err := JudgeSessions([]session.ID{b, a, c, d, {5}}, func() (all []Left, err error) {
		for _, r := range rows {
			all = append(all, *r)
		}
		return all, nil
	}, func(id session.ID) (bool, error) {
		if ended = append(ended, id); id == d && rows[d].For == 0 {
			rows[d].Expires, rows[d].For = 20, 16
			return false, nil
		}
		rows[id].Expires = 0
		return true, nil
	})
	want := []time.Duration{0, 5 * time.Microsecond, 0, 16 * time.Microsecond, 0}
	if err != nil || !slices.Equal(left, want) || !slices.Contains(ended, b) || !slices.Contains(ended, d) || slices.Contains(ended, a) || slices.Contains(ended, c) {
		t.Errorf("got %v, %v, want %v; ended %v", left, err, want, ended)
	}
}

func TestAWaitForASharedStepEndsWithItsContext(t *testing.T) {
	o := NewOnce()
	busy, end := make(chan bool), make(chan bool)
	go o.Do(t.Context(), func() error { close(busy); <-end; return errors.New("not yet") })
	<-busy
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	waited := make(chan error, 1)
	go func() { waited <- o.Do(ctx, func() error { return nil }) }()
	select {
	case err := <-waited:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Do waits for a running step, although its context has ended")
	}
	close(end)
	calls := 0
	for range 3 {
		if err := o.Do(t.Context(), func() error { calls++; return nil }); err != nil {
			t.Error(err)
		}
	}
	if calls != 1 || !o.Done.Load() {
		t.Errorf("the step was done %d times, want once", calls)
	}
}

func TestTheTestsCatchEachMutantOfRows(t *testing.T) {
	t.Parallel()
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a note is taken in that no longer exists", "TestAChangeTakesInTheNotesOfItsRecordAndNoOthers", "row-note-is-there", mutant.Cond("WAS && false")},
		{"an inbox that is not empty is reported as empty", "TestAChangeTakesInTheNotesOfItsRecordAndNoOthers", "row-inbox-is-empty", mutant.Value("record.Outcome{Done: true, Current: true, Inbox: true}")},
		{"an end is not final", "TestTheEndOfASessionIsFinalBeforeItIsReported", "row-end-is-final", mutant.Value("true, error(nil)")},
		{"a step waits for the one that runs", "TestAWaitForASharedStepEndsWithItsContext", "row-first-call-waits-for-no-other", mutant.Stmt("o.busy <- struct{}{}")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "store/record/row", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all)
}
