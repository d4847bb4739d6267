package main

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// The lock is granted when the signal was taken, and before it can have ended the
// wait: nothing has run, so the next may.
func TestASignalBesideTheGrantKeepsNoMinimum(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		mem := memstore.New()
		signals := make(chan os.Signal)
		granted := 0
		locks := opened(t, mem, &holdfast.Options{MinHold: time.Hour, Observer: func(e holdfast.Event) {
			if e.Kind != holdfast.EventGranted {
				return
			}
			if granted++; granted == len(names) {
				signals <- givesUp[0]
			}
		}})
		leases, err := (&job{names: names, try: true}).acquire(locks, signals)
		close(signals)
		if end := (*exitError)(nil); leases != nil || !errors.As(err, &end) || end.code != codeOfSignal(givesUp[0]) {
			t.Fatalf("leases %v, error %v, want the end by a signal", leases != nil, err)
		}
		next := opened(t, mem, nil)
		l, err := next.All(claims(next, names)...).TryLock(t.Context())
		if err != nil {
			t.Fatalf("nothing ran under %q: %v", names, err)
		}
		l.Release()
	}
}

func opened(t *testing.T, mem *memstore.Store, o *holdfast.Options) *holdfast.Locker {
	if o == nil {
		o = &holdfast.Options{}
	}
	o.Logger = slog.New(slog.DiscardHandler)
	l, err := holdfast.New(mem, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func claims(l *holdfast.Locker, names []string) (all []holdfast.Claimer) {
	for _, name := range names {
		all = append(all, l.Mutex(name))
	}
	return all
}
