package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
	"github.com/holdfast-go/holdfast/store/session"
)

// The default schema and table.
const (
	DefaultSchema = "public"
	DefaultTable  = "holdfast_locks"
)

// The range of TTLs, minimum holds and lock delays.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = 365 * 24 * time.Hour
)

// Options configure a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Schema and Table name where the locks are stored. They have letters, digits and underscores,
	// do not begin with a digit, and have at most 63 and 54 characters. Case matters. Stores with
	// different tables are independent. The sessions are in a table with the suffix "_sessions".
	Schema, Table string

	// NoListen keeps the Store from opening a connection of its own for notifications: waiters and
	// observers of elections poll instead. Set it where each connection counts. Behind a pooler you
	// need not set it: the Store detects that it cannot listen.
	NoListen bool

	// Listen is the address of the server itself, host:port, for the connection that listens. Set
	// it if the pool goes through a pooler that shares connections: LISTEN does not work through
	// that. All other settings are the pool's.
	Listen string
}

// A Store keeps locks in a table of PostgreSQL. Its methods are safe for
// concurrent use.
type Store struct {
	db       db
	own      *pgxpool.Pool // opened and closed by the Store; nil: none
	address  string        // for messages
	schema   string
	table    string
	do       *statements
	clock    func() int64 // the server's clock, in tests; otherwise nil
	noListen bool
	listenAt string      // Options.Listen
	pinned   atomic.Bool // transactions must set READ COMMITTED

	pingEvery time.Duration // of the connection that listens

	ctx   context.Context // of the background work, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup
	seen  names[use] // how names were last found
	ways  names[way] // how names are released
	sweeper

	server   atomic.Int64 // start time of the server that answered last, in µs; 0: unknown
	sessions *session.Set
	claims   claims
	inbox    inbox
}

var _ interface {
	store.Store
	store.Watcher
	store.NameWatcher
	store.Poller
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store on the pool. The pool stays yours: the Store uses its settings and never
// closes it, and it must be open as long as the Store is used. The Store opens one more connection
// outside the pool, with the same settings, once a claim waits for a lock, or while an election is
// observed. It opens up to two more when a renewal or a release finds all connections of the pool
// in use. New does no I/O. The error matches store.ErrInvalid.
func New(pool *pgxpool.Pool, o *Options) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("%w: the PostgreSQL pool is nil", store.ErrInvalid)
	}
	return newStore(onPgx(pool), o, nil)
}

// NewDB returns a Store on a database/sql pool. The pool stays yours: the Store never closes it,
// and it must be open as long as the Store is used. With the driver of pgx (package stdlib),
// waiters are notified, and renewals and releases have connections outside the pool, as with New.
// With another driver, waiters poll, and a bound on the pool's connections also bounds renewals: if
// all of them are in use for longer than a TTL, leases are lost, and [Store.Check] warns of that.
// NewDB does no I/O. The error matches store.ErrInvalid.
func NewDB(pool *sql.DB, o *Options) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("%w: the database is nil", store.ErrInvalid)
	}
	_, isPgx := pool.Driver().(*stdlib.Driver)
	return newStore(&sqlDB{pool: pool, pgx: isPgx}, o, nil)
}

func init() {
	scheme.Register(func(url string) (*Store, error) { return Open(url, nil) }, "postgres", "postgresql")
}

// Open returns a Store on a pool of its own, which Close closes. See [ParseURL] for the URLs.
// Options that are set override the URL. Open does no I/O. The error matches store.ErrInvalid and
// does not show the URL, which may hold a password.
func Open(url string, o *Options) (*Store, error) {
	config, of, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	if o != nil {
		of.Schema, of.Table, of.NoListen = cmp.Or(o.Schema, of.Schema), cmp.Or(o.Table, of.Table), o.NoListen
		of.Listen = cmp.Or(o.Listen, of.Listen)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("%w: the settings of the PostgreSQL pool: %w", store.ErrInvalid, err)
	}
	s, err := New(pool, of)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.own = pool
	return s, nil
}

func newStore(db db, o *Options, clock func() int64) (*Store, error) {
	s := &Store{db: db, address: db.address(), schema: DefaultSchema, table: DefaultTable, clock: clock, pingEvery: pingEvery}
	if o != nil {
		s.schema, s.table, s.noListen, s.listenAt = cmp.Or(o.Schema, s.schema), cmp.Or(o.Table, s.table), o.NoListen, o.Listen
	}
	if _, _, err := s.listenHost(); err != nil {
		return nil, err
	}
	if err := cmp.Or(connect.CheckIdentifier("the schema", s.schema), connect.CheckIdentifier("the table", s.table), connect.CheckIdentifier("the table of the sessions", s.table+sessionsSuffix)); err != nil {
		return nil, err
	}
	s.do = load(s.schema, s.table, clock != nil)
	s.sweeper = sweeper{least: leastSweep, most: mostSweep}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.claims.of, s.claims.wake, s.claims.late = map[store.ID]*localClaim{}, make(chan struct{}, 1), mostLate
	s.claims.patience = leftPatience
	s.sessions = session.NewSet(sessionTable{s}, s.poke)
	return s, nil
}

// Schema returns the SQL that creates the tables of a Store, for databases where programs may not
// create tables. The error matches store.ErrInvalid.
func Schema(o *Options) (string, error) {
	s, err := newStore(&pgxDB{at: "PostgreSQL"}, o, nil)
	if err != nil {
		return "", err
	}
	return s.do.schema(), nil
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	return store.Description{
		Store:  s.address,
		MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Microsecond,
		Tokens: "when the name's row is lost (restored from a backup, or a replica promoted that had not heard of it) and the clock of the server that answers is behind the newest token",
		Loses: "a crash of the server loses nothing that was granted, if its disk keeps what it says; a replica that is promoted has lost what it had not " +
			"received, unless it is a synchronous one; then two may hold a name until the first one's TTL has passed",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentFailOver, store.AccidentClockStep},
		Crash:   store.CrashTTL,
		Lacks: map[store.Promise]string{
			store.PromisePositionTTL: "a position is kept until the session of its process ends, which is after at most ten seconds",
			store.PromiseExpiry:      "once a claim waits or renews itself it lasts as long as a session of its process, which is renewed for all of them",
		},
	}
}

// closePatience bounds how long Close waits for the sessions to end.
const closePatience = 2 * time.Second

// Close implements [store.Store]. It stops the background work, waits for it, and ends the sessions
// and what they keep. The pool given to New stays open.
func (s *Store) Close() error {
	s.end()
	s.tasks.Wait()
	s.claims.tasks.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	s.sessions.Close(ctx)
	s.db.closeReserve()
	if s.own != nil {
		s.own.Close()
	}
	return nil
}
