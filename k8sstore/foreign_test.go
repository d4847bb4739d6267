package k8sstore

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

var until = testwait.Until

// An elector is a program that takes a Lease by client-go.
type elector struct {
	leads  atomic.Bool
	leases v1.CoordinationV1Interface
	stop   func() // returns when it has ended
}

const leaseName = "election"

// elects starts a candidate for a Lease. If it is stopped, it gives the Lease back only if releases.
func elects(t *testing.T, addr, namespace string, duration time.Duration, releases bool) *elector {
	t.Helper()
	config := at(addr)
	transport, err := transportFor(config) // client-go's own would keep its connections
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	signs, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		t.Fatal(err)
	}
	leases, err := v1.NewForConfigAndClient(config, &http.Client{Transport: signs})
	if err != nil {
		t.Fatal(err)
	}
	e := &elector{leases: leases}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	e.stop = func() { cancel(); <-ended }
	t.Cleanup(e.stop)
	lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}, Client: leases, LockConfig: resourcelock.ResourceLockConfig{Identity: "controller-1"}}
	one, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: duration, RenewDeadline: duration * 2 / 3, RetryPeriod: duration / 8, ReleaseOnCancel: releases,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { e.leads.Store(true) },
			OnStoppedLeading: func() { e.leads.Store(false) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		one.Run(ctx)
	}()
	return e
}

// A program that holds a Lease by client-go is a holder, and claims wait until it gives the Lease back.
func TestAHolderThatUsesClientGoIsRespected(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	e := elects(t, addr, namespace, 15*time.Second, true)
	until(t, "client-go leads", e.leads.Load)
	s := opened(t, addr, namespace)
	try := storetest.Mutex(me, leaseName)
	try.Try = true
	a := storetest.MustAsk(t, s, try)
	if a.Granted || len(a.Holders) != 1 || !strings.Contains(a.Holders[0].Owner.String(), "controller-1") {
		t.Fatalf("got %+v, want a refusal with the holder", a)
	}
	if l, _, err := s.b.server.get(t.Context(), leaseName); err != nil || len(l.Metadata.Annotations) != 0 {
		t.Errorf("a refused try has written to the Lease: %+v, %v", l, err)
	}
	c, later := storetest.Mutex(me, leaseName), storetest.Mutex(me, leaseName)
	if storetest.MustAsk(t, s, c).Granted || storetest.MustAsk(t, s, later).Granted {
		t.Fatal("two hold the Lease")
	}
	if !e.leads.Load() {
		t.Fatal("client-go lost the Lease to claims that wait")
	}
	e.stop()
	until(t, "the first claim is granted", func() bool {
		if storetest.MustAsk(t, s, later).Granted {
			t.Fatal("the later claim is granted first")
		}
		return storetest.MustAsk(t, s, c).Granted
	})
	if storetest.MustAsk(t, s, later).Granted {
		t.Error("two hold the name")
	}
}

// A program that holds a Lease by client-go and ends without giving it back holds it for the duration that it said,
// counted from its last write.
func TestAHolderThatUsesClientGoIsGoneWhenItsLeaseHasExpired(t *testing.T) {
	t.Parallel()
	const duration = 5 * time.Second
	addr, namespace := namespace(t)
	e := elects(t, addr, namespace, duration, false)
	until(t, "client-go leads", e.leads.Load)
	s, c := opened(t, addr, namespace), storetest.Mutex(me, leaseName)
	storetest.MustAsk(t, s, c)
	e.stop()
	l, err := e.leases.Leases(namespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the claim is granted", func() bool { return storetest.MustAsk(t, s, c).Granted })
	if held := time.Since(l.Spec.RenewTime.Time); held < duration { // the API server's clock is this machine's
		t.Errorf("granted %v after the last renewal, want at least %v", held, duration)
	}
}

// client-go waits while holdfast holds the name, though the Lease is not renewed.
func TestClientGoWaitsForAHold(t *testing.T) {
	t.Parallel()
	const duration = time.Second
	addr, namespace := namespace(t)
	s := opened(t, addr, namespace)
	h := storetest.MustHold(t, s, storetest.Mutex(me, leaseName))
	e := elects(t, addr, namespace, duration, true)
	for deadline := time.Now().Add(3 * duration); time.Now().Before(deadline); time.Sleep(duration / 10) {
		if e.leads.Load() {
			t.Fatal("two hold the Lease")
		}
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	until(t, "client-go leads", e.leads.Load)
	if storetest.MustAsk(t, s, storetest.Mutex(me, leaseName)).Granted {
		t.Error("two hold the Lease")
	}
}

// Between the read of a free Lease and the write, client-go takes it.
func TestAClaimThatClientGoOvertakesIsRefused(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	s := opened(t, addr, namespace)
	if err := s.Release(t.Context(), storetest.MustHold(t, s, storetest.Mutex(me, leaseName))); err != nil {
		t.Fatal(err)
	}
	e := elects(t, addr, namespace, 15*time.Second, true) // the store remembers the record from before
	until(t, "client-go leads", e.leads.Load)
	if a := storetest.MustAsk(t, s, storetest.Mutex(me, leaseName)); a.Granted {
		t.Error("two hold the Lease")
	}
}

// The record of the Lease is idle.
func TestAHolderThatUsesClientGoIsListed(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	s := opened(t, addr, namespace)
	if err := s.Release(t.Context(), storetest.MustHold(t, s, storetest.Mutex(me, leaseName))); err != nil {
		t.Fatal(err)
	}
	e := elects(t, addr, namespace, 15*time.Second, true)
	until(t, "client-go leads", e.leads.Load)
	for st, err := range s.List(t.Context(), "") {
		if err != nil || st.Name != leaseName || len(st.Entries) != 1 || !strings.Contains(st.Entries[0].Owner.String(), "controller-1") {
			t.Errorf("listed: %+v, %v, want client-go as the holder", st, err)
		}
		return
	}
	t.Error("the Lease is not listed")
}

// "kubectl get leases" shows who holds a name.
func TestALeaseShowsItsHolder(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	s := opened(t, addr, namespace)
	shows := func() (of spec) {
		t.Helper()
		l, _, err := s.b.server.get(t.Context(), "nightly")
		if err != nil || l == nil || json.Unmarshal(l.Spec, &of) != nil {
			t.Fatalf("%+v, %v", l, err)
		}
		return of
	}
	c := storetest.Mutex(me, "nightly")
	owner := store.Owner{Host: "web-3", PID: 4711, Program: "backup.sh"}
	c.Owner = owner.Stored()
	h := storetest.MustHold(t, s, c)
	first := shows()
	if first.HolderIdentity != owner.String() || first.AcquireTime == "" || first.RenewTime == "" || first.LeaseTransitions != 1 {
		t.Errorf("while it is held: got %+v", first)
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if free := shows(); free.HolderIdentity != "" {
		t.Errorf("when it is free: got %+v", free)
	}
}
