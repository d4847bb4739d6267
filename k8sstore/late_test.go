package k8sstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// releasesLate does what client-go does with ReleaseOnCancel after it was cut off for longer than its lease: it gives
// the Lease back, whoever holds it by then.
func (e *elector) releasesLate(t *testing.T, namespace string) {
	t.Helper()
	until(t, "client-go clears the Lease", func() bool { // a conflict is tried again
		l, err := e.leases.Leases(namespace).Get(t.Context(), leaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		nobody, second, now := "", int32(1), metav1.NowMicro()
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime, l.Spec.AcquireTime = &nobody, &second, &now, &now
		_, err = e.leases.Leases(namespace).Update(t.Context(), l, metav1.UpdateOptions{})
		return err == nil
	})
}

// renewed returns the error of a renewal that was answered.
func renewed(t *testing.T, s *Store, h store.Hold) (err error) {
	t.Helper()
	until(t, "a renewal is answered", func() bool {
		err = s.Renew(t.Context(), []store.Hold{h})[0].Err
		return err == nil || store.Definite(err) || errors.Is(err, store.ErrLost)
	})
	return err
}

// heldAfter returns a hold of a Lease that client-go has used and given back, renewed twice, and the program that
// used it. first: holdfast has created the Lease.
func heldAfter(t *testing.T, s *Store, addr, namespace string, first bool) (*elector, store.Hold) {
	t.Helper()
	if first {
		if err := s.Release(t.Context(), storetest.MustHold(t, s, storetest.Mutex(me, leaseName))); err != nil {
			t.Fatal(err)
		}
	}
	e := elects(t, addr, namespace, 2*time.Second, true)
	until(t, "client-go leads", e.leads.Load)
	e.stop()
	c := storetest.Mutex(me, leaseName)
	until(t, "the claim is granted", func() bool { return storetest.MustAsk(t, s, c).Granted }) // if the release of client-go failed, its lease expires
	h := storetest.MustHold(t, s, c)
	for range 2 {
		if err := renewed(t, s, h); err != nil {
			t.Fatal(err)
		}
	}
	return e, h
}

// Nobody takes the Lease before the holder renews: it shows itself again, and keeps the Lease.
func TestAHolderKeepsALeaseThatClientGoReleasesLate(t *testing.T) {
	t.Parallel()
	addr, namespace := namespace(t)
	s := opened(t, addr, namespace)
	e, h := heldAfter(t, s, addr, namespace, true)
	e.releasesLate(t, namespace)
	if err := renewed(t, s, h); err != nil {
		t.Fatal(err)
	}
	if l, _, err := s.b.server.get(t.Context(), leaseName); err != nil || !l.held() {
		t.Fatalf("the holder is not shown: %+v, %v", l, err)
	}
	other := elects(t, addr, namespace, time.Second, true)
	if err := renewed(t, s, h); err != nil {
		t.Error(err)
	}
	if other.leads.Load() {
		t.Error("two hold the Lease")
	}
	if err := s.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
	until(t, "client-go leads after the release", other.leads.Load)
}

// Another candidate of client-go takes the Lease before the holder renews: the holder has lost it.
func TestAHolderIsToldThatClientGoTookItsLease(t *testing.T) {
	t.Parallel()
	for what, first := range map[string]bool{"a Lease of holdfast": true, "a Lease of client-go": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			addr, namespace := namespace(t)
			s := opened(t, addr, namespace)
			e, h := heldAfter(t, s, addr, namespace, first)
			e.releasesLate(t, namespace)
			other := elects(t, addr, namespace, 15*time.Second, true)
			until(t, "another leads", other.leads.Load)
			for range 2 {
				if err := renewed(t, s, h); !errors.Is(err, store.ErrLost) {
					t.Fatalf("a renewal: got %v, want ErrLost", err)
				}
			}
			try := storetest.Mutex(me, leaseName)
			try.Try = true
			if a := storetest.MustAsk(t, s, try); a.Granted || len(a.Holders) != 1 || !strings.Contains(a.Holders[0].Owner.String(), "controller-1") {
				t.Errorf("got %+v, want a refusal with client-go's holder only", a)
			}
			if !other.leads.Load() {
				t.Error("client-go lost the Lease to a holder that has lost it")
			}
			other.stop()
			c := storetest.Mutex(me, leaseName)
			until(t, "the next claim is granted", func() bool { return storetest.MustAsk(t, s, c).Granted })
		})
	}
}
