// Package manager tests holdfastkube in controller-runtime's manager.
package manager

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastkube"
	"github.com/holdfast-go/holdfast/memstore"
)

// newManager is the manager of a process of an operator. It needs no API server, as it watches nothing.
func newManager(t *testing.T, lock *holdfastkube.Lock) ctrl.Manager {
	t.Helper()
	lease, renew, retry := 5*time.Minute, 4*time.Minute, 500*time.Millisecond // a stall of the machine ends no term
	m, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		LeaderElection: true, LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Logger: logr.Discard(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The work of an operator runs in one of its managers, and in another once that one stops.
func TestOneManagerOfTwoLeads(t *testing.T) {
	s := memstore.New()
	var together atomic.Int64
	started := make(chan int)
	var stop [2]context.CancelFunc
	var ended [2]chan error
	for i := range 2 {
		locks, err := holdfast.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		lock, err := holdfastkube.New(locks, "operator", "")
		if err != nil {
			t.Fatal(err)
		}
		m := newManager(t, lock)
		err = m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			if together.Add(1) > 1 {
				t.Error("two managers lead at once")
			}
			defer together.Add(-1)
			if lock.Lease().Token() == 0 {
				t.Error("the leader has no token")
			}
			started <- i
			<-ctx.Done()
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		var ctx context.Context
		ctx, stop[i] = context.WithCancel(t.Context())
		ended[i] = make(chan error, 1)
		go func() { ended[i] <- m.Start(ctx) }()
	}
	first := <-started
	stop[first]()
	if second := <-started; second == first {
		t.Error("the stopped manager leads again")
	}
	stop[1-first]()
	for i, e := range ended {
		if err := <-e; err != nil {
			t.Errorf("manager %d: %v", i, err)
		}
	}
}
