package pgadvisory

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// defaultSchema is the default schema of the tokens' sequence.
const defaultSchema = "public"

// Options configure a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Tokens makes each grant draw a fencing token from the sequence holdfast_tokens, which the
	// Store creates if it is missing. A grant then waits for the server's disk. Without Tokens
	// there are no tokens, and a lease's Token is 0.
	Tokens bool
	// Schema is the schema of the sequence. It has letters, digits and underscores, does not begin
	// with a digit, and has at most 63 characters. Case matters. The default is public.
	Schema string
}

// A Store uses the advisory locks of one PostgreSQL session: one connection, opened at the first
// claim, for all names of the process. Its methods are safe for concurrent use.
//
// A lock lasts until it is released or the connection breaks: there are no TTLs. The Store notices
// a break at once if the server or the operating system reports it, and a silent one (a cable, a
// firewall that dropped the connection) within 15 seconds. The server is configured to keep a
// silent session for 25 seconds.
type Store struct {
	dialer   dialer
	address  string
	sequence string // of the tokens, quoted for SQL; empty: no tokens
	schema   string

	patience time.Duration // with a server that does not answer
	idle     time.Duration // how long a connection without holds is kept

	life  context.Context
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu     sync.Mutex
	report func(store.ID, error)
	holds  map[store.ID]*sessionHold
	keys   map[Key]*keyUse
	seen   map[Key]*sighting
	jobs   []*job
	conn   *pgconn.PgConn     // nil: not connected
	busy   bool               // a goroutine handles the jobs and the connection
	wake   context.CancelFunc // makes it check for jobs; nil: it already does
	drawn  int64              // the newest known token; without tokens, a number that distinguishes holds
}

// A dialer returns how to open a connection.
type dialer interface {
	config(ctx context.Context) (*pgx.ConnConfig, error)
	address() string
}

var _ interface {
	store.Store
	store.LossTeller
	store.Checker
} = (*Store)(nil)

// New returns a Store that opens its connection with the settings of the pool. It takes nothing out
// of the pool, which stays yours. New does no I/O. The error matches store.ErrInvalid.
func New(pool *pgxpool.Pool, o *Options) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("%w: the PostgreSQL pool is nil", store.ErrInvalid)
	}
	return newSession(ofPool{pool}, o)
}

// NewDB returns a Store that opens its connection with the settings of a database/sql pool of pgx
// (package stdlib). It takes a connection of the pool for a moment to read them. NewDB does no I/O.
// The error matches store.ErrInvalid, also if the pool has another driver.
func NewDB(pool *sql.DB, o *Options) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("%w: the database is nil", store.ErrInvalid)
	}
	if _, ok := pool.Driver().(*stdlib.Driver); !ok {
		return nil, fmt.Errorf("%w: session mode opens a connection of its own, and the driver of this database/sql pool (%T) does not say how: use that of pgx, or Open", store.ErrInvalid, pool.Driver())
	}
	return newSession(ofDB{pool}, o)
}

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "postgres+session", "postgresql+session")
}

// Open returns a Store for the URL; see [ParseURL]. Options that are set override the URL. Open
// does no I/O. The error matches store.ErrInvalid and does not show the URL, which may hold a
// password.
func Open(url string, o *Options) (*Store, error) {
	c, of, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	if o != nil {
		of.Schema, of.Tokens = cmp.Or(o.Schema, of.Schema), o.Tokens || of.Tokens
	}
	return newSession(fixed{c.ConnConfig}, of)
}

// ofPool opens connections like those of the pool.
type ofPool struct{ pool *pgxpool.Pool }

func (d ofPool) config(ctx context.Context) (*pgx.ConnConfig, error) {
	return connect.OfPool(ctx, d.pool)
}
func (d ofPool) address() string { return connect.Address(d.pool.Config().ConnConfig) }

// ofDB opens connections like those of a database/sql pool of pgx.
type ofDB struct{ pool *sql.DB }

func (d ofDB) config(ctx context.Context) (*pgx.ConnConfig, error) { return connect.OfDB(ctx, d.pool) }
func (d ofDB) address() string                                     { return "PostgreSQL" }

