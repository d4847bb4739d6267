package mysqlstore

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
)

// workerEnv has the DSN and the table of a process of the crowd.
const workerEnv = "HOLDFAST_TEST_MYSQL_WORKER"

// A stay is what one process saw of a hold: from when to when it was sure to
// have it.
type stay struct{ token, from, to int64 }

// worker takes one name again and again until its standard input ends, and
// prints its stays.
func worker(at string) error {
	dsn, table, _ := strings.Cut(at, " ")
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	s, err := New(db, &Options{Table: table})
	if err != nil {
		return err
	}
	ttl := s.Describe().MinTTL
	if os.Getpid()%2 == 0 { // on a busy machine the shortest lapses for all before any of them is served
		ttl *= 5
	}
	locks, err := holdfast.New(s, &holdfast.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	for ctx.Err() == nil {
		lease, err := locks.Mutex("one").Lock(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable) {
				return err
			}
			continue
		}
		// The deadline is read at once: of a lease that is over it is the instant at
		// which it is read, however long ago that was.
		from, deadline := time.Now(), lease.Deadline()
		had := lease.Valid()
		time.Sleep(time.Millisecond)
		to := time.Now()
		if !lease.Valid() && deadline.Before(to) {
			to = deadline
		}
		lease.Release()
		if had && to.After(from) {
			fmt.Println(lease.Token(), from.UnixNano(), to.UnixNano())
		}
	}
	return nil
}

// Ten processes want one name, about half of them with the shortest TTL there is.
// HOLDFAST_TEST_CROWD_FOR is for how long; a minute tells more.
func TestOneOfManyProcessesHoldsAtATimeAndTokensGrow(t *testing.T) {
	t.Parallel()
	least, err := time.ParseDuration(cmp.Or(os.Getenv("HOLDFAST_TEST_CROWD_FOR"), "3s"))
	if err != nil {
		t.Fatal(err)
	}
	s := newShared(t)
	mustHold(t, s, mutex("the table is made"))
	var mu sync.Mutex
	var all []stay
	var wg sync.WaitGroup
	var ends []func() error
	for range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+sharedDSN(t)+" "+s.b.o.Table)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, in.Close)
		wg.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var one stay
				if _, err := fmt.Sscan(lines.Text(), &one.token, &one.from, &one.to); err != nil {
					t.Errorf("%q: %v", lines.Text(), err)
				}
				mu.Lock()
				all = append(all, one)
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("a worker: %v", err)
			}
		})
	}
	time.Sleep(least)
	untilPast(t, 9*patience, "they have had it a hundred times", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(all) >= 100
	})
	for _, end := range ends {
		end()
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(all); i++ {
		if before, now := all[i-1], all[i]; now.from < before.to || now.token <= before.token {
			t.Errorf("%+v and then %+v", before, now)
		}
	}
	t.Logf("%d holds", len(all))
}
