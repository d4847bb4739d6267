package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// finish ends the work after the last fault. The processes must take each name once
// more, end, and leave nothing behind.
func (r *run) finish(ctx context.Context) {
	r.add(Event{Do: calm})
	bound := r.run.takenBy()
	var all sync.WaitGroup
	for i, p := range r.processes {
		var probes []string
		for j, n := range r.run.Names {
			if j%len(r.processes) == i {
				probes = append(probes, n.Name)
			}
		}
		all.Go(func() {
			if !p.end(probes, bound+30*time.Second) {
				r.add(Event{Do: failed, Proc: p.n, Text: fmt.Sprintf("process %d does not end", p.n)})
			}
		})
	}
	stop := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { r.attend(stop) })
	all.Wait()
	close(stop)
	beside.Wait()
	r.empties(ctx)
}

// empties records that the store has nothing left of the names, or what it still has after Run.takenBy.
func (r *run) empties(ctx context.Context) {
	bound := r.run.takenBy()
	in, ok := r.store.(store.Inspector)
	if !ok || r.run.lacks(store.PromiseInspect) {
		return
	}
	// The time counts from here: a stalled machine delays the start and the end alike.
	for ended := r.now(); ; {
		e := r.leftBehind(ctx, in)
		if over := r.now() > ended+bound; over || e.Do != failed && e.Entries == 0 {
			r.add(e)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// slowStore is how long an operation takes, at least, on a store that gets no time
// from its machine. If a store were always so slow, nothing could work with the
// shortest TTLs.
const slowStore = 100 * time.Millisecond

// attend takes and releases a name of its own until stop is closed, and reports how
// long the store did not answer. The parent's link is good, so in that time the
// store could not serve others either.
func (r *run) attend(stop <-chan struct{}) {
	if r.own == nil || r.way.groups {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-stop
		cancel()
	}()
	timed := func(operation func()) {
		began := r.now()
		operation()
		if at := r.now(); at-began >= slowStore {
			r.add(Event{Do: stall, At: at, By: at - began, Text: "the store"})
		}
	}
	for ctx.Err() == nil {
		var l *holdfast.Lease
		timed(func() { l, _ = r.ownName().Lock(ctx) })
		if l != nil {
			timed(func() { l.Release() })
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// leftBehind returns an event with what the store still has of the names.
func (r *run) leftBehind(ctx context.Context, in store.Inspector) Event {
	e := Event{Do: left}
	var text []string
	for _, n := range r.run.Names {
		for s, err := range in.List(ctx, n.Name) {
			if err != nil {
				return Event{Do: failed, Text: fmt.Sprintf("the store cannot be read: %v", err)}
			}
			for _, x := range s.Entries {
				e.Entries++
				text = append(text, fmt.Sprintf("%s of %s, token %d, expires in %v", x.ID, n.Name, x.Token, x.Expires))
			}
		}
	}
	e.Text = strings.Join(text, "; ")
	return e
}

// report judges the history and writes the reports.
func (r *run) report() (*Report, error) {
	h := r.history()
	report := &Report{Run: r.run, Verdict: Check(h), history: h}
	if r.o.Out == "" {
		return report, nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	err = errors.Join(r.err, r.file.Close(), err, os.WriteFile(filepath.Join(r.o.Out, "report.json"), append(text, '\n'), 0o666))
	f, pageErr := os.Create(filepath.Join(r.o.Out, "report.html"))
	if pageErr == nil {
		pageErr = errors.Join(report.HTML(f, h), f.Close())
	}
	return report, errors.Join(err, pageErr)
}
