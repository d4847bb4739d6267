package pgstore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

const (
	// lockersEnv has how many Lockers a process of the crowd has, and the URL of their store.
	lockersEnv = "HOLDFAST_TEST_POSTGRES_LOCKERS"
	// crowdProcesses is how many such processes there are.
	crowdProcesses = 8
)

// kinds counts the statements of a client, also on the connection that listens, by what they are.
type kinds struct {
	mu sync.Mutex
	of map[string]int
	do *statements
}

func (k *kinds) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	kind := kindOf(k.do, q.SQL)
	if kind == "other" {
		kind, _, _ = strings.Cut(q.SQL, " ")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of[kind]++
	return ctx
}

func (k *kinds) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// lockers is one process of the crowd: so many Lockers, each with a client of its own, come for one
// name when they are told to, and are in the lock for a millisecond. It prints what became of each.
func lockers(what string) error {
	count, url, _ := strings.Cut(what, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	plain := load(DefaultSchema, DefaultTable, false)
	seen := &kinds{of: map[string]int{}, do: plain}
	var all []*holdfast.Locker
	for range n {
		config, _, err := ParseURL(url)
		if err != nil {
			return err
		}
		config.ConnConfig.Tracer = seen
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return err
		}
		defer pool.Close()
		s, err := New(pool, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		l, err := holdfast.New(s, &holdfast.Options{TTL: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		defer l.Close()
		all = append(all, l)
	}
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	var done sync.WaitGroup
	begun := time.Now()
	for _, l := range all {
		done.Go(func() {
			lease, err := l.Mutex("crowd").Lock(context.Background())
			if err != nil {
				fmt.Printf("failed %q\n", err)
				return
			}
			took := time.Since(begun)
			begin, deadline := clock.Boot(), lease.Deadline()
			had := lease.Valid()
			time.Sleep(time.Millisecond)
			if end := clock.Boot(); had {
				if !lease.Valid() {
					end += min(0, time.Until(deadline))
				}
				fmt.Println("stay", lease.Token(), int64(begin), max(int64(begin), int64(end)), int64(took))
			}
			if err := lease.Release(); err != nil {
				fmt.Printf("failed %q\n", err)
			}
		})
	}
	done.Wait()
	seen.mu.Lock()
	for kind, n := range seen.of {
		fmt.Printf("count %d %s\n", n, kind)
	}
	seen.mu.Unlock()
	fmt.Println("done")
	io.Copy(io.Discard, os.Stdin) // until all have had it
	return nil
}

// Many Lockers in a few processes, each with a client of its own, want one name at once. With
// HOLDFAST_TEST_CROWD=300, or 1000, it tells more.
func TestNoLockerOfACrowdFailsAndEachCostsFewStatements(t *testing.T) {
	t.Parallel()
	n := recordtest.CrowdSize(40)
	server := testserver.Postgres(t, "-c", fmt.Sprintf("max_connections=%d", 8*n+100))
	s := tableOn(t, poolOn(t, server.Addr), nil)
	defer s.Close()
	mustHold(t, s, mutex("the table is made"))
	var mu sync.Mutex
	var all []stay
	var waits []time.Duration
	counts := map[string]int{}
	var begins []io.WriteCloser
	var ready, done, ended sync.WaitGroup
	for i := range crowdProcesses {
		of := n / crowdProcesses
		if i < n%crowdProcesses {
			of++
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", lockersEnv, of, testserver.PostgresURL(server.Addr)))
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
		begins = append(begins, in)
		ready.Add(1)
		done.Add(1)
		ended.Go(func() {
			isReady, isDone := sync.OnceFunc(ready.Done), sync.OnceFunc(done.Done)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				what, rest, _ := strings.Cut(lines.Text(), " ")
				mu.Lock()
				switch what {
				case "ready":
					isReady()
				case "done":
					isDone()
				case "stay":
					var one stay
					var took time.Duration
					if _, err := fmt.Sscan(rest, &one.token, &one.from, &one.to, &took); err != nil {
						t.Errorf("%q: %v", rest, err)
					}
					all, waits = append(all, one), append(waits, took)
				case "count":
					many, kind, _ := strings.Cut(rest, " ")
					n, _ := strconv.Atoi(many)
					counts[kind] += n
				default:
					t.Errorf("a Locker: %s", lines.Text())
				}
				mu.Unlock()
			}
			isReady()
			isDone()
			if err := cmd.Wait(); err != nil {
				t.Errorf("a process of the crowd: %v", err)
			}
		})
	}
	ready.Wait()
	for _, in := range begins {
		if _, err := in.Write([]byte{'\n'}); err != nil {
			t.Error(err)
		}
	}
	done.Wait()
	for _, in := range begins {
		in.Close()
	}
	ended.Wait()
	slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(all); i++ {
		if before, now := all[i-1], all[i]; now.from < before.to || now.token <= before.token {
			t.Errorf("%+v and then %+v", before, now)
		}
	}
	if len(all) == 0 {
		t.Fatal("nobody had the lock")
	}
	var parts []string
	sum := 0
	for kind, n := range counts {
		sum += n
		parts = append(parts, fmt.Sprintf("%s %.2f", kind, float64(n)/float64(len(all))))
	}
	slices.Sort(parts)
	slices.Sort(waits)
	each := float64(sum) / float64(n)
	t.Logf("%d of %d Lockers in %d processes: the first had the lock after %v, the median after %v, the last after %v; %.1f statements a lock: %s",
		len(all), n, crowdProcesses, waits[0].Round(time.Millisecond), waits[len(all)/2].Round(time.Millisecond), waits[len(all)-1].Round(time.Millisecond), each, strings.Join(parts, ", "))
	if each > 15 {
		t.Errorf("%.1f statements a lock, want at most 15", each)
	}
}
