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

// What is said of a store that does not answer.

// A trouble is what an operation on the store has met so far. It is written
// where the operation runs, and read by callers who give up meanwhile.
type trouble struct {
	newest atomic.Pointer[error] // since the store answered last
	since  atomic.Int64          // when the operation under way began, an Instant; 0: none is
	from   clock.Instant         // when the first one began that was not answered, here or before in the local queue; for the caller alone
}

// silentFor is how long an operation has been without an answer when that is
// the store's doing: a caller that gives up sooner learns nothing of the store.
const silentFor = time.Second

func (t *trouble) began(e *engine) { t.since.Store(int64(e.now())) }
func (t *trouble) ended()          { t.since.Store(0) }

// answered reports whether the store is there: it has answered, or others were first.
func answered(err error) bool {
	return err == nil || store.Definite(err) || errors.Is(err, store.ErrContended)
}

// met notes how an attempt came out.
func (t *trouble) met(e *engine, err error) {
	if answered(err) {
		if t.since.Load() != 0 { // if its caller waits still
			t.began(e) //mutant:lost-races-are-no-silence
		}
		if t.newest.Load() != nil {
			t.newest.Store(nil) //mutant:outage-over
		}
		return
	}
	newest := err // err itself would be on the heap in every call
	if was := t.newest.Load(); was != nil {
		newest = newer(*was, err)
	}
	t.newest.Store(&newest)
}

// now is why there is no answer, or nil if there is one, or it is not late.
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

// newer is the newest of two failures; the end of our own context tells less
// than what was before it.
func newer(was, err error) error {
	if was != nil && endOfContext(err) && !endOfContext(was) { //mutant:last-try-without-time
		return was
	}
	return err
}

func endOfContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// indeterminate makes an error of the store one that matches ErrUnavailable, unless
// it is definite, as a loss is. It never matches the error of a context: that would be of the
// engine's own bound or the driver's, which the caller knows nothing of.
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

// ofStore is an error that matches all that it wraps but the end of a context.
type ofStore struct{ err error }

func (e *ofStore) Error() string { return e.err.Error() }

func (e *ofStore) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target) //mutant:context-of-engine
}

func (e *ofStore) As(target any) bool { return errors.As(e.err, target) }

// nobodyListens reports whether the error says that nothing answers at the
// store's address: the port is closed, or there is no such host.
func nobodyListens(err error) bool {
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return dns.IsNotFound
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" && errors.Is(err, syscall.ENOENT) {
		return true // of a socket in the file system
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused)
}

// wsaRefused is what Windows calls it.
const wsaRefused = syscall.Errno(10061)
