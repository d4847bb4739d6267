package main

import (
	"context"
	"testing"
)

// The reference of the rows of S3 is a lock: a claimant that finds the name taken asks again until it is released.
func TestAConditionalWriteExcludes(t *testing.T) {
	t.Parallel()
	at, err := startManyS3(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer at.stop()
	var of [2]locks
	for i := range of {
		if of[i], err = openBareConditional(at.target); err != nil {
			t.Fatal(err)
		}
		defer of[i].close()
	}
	unlock, err := of[0].lock(t.Context(), "taken")
	if err != nil {
		t.Fatal(err)
	}
	asked := func() measure {
		m, err := at.count(t.Context(), contender{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := asked()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := make(chan error, 1)
	go func() {
		unlock, err := of[1].lock(ctx, "taken")
		if err == nil {
			err = unlock()
		}
		next <- err
	}()
	if err := eventually(t.Context(), "the other caller asks again", func() bool { return asked()[requests] >= before[requests]+3 }); err != nil {
		t.Fatal(err)
	}
	if now := asked(); now[writes] != before[writes] || len(next) != 0 {
		t.Errorf("%v requests of the other caller were granted while the name was held", now[writes]-before[writes])
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	if now := asked(); now[writes] != before[writes]+3 {
		t.Errorf("got %v writes after a release, a lock and its release, want 3", now[writes]-before[writes])
	}
}
