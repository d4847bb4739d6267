package zkstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "12") // most of them wait most of the time
	startPatience = patience        // the machine may stall
	goleak.VerifyTestMain(testserver.Main{M: m})
}

func storeOn(t testing.TB, o *Options, servers ...string) *Store {
	t.Helper()
	s, err := New(servers, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apart is a path that no other test uses.
func apart() *Options { return &Options{Path: "/test-" + store.NewProcess().String()} }

func closing(t testing.TB, s *Store) *Store {
	t.Cleanup(func() { s.Close() })
	return s
}

// connOf is a connection of the driver, for what a Store does not do.
func connOf(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	return c
}

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// until waits for what must happen.
var until = testwait.Until

var me = store.NewProcess()

// mutex is a claim of the whole name, to be waited for.
func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

var mustAsk, mustHold, entriesOf = storetest.MustAsk, storetest.MustHold, storetest.MustList

func TestStore(t *testing.T) {
	t.Parallel()
	addr := testserver.SharedZooKeeper(t)
	storetest.Run(t, func(t *testing.T) store.Store { return patient{storeOn(t, nil, addr)} })
}

// A patient store tolerates that the machine stalls for a while. It has no sessions that end in that time, and repeats
// what was not answered, as an engine does.
type patient struct{ *Store }

func (p patient) Describe() store.Description {
	d := p.Store.Describe()
	d.MinTTL = 4 * time.Second
	return d
}

func (p patient) Ask(ctx context.Context, c store.Claim) (a store.Answer, err error) {
	answered(ctx, func() error {
		a, err = p.Store.Ask(ctx, c)
		return err
	})
	return a, err
}

func (p patient) Release(ctx context.Context, h store.Hold) (err error) {
	answered(ctx, func() error {
		err = p.Store.Release(ctx, h)
		return err
	})
	return err
}

func (p patient) ReleaseAll(ctx context.Context, holds []store.Hold) []error {
	out := p.Store.ReleaseAll(ctx, holds)
	for i, h := range holds {
		if out[i] != nil && !store.Definite(out[i]) {
			out[i] = p.Release(ctx, h)
		}
	}
	return out
}

// answered calls f until its answer is definite.
func answered(ctx context.Context, f func() error) {
	for {
		if err := f(); err == nil || store.Definite(err) || ctx.Err() != nil {
			return
		}
	}
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			o := apart()
			return func() store.Store { return storeOn(t, o, testserver.SharedZooKeeper(t)) }
		},
		End: func(t *testing.T, s store.Store) error { return endSessions(t, s.(*Store)) },
	})
}

// endSessions does what ZooKeeper does with sessions that were not renewed.
func endSessions(t testing.TB, s *Store) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for _, id := range s.Sessions() {
		if o := s.backend.ofOwn(id); o != nil {
			endSession(t, s.backend.servers[0], o.conn)
		}
		until(t, "the backend reports the loss of its session", func() bool { // the first renewal may only notice that its connection is gone
			_, err := s.backend.Renew(ctx, id)
			return errors.Is(err, store.ErrLost)
		})
		until(t, "the server has ended the session", func() bool { // a session that its backend gave up before may live on there
			d, err := s.backend.connected(ctx)
			if err != nil {
				return false
			}
			g, err := get(ctx, d.link, s.backend.callsNode(id), false)
			return err == nil && g.stat == nil
		})
	}
	return s.Settle(ctx)
}

// endSession ends a session from outside, which takes only its number and its password. Its owner may connect again
// before the server has read the request, and then keeps the session. So the request is repeated until the server does
// not know the session, which it shows by a timeout of 0 in its greeting.
func endSession(t testing.TB, server string, conn *zk.Conn) {
	t.Helper()
	passwd, id := bytes.Clone(reflect.ValueOf(conn).Elem().FieldByName("passwd").Bytes()), conn.SessionID()
	if id == 0 { // it has already ended
		return
	}
	var both bytes.Buffer
	for _, fields := range [][]any{
		{int32(0), int64(0), int32(10_000), id, int32(len(passwd)), passwd},
		{int32(1), int32(-11)}, // close
	} {
		var one bytes.Buffer
		for _, f := range fields {
			binary.Write(&one, binary.BigEndian, f)
		}
		binary.Write(&both, binary.BigEndian, int32(one.Len()))
		both.Write(one.Bytes())
	}
	until(t, "the server has ended a session", func() bool {
		c, err := net.Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(both.Bytes()); err != nil {
			return false
		}
		said, _ := io.ReadAll(c)
		return len(said) >= 12 && binary.BigEndian.Uint32(said[8:]) == 0
	})
}
