package pgstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/store"
)

// A session has expired, and nobody has ended it yet. A listing on a read-only connection, as on a standby, sees that its holds have ended,
// and sees the live ones.
func TestAListNeedsNoRightToWrite(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	c := mutex("expired")
	c.LockDelay = time.Hour
	h := mustHold(t, s, c)
	mustRenew(t, s, h)
	in := sessionOf(t, s, "expired", h.ID)
	c = mutex("lasts")
	c.TTL = time.Hour
	lasts := mustHold(t, s, c)
	lasts.TTL = c.TTL
	mustRenew(t, s, lasts)
	dead(s)
	run(t, poolOf(s), "UPDATE "+sessionsOf(s)+" SET expires = $2 WHERE id = $1", in[:], time.Now().Add(-time.Minute).UnixMicro())
	pool := poolOn(t, sharedAddr(t), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	reads := tableOn(t, pool, &Options{Schema: s.schema})
	defer reads.Close()
	for _, name := range []string{"", "expired"} {
		all := map[string]store.Entry{}
		for st, err := range reads.List(t.Context(), name) {
			if err != nil {
				t.Fatalf("list %q: %v", name, err)
			}
			all[st.Name] = st.Entries[0]
		}
		if e := all["expired"]; e.ID != h.ID || e.Expires > -time.Minute || e.Ends < 50*time.Minute {
			t.Errorf("list %q: entry of an expired session: got %+v", name, e)
		}
		if e := all["lasts"]; name == "" && (e.ID != lasts.ID || e.Expires < 50*time.Minute || e.Expires > time.Hour) {
			t.Errorf("list %q: entry of a live session: got %+v", name, e)
		}
	}
}
