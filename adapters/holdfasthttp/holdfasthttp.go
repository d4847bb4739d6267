// Package holdfasthttp runs an HTTP handler while a lock is held, whose name comes from the
// request: one change of an order at a time, in all processes that serve it.
//
//	locked := holdfasthttp.Locked(locks, func(r *http.Request) string {
//		return "order/" + r.PathValue("id")
//	}, &holdfasthttp.Options{Wait: 2 * time.Second})
//	mux.Handle("PUT /orders/{id}", locked(update))
//
// # The context and the lease
//
// The context of the handler's request ends with the request, and when the lease is lost.
// [holdfast.LeaseFrom] finds the lease in it, with its fencing token. Pass both on: the context to
// queries, and the token to the resources that the handler writes to.
//
// What the handler has sent cannot be taken back. If the lease is lost during a handler, the loss
// is logged, and the handler decides how to end: it should answer 503 if its context has ended. A
// handler that ignores its context continues, concurrently with that of another process.
//
// # Refusals
//
// If the lock is held for longer than [Options.Wait], the answer is 423 Locked, or another status that you
// choose, with Retry-After. If the store cannot be asked, it is 503 Service Unavailable with Retry-After. The
// handler is not called. If the client has left, there is no answer.
//
// A wait keeps the connection and a goroutine. Bound the number of waits by MaxWaiting of [holdfast.Options], or
// their length by Wait. A server with a WriteTimeout counts the wait as part of it.
//
// # Names
//
// The sender of a request chooses the name, so put a prefix before it, as above, and first check that the user
// has the right to the request: otherwise anyone can keep others waiting, or create any number of names. Names
// have 1 to 512 bytes of UTF-8; any other is answered by 400 Bad Request.
//
// # Panics
//
// A panic in the handler releases the lock and propagates, to [http.Server] or to a recovering
// handler.
package holdfasthttp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Options configure Locked; nil is the same as an empty one.
type Options struct {
	// Wait bounds how long a request waits for the lock. 0: it does not wait.
	Wait time.Duration
	// Status is the status of the answer while the lock is held elsewhere: [http.StatusLocked],
	// which is the default, [http.StatusConflict], [http.StatusServiceUnavailable] or
	// [http.StatusTooManyRequests].
	Status int
	// RetryAfter is when the client should ask again, in whole seconds, rounded up. Default: 1 s.
	RetryAfter time.Duration
	// Refused answers instead, if it is set, when the lock was not obtained: as JSON, for example.
	// err is the error of [holdfast.Lock.Lock]; a *[holdfast.HeldError] says who holds the name,
	// which strangers should perhaps not read. status is the default answer. Retry-After is set
	// already.
	Refused func(w http.ResponseWriter, r *http.Request, status int, err error)
	// Logger receives leases that were lost during a request and stores that do not answer, as
	// errors. Default: slog.Default().
	Logger *slog.Logger
}

// Locked returns middleware: a handler is called while the lock of the name is held. With an
// empty name the handler is called without a lock, as for methods that change nothing.
//
// A request waits for the lock as [holdfast.Lock.Lock] does. Two requests of one process exclude each other too.
func Locked(locks *holdfast.Locker, name func(*http.Request) string, o *Options) func(http.Handler) http.Handler {
	l := &locked{locks: locks, name: name}
	if o != nil {
		l.o = *o
	}
	l.o.Status = cmp.Or(l.o.Status, http.StatusLocked)
	l.o.RetryAfter = cmp.Or(l.o.RetryAfter, time.Second)
	l.o.Logger = cmp.Or(l.o.Logger, slog.Default())
	if l.o.Wait > 0 {
		l.locks = locks.With(&holdfast.Options{Wait: l.o.Wait})
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(w, r, next) })
	}
}

type locked struct {
	locks *holdfast.Locker
	name  func(*http.Request) string
	o     Options
}

func (l *locked) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	name := l.name(r)
	if name == "" {
		next.ServeHTTP(w, r)
		return
	}
	lock, acquire := l.locks.Mutex(name), (*holdfast.Lock).Lock //mutant:http-name
	if l.o.Wait <= 0 {
		acquire = (*holdfast.Lock).TryLock
	}
	lease, err := acquire(lock, r.Context())
	if err != nil { //mutant:http-refused
		l.refuse(w, r, name, err)
		return
	}
	defer func() { // also after a panic //mutant:http-release
		switch err := lease.Release(); {
		case errors.Is(err, holdfast.ErrLost):
			l.o.Logger.ErrorContext(r.Context(), "holdfasthttp: the lock was lost during the request", "name", name, "error", err)
		case err != nil && !errors.Is(err, holdfast.ErrReleased): // released by the handler
			l.o.Logger.ErrorContext(r.Context(), "holdfasthttp: it is unknown whether the lock was released", "name", name, "error", err)
		}
	}()
	next.ServeHTTP(w, r.WithContext(lease.Context(r.Context()))) //mutant:http-context
}

// refuse answers a request that did not get the lock.
func (l *locked) refuse(w http.ResponseWriter, r *http.Request, name string, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case r.Context().Err() != nil && !errors.Is(r.Context().Err(), context.DeadlineExceeded):
		return // the client has left
	case errors.Is(err, holdfast.ErrHeld):
		status = l.o.Status
	case errors.Is(err, holdfast.ErrInvalid):
		status = http.StatusBadRequest
	default:
		l.o.Logger.ErrorContext(r.Context(), "holdfasthttp: the lock cannot be asked for", "name", name, "error", err)
	}
	if status != http.StatusBadRequest {
		seconds := int64((l.o.RetryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if l.o.Refused != nil {
		l.o.Refused(w, r, status, err)
		return
	}
	http.Error(w, http.StatusText(status), status)
}
