package natsstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/store"
)

// A hint is a message of NATS to the mailbox of a process: the id, the token, how
// many, and the name. It is sent once the grant is stored.
const hintHead = 16 + 8 + 2

func (s *Store) mailbox(p store.Process) string {
	return "holdfast.hint." + s.o.Bucket + "." + p.String()
}

// tell sends hints. One that is lost is made up for by the waiter's own look.
func (s *Store) tell(woken []store.Hint) {
	for _, h := range woken {
		b := append(make([]byte, 0, hintHead+len(h.Name)), h.ID[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(h.Token))
		b = binary.BigEndian.AppendUint16(b, uint16(h.N))
		_ = s.nc.Publish(s.mailbox(h.ID.Process()), append(b, h.Name...))
	}
}

func parseHint(b []byte) (h store.Hint, ok bool) {
	if len(b) <= hintHead {
		return h, false
	}
	h.ID = store.ID(b[:16])
	h.Token = int64(binary.BigEndian.Uint64(b[16:]))
	h.N = int(binary.BigEndian.Uint16(b[24:]))
	h.Name = string(b[hintHead:])
	return h, true
}

// Watch implements [store.Watcher].
func (s *Store) Watch(ctx context.Context, p store.Process, sink func(store.Hint)) error {
	what := "listen for hints"
	ctx, cancel := bound(ctx)
	defer cancel()
	if _, err := s.prepared(ctx, false); err != nil {
		return s.failed(what, err)
	}
	sub, err := s.nc.Subscribe(s.mailbox(p), func(m *nats.Msg) {
		if h, ok := parseHint(m.Data); ok {
			sink(h)
		}
	})
	if err == nil {
		if err = s.nc.FlushWithContext(ctx); err != nil {
			_ = sub.Unsubscribe()
		}
	}
	if err != nil {
		return s.failed(what, fmt.Errorf("subscribe to %s: %w", s.mailbox(p), err))
	}
	connected := s.nc.StatusChanged(nats.CONNECTED)
	s.tasks.Go(func() {
		defer s.nc.RemoveStatusListener(connected)
		defer func() { _ = sub.Unsubscribe() }()
		known := s.spreads() //mutant:nats-nobody-looks-once-others
		for {
			select {
			case <-s.ctx.Done():
				return
			case _, open := <-connected:
				if !open { // the connection was closed for good
					<-s.ctx.Done()
					return
				}
				sink(store.Hint{}) // what was sent meanwhile is lost
				known = s.spreads()
			case <-known:
				sink(store.Hint{}) // so is what was sent by way of others until they knew of us
				known = nil
			}
		}
	})
	return nil
}

// spreadTime is how long the servers of a cluster take at the most, on a healthy
// network, to tell each other of a subscription.
const spreadTime = 500 * time.Millisecond

// spreads fires when the servers know of a subscription that was made just now; it is
// nil, and never does, where there is one server: that knows at once.
func (s *Store) spreads() <-chan time.Time {
	if s.nc.ConnectedClusterName() == "" && s.o.Domain == "" {
		return nil
	}
	return time.After(spreadTime)
}