// fixed is a dialer with one config.
type fixed struct{ c *pgx.ConnConfig }

func (f fixed) config(context.Context) (*pgx.ConnConfig, error) { return f.c.Copy(), nil }
func (f fixed) address() string                                 { return connect.Address(f.c) }

func newSession(d dialer, o *Options) (*Store, error) {
	s := &Store{
		dialer: d, address: d.address() + ", a session", schema: defaultSchema,
		patience: 10 * time.Second, idle: 30 * time.Second,
		holds: map[store.ID]*sessionHold{}, keys: map[Key]*keyUse{}, seen: map[Key]*sighting{},
	}
	if o != nil {
		s.schema = cmp.Or(o.Schema, defaultSchema)
		if err := connect.CheckIdentifier("the schema", s.schema); err != nil {
			return nil, err
		}
		if o.Tokens {
			s.sequence = connect.Quote(s.schema) + "." + connect.Quote(tokenSequence)
		}
	}
	if s.sequence == "" {
		s.drawn = time.Now().UnixMicro() // so that the token of another process's hold matches no hold here
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	const none = "an advisory lock of PostgreSQL has none"
	d := store.Description{
		Store: s.address,
		Loses: "whatever ends the connection to the server loses all that is held: its restart, a fail-over, pg_terminate_backend. The holders are told as soon as " +
			"that is noticed, and somebody else may have the name by then",
		Forgets: []store.Accident{store.AccidentRestart, store.AccidentFailOver, store.AccidentWipe},
		Crash:   store.CrashAtOnce,
		Lacks: map[store.Promise]string{
			store.PromiseDeadline:    "an advisory lock lasts as long as its session, and the end of that cannot be foreseen",
			store.PromiseOrder:       "waiters have no queue: each one tries again and again, and the first that tries when the lock is free gets it",
			store.PromiseSlots:       "an advisory lock has one holder, or readers",
			store.PromiseUpgrade:     none,
			store.PromiseMinHold:     none + " and is gone with its session",
			store.PromiseLockDelay:   none,
			store.PromiseBlock:       "there are no blocks of tokens",
			store.PromiseDetach:      "an advisory lock cannot leave its session",
			store.PromisePositionTTL: "there are no queue positions",
			store.PromiseInspect:     "pg_locks has the numbers of advisory locks and not their names",
			store.PromiseTotals:      "an advisory lock has no slots",
			store.PromiseGiveUp:      "nobody waits in a queue",
			store.PromiseUntil:       "nobody knows when a session ends",
			store.PromiseHolders:     "the server knows the sessions and not what they hold it for",
			store.PromiseTokens:      "Options.Tokens (tokens=1 in a URL) is not set",
		},
	}
	if s.sequence != "" {
		delete(d.Lacks, store.PromiseTokens)
		d.Tokens = "when the sequence is older than the newest token: restored from a backup, or of a replica promoted that had not heard of it"
	}
	return d
}

// TellLosses implements [store.LossTeller].
func (s *Store) TellLosses(report func(store.ID, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = report
}

// Presence returns a copy of the socket of the session. The session exists while anything is held.
// As long as a process has the copy open, the holds are not freed when this process dies. It is for
// a process that has to clean up first; that process must use it for nothing else, and close it.
// The error matches store.ErrUnavailable if there is no session, and store.ErrUnsupported if its
// connection is not a socket.
func (s *Store) Presence() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil, fmt.Errorf("%w: there is no session on %s", store.ErrUnavailable, s.address)
	}
	conn := s.conn.Conn()
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if socket, ok := conn.(interface{ File() (*os.File, error) }); ok {
		return socket.File()
	}
	return nil, fmt.Errorf("%w: the connection to %s is no socket", store.ErrUnsupported, s.address)
}

// Close implements [store.Store]: it closes the connection.
func (s *Store) Close() error {
	s.mu.Lock() // everything that starts a goroutine holds it
	s.end()
	s.mu.Unlock()
	s.tasks.Wait()
	return nil
}
