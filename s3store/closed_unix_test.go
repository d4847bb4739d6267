//go:build unix

package s3store

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Each connection uses the dial function that was passed, and the error reports its failure briefly.
func TestAClosedPortIsReportedInFewWords(t *testing.T) {
	testserver.AWSCredentials()
	var dials atomic.Int32
	s, err := Open("s3://bucket?endpoint=http://"+testserver.ClosedPort(t), func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	_, err = s.Ask(t.Context(), storetest.Mutex(me, "a"))
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) || strings.Count(err.Error(), "refused") != 1 || len(err.Error()) > 160 {
		t.Errorf("%v, want ErrUnavailable with the refusal once", err)
	}
	if dials.Load() == 0 {
		t.Error("the server was not dialed")
	}
}
