package natsstore

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "12") // most of them wait most of the time
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// connect returns a connection to the servers. The test closes it at its end.
func connect(t testing.TB, addrs ...string) *nats.Conn {
	t.Helper()
	url := "nats://"
	for i, addr := range addrs {
		if i > 0 {
			url += ","
		}
		url += addr
	}
	c, _, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := c.Connect()
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

func storeOn(t testing.TB, nc *nats.Conn, o *Options) *Store {
	t.Helper()
	s, err := New(nc, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apart is a bucket that no other test uses.
func apart() *Options { return &Options{Bucket: "test-" + store.NewProcess().String()} }

// newShared returns a Store on the shared server. The test closes it at its end.
func newShared(t testing.TB) *Store {
	t.Helper()
	return closing(t, storeOn(t, connect(t, testserver.SharedNATS(t)), apart()))
}

func closing(t testing.TB, s *Store) *Store {
	t.Cleanup(func() { s.Close() })
	return s
}

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// until waits for what must happen.
var until = testwait.Until

var me = store.NewProcess()

func TestStore(t *testing.T) {
	t.Parallel() // it waits most of the time
	addr, o := testserver.SharedNATS(t), apart()
	storetest.Run(t, func(t *testing.T) store.Store { return patient{storeOn(t, connect(t, addr), o)} })
}

// A patient store has sessions that outlast a stall of the machine.
type patient struct{ *Store }

func (p patient) Describe() store.Description {
	d := p.Store.Describe()
	d.MinTTL = 4 * time.Second
	return d
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			nc, o := connect(t, testserver.SharedNATS(t)), apart()
			return func() store.Store { return storeOn(t, nc, o) }
		},
		End: func(t *testing.T, s store.Store) error { return endSessions(t, s.(*Store)) },
	})
}

// endSessions does what NATS does with sessions that were not renewed, and what the next process that comes then does
// with the names.
func endSessions(t testing.TB, s *Store) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for _, id := range s.Sessions() {
		for done := false; !done; {
			k, err := s.b.prepare(ctx)
			var m message
			if err == nil {
				m, err = s.b.get(ctx, k, sessionKey(id))
			}
			if err == nil {
				done, err = s.b.closeKey(ctx, k, id, m.seq)
			}
			if err != nil {
				return err
			}
		}
	}
	return s.Settle(ctx)
}
