//go:build unix

package natsstore

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// The first operation reports the refusal, not only one after the driver has tried again.
func TestAClosedPortIsARefusalFromTheFirstReadOn(t *testing.T) {
	t.Parallel()
	for range 20 {
		s, err := Open("nats://" + testserver.ClosedPort(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range s.List(t.Context(), "") {
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%v, want a refused connection", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The connection settings of a program are unchanged after a Store was made on its connection.
func TestTheSettingsOfACallerAreNotChanged(t *testing.T) {
	t.Parallel()
	c, o, err := ParseURL("nats://" + testserver.ClosedPort(t))
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan error, 1000)
	c.ReconnectErrCB = func(_ *nats.Conn, err error) { reported <- err }
	s, err := OpenConfig(c, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	select {
	case err := <-reported:
		if err == nil {
			t.Error("the callback got no error")
		}
	case <-time.After(patience):
		t.Fatal("the callback got no call, though no server can be reached")
	}
	ours := errors.New("ours")
	c.ReconnectErrCB(nil, ours)
	if *s.b.dialed.Load() == ours {
		t.Error("the caller's settings have our callback in them")
	}
}
