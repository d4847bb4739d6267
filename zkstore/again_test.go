package zkstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// A loser is a connection that loses the answer to a request, and breaks.
type loser struct {
	net.Conn
	loses func(op uint32, packet []byte) bool
	broke atomic.Bool
}

func (c *loser) Write(b []byte) (int, error) {
	if len(b) >= 12 && c.loses(binary.BigEndian.Uint32(b[8:]), b) {
		c.broke.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *loser) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.broke.Load() {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// The answer to a part of an ask is lost, after a node was made. When the ask is repeated it
// makes no second node, which nobody would ever delete as long as the session lasts.
func TestAnAskThatIsRepeatedLeavesNoNode(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedZooKeeper(t), apart()
	other, conn := closing(t, storeOn(t, o, addr)), connOf(t, addr)
	for _, c := range []struct {
		name string
		op   uint32
		try  bool
		held bool // by somebody else, when the node is made
	}{
		{"what is stored in the node is read", opGetData, false, false},
		{"of a try, too", opGetData, true, false},
		{"the node of a try is made, and it is not granted", opCreate, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			claim, kept := mutex(c.name), mutex(c.name+" kept")
			claim.Weight, claim.Try = 1, c.try
			claim.TTL, kept.TTL = 20*time.Second, 20*time.Second
			var lost atomic.Bool
			breaks := *o
			breaks.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return &loser{Conn: conn, loses: func(op uint32, packet []byte) bool {
					if op != c.op || !bytes.Contains(packet, []byte(claim.ID.String())) || !lost.CompareAndSwap(false, true) {
						return false
					}
					if c.held {
						mustHold(t, other, mutex(c.name))
					}
					return true
				}}, err
			}
			s := closing(t, storeOn(t, &breaks, addr))
			mustHold(t, s, kept) // the session lasts
			if _, err := s.Ask(t.Context(), claim); err == nil || store.Definite(err) || !lost.Load() {
				t.Fatalf("the ask: %v, want it unclear", err)
			}
			var a store.Answer
			until(t, "the repeated ask is answered", func() bool {
				var err error
				if a, err = s.Ask(t.Context(), claim); err != nil && store.Definite(err) {
					t.Fatal("the repeated ask:", err)
				}
				return err == nil
			})
			nodes, _, err := conn.Children(s.nameNode(c.name))
			if err != nil || a.Granted == c.held || len(nodes) != 1 {
				t.Errorf("%+v, nodes %v, %v", a, nodes, err)
			}
			if !a.Granted {
				return
			}
			until(t, "it is given back", func() bool {
				return s.Release(t.Context(), store.Hold{Name: c.name, ID: claim.ID, Token: a.Token}) == nil
			})
			if !mustAsk(t, other, mutexTry(c.name)).Granted {
				t.Error("it has been given back, and another is not granted it")
			}
		})
	}
}
