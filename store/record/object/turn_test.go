package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// sweepOf sweeps as a store does, and returns how many names it was told.
func sweepOf(t *testing.T, b *Backend) (names int) {
	t.Helper()
	for r, err := range b.Sweep(t.Context(), time.Hour) {
		if err != nil {
			t.Errorf("%q: %v", r.Name, err)
		}
		names++
	}
	b.Finish()
	return names
}

// requests counts those that begin so.
func (m *memory) requests(what string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.asked {
		if strings.HasPrefix(a, what) {
			n++
		}
	}
	return n
}

// Ten processes look once a minute, and for a day.
func TestAllProcessesTogetherListOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var all []*Backend
		for range 10 {
			all = append(all, backendOn(t, m))
		}
		before := len(m.asked)
		for range 24 * 60 {
			for _, b := range all {
				sweepOf(t, b)
			}
			time.Sleep(time.Minute)
			m.passes(time.Minute)
		}
		if n := m.requests("LIST locks/"); n < 23 || n > 25 {
			t.Errorf("all objects were listed %d times in a day, want about 24", n)
		}
		if n := len(m.asked) - before; n > 25*(len(all)*2+3) {
			t.Errorf("the turns took %d requests, too many", n)
		}
	})
}

// As stores do by themselves.
func TestStoresSweepInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for range 10 {
			storeOn(t, m)
		}
		for range 3 * 60 {
			time.Sleep(time.Minute)
			m.passes(time.Minute)
		}
		if n := m.requests("LIST locks/"); n < 2 || n > 4 {
			t.Errorf("all objects were listed %d times in three hours, want about 3", n)
		}
	})
}

// Two find at one moment that it is time.
func TestOfTwoThatComeToSweepOneDoes(t *testing.T) {
	m := newMemory()
	a, b := backendOn(t, m), backendOn(t, m)
	m.meets(func(what, key string, _ []byte) answer {
		if what == "PUT" && key == "locks/w/sweep" {
			m.meets(nil)
			sweepOf(t, b) // it is first
		}
		return 0
	})
	sweepOf(t, a)
	if n := m.requests("LIST locks/"); n != 1 {
		t.Errorf("all objects were listed %d times, want once", n)
	}
}

// A sweep ends after a while, however many there are.
func TestASweepGoesOnWhereTheOneBeforeEnded(t *testing.T) {
	m := newMemory()
	first := backendOn(t, m)
	const names = 25
	for i := range names {
		if out, err := first.Swap(t.Context(), &record.Swap{Name: fmt.Sprint("name", i), Data: []byte("x")}); err != nil || !out.Done {
			t.Fatal(err)
		}
	}
	m.passes(48 * time.Hour)
	seen := map[string]int{}
	for range 3 {
		n, b := 0, backendOn(t, m) // another process, which soon has enough
		for r, err := range b.Sweep(t.Context(), time.Hour) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > 10 {
				break
			}
			seen[r.Name]++
		}
		b.Finish()
		m.passes(SweepEvery)
	}
	if len(seen) != names {
		t.Errorf("three sweeps of ten names each saw %d of %d names", len(seen), names)
	}
	if n := sweepOf(t, backendOn(t, m)); n != names {
		t.Errorf("after the last name the next sweep starts again: it sees %d names, want %d", n, names)
	}
}

// More objects than one sweep can delete are left each hour. A crashed process's sweep is continued as well.
func TestAnInterruptedSweepGoesOnAMinuteLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first := backendOn(t, m)
		const names = 30
		for i := range names {
			if out, err := first.Swap(t.Context(), &record.Swap{Name: fmt.Sprintf("name\xff%02d", i), Data: []byte("x")}); err != nil || !out.Done {
				t.Fatal(err)
			}
		}
		m.passes(48 * time.Hour)
		seen := map[string]bool{}
		for range 4 {
			n := 0
			for r, err := range first.Sweep(t.Context(), time.Hour) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n > 10 {
					break
				}
				seen[r.Name] = true
			}
			first.Finish()
			time.Sleep(resumes)
			m.passes(resumes)
		}
		if len(seen) != names {
			t.Errorf("four sweeps of ten names each, a minute apart, saw %d of %d names", len(seen), names)
		}
		if n := sweepOf(t, first); n != 0 {
			t.Errorf("a minute after the last name a sweep begins again, and sees %d names", n)
		}
	})
}

