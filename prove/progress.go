package prove

import (
	"fmt"
	"time"
)

// Progress is how far a run has come.
type Progress struct {
	Elapsed time.Duration // since the processes began their work
	For     time.Duration // how long the faults go on in all; the end takes a few seconds more
	Grants  int           // so far
	Faults  int           // faults that met something, so far
	// Found is how often too many held a name together, or a token was wrong, so
	// far. The other checks are made at the end.
	Found int
}

// String returns the progress as one line of text.
func (p Progress) String() string {
	found := "nothing wrong so far"
	if p.Found > 0 {
		found = fmt.Sprintf("%d WRONG so far", p.Found)
	}
	return fmt.Sprintf("%v of %v: %d grants, %d faults, %s", p.Elapsed.Round(time.Second), p.For, p.Grants, p.Faults, found)
}

// progressEvery is how often progress is reported, if that is cheap. Judging takes time
// that grows with the history, and must not load the machine.
const progressEvery = time.Second

// progress reports the progress of the run until stop is closed.
func (r *run) progress(began time.Duration, stop <-chan struct{}) {
	for pause := progressEvery; ; {
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
		from := time.Now()
		p := r.soFar()
		p.Elapsed = r.now() - began
		pause = max(progressEvery, 10*time.Since(from))
		r.o.Progress(p)
	}
}

// soFar judges the history so far. A stopped process reports its events late, above
// all a release, so only events that are old enough are judged.
func (r *run) soFar() Progress {
	h := r.history()
	p := Progress{For: r.o.For}
	old, by := 0, r.now()-3*r.run.TTL
	for i := range h.Events {
		e := &h.Events[i]
		p.Grants += count(e.Do == got)
		p.Faults += count(e.Do == mended && e.Hits > 0)
		if e.At <= by {
			old = i + 1
		}
	}
	h.Events = h.Events[:old]
	v := newView(h)
	for _, c := range []check{exclusion, tokens} {
		if v.notChecked(c) != "" {
			continue
		}
		j := &judge{view: v}
		if c == exclusion {
			j.exclusion()
		} else {
			j.tokens()
		}
		p.Found += j.Wrong
	}
	return p
}
