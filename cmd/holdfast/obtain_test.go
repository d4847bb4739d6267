package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
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

// Who looks into the queue meanwhile may find out that we wait when we do no more.
func TestNothingIsToldOfAWaitBehindItsRefusal(t *testing.T) {
	was := stderr
	defer func() { stderr = was }()
	var told bytes.Buffer
	j := &job{names: []string{"a"}, try: true, json: true, conflict: exitHeld}
	stderr = &voice{to: &told, journal: newJournal(j)}
	mem := memstore.New()
	held, err := opened(t, mem, nil).Mutex("a").TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	if _, err := j.acquire(opened(t, mem, nil), nil); err == nil {
		t.Fatal("obtained")
	}
	stderr.waits((&queue{name: "a"}).record("waiting for a"))
	if lines := strings.Count(told.String(), "\n"); lines != 1 || !strings.Contains(told.String(), eventRefused) {
		t.Errorf("%d lines, want the refusal alone:\n%s", lines, &told)
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

func claims(l *holdfast.Locker, names []string) (all []*holdfast.Lock) {
	for _, name := range names {
		all = append(all, l.Mutex(name))
	}
	return all
}

// A long note or name leaves what says who holds and since when.
func TestARefusalSaysWhoHoldsWhateverTheNote(t *testing.T) {
	for _, name := range []string{"billing/tenant-4711/monthly-invoices-eu", strings.Repeat("n", 200)} {
		note := strings.Repeat("do not kill ", 8)
		holder := holdfast.Holder{Owner: holdfast.Owner{Host: "a-host-of-some-length", PID: 4711, Program: "backup.sh", Note: note}, Since: time.Now(), Expires: time.Now().Add(20 * time.Second)}
		held := &holdfast.HeldError{Name: name, Holders: []holdfast.Holder{holder}, Holding: 1, Waiting: 2}
		line := asLine((&job{conflict: exitHeld}).refused(held).Error())
		for _, said := range []string{name[:5], "host a-host-of-some-length, pid 4711 (backup.sh)", "do n…", "since ", "expires in ", "2 waiting"} {
			if !strings.Contains(line, said) {
				t.Errorf("%q is not in %q", said, line)
			}
		}
		if held.Holders[0].Owner.Note != note {
			t.Error("the note itself was cut")
		}
	}
}
