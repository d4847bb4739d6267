package redlock

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A majority confirms a renewal, so one node may not have it yet. That node's entry must not hide what the others got with the renewal.
func TestARenewalConfirmedByAMajorityIsListed(t *testing.T) {
	t.Parallel()
	_, s := nodes(t, 3, Options{})
	next := store.Owner{Host: "next"}.Stored()
	for name, used := range map[string]int64{"another token of its block": 5, "only another owner": 0} {
		// One node did not get it. Its vote expires before the others', between them, or after them.
		for last := range 3 {
			c := mutex(name + strconv.Itoa(last))
			c.TTL, c.Block = 30*time.Second, 10
			h := holdOnAll(t, s, c) // otherwise the next renewal would be one of a missing vote
			for i := range s.nodes {
				ttl, reported, owner := time.Duration(40+20*i)*time.Second, h.Token+used, next
				if i == last {
					reported, owner = 0, store.Owner{Host: "before"}.Stored()
				}
				args := s.scripts.renew.call(1, s.key(h.Name), h.ID.String(), strconv.FormatInt(h.Token, 10), strconv.FormatInt(micros(ttl), 10),
					strconv.FormatInt(reported, 10), "", owner, "shown", "")
				if err := s.nodes[i].client.Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			entries := listed(t, s, h.Name).Entries
			if len(entries) != 1 || entries[0].Used != h.Token+used || entries[0].Owner.Host != "next" {
				t.Errorf("%s, node %d without the renewal: got %+v listed, want one with newest token %d, of the owner %q", name, last, entries, h.Token+used, next)
			}
		}
	}
}
