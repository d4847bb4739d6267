package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/holdfast-go/holdfast/store"
)

// dial opens the connection and makes it ready.
func (s *Store) dial() (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(s.life, s.patience)
	defer cancel()
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.makeReady(ctx, conn); err != nil {
		s.hangUp(conn)
		return nil, err
	}
	return conn, nil
}

// connect opens a connection that can keep a session.
func (s *Store) connect(ctx context.Context) (*pgconn.PgConn, error) {
	config, err := s.dialer.config(ctx)
	if err != nil {
		return nil, s.failed(opening, err)
	}
	c := &config.Config
	// What the user has set for shared connections does not apply to this one.
	c.OnNotice, c.OnNotification = nil, nil
	c.OnPgError = func(_ *pgconn.PgConn, e *pgconn.PgError) bool { return e.Severity != "FATAL" && e.Severity != "PANIC" }
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = s.applicationName()
	}
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, s.failed(opening, err)
	}
	if err := s.greet(ctx, conn); err != nil {
		s.hangUp(conn)
		return nil, err
	}
	return conn, nil
}

// hangUp closes a connection. The server releases what its session held.
func (s *Store) hangUp(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it may be broken
	<-conn.CleanupDone()
}

// setup identifies the server, and makes it keep the session about as long as this process lives.
// The session must not end because it is silent, and must not be kept for hours after this machine
// has failed. It is kept for 25 seconds, which is more than this process needs to notice a broken
// link.
const setup = `SELECT pg_backend_pid(), pg_is_in_recovery();
SELECT set_config(name, v.value, false) FROM pg_settings JOIN (VALUES
	` +
	"('idle_session_timeout', '0'), " + //mutant:pg-session-settings
	`('statement_timeout', '0'), ('default_transaction_read_only', 'off'),
	('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'), ('tcp_user_timeout', '25000')
) v (name, value) USING (name)`

// opening names the operation in errors.
const opening = "open a session"

func (s *Store) greet(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := query(ctx, conn, setup)
	if err != nil {
		return s.failed(opening, err)
	}
	switch pid := strconv.FormatUint(uint64(conn.PID()), 10); {
	case rows[0][0] != pid: //mutant:pg-session-pooler
		return fmt.Errorf("%w: %s on %s: there is a pooler on the way (the server calls the session %s, the pooler says %s); it may give our session to others between two statements: "+
			"name the server itself, or use the table mode, which goes through any pooler", store.ErrUnsupported, opening, s.address, rows[0][0], pid)
	case rows[0][1] == "t":
		return fmt.Errorf("%w: %s on %s: it is a standby, whose locks exclude nobody on the primary: name the primary (target_session_attrs=read-write finds it among several hosts)", store.ErrUnsupported, opening, s.address)
	}
	return nil
}

// makeReady finds the sequence of the tokens and prepares the statements.
func (s *Store) makeReady(ctx context.Context, conn *pgconn.PgConn) error {
	if s.sequence != "" {
		if err := s.findSequence(ctx, conn); err != nil {
			return err
		}
	}
	p := conn.StartPipeline(ctx)
	for name, sql := range s.statements() {
		p.SendPrepare(name, sql, nil)
	}
	err := p.Sync()
	if failed := p.Close(); err == nil {
		err = failed
	}
	if err != nil {
		return s.failed(opening, err)
	}
	return nil
}

// query runs SQL without arguments and returns the rows of its first statement.
func query(ctx context.Context, conn *pgconn.PgConn, sql string) ([][]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return texts(results[0]), nil
}

// repeats is how often the sequence is read again after it was created.
const repeats = 3

// The sequence of the tokens. A recreated one begins with the time, so that its tokens are larger
// than those of a lost one.
const (
	tokenSequence  = "holdfast_tokens"
	createSequence = `DO $$BEGIN EXECUTE format('CREATE SEQUENCE IF NOT EXISTS %s START %%s', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint); END$$`
	describe       = `SELECT coalesce(s.seqcache = 1 AND s.seqincrement > 0 AND NOT s.seqcycle AND s.seqmax > 1::bigint << 60, false),
		c.relkind = 'S' AND has_sequence_privilege(c.oid, 'USAGE') AND has_sequence_privilege(c.oid, 'SELECT')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_sequence s ON s.seqrelid = c.oid
	WHERE n.nspname = '%s' AND c.relname = '` + tokenSequence + `'`
)

// Schema returns the SQL that creates the sequence of the tokens, for databases where programs may
// not create one. The error matches store.ErrInvalid.
func Schema(o *Options) (string, error) {
	with := Options{Tokens: true}
	if o != nil {
		with.Schema = o.Schema
	}
	s, err := newSession(fixed{&pgx.ConnConfig{}}, &with)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(createSequence, s.sequence) + ";\n", nil
}

// findSequence creates the sequence if it is missing, and checks it.
func (s *Store) findSequence(ctx context.Context, conn *pgconn.PgConn) error {
	what := "find the sequence " + s.schema + "." + tokenSequence
	for try := 0; ; try++ {
		rows, err := query(ctx, conn, fmt.Sprintf(describe, s.schema))
		switch {
		case err != nil:
			return s.failed(what, err)
		case len(rows) > 0:
			return s.judgeSequence(rows[0])
		case try == repeats:
			return fmt.Errorf("%w: %s on %s: it was created, but is not there", store.ErrUnavailable, what, s.address)
		}
		_, err = query(ctx, conn, fmt.Sprintf(createSequence, s.sequence))
		switch store.SQLState(err) {
		case "", "23505", "42P07", "42710": // another process has created it
			if err != nil && store.SQLState(err) == "" {
				return s.failed(what, err)
			}
		case "42501":
			return fmt.Errorf("%w: %s on %s: it is missing; ask an administrator to create it: %w", store.ErrDenied, what, s.address, err)
		default:
			return s.failed(what, err)
		}
	}
}

