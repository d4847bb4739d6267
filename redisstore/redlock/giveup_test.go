package redlock

import (
	"encoding/hex"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// asksNow returns a node's answer to a renewal while a waiter asks for the lock.
func asksNow(order int64, id store.ID, reason string) string {
	b := append([]byte("1"), 0, 0)
	b = hex.AppendEncode(appendFloat(b, order), id[:])
	return string(b) + reason
}

// Of the requests that the nodes report, the one of the waiter that is granted first counts, whichever node reports it.
func TestTheFirstRequestToGiveUpOnAnyNodeIsReturned(t *testing.T) {
	n := &node{}
	first, second := me.NewID(), me.NewID()
	for _, answers := range [][]string{
		{asksNow(7, first, "the first"), asksNow(8, second, "the second"), "1"},
		{"1", asksNow(8, second, "the second"), asksNow(7, first, "the first")},
		{asksNow(8, second, "the second"), asksNow(7, first, "the first"), asksNow(8, second, "the second")},
	} {
		var c count
		for _, a := range answers {
			c.add(nil, "", reply{n: n, answer: a})
		}
		if c.done != 3 || len(c.errs) > 0 || c.asks == nil || c.asks.reason != "the first" {
			t.Errorf("got %+v, %+v", c, c.asks)
		}
	}
}

// An answer that this program cannot read is an error, and no vote.
func TestAnUnreadableRenewalDoesNotCount(t *testing.T) {
	for _, text := range []string{"", "\x00", "\x00\x00", "\x05\x00abc", "\x00\x00" + asksNow(1, me.NewID(), "")[3:], "\x00\x00not an order and an id and a reason, but long enough"} {
		if _, _, ok := readRenewal(text); ok {
			t.Errorf("%q was accepted as a renewal", text)
		}
	}
}
