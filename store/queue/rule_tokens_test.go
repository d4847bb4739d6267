package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// numbers applies operations to one name, each at a moment of its own, and returns
// the tokens.
type numbers struct {
	t   *testing.T
	q   queue.Queue
	now queue.Time
}

func (n *numbers) ask(weight int64, block int) (*store.Claim, store.Answer) {
	n.t.Helper()
	c := &store.Claim{Name: "n", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: weight, TTL: time.Minute, PositionTTL: time.Minute, Block: block}
	return c, n.again(c)
}

func (n *numbers) again(c *store.Claim) store.Answer {
	n.t.Helper()
	a, _, err := n.q.Ask(n.now, "n", c)
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

func (n *numbers) release(c *store.Claim, token, used int64) {
	n.t.Helper()
	if _, err := n.q.Release(n.now, &store.Hold{Name: "n", ID: c.ID, Token: token, Used: used}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *numbers) check(what string, have, want any) {
	n.t.Helper()
	if have != want {
		n.t.Errorf("%s: got %v, want %v", what, have, want)
	}
}

// A grant of the whole name draws a block, whichever operation grants. Unused tokens
// are returned if nothing was drawn since.
func TestABlockIsDrawnAtTheGrantAndCountedBack(t *testing.T) {
	n := &numbers{t: t, now: queue.Time{Wall: 1000}}
	c, a := n.ask(store.Full, 10)
	n.check("the first token", a.Token, int64(1000))
	n.check("the block", a.N, 10)
	n.check("the newest token", a.Last, int64(1009))
	n.check("the block when asked again", n.again(c).N, 10)
	next, waits := n.ask(store.Full, 5)
	n.check("granted", waits.Granted, false)
	n.release(c, 1000, 1003)
	n.check("the token drawn by the release, after the ones used", n.again(next).Token, int64(1004))
	n.check("the block drawn by the release", n.again(next).N, 5)

	r, _ := n.ask(1, 7)
	n.release(next, 1004, 0)
	n.check("the token of a reader, after a block whose use was not reported", n.again(r).Token, int64(1009))
	n.check("the block of a reader", n.again(r).N, 1)
	n.release(r, 1009, 0)

	c, a = n.ask(store.Full, store.MaxBlock+1)
	n.check("the largest block", a.N, store.MaxBlock)
	for _, outside := range []int64{1, a.Token - 1, a.Last + 1, a.Last + 1000} {
		last := n.q.Last
		again, _ := n.ask(store.Full, 1)
		n.release(again, 0, 0)
		if _, err := n.q.Release(n.now, &store.Hold{Name: "n", ID: c.ID, Token: a.Token, Used: outside}); err != nil {
			t.Fatal(err)
		}
		n.check("the newest token after a release that reports one outside the block", n.q.Last, last)
		c, a = n.ask(store.Full, 10)
	}
	n.release(c, a.Token, a.Token)
	n.check("the newest token if only the first was used", n.q.Last, a.Token)
}

// A position from a version without blocks asks for none, so it gets one token.
func TestAPositionOfAnOlderVersionIsGrantedOneToken(t *testing.T) {
	n := &numbers{t: t, now: queue.Time{Wall: 1000}}
	c, a := n.ask(store.Full, 1)
	w, _ := n.ask(store.Full, 1)
	n.q.Entries[1].N = 0
	n.release(c, a.Token, 0)
	a = n.again(w)
	n.check("its token", a.Token, int64(1001))
	n.check("how many", a.N, 1)
	n.check("the newest", a.Last, int64(1001))
}

// A renewal reports the newest used token, and a late copy of a renewal does not
// undo that.
func TestTheNewestTokenUsedIsShownAndNeverGoesBack(t *testing.T) {
	n := &numbers{t: t, now: queue.Time{Wall: 1000}}
	c, a := n.ask(store.Full, 10)
	for _, s := range []struct{ reported, want int64 }{{0, 1000}, {1000, 1000}, {1004, 1004}, {1002, 1004}, {0, 1004}, {1010, 1004}, {5, 1004}, {1009, 1009}} {
		h := store.Hold{Name: "n", ID: c.ID, Token: a.Token, TTL: time.Minute, Used: s.reported, Owner: fmt.Sprintf("h\t1\tp\t\tnote %d", s.reported)}
		if r, _ := n.q.Renew(n.now, &h); r.Err != nil {
			t.Fatal(r.Err)
		}
		e := n.q.State(n.now, "n").Entries[0]
		n.check(fmt.Sprint("the newest token used, after a report of ", s.reported), e.Used, s.want)
		n.check("the note of the renewal", e.Owner.Note, fmt.Sprint("note ", s.reported))
		for token, want := range map[int64]bool{0: false, 999: false, 1000: true, 1005: true, 1009: true, 1010: false} {
			n.check(fmt.Sprint("the hold has token ", token), e.Has(token), want)
		}
	}
	h := store.Hold{Name: "n", ID: c.ID, Token: a.Token, TTL: time.Minute}
	n.q.Renew(n.now, &h)
	n.check("the note of an older renewal", n.q.State(n.now, "n").Entries[0].Owner.Note, "note 1009")
}

// An upgrade draws a token of its own, larger than all before. The token of the
// grant still identifies the hold, and a downgrade keeps the newest token.
func TestAnUpgradeDrawsAnUpgradeTokenAndKeepsTheToken(t *testing.T) {
	n := &numbers{t: t, now: queue.Time{Wall: 1000}}
	u, a := n.ask(store.Upgradeable, 10)
	n.check("the block of an upgradeable read", a.N, 1)
	r, reader := n.ask(1, 1)
	n.check("the token of a reader next to it", reader.Token, int64(1001))
	h := store.Hold{Name: "n", ID: u.ID, Token: a.Token, TTL: time.Minute}
	change := func(turn int32, weight int64) store.Answer {
		t.Helper()
		a, _, err := n.q.Change(n.now, &h, turn, weight)
		if err != nil {
			t.Fatal(err)
		}
		n.check("the token", a.Token, int64(1000))
		return a
	}
	a = change(1, store.Full)
	n.check("granted while a reader holds it", a.Granted, false)
	n.check("its upgrade token", a.UpgradeToken, int64(0))
	n.check("the blocking holder", a.Holders[0].ID, r.ID)
	n.check("the number of blocking holders", a.Holding, 1)
	n.check("until", a.Until, time.Minute)
	n.release(r, reader.Token, 0)
	if _, err := n.q.Release(n.now, &store.Hold{Name: "n", ID: u.ID, Token: 1002}); err == nil {
		t.Error("Release accepts the upgrade token instead of the token")
	}
	renewal, _ := n.q.Renew(n.now, &h)
	n.check("renewed after the grant", renewal.Err, nil)
	n.check("the upgrade token in the renewal", renewal.UpgradeToken, int64(1002))
	n.check("the weight in the renewal", renewal.Weight, int64(store.Full))
	n.check("the wanted weight in the renewal", renewal.Want, int64(store.Full))
	n.check("the upgrade token of a second upgrade", change(2, store.Full).UpgradeToken, int64(1002))
	a = change(3, store.Upgradeable)
	n.check("the weight after a downgrade", a.Weight, int64(store.Upgradeable))
	n.check("the upgrade token after a downgrade", a.UpgradeToken, int64(1002))
	n.check("the upgrade token of another upgrade", change(4, store.Full).UpgradeToken, int64(1003))
	e := n.q.State(n.now, "n").Entries[0]
	n.check("the hold has its upgrade token", e.Has(1003), true)
	n.check("the hold has a token between", e.Has(1002), false)
	if _, err := n.q.Break(n.now, &store.Break{Name: "n", ID: u.ID, Token: 1003}); err != nil {
		t.Error("break with the upgrade token:", err)
	}
}