// judgeSequence returns an error if what describe has found is unusable.
func (s *Store) judgeSequence(row []string) error {
	switch {
	case row[0] != "t": //mutant:pg-session-sequence
		return fmt.Errorf("%w: the tokens on %s: what has the name %s is not of holdfast (a sequence of bigint that counts up, caches nothing and does not cycle) and was not changed: "+
			"name another schema", store.ErrCorrupt, s.address, s.sequence)
	case row[1] != "t":
		return fmt.Errorf("%w: the tokens on %s: USAGE and SELECT on the sequence %s are needed", store.ErrDenied, s.address, s.sequence)
	}
	return nil
}

// statements returns the statements to prepare.
func (s *Store) statements() map[string]string {
	all := map[string]string{"check": "SELECT 1", "holders": holders}
	for _, k := range []Key{{}, {pair: true}} {
		for _, write := range []bool{true, false} {
			shared := "_shared"
			if write {
				shared = ""
			}
			try := "pg_try_advisory_lock" + shared + "(" + k.params() + ")"
			if s.sequence != "" {
				// Each draw is a transaction with an id, so that it is on the server's disk before
				// it is answered: a token must not be drawn again after a crash.
				try = "CASE WHEN " + try + " THEN CASE WHEN txid_current() > 0 THEN nextval('" + s.sequence + "'::regclass) END ELSE -(SELECT last_value FROM " + s.sequence + ") END"
			}
			all[k.statement("try", write)] = "SELECT " + try
			all[k.statement("unlock", write)] = "SELECT pg_advisory_unlock" + shared + "(" + k.params() + ")"
		}
	}
	return all
}

// statement returns the name of a statement for such keys.
func (k Key) statement(what string, write bool) string {
	if k.pair {
		what += " pair"
	}
	if !write {
		what += " shared"
	}
	return what
}

// request returns what the job sends.
func (j *job) request() request {
	switch j.kind {
	case jobAsk:
		return request{j.key.statement("try", j.write), j.key.args()}
	case jobRelease:
		return request{j.key.statement("unlock", j.write), j.key.args()}
	}
	return request{name: "check"}
}

// what names the job in errors.
func (j *job) what() string {
	switch j.kind {
	case jobAsk:
		return fmt.Sprintf("ask for %q", j.claim.Name)
	case jobRelease:
		return fmt.Sprintf("release %q", j.hold.Name)
	}
	return "look whether the session is there"
}

// holders selects the holders of a lock. classid and objid are the halves of the key.
const holders = `SELECT l.pid, coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), count(*) OVER ()
FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND l.classid = $1::oid AND l.objid = $2::oid AND l.objsubid = $3::smallint
ORDER BY l.pid LIMIT 8`

func (k Key) whoHolds() request {
	high, low := k.halves()
	kind := "1"
	if k.pair {
		kind = "2" //mutant:pg-session-key-kind
	}
	return request{"holders", [][]byte{[]byte(strconv.FormatUint(uint64(high), 10)), []byte(strconv.FormatUint(uint64(low), 10)), []byte(kind)}}
}

func sightingOf(r reply, when time.Time) *sighting {
	see := &sighting{when: when}
	for _, row := range r.rows {
		see.holding, _ = strconv.Atoi(row[3])
		owner := ownerOf(row[1], row[2])
		owner.Note = "session " + row[0] + " of the server"
		see.holders = append(see.holders, store.Entry{Granted: true, Owner: owner})
	}
	return see
}

// applicationName is the name of our session on the server, so that others see who holds a lock.
func (s *Store) applicationName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := store.Owner{}
	for _, j := range s.jobs {
		if j.kind == jobAsk {
			owner = store.ParseOwner(j.claim.Owner)
			break
		}
	}
	name := fmt.Sprintf("holdfast %s %d %s", strings.ReplaceAll(owner.Host, " ", "_"), owner.PID, owner.Program)
	return name[:min(len(name), 63)]
}

// ownerOf parses what applicationName wrote. For another program it returns the program's
// application name and address.
func ownerOf(application, address string) store.Owner {
	if parts := strings.SplitN(application, " ", 4); len(parts) == 4 && parts[0] == "holdfast" {
		if pid, err := strconv.Atoi(parts[2]); err == nil {
			return store.Owner{Host: parts[1], PID: pid, Program: parts[3]}
		}
	}
	return store.Owner{Host: address, Program: application}
}

// failed turns an error of the driver or the server into one for users.
func (s *Store) failed(what string, err error) error {
	kind, advice := store.ErrUnavailable, ""
	switch c := store.SQLState(err); {
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrUnavailable):
		return err
	case c == "28000" || c == "28P01":
		kind, advice = store.ErrDenied, "the server does not let this user in: "
	case c == "42501":
		kind = store.ErrDenied
	case c == "3D000":
		kind, advice = store.ErrInvalid, "there is no such database: "
	case c == "3F000":
		kind, advice = store.ErrInvalid, "there is no schema "+s.schema+": create it, or name another: "
	case c == outOfMemory:
		advice = "the server has no room for more locks (max_locks_per_transaction): "
	case c == "53300":
		advice = "the server has no room for more connections: "
	}
	return fmt.Errorf("%w: %s on %s: %s%w", kind, what, s.address, advice, err)
}
