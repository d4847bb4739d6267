//go:build linux || darwin

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast"
)

// events FILE EVENT... reads what run --json wrote, which must be exactly these
// events, each complete; ended has its code, as ended:CODE. An event that a slow
// store does not answer yet may be among them.
func events(ts *testscript.TestScript, _ bool, args []string) {
	var got []string
	var first, last record
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	dec.DisallowUnknownFields()
	for {
		var r record
		err := dec.Decode(&r)
		if err == io.EOF {
			break
		}
		ts.Check(err)
		if first.Event == "" {
			first = r
		}
		if r.Event == eventWaiting && strings.HasSuffix(r.Message, ": the store does not answer") {
			continue
		}
		event := r.Event
		if r.Code != nil {
			event += ":" + strconv.Itoa(*r.Code)
		}
		if event != eventWaiting || len(got) == 0 || got[len(got)-1] != event { // it comes again each minute
			got = append(got, event)
		}
		ts.Check(sound(&r, &first, &last))
		last = r
	}
	if want := args[1:]; strings.Join(got, " ") != strings.Join(want, " ") {
		ts.Fatalf("got events %q, want %q", got, want)
	}
}

func TestARefusalShowsNoUnknownEnd(t *testing.T) {
	held := &holdfast.HeldError{Holders: []holdfast.Holder{{Since: time.Now()}}}
	if ms := refusal(held, "").Holders[0].Expires; ms != 0 {
		t.Errorf("got %d ms, want 0", ms)
	}
}

// sound returns what is wrong with a record, given those before it.
func sound(r, first, last *record) error {
	var wrong problems
	at, err := time.Parse(time.RFC3339Nano, r.Time)
	wrong.check(err == nil, "no time")
	if last.Time != "" {
		before, _ := time.Parse(time.RFC3339Nano, last.Time)
		wrong.check(!at.Before(before), "time before that of the last event")
	}
	wrong.check(r.Name != "" && r.Name == first.Name, "name")
	wrong.check(r.Store == first.Store, "store")
	wrong.check(r.Mode == mode(r.Limit, r.Weight) && r.Weight > 0 && r.Weight <= r.Limit, "mode, weight and limit")
	wrong.check((r.ID == "") == (r.Token == 0), "id and token")
	wrong.check(last.ID == "" || r.ID == last.ID && r.Token == last.Token, "not the same hold")
	wrong.check(last.Event != eventEnded, "an event after the end")
	wrong.check((r.Code != nil) == (r.Event == eventEnded), "code")
	wrong.check((r.Expires > 0) == (r.Event == eventHeld), "expires_ms")
	asks := r.Event == eventWaiting || r.Event == eventRefused
	wrong.check((r.Holding != nil) == asks && (r.Ahead != nil) == asks && (len(r.Holders) > 0) == asks, "holding, ahead, holders")
	wrong.check((r.Message != "") == (r.Event != eventHeld && r.Event != eventEnded), "message")
	switch r.Event {
	case eventHeld:
		wrong.check(r.ID != "", "no id")
	case eventWaiting, eventRefused:
		wrong.check(r.ID == "", "an id before the grant")
		for _, h := range r.Holders {
			_, err := time.Parse(time.RFC3339Nano, h.Since)
			wrong.check(err == nil && len(h.ID) == 32 && h.Token > 0 && h.Owner.Host != "" && h.Owner.PID > 0 && h.Expires > 0, "holder")
		}
	case eventLost:
		wrong.check(last.ID != "", "lost but never held")
	case eventAsked:
		wrong.check(r.ID != "", "asked but never held")
	case eventWarning, eventFailed, eventEnded:
	default:
		wrong.check(false, "unknown")
	}
	return wrong.of(r)
}

// problems are what is wrong with a record.
type problems []string

func (p *problems) check(ok bool, what string) {
	if !ok {
		*p = append(*p, what)
	}
}

func (p problems) of(r *record) error {
	if len(p) == 0 {
		return nil
	}
	line, _ := json.Marshal(r)
	return fmt.Errorf("%s: %s", strings.Join(p, ", "), line)
}
