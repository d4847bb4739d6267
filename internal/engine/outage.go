package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/store"
)

// How a store that does not answer is reported.

// A trouble records the failures of an operation on the store so far. The operation
// writes it; a caller that gives up meanwhile reads it.
type trouble struct {
	newest atomic.Pointer[error] // the newest failure since the store last answered
	since  atomic.Int64          // when the operation under way began, an Instant; 0: there is none
	from   clock.Instant         // when the first unanswered operation began, of this claim or one before it in the local queue; for the caller only
}

// silentFor is how long the store must not have answered to be reported as silent. If
// a caller gives up sooner, its error does not blame the store.
const silentFor = time.Second

func (t *trouble) began(e *engine) { t.since.Store(int64(e.now())) }
func (t *trouble) ended()          { t.since.Store(0) }

// answered reports whether the error shows that the store is reachable: it has answered,
// or the claim lost a race against others.
func answered(err error) bool {
	return err == nil || store.Definite(err) || errors.Is(err, store.ErrContended)
}

// met notes the outcome of an attempt.
func (t *trouble) met(e *engine, err error) {
	if answered(err) {
		if t.since.Load() != 0 { // the caller still waits
			t.began(e) //mutant:lost-races-are-no-silence
		}
		if t.newest.Load() != nil {
			t.newest.Store(nil) //mutant:outage-over
		}
		return
	}
	newest := err // a copy: err itself would be on the heap in every call
	if was := t.newest.Load(); was != nil {
		newest = newer(*was, err)
	}
	t.newest.Store(&newest)
}

// now returns why the store does not answer, or nil if it did, or if the answer is not
// late yet.
func (t *trouble) now(e *engine) error {
	if err := t.newest.Load(); err != nil { //mutant:outage-with-deadline
		return *err
	}
	if since := t.since.Load(); since != 0 {
		if d := e.now().Sub(clock.Instant(since)); d >= silentFor { //mutant:silence
			return fmt.Errorf("%w: no answer for %s", store.ErrUnavailable, Short(d))
		}
	}
	return nil
}

// newer returns err, or the failure before it if err is just the end of the engine's own
// context.
func newer(was, err error) error {
	if was != nil && endOfContext(err) && !endOfContext(was) { //mutant:last-try-without-time
		return was
	}
	return err
}

func endOfContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// indeterminate makes an error of the store match ErrUnavailable, unless it is definite, such
// as a loss. The result never matches the error of a context: such an error comes from a time
// limit of the engine or the driver, which is not the caller's.
func indeterminate(err error) error {
	if err == nil {
		return nil
	}
	of := endOfContext(err)
	if of {
		err = &ofStore{err}
	}
	switch {
	case store.Definite(err) || errors.Is(err, store.ErrUnavailable):
		return err
	case of:
		return fmt.Errorf("%w: no answer in time (%w)", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// ofStore is an error that matches all errors that it wraps, except the end of a context.
type ofStore struct{ err error }

func (e *ofStore) Error() string { return e.err.Error() }

func (e *ofStore) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target) //mutant:context-of-engine
}

func (e *ofStore) As(target any) bool { return errors.As(e.err, target) }

// nobodyListens reports whether the error says that nothing listens at the store's
// address: the port is closed, or there is no such host or socket.
func nobodyListens(err error) bool {
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return dns.IsNotFound
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" && errors.Is(err, syscall.ENOENT) {
		return true // a socket in the file system that does not exist
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused)
}

// wsaRefused is ECONNREFUSED on Windows.
const wsaRefused = syscall.Errno(10061)
