package zkstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// Many processes claim one name at once. What each costs the server does not grow with their number.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	addr, o, counts := testserver.SharedZooKeeper(t), apart(), &recordtest.Counts{}
	path := []byte(o.Path + "/")
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &countedConn{Conn: c, path: path, counts: counts}, err
	}
	recordtest.Crowd(t, recordtest.CrowdSize(30), counts, func(t *testing.T) store.Store { return storeOn(t, o, addr) })
}

// A countedConn counts the requests that are sent over it.
type countedConn struct {
	net.Conn
	path    []byte
	counts  *recordtest.Counts
	greeted bool
}

var opNames = map[uint32]string{1: "create", 4: "get", 5: "set", 9: "sync", 11: "ping", 12: "children", 14: "multi", 19: "container"}

func (c *countedConn) Write(b []byte) (int, error) {
	if !c.greeted {
		c.greeted = true
		c.counts.Add("greeting")
		return c.Conn.Write(b)
	}
	for rest := b; len(rest) >= 12; rest = rest[4+binary.BigEndian.Uint32(rest):] {
		packet := rest[:4+binary.BigEndian.Uint32(rest)]
		op := binary.BigEndian.Uint32(packet[8:])
		kind, ok := opNames[op]
		if !ok {
			kind = fmt.Sprint(int32(op))
		}
		if at := bytes.Index(packet, c.path); at >= 0 && at+len(c.path) < len(packet) {
			kind += " " + string(packet[at+len(c.path)])
		}
		c.counts.Add(kind)
	}
	return c.Conn.Write(b)
}
