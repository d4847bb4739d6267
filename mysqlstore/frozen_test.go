package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/store"
)

// A freezer passes statements on to a server, which freezes at one of them: that and
// all others are not answered from then on.
type freezer struct {
	left   atomic.Int64           // statements until then
	at     atomic.Pointer[string] // the statement
	before func(statement string) // it is sent
}

type freezing struct {
	net.Conn
	f *freezer
}

func (c *freezing) Write(b []byte) (int, error) {
	const comQuery = 3
	if len(b) > 5 && b[4] == comQuery {
		statement := string(bytes.TrimSpace(b[5:]))
		c.f.before(statement)
		if c.f.left.Add(-1) == 0 {
			c.f.at.Store(&statement)
		}
	}
	return c.Conn.Write(b)
}

func (c *freezing) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || c.f.at.Load() == nil {
			return n, err
		}
	}
}

// A release that needs its turn at the name takes seven statements. Whichever the server
// freezes at, the release returns when its context ends.
func TestAReleaseReturnsAtTheEndOfItsContextWhateverIsNotAnswered(t *testing.T) {
	t.Parallel()
	for i, want := range []string{"UPDATE ", "SELECT ", "UPDATE ", "GET_LOCK(", "SELECT ", "UPDATE ", "RELEASE_LOCK("} {
		t.Run(strings.Trim(want, " (")+" "+string(rune('1'+i)), func(t *testing.T) {
			t.Parallel()
			other := newShared(t)
			h := mustHold(t, other, mutex("n"))
			mustAsk(t, other, mutex("n")) // who waits
			turn, err := other.turn(t.Context(), "n")
			if err != nil || turn.lock == "" {
				t.Fatal(err, turn)
			}
			end := sync.OnceFunc(func() { turn.end(t.Context()) })
			defer end()
			f := &freezer{before: func(statement string) {
				if strings.Contains(statement, "SELECT GET_LOCK(") {
					end()
				}
			}}
			s := storeOn(t, freezingDB(t, f), &other.o)
			if _, err := s.Look(t.Context(), mutex("n")); err != nil { // it has looked at the table
				t.Fatal(err)
			}
			f.left.Store(int64(i + 1))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			released := make(chan error, 1)
			go func() { released <- s.Release(ctx, h) }()
			until(t, "the server is frozen", func() bool { return f.at.Load() != nil })
			if at := *f.at.Load(); !strings.Contains(at, want) {
				t.Fatalf("the server froze at %s, want a statement with %q", at, want)
			}
			cancel()
			for range 100 { // on a busy machine they take longer, too
				select {
				case err := <-released:
					if done := want == "RELEASE_LOCK("; done != (err == nil) || err != nil && !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("the release: %v", err)
					}
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
			t.Errorf("it has not returned; the server froze at %s", *f.at.Load())
			<-released
		})
	}
}

// A call that waits longer than until the end of its context is found out.
func TestTheTestsCatchACallThatOutlastsItsContext(t *testing.T) {
	t.Parallel()
	mutant.Catch(t, []mutant.Broken{
		{Name: "a turn is given back however long that takes", Pkg: "mysqlstore", Test: "TestAReleaseReturnsAtTheEndOfItsContextWhateverIsNotAnswered",
			Edits: []mutant.Edit{mutant.At("mysql-turn-outlasts-no-call", mutant.Stmt("ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTurn)"))}},
		{Name: "whoever looks at the table is waited for", Pkg: "mysqlstore", Test: "TestFaults/fault/the_first_call_does_too/after_0",
			Edits: []mutant.Edit{mutant.At("mysql-first-call-waits-for-no-other", mutant.Stmt("s.checking <- struct{}{}"))}},
	}, "HOLDFAST_TEST_MYSQL="+sharedDSN(t))
}

func freezingDB(t *testing.T, f *freezer) *sql.DB {
	t.Helper()
	c, err := mysql.ParseDSN(sharedDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &freezing{conn, f}, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}
