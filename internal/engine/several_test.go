package engine

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/memstore"
)

// Close can find a hold before All takes it from the scheduler, and read it when
// All releases it. The race detector finds unsafe sharing.
func TestSettle_SharesAHoldWithClose(t *testing.T) {
	e, err := newEngine(memstore.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	s := &settings{Options: Options{TTL: time.Minute, RenewEvery: 20 * time.Second}}
	s.HandOver = &HandOver{}
	h := &hold{e: e, s: s}
	if !e.sched.add(h, e.now().Add(time.Minute), e.now().Add(20*time.Second)) {
		t.Fatal("the scheduler is closed")
	}
	borrowed, asked := make(chan struct{}), make(chan struct{})
	e.sched.borrow(h, borrowed)
	var flight <-chan struct{}
	var deadline clock.Instant
	h.finish(released, errClosed)
	go func() {
		defer close(asked)
		flight, deadline = e.sched.remove(h)
	}()
	if err := h.settle(s); err != errClosed {
		t.Fatal(err)
	}
	<-asked
	if flight != nil && flight != borrowed || deadline == 0 {
		t.Errorf("the hold is not the one borrowed by All, or has no deadline: %v", deadline)
	}
}

// While All waits for the renewal under way, a release of the hold waits for All,
// not for that renewal: two operations on one hold never overlap.
func TestBorrow_AReturnWaitsForTheBorrower(t *testing.T) {
	e, err := newEngine(memstore.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	s := &settings{Options: Options{TTL: time.Minute, RenewEvery: 20 * time.Second, HandOver: &HandOver{}}}
	h := &hold{e: e, s: s}
	renewal, borrowed := make(chan struct{}), make(chan struct{})
	h.flight = renewal
	if !e.sched.add(h, e.now().Add(time.Minute), e.now().Add(20*time.Second)) {
		t.Fatal("the scheduler is closed")
	}
	has := make(chan struct{})
	go func() {
		defer close(has)
		e.sched.borrow(h, borrowed)
	}()
	for taken := false; !taken; {
		e.sched.mu.Lock()
		taken = h.index < 0
		e.sched.mu.Unlock()
	}
	flight, _ := e.sched.remove(h)
	if ended(has) {
		t.Error("All has the hold while it is renewed")
	}
	close(renewal)
	<-has
	if ended(flight) {
		t.Error("the hold can be released while All has it")
	}
	close(borrowed)
	if !ended(flight) {
		t.Error("the hold cannot be released, although All is done")
	}
}
