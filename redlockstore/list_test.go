package redlockstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A renewal is confirmed by a majority, so a node may not have it yet. Its
// entry does not hide what the renewal told the others.
func TestWhatARenewalToldAMajorityIsListed(t *testing.T) {
	t.Parallel()
	_, s := nodes(t, 3, Options{})
	c := mutex("x")
	c.TTL, c.Block = 30*time.Second, 10
	h := mustHold(t, s, c)
	idle(t, s)
	next := store.Owner{Host: "next"}.String()
	// The third has not been told, and its vote is over between the others'.
	for i, told := range []struct {
		ttl   time.Duration
		used  int64
		owner string
	}{{40 * time.Second, h.Token + 5, next}, {60 * time.Second, h.Token + 5, next}, {50 * time.Second, 0, ""}} {
		args := s.scripts.renew.call(1, s.key(h.Name), h.ID.String(), strconv.FormatInt(h.Token, 10), strconv.FormatInt(micros(told.ttl), 10),
			strconv.FormatInt(told.used, 10), "", told.owner, "shown", "")
		if err := s.nodes[i].client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	entries := listed(t, s, h.Name).Entries
	if len(entries) != 1 || entries[0].Used != h.Token+5 || entries[0].Owner.Host != "next" {
		t.Errorf("listed: %+v, want one that has used %d, of the owner %q", entries, h.Token+5, next)
	}
}
