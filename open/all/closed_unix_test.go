//go:build unix

package all_test

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/open"
)

// longest is how long the report of a closed port may take.
const longest = 3 * time.Second

// If nothing listens, the caller soon gets an error with the cause, whatever the driver does by itself. It takes about
// 0.6 s, which is logged. The bound here allows for a busy machine, and is well under the five seconds for which an
// indeterminate ask is repeated.
func TestAClosedPortIsReportedSoonOnEachStore(t *testing.T) {
	for name, url := range testserver.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open.URL(testserver.At(url, func() string { return testserver.ClosedPort(t) }))
			if err != nil {
				t.Fatal(err)
			}
			locks, err := holdfast.New(s, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = locks.Close() })
			for _, how := range []struct {
				name string
				lock func(context.Context) (*holdfast.Lease, error)
			}{{"TryLock", locks.Mutex("a").TryLock}, {"Lock", locks.Mutex("a").Lock}} {
				var err error
				took := time.Hour
				for began := time.Now(); took > longest && time.Since(began) < time.Minute; { // the machine may stall during one measurement
					begin := time.Now()
					_, err = how.lock(t.Context())
					took = min(took, time.Since(begin))
				}
				t.Logf("%s: after %v: %v", how.name, took.Round(time.Millisecond), err)
				if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("%s: got %v, want ErrUnavailable without an error of the context", how.name, err)
				}
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s: %v does not say that the connection was refused", how.name, err)
				}
				if took > longest {
					t.Errorf("%s took %v, too long", how.name, took)
				}
			}
		})
	}
}