// What is below the prefix and cannot be read, as it is another program's, is passed over.
func TestASweepPassesOverWhatCannotBeRead(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	swap(t, b, record.Record{}, false)
	if _, _, err := m.Put(t.Context(), "locks/n/", []byte("not ours"), ""); err != nil { // it is the first
		t.Fatal(err)
	}
	m.passes(48 * time.Hour)
	foreign, names := 0, 0
	for _, err := range b.Sweep(t.Context(), time.Hour) {
		if err != nil {
			foreign++
		} else {
			names++
		}
	}
	if b.Finish(); foreign != 1 || names != 1 {
		t.Errorf("it yields %d unreadable and %d readable names, want one each", foreign, names)
	}
}

// An object that no request can read is skipped, too: what comes behind it would never be swept.
func TestASweepGoesOnBehindWhatItCannotRead(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	for _, name := range []string{"a", "b", "c"} {
		if out, err := b.Swap(t.Context(), &record.Swap{Name: name, Data: []byte("x")}); err != nil || !out.Done {
			t.Fatal(err)
		}
	}
	m.passes(48 * time.Hour)
	m.unread = "locks/n/b.lock"
	var got []string
	for n, err := range b.Sweep(t.Context(), time.Hour) {
		got = append(got, n.Name)
		if (n.Name == "b.lock") != (err != nil) {
			t.Errorf("%s: %v", n.Name, err)
		}
	}
	b.Finish()
	if !slices.Equal(got, []string{"a", "b.lock", "c"}) {
		t.Errorf("got %q", got)
	}
	if body := string(m.objects["locks/w/sweep"].Body); strings.Contains(body, "after") {
		t.Errorf("the next sweep does not begin again: %s", body)
	}
}

// It is overwritten, and the sweep begins at the beginning. One of a newer version is left alone.
func TestASweepIsDoneThoughItsObjectIsDamaged(t *testing.T) {
	for body, want := range map[string]int{"": 1, "x": 1, `{"v":0,"after":"eg=="}`: 1, `{"v":1,"after":7}`: 1, `{"v":2,"after":7}`: 0} {
		m := newMemory()
		b := backendOn(t, m)
		swap(t, b, record.Record{}, false)
		if _, what, _ := m.Put(t.Context(), "locks/w/sweep", []byte(body), ""); what != Done {
			t.Fatal("it was swept")
		}
		m.passes(48 * time.Hour)
		if n := sweepOf(t, b); n != want {
			t.Errorf("%q: the sweep saw %d names, want %d", body, n, want)
		}
		if is := string(m.objects["locks/w/sweep"].Body); (is == body) != (want == 0) {
			t.Errorf("%q: it became %q", body, is)
		}
	}
}

// What was told in an error, or on a context that has ended, is not passed over by the next sweep.
func TestASweepThatFailsIsDoneAgain(t *testing.T) {
	m := newMemory()
	b := backendOn(t, m)
	swap(t, b, record.Record{}, false)
	m.passes(48 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range b.Sweep(ctx, time.Hour) {
		cancel()
	}
	b.Finish()
	m.passes(SweepEvery)
	if n := sweepOf(t, backendOn(t, m)); n != 1 {
		t.Errorf("the next sweep sees %d names, want 1", n)
	}
}

// It may have no rights to.
func TestAReaderSweepsNothing(t *testing.T) {
	m := newMemory()
	b := New(m, "memory", "locks/")
	defer b.Close()
	load(t, b)
	sweepOf(t, b)
	if n := m.requests("LIST locks/") - m.requests("LIST locks/j/") + m.requests("PUT"); n > 0 {
		t.Errorf("a store that only reads listed all, or wrote: %q", m.asked)
	}
	swap(t, b, record.Record{}, false)
	if sweepOf(t, b); m.requests("LIST locks/")-m.requests("LIST locks/j/") != 1 {
		t.Errorf("a store that has written does not sweep: %q", m.asked)
	}
}

// A trial goes on when who began it has left, and the next, who has come meanwhile, has its result.
func TestATrialServesAllThatComeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.meets(func(string, string, []byte) answer {
			time.Sleep(time.Second) // a slow link
			return 0
		})
		b := New(m, "memory", "locks/")
		defer b.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := b.Prepare(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the first: got %v, want the end of its context", err)
		}
		for range 3 {
			if err := b.Prepare(t.Context()); err != nil {
				t.Errorf("the next: %v", err)
			}
		}
		b.Finish()
		if n := m.requests("PUT locks/t/") - m.requests("PUT locks/t/keep"); n != 2*writers+3 {
			t.Errorf("got %d writes of trials, want those of one, %d", n, 2*writers+3)
		}
	})
}

