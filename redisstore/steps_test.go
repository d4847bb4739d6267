package redisstore

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// The bytes that the scripts send to the server's own commands do not grow with the queue, in any operation: the scripts read single fields.
func TestNoOperationCostsMoreBecauseMoreAreWaiting(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	now := time.Now().UnixMicro()
	s, err := newStore(clientOf(t, server.Addr), nil, func() int64 { return now }, usual) // no claim expires
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	watch := monitor(t, server.Addr)
	const few, many = 40, 1000
	type work struct{ commands, bytes int }
	done := map[string]map[int]work{}
	for _, n := range []int{few, many} {
		c := gather(t, s, fmt.Sprint("waiting ", n), n, store.Full)
		asks := c.all[2]
		asks.GiveUp = "somebody waits"
		mustAsk(t, s, asks)
		readers := gather(t, s, fmt.Sprint("reading ", n), n, 1)
		beside := inSessions(t, s, fmt.Sprint("beside ", n), fewestTogether, time.Minute)
		middle := n / 2
		for what, f := range map[string]func(){
			"a poll":                func() { mustAsk(t, s, c.all[middle]) },
			"the poll of the first": func() { mustAsk(t, s, c.all[0]) },
			"the poll of the last":  func() { mustAsk(t, s, c.all[n-1]) },
			"a refused try":         func() { c.tries(t) },
			"one more that asks to give up": func() {
				asks := c.all[middle+2]
				asks.GiveUp = "others wait"
				mustAsk(t, s, asks)
			},
			"a renewal that reports a request": func() {
				h := c.hold
				h.TTL = time.Hour
				if r := s.Renew(t.Context(), []store.Hold{h})[0]; r.Err != nil || r.GiveUp != "somebody waits" {
					t.Errorf("%+v", r)
				}
			},
			"a poll without a write":      func() { c.i = 3; c.reads(t) },
			"a release, and a new waiter": func() { c.i = 0; c.turns(t) },
			"a withdrawal": func() {
				if err := s.Release(t.Context(), store.Hold{Name: c.name, ID: c.all[middle+1].ID}); err != nil {
					t.Error(err)
				}
			},
			"a renewal of the holder": func() { c.hold.TTL = time.Minute; mustRenew(t, s, []store.Hold{c.hold}) },
			"a renewal of the holder beside a session": func() {
				c.hold.TTL = time.Minute
				mustRenew(t, s, append([]store.Hold{c.hold}, beside...))
			},
			"a renewal of a reader": func() { readers.i = middle; readers.renews(t) },
			"a reader more":         func() { one := mutex(readers.name); one.Weight = 1; mustHold(t, s, one) },
			"a reader less": func() {
				if err := s.Release(t.Context(), readers.has[middle]); err != nil {
					t.Error(err)
				}
			},
		} {
			watch.read(t)
			now++ // or a poll has nothing to write
			f()
			if done[what] == nil {
				done[what] = map[int]work{}
			}
			lines := watch.read(t)
			done[what][n] = work{len(lines), len(strings.Join(lines, "\n"))}
			if strings.Contains(strings.Join(lines, "\n"), `"HGETALL"`) {
				t.Errorf("%s reads the whole hash", what)
			}
		}
	}
	for what, by := range done {
		if a, b := by[few], by[many]; b.commands > a.commands+6 || b.bytes > 2*a.bytes {
			t.Errorf("%s: got %d commands of %d bytes with %d in the queue, %d of %d with %d", what, a.commands, a.bytes, few, b.commands, b.bytes, many)
		}
	}
	t.Log(done)
}

// monitored reports the commands that scripts run, as the server's MONITOR shows them.
type monitored struct {
	*bufio.Reader
	echo func(string)
	n    int
}

func monitor(t *testing.T, addr string) *monitored {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, addr)
	m := &monitored{Reader: bufio.NewReader(conn), echo: func(s string) {
		if err := client.Echo(t.Context(), s).Err(); err != nil {
			t.Fatal(err)
		}
	}}
	if _, err := m.ReadString('\n'); err != nil { // +OK
		t.Fatal(err)
	}
	return m
}

// read returns the commands that scripts have run since the last call.
func (m *monitored) read(t *testing.T) (lines []string) {
	t.Helper()
	m.n++
	mark := fmt.Sprint("mark ", m.n)
	m.echo(mark)
	for {
		line, err := m.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"`+mark+`"`) {
			return lines
		}
		if strings.Contains(line, " lua] ") {
			lines = append(lines, line)
		}
	}
}
