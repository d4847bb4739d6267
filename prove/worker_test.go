package prove

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// gone is a lease that expires before anything can read it, because its process stalled. As ours does, it reports a
// deadline of a moment ago. The first read takes so long that there is a second one: by then the deadline is some
// milliseconds behind the grant, whatever else the machine does.
type gone struct {
	lost chan struct{}
	read *atomic.Bool
}

func (gone) ID() string   { return "1" }
func (gone) Token() int64 { return 1 }
func (g gone) Deadline() time.Time {
	if !g.read.Swap(true) {
		time.Sleep(3 * time.Millisecond)
	}
	return time.Now().Add(-1)
}
func (gone) Valid() bool             { return false }
func (g gone) Lost() <-chan struct{} { return g.lost }
func (gone) Release() error          { return nil }

func TestALeaseLostBeforeItIsReadIsNotExtended(t *testing.T) {
	var told bytes.Buffer
	c := &child{job: job{Run: Run{TTL: time.Second}}, w: &told}
	c.seen = &recorder{asks: map[store.ID]*asked{}}
	over := gone{make(chan struct{}), new(atomic.Bool)}
	close(over.lost)
	w := &worker{child: c}
	h := w.take("lock", Name{"a", "mutex", store.Full}, store.Full, time.Second, false, func(context.Context) (lease, error) { return over, nil })
	c.watchers.Wait()
	if h == nil {
		t.Fatal("no hold")
	}
	for lines := bufio.NewScanner(&told); lines.Scan(); {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Do == got {
			if e.Until > e.At {
				t.Errorf("granted at %v until %v, want it not extended", e.At, e.Until)
			}
			return
		}
	}
	t.Fatalf("the grant is not reported: %s", told.String())
}

// slowPipe takes its time for each line.
type slowPipe struct{ bytes.Buffer }

func (p *slowPipe) Write(b []byte) (int, error) {
	time.Sleep(2 * leastStall)
	return p.Buffer.Write(b)
}

func TestAParentThatReadsLateIsAStall(t *testing.T) {
	var p slowPipe
	c := &child{w: &p}
	c.send(Event{Do: started})
	lines := bytes.Split(bytes.TrimSpace(p.Bytes()), []byte("\n"))
	var e Event
	if err := json.Unmarshal(lines[len(lines)-1], &e); err != nil || len(lines) != 2 || e.Do != stall || e.By < 2*leastStall {
		t.Errorf("got %v, written: %s", err, p.Bytes())
	}
}

func TestTheRegisterNamesTheWrongWriter(t *testing.T) {
	type step struct {
		op            int
		token         int64
		write         bool
		refused, harm bool
	}
	for name, steps := range map[string][]step{
		"one after the other":                               {{1, 1, false, false, false}, {1, 1, true, false, false}, {2, 2, false, false, false}, {2, 2, true, false, false}},
		"the late writer writes last":                       {{1, 1, false, false, false}, {2, 2, false, false, false}, {2, 2, true, false, false}, {1, 1, true, true, true}},
		"the late writer writes before the other":           {{1, 1, false, false, false}, {2, 2, false, false, false}, {1, 1, true, true, true}, {2, 2, true, false, false}},
		"the late writer writes last, no token":             {{1, 0, false, false, false}, {2, 0, false, false, false}, {2, 0, true, false, false}, {1, 0, true, false, true}},
		"the late writer writes before the other, no token": {{1, 0, false, false, false}, {2, 0, false, false, false}, {1, 0, true, false, false}, {2, 0, true, false, true}},
		"the holder writes again, no token":                 {{1, 0, false, false, false}, {1, 0, true, false, false}, {1, 0, false, false, false}, {1, 0, true, false, false}},
		"a reader beside it":                                {{1, 1, false, false, false}, {3, 9, false, false, false}, {1, 1, true, false, false}},
	} {
		r := registers{m: map[string]*register{}}
		for i, s := range steps {
			e := Event{Do: use, Op: s.op, Name: "a", Token: s.token, Write: s.write, Weight: 1}
			if s.op == 3 {
				e.Weight = 0
			}
			if r.use(&e, func() time.Duration { return 1 }); e.Refused != s.refused || e.Harm != s.harm {
				t.Errorf("%s, step %d: got refused %v, harm %v", name, i+1, e.Refused, e.Harm)
			}
		}
	}
}
