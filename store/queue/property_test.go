package queue_test

import (
	"errors"
	"flag"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// TestProperties applies random operations to one name, and checks after each what
// the rule promises for every history.
func TestProperties(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("4000"); err != nil { // they are quick
			t.Fatal(err)
		}
	}
	// The mutants run side by side, and one would try the file that another left. The seed is printed anyway.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, now: queue.Time{Clock: -100, Wall: 5000}, known: map[store.ID]*claimed{}}
		w.q.Forgets = rapid.Bool().Draw(t, "forgets why a hold was freed")
		t.Repeat(map[string]func(*rapid.T){
			"ask":      w.ask,
			"again":    w.again,
			"renew":    w.renew,
			"change":   w.change,
			"adopt":    w.adopt,
			"release":  w.release,
			"withdraw": w.withdraw,
			"break":    w.breaking,
			"death":    w.death,
			"poll":     w.poll,
			"time":     w.time,
			"":         w.check,
		})
		w.leaveAll()
	})
}

// A world is one name, and what the answers alone say of each claim.
type world struct {
	t     *rapid.T
	q     queue.Queue
	now   queue.Time
	ids   []store.ID // in the order they first came
	known map[store.ID]*claimed
	most  int64 // the newest token that anybody may have used
	came  int   // claims so far

	renamed map[store.ID]store.ID // by the operation under way: new to old
}

// A claimed is a claim, and what its owner knows of it.
type claimed struct {
	store.Claim
	token int64
	came  int   // order of the append
	turn  int32 // the newest change
}

func us(n int) time.Duration { return time.Duration(n) * time.Microsecond }

// large are the durations that are drawn now and then, up to the greatest TTL of any store.
var large = []time.Duration{time.Minute + time.Microsecond, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}

// draw draws a duration: so many microseconds, from the first of few to the second, or any of more than two; or a large one.
func draw(t *rapid.T, label string, few ...int) time.Duration {
	if rapid.IntRange(0, 5).Draw(t, label+" is large") == 0 {
		return rapid.SampledFrom(large).Draw(t, label)
	}
	if len(few) == 2 {
		return us(rapid.IntRange(few[0], few[1]).Draw(t, label))
	}
	return us(rapid.SampledFrom(few).Draw(t, label))
}

