package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// The oldest server. In older ones a replica's saved data could bring scripts back after a
// restart, which would then not be noticed.
const (
	needMajor = 7
	needMinor = 0
)

// A node that is down is checked again after a pause between these.
const (
	leastPause = 20 * time.Millisecond
	mostPause  = time.Second
)

// fullPause is how long a node whose memory is full gets no new claims.
const fullPause = 100 * time.Millisecond

// A quarantined means that a node may have forgotten what it granted.
type quarantined struct {
	why  string
	left time.Duration
}

func (q *quarantined) Error() string {
	return fmt.Sprintf("%s: it grants nothing for another %v", q.why, q.left.Round(100*time.Millisecond))
}

// join checks the node until it can be used or the Store is closed.
func (n *node) join() {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		err := n.look()
		if err == nil {
			n.joined()
			return
		}
		var q *quarantined
		wait := pause
		n.mu.Lock()
		n.state, n.err, n.opens = down, n.failed(err), 0
		if errors.As(err, &q) {
			n.opens = store.Now().Add(q.left)
			wait = min(max(q.left, leastPause), mostPause)
		}
		n.mu.Unlock()
		n.s.changed()
		select {
		case <-n.s.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// joined puts the node into use. It first sends the releases that the node missed.
func (n *node) joined() {
	n.mu.Lock()
	n.state, n.err, n.opens = up, nil, 0
	owed := n.owed
	n.owed = nil
	for _, j := range owed {
		if j.owed > store.Now() {
			n.queue(j) // nothing waits for its outcome //mutant:redlock-told-before-asked
		}
	}
	n.mu.Unlock()
	n.s.changed()
}

// look checks the node, and returns nil if it can be used. All commands use one connection,
// so that one server process answers all of them.
func (n *node) look() error {
	ctx, cancel := context.WithTimeout(n.s.ctx, 2*n.s.timeout)
	defer cancel()
	conn := n.client.Conn()
	defer conn.Close()
	hashes := make([]string, 0, 8)
	for _, sc := range n.s.scripts.all() {
		hashes = append(hashes, sc.sha)
	}
	begun := time.Now()
	pipe := conn.Pipeline()
	infoCmd, timeCmd := pipe.Info(ctx, "server"), pipe.Time(ctx)
	existsCmd, recordCmd := pipe.ScriptExists(ctx, hashes...), pipe.Get(ctx, n.s.record())
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	info, now := infoCmd.Val(), timeCmd.Val()
	if n.s.clock == nil {
		n.offset.Store(clockOff(now, begun, time.Now()).Microseconds())
	}
	if version := redisinfo.Field(info, "redis_version"); redisinfo.TooOld(version, needMajor, needMinor) {
		return fmt.Errorf("%w: it is Redis %s: %d.%d or newer is needed", store.ErrUnsupported, version, needMajor, needMinor)
	}
	if err := n.s.sameAs(n, redisinfo.Field(info, "run_id")); err != nil {
		return err
	}
	known := true // the scripts are loaded, so it has not restarted since its last successful check
	for _, there := range existsCmd.Val() {
		known = known && there
	}
	var old, wiped time.Duration // how long it must not grant yet
	if !known && !n.s.trusts {
		uptime, err := strconv.ParseInt(redisinfo.Field(info, "uptime_in_seconds"), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: INFO does not say how long it has been up, so nobody can know whether it lost data", store.ErrUnsupported)
		}
		old = n.s.maxTTL + time.Second - time.Duration(uptime)*time.Second // uptime is rounded //mutant:redlock-node-too-young
	}
	record := recordCmd.Val()
	if record != "" || !n.s.trusts {
		var err error
		if wiped, err = n.readRecord(ctx, conn, record, now); err != nil {
			return err
		}
	}
	if n.s.trusts && record != openRecord(n.s.maxTTL) {
		if err := conn.Set(ctx, n.s.record(), openRecord(n.s.maxTTL), 0).Err(); err != nil {
			return err
		}
		wiped = 0
	}
	switch left := max(old, wiped); {
	case left <= 0:
	case left == wiped:
		return &quarantined{"it has been wiped, or was never used before", left}
	default:
		return &quarantined{"it was restarted", left}
	}
	// The node must take writes. This one changes nothing if the record exists, but a node that
	// is full or read-only refuses it anyway. A full node can still renew and release its
	// holds, unless it has refused that.
	err := conn.SetNX(ctx, n.s.record(), n.closedRecord(now), 0).Err()
	n.mu.Lock()
	stuck := n.stuck
	n.stuck = stuck && err != nil
	n.mu.Unlock()
	switch {
	case err == nil:
	case full(err) && !stuck: //mutant:redlock-full-node-joined
		n.fills(err, false)
	default:
		return err
	}
	if known {
		return nil
	}
	// Never use EVAL: it would load a script on a server that has forgotten its holds.
	pipe = conn.Pipeline()
	for _, sc := range n.s.scripts.all() {
		pipe.ScriptLoad(ctx, sc.text)
	}
	_, err = pipe.Exec(ctx)
	return err
}

// readRecord reads the node's record about itself, or writes one if there is none. It
// returns how long the node must not grant yet.
func (n *node) readRecord(ctx context.Context, conn *redis.Conn, record string, now time.Time) (time.Duration, error) {
	most := n.s.maxTTL
	if record == "" {
		return most, conn.SetNX(ctx, n.s.record(), n.closedRecord(now), 0).Err()
	}
	if len(record) != len(openRecord(0)) || !strings.HasPrefix(record, recordMagic) {
		return 0, n.corrupt(n.s.record())
	}
	if have := duration(float(record[len(recordMagic):])); have != most {
		return 0, n.otherMaximum(have)
	}
	return min(duration(float(record[len(recordMagic)+8:])-now.UnixMicro()), most), nil
}

// closedRecord is the record of a node that may have forgotten what it granted before now.
func (n *node) closedRecord(now time.Time) string {
	most := micros(n.s.maxTTL)
	return string(appendFloat(appendFloat([]byte(recordMagic), most), now.UnixMicro()+most))
}

func (n *node) otherMaximum(have time.Duration) error {
	return fmt.Errorf("%w: it is used with a MaxTTL of %v, and this client has %v: all clients of these nodes need the same (?max-ttl= in a URL); "+
		"to change it, stop them all and delete the key %q on each node", store.ErrInvalid, have, n.s.maxTTL, n.s.record())
}

// sameAs refuses a second client of the same server, whose vote would count twice. s.mu
// puts two that are checked at the same moment in order.
func (s *Store) sameAs(n *node, runID string) error {
	if runID == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.nodes {
		if other != n && other.runID == runID { //mutant:redlock-one-server-one-vote
			return fmt.Errorf("%w: it is the same server as %s: each node needs one of its own", store.ErrInvalid, other.address)
		}
	}
	n.runID = runID
	return nil
}
