package prove

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// gone is a lease that is over before anybody could look: its process stood
// still meanwhile. As ours does, it says that its deadline was a moment ago.
type gone struct{ lost chan struct{} }

func (gone) ID() string              { return "1" }
func (gone) Token() int64            { return 1 }
func (gone) Deadline() time.Time     { time.Sleep(time.Microsecond); return time.Now().Add(-1) }
func (gone) Valid() bool             { return false }
func (g gone) Lost() <-chan struct{} { return g.lost }
func (gone) Release() error          { return nil }

func TestALeaseThatWasOverBeforeItCouldBeReadIsNotTakenForLonger(t *testing.T) {
	var told bytes.Buffer
	c := &child{job: job{Run: Run{TTL: time.Second}}, w: &told}
	c.seen = &recorder{asks: map[store.ID]*asked{}}
	lease := gone{make(chan struct{})}
	close(lease.lost)
	w := &worker{child: c}
	h := w.take("lock", Name{"a", "mutex", store.Full}, store.Full, time.Second, false, func(context.Context) (Lease, error) { return lease, nil })
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
				t.Errorf("granted at %v, until %v", e.At, e.Until)
			}
			return
		}
	}
	t.Fatalf("the grant is not told: %s", told.String())
}

// slowPipe takes its time for each line.
type slowPipe struct{ bytes.Buffer }

func (p *slowPipe) Write(b []byte) (int, error) {
	time.Sleep(2 * leastStall)
	return p.Buffer.Write(b)
}

func TestAParentThatIsSlowToHearIsAStall(t *testing.T) {
	var p slowPipe
	c := &child{w: &p}
	c.tell(Event{Do: started})
	lines := bytes.Split(bytes.TrimSpace(p.Bytes()), []byte("\n"))
	var e Event
	if err := json.Unmarshal(lines[len(lines)-1], &e); err != nil || len(lines) != 2 || e.Do != stall || e.By < 2*leastStall {
		t.Errorf("%v: it told %s", err, p.Bytes())
	}
}
