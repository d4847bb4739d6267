package natsstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// linkedBackend is a backend behind a link, with a bucket that is there.
func linkedBackend(t *testing.T) (*backend, *testserver.Link) {
	t.Helper()
	link := testserver.NewLink(t, testserver.SharedNATS(t))
	b := backendOn(t, link.Addr(), apart())
	t.Cleanup(func() { b.Close() })
	return b, link
}

// sent starts a request that has a minute.
func sent(t *testing.T, send func(context.Context) error) (done <-chan error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	answer := make(chan error, 1)
	go func() { answer <- send(ctx) }()
	t.Cleanup(cancel)
	return answer
}

// soonDone is what came of a request, which is known long before its minute is over.
func soonDone(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("after %v it has not returned", patience)
		return nil
	}
}

// onItsWay returns when so many requests were sent that nobody will get the answers of. Before was the count of
// messages then; the link is mute since.
func onItsWay(t *testing.T, b *backend, link *testserver.Link, before uint64, requests int) {
	t.Helper()
	until(t, "the answer is lost", func() bool { return b.nc.Stats().OutMsgs >= before+uint64(requests) && link.Met() > 0 })
}

// reset resets the link, and returns when its client is connected again.
func reset(t *testing.T, b *backend, link *testserver.Link) {
	t.Helper()
	before := b.nc.Stats().Reconnects
	link.Reset()
	until(t, "it is connected again", func() bool { return b.nc.Stats().Reconnects > before && b.nc.IsConnected() })
}

// A request whose answer was lost with its connection does not wait for it until its context ends.
func TestARequestEndsWithTheConnectionItWasSentOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		requests int // that it sends at once
		send     func(context.Context, *backend, session.ID) error
	}{
		"a write": {1, func(ctx context.Context, b *backend, _ session.ID) error {
			_, err := b.Swap(ctx, &record.Swap{Name: "a", Data: []byte("x")})
			return err
		}},
		"a read of the record": {1, func(ctx context.Context, b *backend, _ session.ID) error {
			_, err := b.Peek(ctx, "a")
			return err
		}},
		"a read of the inbox": {1, func(ctx context.Context, b *backend, _ session.ID) error {
			_, err := b.Oldest(ctx, "a")
			return err
		}},
		"a read of the bucket": {1, func(ctx context.Context, b *backend, _ session.ID) error {
			b.forget()
			_, err := b.prepare(ctx)
			return err
		}},
		"a list": {1, func(ctx context.Context, b *backend, _ session.ID) error {
			for _, err := range b.List(ctx, 0) {
				return err
			}
			return nil
		}},
		"a renewal of a session": {2, func(ctx context.Context, b *backend, id session.ID) error {
			_, err := b.Renew(ctx, id)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, link := linkedBackend(t)
			id := begun(t, b)
			link.MuteAfter(0)
			before := b.nc.Stats().OutMsgs
			done := sent(t, func(ctx context.Context) error { return c.send(ctx, b, id) })
			onItsWay(t, b, link, before, c.requests)
			link.Reset()
			err := soonDone(t, done)
			if !errors.Is(err, errUnanswered) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || store.Definite(err) {
				t.Errorf("%v, want it indeterminate, and that the connection was lost", err)
			}
			until(t, "it is connected again", b.nc.IsConnected)
			if err := soonDone(t, sent(t, func(ctx context.Context) error { return c.send(ctx, b, id) })); err != nil {
				t.Errorf("the next on the same link: %v", err)
			}
		})
	}
}

// What has ended by its own context says so.
func TestARequestThatIsGivenUpIsNotTakenForLost(t *testing.T) {
	t.Parallel()
	b, link := linkedBackend(t)
	link.MuteAfter(0)
	ctx, cancel := context.WithCancel(t.Context())
	before := b.nc.Stats().OutMsgs
	done := sent(t, func(context.Context) error {
		_, err := b.Peek(ctx, "a")
		return err
	})
	onItsWay(t, b, link, before, 1)
	cancel()
	if err := soonDone(t, done); !errors.Is(err, context.Canceled) || errors.Is(err, errUnanswered) {
		t.Errorf("%v, want that it was canceled", err)
	}
}

// Nor does one wait on a connection that is closed for good, by its owner or as no server is found any more.
func TestARequestEndsWhenItsConnectionIsClosed(t *testing.T) {
	t.Parallel()
	b, link := linkedBackend(t)
	link.MuteAfter(0)
	before := b.nc.Stats().OutMsgs
	done := sent(t, func(ctx context.Context) error {
		_, err := b.Swap(ctx, &record.Swap{Name: "a", Data: []byte("x")})
		return err
	})
	onItsWay(t, b, link, before, 1)
	b.nc.Close()
	if err := soonDone(t, done); !errors.Is(err, nats.ErrConnectionClosed) || store.Definite(err) {
		t.Errorf("%v, want it indeterminate, and that the connection is closed", err)
	}
}

// One that begins while there is no connection fails at once, and says why.
func TestARequestWithoutAConnectionIsNotTakenForLost(t *testing.T) {
	t.Parallel()
	b, link := linkedBackend(t)
	link.Cut()
	until(t, "the loss is heard", func() bool { return b.newestLink().ctx.Err() != nil })
	err := soonDone(t, sent(t, func(ctx context.Context) error {
		_, err := b.Swap(ctx, &record.Swap{Name: "a", Data: []byte("x")})
		return err
	}))
	if !errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, errUnanswered) {
		t.Errorf("%v, want that there is no connection", err)
	}
	ctx := t.Context()
	_, err = answered(ctx, b, func(its context.Context) (any, error) {
		if its != ctx {
			t.Error("it depends on a connection that is lost, and not on its caller alone")
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// nats.go reports a loss when it has connected again, if we are slow. A request that has been sent
// by then has its answer to come.
func TestALossThatIsHeardLateEndsNoNewRequest(t *testing.T) {
	t.Parallel()
	b, link := linkedBackend(t)
	reset(t, b, link)
	if _, err := b.Peek(t.Context(), "a"); err != nil { // the bucket is read
		t.Fatal(err)
	}
	link.Delay()
	done := sent(t, func(ctx context.Context) error {
		_, err := b.Peek(ctx, "a")
		return err
	})
	until(t, "it is sent", func() bool { return link.Asked() > 0 })
	b.endLost()
	link.Mend()
	if err := soonDone(t, done); err != nil {
		t.Errorf("a request on the new connection: %v", err)
	}
}

// One that was sent before is ended all the same: by that, or by the next request.
func TestALossThatIsHeardLateEndsTheOldRequests(t *testing.T) {
	t.Parallel()
	b, link := linkedBackend(t)
	reset(t, b, link)
	b.Close() // the connection stays, and nothing but these hears of a loss
	for what, hears := range map[string]func(){
		"the report":       b.endLost,
		"the next request": func() { b.newestLink() },
	} {
		old := newLink(0)
		b.mu.Lock()
		b.link = old // as if nobody had noticed
		b.mu.Unlock()
		if hears(); old.ctx.Err() == nil {
			t.Errorf("%s does not end what was sent before", what)
		}
	}
	if err := b.newestLink().ctx.Err(); err != nil {
		t.Errorf("the link that is there: %v", err)
	}
}
