package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each server counts what a lock costs, whichever contender takes it: at least one request for the lock and one for its
// release, and with holdfast at least one write.
func TestServersCount(t *testing.T) {
	t.Parallel()
	for _, on := range stores {
		t.Run(on.name, func(t *testing.T) {
			err := on.during(t.Context(), func(at running) (all error) {
				for _, c := range on.all {
					if err := counts(t, at, c); err != nil {
						all = errors.Join(all, fmt.Errorf("%s: %w", c.name, err))
					}
				}
				return all
			})
			if errors.Is(err, errNoServer) {
				t.Log(err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func counts(t *testing.T, at running, c contender) error {
	if at.count == nil {
		return nil
	}
	l, err := c.open(at.target)
	if err != nil {
		return err
	}
	defer l.close()
	pair(t, l) // makes tables and streams
	// Some servers update the counts of a connection later.
	late := eventually(t.Context(), "the server's counts are plausible", func() bool {
		const pairs = 10
		costs, failed := at.count.during(t.Context(), c, func() error {
			for range pairs {
				pair(t, l)
			}
			return nil
		})
		t.Log(c.name, costs)
		err = failed
		written := costs[writes] >= pairs || !isOurs(c.name)
		return err != nil || costs[requests] >= 2*pairs && costs[requests] < 50*pairs && written
	})
	return errors.Join(err, late)
}

// A claimant that does not get the name in time has failed, whether or not it heeds its context.
func TestAClaimantThatTimesOutHasFailed(t *testing.T) {
	t.Parallel()
	l, err := onFiles[0].open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.close() })
	slot := make(chan struct{}, 1)
	for name, l := range map[string]locks{"heeds its context": l, "ignores its context": inProcess{func() { slot <- struct{}{} }, func() { <-slot }}} {
		t.Run(name, func(t *testing.T) {
			unlock, err := l.lock(context.Background(), "come")
			if err != nil {
				t.Fatal(err)
			}
			if failed, _, _ := come([]locks{l, l}, "come", monotonic(), 100*time.Millisecond); failed != 2 {
				t.Errorf("%d of 2 claims failed while the name was held, want both", failed)
			}
			if err := unlock(); err != nil {
				t.Fatal(err)
			}
			begin := monotonic()
			failed, last, why := come([]locks{l}, "come", begin, time.Minute)
			if failed != 0 || last < begin || len(why) != 0 {
				t.Errorf("%d failed, the last was granted at %d, all claimed at %d: %v", failed, last, begin, why)
			}
		})
	}
}

// Errors that differ only in their numbers are reported once.
func TestEqualErrorsAreReportedOnce(t *testing.T) {
	var all []wrong
	for _, text := range []string{"process 12 is inside", "process 345 is inside", "refused"} {
		all = add(all, errors.New(text))
	}
	if len(all) != 2 || all[0].often != 2 || all[1].often != 1 {
		t.Errorf("got %v", all)
	}
}

func TestUnknownStoreIsRefused(t *testing.T) {
	s := setup{rounds: 1, slice: 1, turns: 1, held: 1, hot: 1, each: 1, ttl: 1, seeds: 1, proveFor: 1, on: []string{"redis", "nonsense"}}
	if err := run(t.Context(), s, "hot"); err == nil || !strings.Contains(err.Error(), "file, redis, redlock") {
		t.Errorf("got %v, want an error that lists the stores", err)
	}
}

// As many claimants come as were asked for, or else as many as the store serves.
func TestAsManyComeAsAStoreServes(t *testing.T) {
	few := served{comers: []int{10}}
	for _, c := range []struct {
		asked []int
		on    served
		want  []int
	}{
		{nil, served{}, manyComers},
		{nil, few, few.comers},
		{[]int{4}, few, []int{4}},
	} {
		if got := (setup{comers: c.asked}).comersOf(c.on); !slices.Equal(got, c.want) {
			t.Errorf("got %v claimants, want %v", got, c.want)
		}
	}
}
