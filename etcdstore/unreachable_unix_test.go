//go:build unix

package etcdstore

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// refused checks that the error says that nothing listens, and not that the operation timed out.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v, want ErrUnavailable, with the refusal", what, err)
	}
}

// The caller's client is tested, too: its connections are not ours.
func TestAnAskAtAClosedPortSaysSo(t *testing.T) {
	t.Parallel()
	s := closing(t, storeOn(t, clientOf(t, testserver.ClosedPort(t), testserver.ClosedPort(t)), nil))
	_, err := s.Ask(t.Context(), mutexTry("a"))
	refused(t, "ask of two members", err)
	_, err = s.Poll(t.Context(), mutexTry("a"))
	refused(t, "poll of two members", err)
	s = closing(t, storeOn(t, clientOf(t, testserver.ClosedPort(t), testserver.SharedEtcd(t)), apart()))
	mustHold(t, s, mutex("a"))
}

func TestALoginAtAClosedPortSaysSo(t *testing.T) {
	t.Parallel()
	_, err := Open("etcd://somebody:secret@" + testserver.ClosedPort(t))
	refused(t, "Open", err)
}
