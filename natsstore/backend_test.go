package natsstore

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// backendOn is a backend on a connection of its own, with a bucket that exists.
func backendOn(t testing.TB, addr string, o *Options) *backend {
	t.Helper()
	b, err := newBackend(connect(t, addr), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err != nil {
			t.Log(err)
		}
	}()
	testwait.Until(t, "the bucket exists", func() bool { // the connection can be lost while the machine stands still
		_, err = b.prepare(t.Context())
		return err == nil
	})
	return b
}

func TestBackend(t *testing.T) {
	t.Parallel()
	addr, o := testserver.SharedNATS(t), apart()
	brief := apart()
	recordtest.Run(t, recordtest.Subject{
		Open: func(t *testing.T) record.Backend { return backendOn(t, addr, o) },
		Linked: func(t *testing.T) (record.Backend, storetest.Link) {
			link := testserver.NewLink(t, addr)
			return backendOn(t, link.Addr(), o), link
		},
		Freeze: func(t *testing.T) (record.Backend, func()) {
			server := testserver.NATS(t, "")
			return backendOn(t, server.Addr, nil), server.Freeze
		},
		Brief: func(t *testing.T) record.Backend {
			b := backendOn(t, addr, brief)
			b.retention = 2 * time.Second
			return b
		},
	})
}

// For example, a session of detached holds.
func TestAnUnrenewedSessionIsForgotten(t *testing.T) {
	t.Parallel()
	b := backendOn(t, testserver.SharedNATS(t), apart())
	t.Cleanup(func() { b.Close() })
	begin := func() session.ID {
		id := session.NewID()
		if _, err := b.Begin(t.Context(), id, minTTL); err != nil {
			t.Fatal(err)
		}
		return id
	}
	renewed, old := begin(), begin()
	for _, o := range b.own {
		o.used = o.used.Add(-time.Hour)
	}
	if _, err := b.Renew(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	if begin(); len(b.own) != 2 || b.own[renewed] == nil || b.own[old] != nil {
		t.Fatalf("got %d sessions kept, want the renewed one and the new one", len(b.own))
	}
}

// A claimant that knows that its swap would be refused leaves its note in one message.
func TestANoteOfALostSwapIsOneMessage(t *testing.T) {
	t.Parallel()
	b := backendOn(t, testserver.SharedNATS(t), apart())
	before := b.nc.Stats().OutMsgs
	note := record.Note{Key: "a", Data: []byte("note")}
	out, err := b.Swap(t.Context(), &record.Swap{Name: "lost", Data: []byte("data"), Lost: true, Join: &record.Join{Session: session.NewID(), Notes: []record.Note{note}}})
	if err != nil || !out.Joined {
		t.Fatalf("got %+v, %v, want it joined", out, err)
	}
	if sent := b.nc.Stats().OutMsgs - before; sent != 1 {
		t.Errorf("got %d messages, want one", sent)
	}
}