// do runs an operation, and checks what is true after every operation.
func (w *world) do(t *rapid.T, self store.ID, act func(*queue.Queue) (any, queue.Change, error)) (any, error) {
	before := clone(w.q)
	out, change, err := act(&w.q)

	if same := reflect.DeepEqual(normal(before), normal(w.q)); !same && !change.Wrote {
		t.Fatalf("the queue changed, but Wrote is false:\n%+v\n%+v", before, w.q)
	} else if a, asked := out.(store.Answer); same && change.Wrote && (err != nil || asked && !a.Granted && find(w.q, self) == nil) {
		t.Fatalf("lost, or a refused try: Wrote is true, but the queue is the same: %+v", w.q)
	}

	// Tokens are drawn when something is granted, and always larger than any
	// that was used. There is a notification for each grant, but for the caller's own.
	var notifications []store.Notification
	drawn, pending, granted := w.q.Last, false, 0
	for i := range w.q.Entries {
		e := &w.q.Entries[i]
		was, mine := find(before, e.ID), e.ID == self
		if old, ok := w.renamed[e.ID]; ok && was == nil {
			was, mine = find(before, old), true
		}
		pending = pending || wants(e, w.now)
		switch {
		case !e.Granted && e.Token != 0:
			t.Fatalf("a waiting entry has token %d", e.Token)
		case was != nil && was.Granted && (!e.Granted || was.Token != e.Token):
			t.Fatalf("a hold changed its token, or waits again: %+v, %+v", was, e)
		case e.Granted && (was == nil || !was.Granted):
			if e.Token <= w.most {
				t.Fatalf("got token %d after %d, want a larger one", e.Token, w.most)
			}
			if e.N == 0 || e.N > 1 && e.Weight != e.Limit {
				t.Fatalf("a block of %d for a part of the limit: %+v", e.N, e)
			}
			granted++
			w.most = e.Token + int64(e.N) - 1
			if !mine {
				notifications = append(notifications, store.Notification{Name: "n", ID: e.ID, Token: e.Token, N: int(e.N)})
			}
		case was != nil && e.UpgradeToken != was.UpgradeToken:
			if e.UpgradeToken <= w.most || e.Weight != store.Full || e.Want != e.Weight || was.Weight == e.Weight {
				t.Fatalf("upgraded from %+v to %+v, after token %d", was, e, w.most)
			}
			w.most = e.UpgradeToken
			if !mine {
				notifications = append(notifications, store.Notification{Name: "n", ID: e.ID})
			}
		case was != nil && e.Weight > was.Weight:
			t.Fatalf("more weight without an upgrade token: %+v, %+v", was, e)
		}
		// No operation moves another's expiry, or takes part of its claim.
		if was != nil && !mine {
			same := *was
			same.Granted, same.Since, same.Token, same.N = e.Granted, e.Since, e.Token, max(was.N, 1)
			if e.UpgradeToken != was.UpgradeToken {
				same.Weight, same.UpgradeToken = e.Weight, e.UpgradeToken
			}
			if e.Granted {
				same.GiveUp = nil // it was granted what it waited for
			}
			if !reflect.DeepEqual(*e, same) {
				t.Fatalf("the entry of another changed from %+v to %+v", was, e)
			}
		}
	}
	for i := range before.Entries {
		was := &before.Entries[i]
		if gone := find(w.q, was.ID) == nil; gone && was.ID != self && end(was) > w.now.Clock {
			t.Fatalf("the entry ends at %d, but was removed at %d: %+v", end(was), w.now.Clock, was)
		}
	}
	notifications = append(notifications, w.asked(before, self)...)
	if !slices.Equal(notifications, change.Woken) {
		t.Fatalf("granted %+v, but notifications %+v", notifications, change.Woken)
	}
	if pending && granted > 0 {
		t.Fatalf("granted past a pending upgrade: %+v", w.q)
	}
	if drawn != w.most && drawn != before.Last {
		t.Fatalf("the newest token is %d, but %d was drawn", drawn, w.most)
	}

	// Repeated at the same moment, the operation changes nothing more and notifies
	// nobody. The exception: an id that was lost and is forgotten would be a new claim,
	// so an engine never uses it again.
	if errors.Is(err, store.ErrLost) && find(before, self) != nil && find(w.q, self) == nil {
		return out, err
	}
	twice := clone(w.q)
	_, change, _ = act(&twice)
	if !reflect.DeepEqual(normal(twice), normal(w.q)) || len(change.Woken) > 0 {
		t.Fatalf("the repeated operation changes the queue again:\n%+v\n%+v\nnotifications %+v", w.q, twice, change.Woken)
	}
	return out, err
}

// settled is the queue after a release of nothing: ended entries are dropped, and
// what then fits is granted.
func (w *world) settled() queue.Queue {
	q := clone(w.q)
	q.Release(w.now, &store.Hold{Name: "n"})
	return q
}

func (w *world) pick(t *rapid.T) *claimed {
	if len(w.ids) == 0 {
		t.Skip("there is no claim yet")
	}
	from := max(0, len(w.ids)-8)
	return w.known[w.ids[rapid.IntRange(from, len(w.ids)-1).Draw(t, "who")]]
}

// alive is the claim's entry if its owner still has it.
func (w *world) alive(c *claimed) *queue.Entry {
	if e := find(w.q, c.ID); e != nil && e.Expires > w.now.Clock {
		return e
	}
	return nil
}

func (w *world) time(t *rapid.T) {
	d := int64(rapid.SampledFrom([]int{1, 1, 3, 10, 60, -2}).Draw(t, "by"))
	if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
		d = rapid.SampledFrom(large).Draw(t, "so long").Microseconds()
		if rapid.Bool().Draw(t, "half") {
			d /= 2
		}
	}
	w.now.Clock += d
	w.now.Wall += d
}

