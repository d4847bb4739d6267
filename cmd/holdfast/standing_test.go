package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// unreasoned is a store that reports a break, but not why.
type unreasoned struct{ *memstore.Store }

func (s unreasoned) Renew(ctx context.Context, holds []store.Hold) []store.Renewal {
	all := s.Store.Renew(ctx, holds)
	for i := range all {
		if errors.Is(all[i].Err, store.ErrLost) {
			all[i].Err = &store.LostError{}
		}
	}
	return all
}

// hold has no command that it could stop.
func TestABrokenHoldSpeaksOfNoCommand(t *testing.T) {
	was := stderr
	defer func() { stderr = was }()
	for what, c := range map[string]struct {
		wrap func(*memstore.Store) store.Store
		says string
	}{
		"no reason":       {func(mem *memstore.Store) store.Store { return unreasoned{mem} }, "broken by an operator; the reason is unknown"},
		"no trace of one": {func(mem *memstore.Store) store.Store { return mem }, "lost: the store no longer has this hold: "},
	} {
		synctest.Test(t, func(t *testing.T) {
			var told bytes.Buffer
			stderr = &voice{to: &told}
			mem := memstore.New()
			locks, err := holdfast.New(c.wrap(mem), &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			leases, err := locks.All(locks.Mutex("a")).TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mem.Break("a")
			err = (&job{names: []string{"a"}}).stand(leases, nil, nil, nil)
			if end := (*exitError)(nil); !errors.As(err, &end) || end.code != exitLost {
				t.Errorf("%s: %v, want exit code %d", what, err, exitLost)
			}
			if line := told.String(); !strings.HasPrefix(line, "holdfast: a: "+c.says) || strings.Contains(line, "command") {
				t.Errorf("%s: hold says %q", what, line)
			}
		})
	}
}
