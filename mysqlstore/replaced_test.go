package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// couple is a primary and its asynchronous replica.
type couple struct {
	primary, replica *testserver.Server
	promoted         atomic.Bool
	replicaSQL       string // the server's word for a replica in its statements
}

func newCouple(t *testing.T) *couple {
	t.Helper()
	c := &couple{}
	for i, to := range []**testserver.Server{&c.primary, &c.replica} {
		*to = testserver.MariaDB(t, "--log-bin", "--server-id="+number(int64(i+1)), "--loose-gtid-mode=ON", "--loose-enforce-gtid-consistency=ON")
	}
	host, port, err := net.SplitHostPort(c.primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c.replicaSQL = "REPLICA"
	follow := "CHANGE REPLICATION SOURCE TO SOURCE_HOST='" + host + "', SOURCE_PORT=" + port + ", SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
	if strings.HasPrefix(isolation(t, testserver.MariaDBDSN(c.replica.Addr), ""), "tx_") {
		c.replicaSQL, follow = "SLAVE", "CHANGE MASTER TO MASTER_HOST='"+host+"', MASTER_PORT="+port+", MASTER_USER='root', MASTER_USE_GTID=slave_pos"
	}
	mustExec(t, c.dbOn(t, c.replica), follow)
	mustExec(t, c.dbOn(t, c.replica), "START "+c.replicaSQL)
	return c
}

func (c *couple) dbOn(t *testing.T, server *testserver.Server) *sql.DB {
	t.Helper()
	return dbOn(t, testserver.MariaDBDSN(server.Addr))
}

// db returns connections to the current primary.
func (c *couple) db(t *testing.T) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(testserver.MariaDBDSN(c.primary.Addr))
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = &mysql.NopLogger{}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if c.promoted.Load() {
			addr = c.replica.Addr
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// isCut waits until the replica has as many rows of names and sessions as were written, or more sessions, which a slow machine may have. Then
// it stops replication.
func (c *couple) isCut(t *testing.T, s *Store, names, sessions int) {
	t.Helper()
	db := c.dbOn(t, c.replica)
	until(t, "the replica has all rows", func() bool {
		var n, m int
		err := db.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM "+s.b.records+" WHERE idle=0),(SELECT COUNT(*) FROM "+s.b.sessions+")").Scan(&n, &m)
		return err == nil && n == names && m >= sessions
	})
	mustExec(t, db, "STOP "+c.replicaSQL)
}

// failOver promotes the replica.
func (c *couple) failOver() {
	c.promoted.Store(true)
	c.primary.Kill()
}

// The replica had received neither a release nor a grant. A released lock becomes free though its process lives on, a granted one is lost for
// its holder, and what both servers know is kept.
func TestAfterAFailOverAProcessHasWhatTheReplicaHasAndNothingElse(t *testing.T) {
	t.Parallel()
	for ttl := 5 * time.Second; !failsOver(t, ttl); ttl *= 2 {
		if ttl > patience {
			t.Fatal("this machine is too slow: each time all holds expired before the fail-over")
		}
	}
}

// failsOver returns false if what was to stay has expired because the TTL was too short for this machine.
func failsOver(t *testing.T, ttl time.Duration) (inTime bool) {
	t.Helper()
	c := newCouple(t)
	s := storeOn(t, c.db(t), nil)
	defer s.Close()
	claim := func(name string) store.Claim {
		m := mutex(name)
		m.TTL = ttl
		return m
	}
	lasts := store.Now().Add(ttl) // what is held now, here and on either server; renewals extend it
	given, stays := mustHold(t, s, claim("given back")), mustHold(t, s, claim("stays"))
	c.isCut(t, s, 2, 1)
	if err := s.Release(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	granted := mustHold(t, s, claim("granted"))
	c.failOver()
	other := storeOn(t, c.dbOn(t, c.replica), nil)
	defer other.Close()
	if e := state(t, other, "given back").Entries; len(e) != 1 || e[0].ID != given.ID {
		if store.Now() > lasts {
			return false
		}
		t.Fatalf("the replica has %+v, want the released hold", e)
	}
	var all []store.Renewal
	until(t, "the replica reports for each hold whether it has it", func() bool {
		all = s.Renew(t.Context(), []store.Hold{stays, granted})
		return !slices.ContainsFunc(all, func(r store.Renewal) bool { return r.Err != nil && !store.Definite(r.Err) })
	})
	if err := all[0].Err; err != nil {
		if store.Now() > lasts {
			return false
		}
		t.Fatalf("the hold that the replica has: %v", err)
	}
	if err := all[1].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("the hold that the replica lacks: %v, want ErrLost", err)
	}
	lasts = all[0].From.Add(all[0].TTL)
	lost := false
	untilPast(t, 2*ttl, "the released name is free", func() bool { // its session keeps nothing else, and ends then
		switch r := s.Renew(t.Context(), []store.Hold{stays})[0]; {
		case r.Err == nil:
			lasts = r.From.Add(r.TTL)
		case store.Definite(r.Err) && store.Now() > lasts:
			lost = true
		case store.Definite(r.Err):
			t.Fatalf("the hold that stays: %v", r.Err)
		}
		return lost || len(state(t, other, "given back").Entries) == 0
	})
	if a := mustAsk(t, other, mutex("stays")); a.Granted && store.Now() < lasts {
		t.Errorf("got %+v: a held name was granted", a)
	}
	if lost || store.Now() > lasts {
		return false
	}
	mustHold(t, other, mutex("given back"))
	return true
}

// The id of a server is the same on each connection, and differs between servers.
func TestServersAreDistinguished(t *testing.T) {
	t.Parallel()
	of := map[int64]string{}
	onBoth(t, func(t *testing.T, dsn string) {
		first := int64(0)
		for _, settings := range []string{"", "utf8mb4", "latin1"} {
			at := dsn
			if settings != "" {
				at = with(dsn, "charset="+settings)
			}
			b := backendOn(t, at, apart())
			defer b.Close()
			id := session.NewID()
			if _, err := b.Begin(t.Context(), id, store.MaxPositionTTL); err != nil || b.Server() == 0 || first != 0 && b.Server() != first {
				t.Fatalf("Begin: %v, server %d, want %d", err, b.Server(), first)
			}
			first = b.Server()
			for calls := range int64(3) {
				b.Met(0)
				if n, err := b.Renew(t.Context(), id); err != nil || n != calls || b.Server() != first {
					t.Fatalf("Renew: %d calls, want %d, %v, server %d, want %d", n, calls, err, b.Server(), first)
				}
				if err := b.Call(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
		}
		if before, is := of[first]; is {
			t.Errorf("got server %d, as of %s", first, before)
		}
		of[first], _, _ = strings.Cut(dsn, "/")
	})
}