// check checks what is always true, once ended entries have been dropped.
func (w *world) check(t *rapid.T) {
	q := w.settled()
	held, least := int64(0), int32(store.Full)
	var waits *queue.Entry
	order, upgrading := 0, false
	for i := range q.Entries {
		e := &q.Entries[i]
		if end(e) <= w.now.Clock {
			t.Fatalf("the entry ended at %d, but is in the queue at %d: %+v", end(e), w.now.Clock, e)
		}
		if n := count(q, e.ID); n != 1 {
			t.Fatalf("got %d entries of one id, want 1", n)
		}
		if freed(e) {
			continue
		}
		if e.Granted {
			if waits != nil {
				t.Fatalf("granted behind a waiting entry:\n%+v\n%+v", waits, e)
			}
			held += int64(e.Weight)
			least = min(least, e.Limit)
			if e.GiveUp != nil {
				t.Fatalf("a holder asks others to give up: %+v", e)
			}
			if (e.Limit == store.Full) != (counted(q.Entries)[0].Limit == store.Full) {
				t.Fatalf("a lock and a semaphore are held together: %+v", q.Entries)
			}
			if wants(e, w.now) {
				if upgrading {
					t.Fatalf("two upgrades are pending: %+v", q.Entries)
				}
				upgrading = true
			}
			continue
		}
		if c := w.known[e.ID]; c.came < order {
			t.Fatalf("the entry came before the one ahead of it: %+v", e)
		} else {
			order = c.came
		}
		if waits == nil {
			waits = e
		}
	}
	if held > int64(least) {
		t.Fatalf("%d are granted, although one holder has a total of %d: %+v", held, least, q.Entries)
	}
	if upgrading && held == store.Upgradeable {
		t.Fatalf("nothing blocks a pending upgrade: %+v", q.Entries)
	}
	if waits != nil && !upgrading && held+int64(waits.Weight) <= int64(min(least, waits.Limit)) {
		t.Fatalf("a waiter fits, but is not granted: %+v next to %d", waits, held)
	}
}

// end is when an entry stops blocking, computed independently: a position at its
// expiry; a hold when its lock delay after the expiry, and its minimum hold if
// its token was ever shown, have both ended.
func end(e *queue.Entry) int64 {
	switch {
	case !e.Granted:
		return e.Expires
	case e.Shown && e.Since+e.MinHold > e.Expires+e.LockDelay:
		return e.Since + e.MinHold
	}
	return e.Expires + e.LockDelay
}

// leaveAll checks that nothing is left once all have left and every minimum
// hold and delay has ended.
func (w *world) leaveAll() {
	for _, id := range w.ids {
		w.q.Release(w.now, &store.Hold{Name: "n", ID: id})
	}
	for i := range w.q.Entries {
		e := &w.q.Entries[i]
		if kept := e.Shown && e.Since+e.MinHold > w.now.Clock; e.Expires > w.now.Clock || !kept && e.Expires+e.LockDelay <= w.now.Clock {
			w.t.Fatalf("all claims were released, but an entry is left: %+v", e)
		}
	}
	w.now.Clock += 1000 + 3*large[len(large)-1].Microseconds()
	if q := w.settled(); len(q.Entries) != 0 {
		w.t.Fatalf("all claims were released and have ended, but entries are left: %+v", q.Entries)
	}
}

func find(q queue.Queue, id store.ID) *queue.Entry {
	for i := range q.Entries {
		if q.Entries[i].ID == id {
			return &q.Entries[i]
		}
	}
	return nil
}

func count(q queue.Queue, id store.ID) (n int) {
	for _, e := range q.Entries {
		if e.ID == id {
			n++
		}
	}
	return n
}

func clone(q queue.Queue) queue.Queue {
	q.Entries = slices.Clone(q.Entries)
	return q
}

// normal is the queue without empty fields that mean nothing.
func normal(q queue.Queue) queue.Queue {
	if len(q.Entries) == 0 {
		q.Entries = nil
	}
	return q
}

// freed reports whether a hold was broken with now, computed independently.
func freed(e *queue.Entry) bool { return e.Broken != nil && (*e.Broken)[0] == 1 }

// counted is the entries that can block.
func counted(all []queue.Entry) (some []queue.Entry) {
	for i := range all {
		if !freed(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}