// A server that was stopped may have an old Date for a second. One with two clocks has it for good.
func TestATrialLooksAgainAtAServerThatWasStopped(t *testing.T) {
	for name, lasts := range map[string]int{"stopped": looks - 1, "two_clocks": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.tells(5 * time.Second)
				reads := -1 // the first of them is between the writes of the trial
				m.meets(func(what, key string, _ []byte) answer {
					if what == "GET" && !strings.HasSuffix(key, "/keep") {
						if reads++; reads > lasts {
							m.tells(0)
						}
					}
					return 0
				})
				b := New(m, "memory", "locks/")
				defer b.Close()
				switch err := b.Prepare(t.Context()); {
				case name == "stopped" && (err != nil || reads != looks):
					t.Errorf("got %v after %d reads", err, reads)
				case name == "two_clocks" && (!errors.Is(err, store.ErrUnsupported) || reads != looks):
					t.Errorf("got %v after %d reads, want ErrUnsupported", err, reads)
				}
			})
		})
	}
}

// A server that keeps its objects as files may say that it has written one that is not there, while it deletes the directory: a session
// would be over that its owner counts on. So no directory is ever empty, and what sees to that is believed once it is seen.
func TestNoDirectoryOfObjectsIsEverEmpty(t *testing.T) {
	m := newMemory()
	var seen sync.Map
	m.meets(func(what, key string, _ []byte) answer {
		if what == "PUT" {
			if _, again := seen.LoadOrStore(key, true); !again {
				return phantom
			}
		}
		return 0
	})
	b := New(m, "memory", "locks/")
	t.Cleanup(func() { b.Close() })
	if err := b.keepDirectories(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := m.kept(); !slices.Equal(kept, keepers) {
		t.Errorf("%q are kept, want %q", kept, keepers)
	}
	m.meets(nil)
	writes := m.requests("PUT")
	if backendOn(t, m); m.requests("PUT")-writes != 2*writers+3 {
		t.Errorf("the next process writes %d times before its trial of %d, want none", m.requests("PUT")-writes-2*writers-3, 2*writers+3)
	}
}

// It is no result of who comes later.
func TestATrialThatFailedIsRepeated(t *testing.T) {
	m := newMemory()
	b := New(m, "memory", "locks/")
	defer b.Close()
	m.meets(func(what, _ string, _ []byte) answer {
		if what == "PUT" {
			return lost
		}
		return 0
	})
	if err := b.Prepare(t.Context()); err == nil || store.Definite(err) {
		t.Fatalf("got %v, want an indeterminate error", err)
	}
	m.meets(nil)
	if err := b.Prepare(t.Context()); err != nil {
		t.Errorf("the next: %v", err)
	}
}

// A trial that hangs does not keep the store from being closed.
func TestATrialEndsWithItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(hangs{newMemory()}, "memory", "locks/")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Prepare(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		began := time.Now()
		b.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("Close took %v, want no time", took)
		}
	})
}

// A server that hangs answers no write.
type hangs struct{ *memory }

func (hangs) Put(ctx context.Context, _ string, _ []byte, _ string) (Object, Fate, error) {
	<-ctx.Done()
	return Object{}, 0, ctx.Err()
}
