package holdfast

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// checked is a store with a Check.
type checked struct {
	*link
	found func(context.Context) []store.Finding
	times atomic.Int32
}

func (c *checked) Check(ctx context.Context) []store.Finding {
	c.times.Add(1)
	return c.found(ctx)
}

// Warnings and failures that a store's Check finds are logged, once.
func TestCheck_WarningsForOperatorsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &checked{link: newLink(t), found: func(context.Context) []store.Finding {
			return []store.Finding{
				{About: "version", Found: "good enough"},
				{About: "eviction", Found: "it drops what is held", Warning: true, Run: "stop it"},
				{About: "role", Found: "a reader", Err: fmt.Errorf("%w: it takes no writes", store.ErrDenied)},
			}
		}}
		var log strings.Builder
		locks := locker(t, s, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			if err := lock(t, locks, "a").Release(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		same(t, "checks", int(s.times.Load()), 1)
		same(t, "lines", strings.Count(log.String(), "\n"), 2)
		same(t, "warnings", strings.Count(log.String(), "level=WARN"), 2)
		for _, want := range []string{`msg="holdfast: eviction: it drops what is held"`, `msg="holdfast: role: a reader: not allowed: it takes no writes"`, `store="a link"`} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s\nis not in the log:\n%s", want, log.String())
			}
		}
	})
}

// asked is a store that is slow to answer an ask.
type asked struct {
	*checked
	early int32 // checks before the first answer
}

func (a *asked) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	time.Sleep(time.Second)
	a.early = a.times.Load()
	return a.checked.Ask(ctx, c)
}

// A check beside the first ask would need a second connection in each process, also if many start at once.
func TestCheck_ComesAfterTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &asked{checked: &checked{link: newLink(t), found: func(context.Context) []store.Finding { return nil }}}
		lease := lock(t, locker(t, s, nil), "a")
		synctest.Wait()
		same(t, "checks before the first answer", s.early, 0)
		same(t, "checks", s.times.Load(), 1)
		if err := lease.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

// If Close cuts a check off, nothing is logged. Close waits for the check.
func TestCheck_CutOffByCloseIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		s := &checked{link: newLink(t), found: func(ctx context.Context) []store.Finding {
			<-ctx.Done()
			ended = true
			return []store.Finding{{About: "server", Err: fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())}}
		}}
		var log strings.Builder
		locks := locker(t, s, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lock(t, locks, "a")
		synctest.Wait() // until the check is under way
		if err := locks.Close(); err != nil || !ended {
			t.Fatalf("Close: %v; the check has ended: %v", err, ended)
		}
		same(t, "log", log.String(), "")
	})
}
