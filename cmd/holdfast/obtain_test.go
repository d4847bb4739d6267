package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// The lock is granted after the signal was received and before it has ended the wait:
// nothing has run, so the minimum hold must not block the next.
func TestASignalDuringTheGrantKeepsNoMinimumHold(t *testing.T) {
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
			t.Fatalf("got leases %v, error %v, want the end by a signal", leases != nil, err)
		}
		next := opened(t, mem, nil)
		l, err := next.All(claims(next, names)...).TryLock(t.Context())
		if err != nil {
			t.Fatalf("no command ran under %q, but the next lock is refused: %v", names, err)
		}
		l.Release()
	}
}

// A read of the queue meanwhile may show that we wait after we have stopped waiting.
func TestNoWaitIsReportedAfterItsRefusal(t *testing.T) {
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
		t.Errorf("got %d lines, want only the refusal:\n%s", lines, &told)
	}
}

// With -w a store that is away is asked again until the time has passed, whether or not the command
// waits for the lock; without -w it is not.
func TestAStoreThatRecoversInTimeIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		what     string
		j        job
		away     time.Duration
		obtained bool
		over     time.Duration // the earliest end
	}{
		{"-n -w 1m", job{try: true, waits: true, wait: duration(time.Minute)}, 40 * time.Second, true, 40 * time.Second},
		{"-w 1m", job{waits: true, wait: duration(time.Minute)}, 40 * time.Second, true, 40 * time.Second},
		{"-w 1m, and the store is away for longer", job{waits: true, wait: duration(time.Minute)}, time.Hour, false, time.Minute},
		{"-n", job{try: true}, 40 * time.Second, false, 0},
		{"no flag", job{}, 40 * time.Second, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			mem, start := memstore.New(), time.Now()
			mem.Fail(func(string, string) error {
				if time.Since(start) < c.away {
					return syscall.ECONNRESET
				}
				return nil
			})
			j := c.j
			j.names, j.where, j.begun = []string{"a"}, "memory", start
			locks, err := holdfast.New(mem, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			leases, err := j.acquire(locks, nil)
			if took := time.Since(start); (err == nil) != c.obtained || took < c.over || took > c.away+time.Second {
				t.Errorf("%s: got %v after %v", c.what, err, took)
			}
			if end := (*exitError)(nil); err != nil && (!errors.As(err, &end) || end.code != exitUnavailable || !strings.Contains(err.Error(), "connection reset")) {
				t.Errorf("%s: got %v, want that the connection was reset", c.what, err)
			}
			if leases != nil {
				_ = leases.Release()
			}
		})
	}
}

// A doubting store is not sure for a while whether the holders are alive, like one without a clock.
type doubting struct {
	*memstore.Store
	sure time.Time
}

func (s doubting) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.Store.Ask(ctx, c)
	if err == nil && !a.Granted && c.Try {
		a.Unsure = max(time.Until(s.sure), 0)
	}
	return a, err
}

// The bound for a silent store does not end a try with an unsure answer. Otherwise a cron job would never get the lock of a dead holder.
func TestATryWatchesForLongerThanAStoreMayBeSilent(t *testing.T) {
	for what, c := range map[string]struct {
		j    job
		dies bool
		over time.Duration
	}{
		"the holder has died":  {job{try: true}, true, 30 * time.Second},
		"the holder is alive":  {job{try: true}, false, 30 * time.Second},
		"-w limits the time":   {job{try: true, waits: true, wait: duration(10 * time.Second)}, false, 10 * time.Second},
		"several names as one": {job{try: true, names: []string{"a", "b"}}, true, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			mem, start := memstore.New(), time.Now()
			held, err := opened(t, mem, nil).Mutex("a").TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.dies {
				time.AfterFunc(29*time.Second, func() { held.Release() }) // then the store is sure
			}
			j := c.j
			j.where, j.begun, j.conflict = "memory", start, exitHeld
			if j.names == nil {
				j.names = []string{"a"}
			}
			locks, err := holdfast.New(doubting{mem, start.Add(30 * time.Second)}, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			leases, err := j.acquire(locks, nil)
			if took := time.Since(start); (err == nil) != c.dies || took < c.over-time.Second || took > c.over+time.Second {
				t.Errorf("%s: got %v after %v, want it after %v", what, err, took, c.over)
			}
			if end := (*exitError)(nil); err != nil && (!errors.As(err, &end) || end.code != exitHeld) {
				t.Errorf("%s: got %v, want exit code 75", what, err)
			}
			if leases != nil {
				_ = leases.Release()
			}
			if !c.dies {
				held.Release()
			}
		})
	}
}

// One signal ends a try that watches, like any wait.
func TestASignalEndsATryThatWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, start := memstore.New(), time.Now()
		held, err := opened(t, mem, nil).Mutex("a").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer held.Release()
		locks, err := holdfast.New(doubting{mem, start.Add(30 * time.Second)}, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		signals := make(chan os.Signal, 1)
		defer close(signals)
		time.AfterFunc(10*time.Second, func() { signals <- syscall.SIGTERM })
		j := job{try: true, where: "memory", begun: start, conflict: exitHeld, names: []string{"a"}}
		_, err = j.acquire(locks, signals)
		if end := (*exitError)(nil); !errors.As(err, &end) || end.code != codeOfSignal(syscall.SIGTERM) || time.Since(start) != 10*time.Second {
			t.Errorf("got %v after %v, want an end by the signal after 10s", err, time.Since(start))
		}
	})
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

// A long note or name leaves room for the holder and since when.
func TestARefusalShowsTheHolderDespiteALongNote(t *testing.T) {
	for _, name := range []string{"billing/tenant-4711/monthly-invoices-eu", strings.Repeat("n", 200)} {
		note := strings.Repeat("do not kill ", 8)
		holder := holdfast.Holder{Owner: holdfast.Owner{Host: "a-host-of-some-length", PID: 4711, Program: "backup.sh", Note: note}, Since: time.Now(), Expires: time.Now().Add(20 * time.Second)}
		held := &holdfast.HeldError{Name: name, Holders: []holdfast.Holder{holder}, Holding: 1, Waiting: 2}
		line := asLine((&job{conflict: exitHeld}).refused(held).Error())
		for _, said := range []string{name[:5], "host a-host-of-some-length, pid 4711 (backup.sh)", "do n…", "since ", "expires in ", "2 waiting"} {
			if !strings.Contains(line, said) {
				t.Errorf("%q is missing in %q", said, line)
			}
		}
		if held.Holders[0].Owner.Note != note {
			t.Error("the refusal cut the note itself, want it whole")
		}
	}
}
