package natsstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// Two Stores on one connection, and one is closed. The other still learns of each reconnect, so its
// waiters poll at once: what was sent meanwhile is lost.
func TestAClosedStoreSilencesNoOtherOnItsConnection(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedNATS(t), apart()
	link := testserver.NewLink(t, addr)
	nc := connect(t, link.Addr())
	stays, goes := closing(t, storeOn(t, nc, o)), closing(t, storeOn(t, nc, o))
	heard := make(chan store.Notification, 10)
	if err := stays.Watch(t.Context(), store.NewProcess(), func(n store.Notification) { heard <- n }); err != nil {
		t.Fatal(err)
	}
	if err := goes.Watch(t.Context(), store.NewProcess(), func(store.Notification) {}); err != nil {
		t.Fatal(err)
	}
	if err := goes.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		reset(t, stays.b, link)
		if n := nextNotification(t, heard); n != (store.Notification{}) {
			t.Errorf("notification %+v", n)
		}
	}
}

// One that is slow to hear of a reconnect, as its process was stopped or is busy, hears of all the same
// when more have followed.
func TestAReconnectThatIsHeardLateHidesNoOther(t *testing.T) {
	t.Parallel()
	b, link := linkedBackend(t)
	heard := make(chan record.Notification) // nobody receives yet
	err := b.Listen(t.Context(), store.NewProcess(), func(n record.Notification) {
		select {
		case heard <- n:
		case <-t.Context().Done():
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	const reconnects = 3
	for range reconnects {
		reset(t, b, link)
	}
	n := 0
	until(t, "it has heard of each", func() bool {
		select {
		case one := <-heard:
			if one != (record.Notification{}) {
				t.Errorf("notification %+v", one)
			}
			n++
		default:
		}
		return n == reconnects
	})
}
