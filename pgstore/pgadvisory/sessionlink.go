package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/store"
)

// maxBatch is how many statements go out together.
const maxBatch = 64

// run handles the jobs and the connection until there is neither. Only one run is active at a time.
func (s *Store) run() {
	for {
		conn, err := s.dial()
		if err != nil {
			s.fail(err)
		} else {
			s.mu.Lock()
			s.conn = conn
			s.mu.Unlock()
			err = s.serve(conn)
			s.lost(err)
			s.tasks.Go(func() { s.hangUp(conn) }) // which takes long if the server does not answer
		}
		s.mu.Lock()
		if s.life.Err() != nil {
			s.mu.Unlock()
			s.fail(fmt.Errorf("%w: the store was closed", store.ErrUnavailable))
			s.mu.Lock()
		}
		if len(s.jobs) == 0 {
			s.busy = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// fail finishes jobs that cannot succeed.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.kind == jobRelease { // there is no session, so nothing is held
			j.finish(nothingThere(j.hold))
			continue
		}
		j.finish(err)
	}
	s.jobs = nil
}

// serve does the arriving jobs. Between them it listens to the server, which sends a message only
// when it ends the session. It returns why it ended: nil if the connection is no longer needed.
func (s *Store) serve(conn *pgconn.PgConn) error {
	for {
		s.mu.Lock()
		batch := s.take()
		if len(batch) > 0 {
			s.mu.Unlock()
			if err := s.send(conn, batch); err != nil {
				return err
			}
			continue
		}
		if s.life.Err() != nil {
			s.mu.Unlock()
			return s.life.Err()
		}
		watching, wake := context.WithCancel(s.life)
		unused := len(s.holds) == 0 //mutant:pg-session-unused
		if unused {
			watching, wake = context.WithTimeout(s.life, s.idle)
		}
		s.wake = wake
		s.mu.Unlock()
		err := conn.WaitForNotification(watching)
		s.mu.Lock()
		s.wake = nil
		left := unused && watching.Err() == context.DeadlineExceeded && len(s.jobs) == 0
		s.mu.Unlock()
		wake()
		switch {
		case conn.IsClosed():
			return err
		case left:
			return nil
		}
	}
}

// lost reports that all holds were lost with the connection.
func (s *Store) lost(err error) {
	s.mu.Lock()
	holds, report := s.holds, s.report
	s.conn = nil
	s.holds, s.keys = map[store.ID]*sessionHold{}, map[Key]*keyUse{}
	s.mu.Unlock()
	if report == nil || s.life.Err() != nil { //mutant:pg-session-loss-told
		return
	}
	for id := range holds {
		report(id, fmt.Errorf("%w: the session on %s that held it has ended: %w", store.ErrLost, s.address, err))
	}
}

// send sends a batch in one round trip and finishes its jobs. An error means that the connection
// has ended.
func (s *Store) send(conn *pgconn.PgConn, batch []*job) (err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, j := range batch {
			select {
			case <-j.done:
			default:
				j.finish(s.failed(j.what(), err))
			}
		}
	}()
	requests := make([]request, len(batch))
	for i, j := range batch {
		requests[i] = j.request()
	}
	results, err := s.exchange(conn, requests)
	if err != nil {
		return err
	}
	var refused, unsure []*job
	s.mu.Lock()
	for i, j := range batch {
		switch r := results[i]; {
		case j.kind == jobCheck: // an error is an answer too
			j.finish(nil)
		case j.kind == jobRelease && r.err != nil:
			err = r.err // it may still be held; the end of the session releases it
		case j.kind == jobRelease:
			s.give(j.hold.ID)
			if r.rows[0][0] != "t" { // all locks of the session were unlocked by something else //mutant:pg-session-unlocked-by-others
				j.finish(nothingThere(j.hold))
			} else {
				j.finish(nil)
			}
		case r.err != nil:
			unsure = append(unsure, j)
			j.err = s.failed(j.what(), r.err)
			if len(s.use(j.key).holders) > 0 && store.SQLState(r.err) != outOfMemory {
				err = r.err // another hold of this process is counted under the same key
			}
		default:
			if token, granted := s.outcome(r.rows[0][0]); granted {
				s.granted(j, s.hold(j, token))
			} else {
				refused = append(refused, j)
			}
		}
	}
	s.mu.Unlock()
	if err == nil {
		err = s.sendMore(conn, refused, unsure)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range batch {
		if j.kind != jobCheck {
			s.use(j.key).asked = false
			s.forget(j.key)
		}
	}
	return err
}

