package recordtest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

var endPromises = []promise{
	{name: "a session that was ended has ended for all", run: endedForAll},
	{name: "a session can be ended again", run: endedAgain},
	{name: "a session that has lapsed can be ended", run: endedLapsed},
	{name: "the end of a session is awaited", run: awaited, await: true},
	{name: "the end of a session that lapses is awaited", run: awaitedLapse, await: true},
	{name: "to await a session that has ended takes no time", run: awaitedEnded, await: true},
	{name: "to await a session ends with its context", run: awaitContext, await: true},
	{name: "without a report of the end Await says so", run: awaitUnsupported},
}

func endedForAll(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	if left := t.left(b, id); left <= 0 {
		t.Fatalf("Left of a session that was just begun: got %v", left)
	}
	t.end(a, id)
	for _, from := range []record.Backend{b, a, t.open()} {
		if left := t.left(from, id); left > 0 {
			t.Errorf("Left of a session that was ended: got %v", left)
		}
	}
}

func endedAgain(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	for range 3 {
		t.end(a, id)
		if left := t.left(b, id); left > 0 {
			t.Errorf("Left of a session that was ended: got %v", left)
		}
	}
}

func endedLapsed(t *trial) {
	a, b := t.open(), t.open()
	id, _, _ := t.beginShort(a)
	t.lapsed(b, id, t.short())
	t.end(a, id)
	if left := t.left(b, id); left > 0 {
		t.Errorf("Left of a session that was ended: got %v", left)
	}
}

// await runs Await until the session has really ended.
func (t *trial) await(b record.Backend, id session.ID) <-chan error {
	done := make(chan error, 1)
	go func() {
		for {
			err := b.Await(t.ctx, id)
			if err == nil {
				var left []time.Duration
				if left, err = b.Left(t.ctx, []session.ID{id}); err == nil && left[0] > 0 {
					continue // it may be early
				}
			}
			done <- err
			return
		}
	}()
	return done
}

func (t *trial) reported(done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Await: %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("after %v still not: Await returns", patience)
	}
}

func awaited(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	byOther, byOwn := t.await(b, id), t.await(a, id)
	again := t.await(b, id)
	t.renew(a, id)
	time.Sleep(moment) // so that most likely they are under way
	t.end(a, id)
	t.reported(byOther)
	t.reported(byOwn)
	t.reported(again)
}

func awaitedLapse(t *trial) {
	a, b := t.open(), t.open()
	id, _, _ := t.beginShort(a)
	t.reported(t.await(b, id))
}

func awaitedEnded(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	t.end(a, id)
	t.reported(t.await(b, id))
	t.reported(t.await(b, newSession()))
}

func awaitContext(t *trial) {
	a, b := t.open(), t.open()
	id := t.session(a)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.ctx, moment)
		err := t.returns("Await", ctx, func(ctx context.Context) error { return b.Await(ctx, id) })
		ended := ctx.Err() != nil
		cancel()
		if err != nil && !ended {
			t.Fatalf("Await of a living session: got %v", err)
		}
		if err != nil {
			return
		}
	}
	t.Error("Await of a living session returns nil each time")
}

func awaitUnsupported(t *trial) {
	if t.sessions.ReportsEnd {
		return
	}
	b := t.open()
	if err := b.Await(t.ctx, newSession()); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Await: got %v, want store.ErrUnsupported", err)
	}
}
