package recordtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

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

// notJoined sends a join that must not be done.
func (t *trial) notJoined(b record.Backend, name string, id session.ID, calls int64, why string) {
	t.Helper()
	if t.join(b, name, id, calls, note("void")).Joined {
		t.Errorf("a Join of %s is done", why)
	}
	if r := t.load(b, name); len(r.Inbox) > 0 {
		t.Errorf("a Join of %s left notes %v", why, keys(r.Inbox))
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
			t.Fatalf("Renew: got %d calls, want %d", got, calls)
		}
		if !t.join(a, name, id, calls, note("n")).Joined {
			t.Errorf("a Join of a session with %d calls, and with that count, is not done", calls)
		}
		t.called(b, id)
	}
	if r := t.load(b, name); len(r.Inbox) != 3 {
		t.Errorf("Load: got %d notes, want 3", len(r.Inbox))
	}
}

func joinOfCallsToCome(t *trial) {
	a, name := t.open(), fresh()
	t.write(a, name, "x")
	t.notJoined(a, name, t.session(a), 1, "a session with fewer calls")
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

func callLeavesNote(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	id := t.session(a)
	n := note("n")
	t.joined(a, name, id, n)
	t.called(b, id)
	if r := t.load(b, name); len(r.Inbox) != 1 || r.Inbox[0].Key != n.Key {
		t.Errorf("Load: got notes %v, want %v, which was done before the Call", keys(r.Inbox), n.Key)
	}
}

// Joins and a call run at once: the inbox stays as it is once the call was answered.
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
					t.Errorf("Swap during a Call: %v", err)
				}
			})
		}
		close(begin)
		t.called(b, id)
		r := t.load(c, name)
		joining.Wait()
		if after := t.load(c, name); !slices.Equal(keys(after.Inbox), keys(r.Inbox)) {
			t.Fatalf("got %d notes after the answer to the Call, and %d later", len(r.Inbox), len(after.Inbox))
		}
		if out := t.swap(c, record.Swap{Name: name, Old: r, Data: []byte("x")}); !out.Done {
			t.Fatal("a Swap on the newest version is refused")
		}
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
	t.never("a held join that was void is done", func() bool { return len(t.load(b, name).Inbox) != len(was.Inbox) })
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
	t.never("a join that was held until its session ended is done", func() bool { return len(t.load(b, name).Inbox) > 0 })
}

func joinHeld(t *trial) {
	b, name := t.open(), fresh()
	a, link := t.linked()
	t.write(b, name, "x")
	t.heldJoin(a, link, name, t.session(a))
	link.Reset()
	link.Deliver()
	t.never("a held join is done twice", func() bool { return len(t.load(b, name).Inbox) > 1 })
	if r := t.load(b, name); !has(r, "x") {
		t.Errorf("Load: got %s, want %q", describe(r), "x")
	}
}

// A connection answers requests in order. So once an answer was lost, the join is done if it is in the same request,
// or else not sent.
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
	t.never("a join without an answer is done twice, disappears, or changes the record", func() bool {
		r, was := t.load(b, name), joined
		joined = len(r.Inbox)
		return !has(r, "x") || joined > 1 || joined < was
	})
}