// outOfMemory is the server's code when it has no memory for one more lock.
const outOfMemory = "53200"

// outcome parses the answer to an ask. With tokens that is the token, or the newest token, negated,
// if the ask was refused.
func (s *Store) outcome(value string) (token int64, granted bool) {
	if s.sequence == "" {
		return 0, value == "t"
	}
	token, _ = strconv.ParseInt(value, 10, 64)
	if token > 0 {
		return token, true
	}
	s.drawn = max(s.drawn, -token)
	return 0, false
}

// sendMore asks for the holders of refused keys, unless that was done a moment
// ago, and releases locks that may have been granted before the server failed.
func (s *Store) sendMore(conn *pgconn.PgConn, refused, unsure []*job) error {
	now := time.Now()
	var requests []request
	var about []Key
	s.mu.Lock()
	for k, see := range s.seen {
		if now.Sub(see.when) >= sightFor {
			delete(s.seen, k)
		}
	}
	for _, j := range refused { // there is one per key
		if s.seen[j.key] == nil {
			about = append(about, j.key)
			requests = append(requests, j.key.whoHolds())
		}
	}
	s.mu.Unlock()
	for _, j := range unsure {
		requests = append(requests, request{j.key.statement("unlock", j.write), j.key.args()})
	}
	var results []reply
	if len(requests) > 0 {
		var err error
		if results, err = s.exchange(conn, requests); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range about {
		s.seen[k] = sightingOf(results[i], now)
	}
	for _, j := range refused {
		s.refused(j, s.seen[j.key])
	}
	for _, j := range unsure {
		j.finish(j.err)
	}
	return nil
}

// A request is a prepared statement with its arguments. A reply is its result.
type request struct {
	name string
	args [][]byte
}

type reply struct {
	rows [][]string
	err  error // of the server
}

// exchange sends requests in one round trip. Each is a transaction of its own. An error means that
// the connection has ended.
func (s *Store) exchange(conn *pgconn.PgConn, requests []request) ([]reply, error) {
	ctx, cancel := context.WithTimeout(s.life, s.patience) //mutant:pg-session-patience
	defer cancel()
	p := conn.StartPipeline(ctx)
	for _, r := range requests {
		p.SendQueryPrepared(r.name, r.args, nil, nil)
		p.SendPipelineSync()
	}
	err := p.Flush()
	replies := make([]reply, len(requests))
	for i := 0; i < len(requests) && err == nil; i++ {
		replies[i], err = read(p)
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = fmt.Errorf("no answer in %v: %w", s.patience, err)
	}
	if err != nil {
		return nil, err
	}
	return replies, nil
}

// read reads the reply to one request, and the sync message after it.
func read(p *pgconn.Pipeline) (r reply, err error) {
	for {
		got, err := p.GetResults()
		refusal := (*pgconn.PgError)(nil)
		switch {
		case errors.As(err, &refusal) && refusal.Severity != "FATAL" && refusal.Severity != "PANIC":
			r.err = err
			continue
		case err != nil:
			return r, err
		}
		switch got := got.(type) {
		case *pgconn.ResultReader:
			result := got.Read()
			if r.err = result.Err; r.err != nil && !errors.As(r.err, &refusal) {
				return r, r.err
			}
			r.rows = texts(result)
		case *pgconn.PipelineSync:
			return r, nil
		default:
			return r, fmt.Errorf("the server sent %T", got)
		}
	}
}

// texts returns the rows of a result in text format.
func texts(result *pgconn.Result) (rows [][]string) {
	for _, row := range result.Rows {
		var columns []string
		for _, c := range row {
			columns = append(columns, string(c))
		}
		rows = append(rows, columns)
	}
	return rows
}
