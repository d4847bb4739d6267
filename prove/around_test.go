package prove

import (
	"slices"
	"testing"
	"time"
)

// Of many events only the first and the last are shown, and the guilty one wherever it is.
func TestTheGuiltyOperationIsShownAmongManyEvents(t *testing.T) {
	c := &claim{key: key{1, 1, 1}}
	h := &History{Run: Run{TTL: time.Second}}
	const many = 200
	for i := range many {
		h.Events = append(h.Events, Event{Proc: 1, Life: 1, Op: 1, Do: use, At: time.Duration(i) * time.Millisecond})
	}
	v := &view{History: h}
	for _, at := range []int{0, 29, 30, 100, 169, 170, many - 1} {
		w := &Violation{From: 0, To: time.Second, claims: []*claim{c}}
		g := &guilty{c.key, use, h.Events[at].At}
		shown := v.around(w, g)
		if !slices.ContainsFunc(shown, g.is) {
			t.Errorf("event %d of %d is not shown", at, many)
		}
		if n := len(shown); n > 61 || !slices.IsSortedFunc(shown, func(a, b Event) int { return int(a.At - b.At) }) {
			t.Errorf("got %d events shown, want at most 61 in their order", n)
		}
	}
}

// A process that was stopped reports what it believed long after its hold belonged to another.
func TestTheGuiltyOperationIsShownHoweverLate(t *testing.T) {
	c := &claim{key: key{1, 1, 1}}
	h := &History{Run: Run{TTL: time.Second}, Events: []Event{
		{Proc: 1, Life: 1, Op: 1, Do: use, At: time.Second},
		{Proc: 1, Life: 1, Op: 1, Do: until, At: time.Minute},
		{Proc: 1, Life: 1, Op: 1, Do: until, At: 2 * time.Minute},
	}}
	g := &guilty{c.key, until, time.Minute}
	shown := (&view{History: h}).around(&Violation{To: 2 * time.Second, claims: []*claim{c}}, g)
	if len(shown) != 2 || !g.is(shown[1]) {
		t.Errorf("got %+v shown, want the use and the guilty event", shown)
	}
}
