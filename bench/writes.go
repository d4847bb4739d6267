package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// theWrites shows what the store and its driver cost: it sends the two writes that a lock with
// a fencing token needs, and has nothing else of a lock. The first takes the name if it is free
// and returns a new token; the second frees the name for the holder of that token. What holdfast
// needs beyond that is its own: the queue, the deadline, callers that can leave.
const theWrites = "the two writes alone"

// besideWrites adds the contender that does only the writes.
func besideWrites(cs []contender, open func(target string) (locks, error)) []contender {
	return append(slices.Clone(cs), contender{name: theWrites, open: open, alone: true})
}

// errTaken is what these contenders return for a name that another has.
var errTaken = errors.New("the name is taken")

// unlessTaken returns the outcome of a conditional write.
func unlessTaken(done bool, err error) error {
	if err == nil && !done {
		return errTaken
	}
	return err
}

type redisWrites struct{ rdb *redis.Client }

func openRedisWrites(addr string) (locks, error) {
	return redisWrites{redis.NewClient(&redis.Options{Addr: addr})}, nil
}

var (
	takeOnRedis = redis.NewScript(`
local was = redis.call("GET", KEYS[1])
local token, owner = 0, ""
if was then
	token, owner = was:match("^(%d+) (.*)$")
end
if owner ~= "" then
	return 0
end
token = token + 1
redis.call("SET", KEYS[1], string.format("%d %s", token, ARGV[1]), "PX", ARGV[2])
return token`)
	giveOnRedis = redis.NewScript(`
if redis.call("GET", KEYS[1]) ~= ARGV[1] .. " " .. ARGV[2] then
	return 0
end
redis.call("SET", KEYS[1], ARGV[1] .. " ", "PX", 86400000)
return 1`)
)

func (p redisWrites) lock(ctx context.Context, name string) (func() error, error) {
	keys := []string{"writes/" + name}
	token, err := takeOnRedis.Run(ctx, p.rdb, keys, someOwner, ttl.Milliseconds()).Int64()
	if err = unlessTaken(token != 0, err); err != nil {
		return nil, err
	}
	return func() error {
		done, err := giveOnRedis.Run(context.Background(), p.rdb, keys, token, someOwner).Int64()
		return unlessTaken(done != 0, err)
	}, nil
}

func (p redisWrites) close() error { return p.rdb.Close() }

// postgresWrites waits for the disk when it takes a name, as the grant must be there after a
// crash. A lost release only lasts until the lease expires, so that does not wait.
type postgresWrites struct{ pool *pgxpool.Pool }

func openPostgresWrites(url string) (locks, error) {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(context.Background(), `CREATE TABLE IF NOT EXISTS writes (name text PRIMARY KEY, token bigint NOT NULL, owner text, expires timestamptz NOT NULL) WITH (fillfactor = 50)`)
	return postgresWrites{pool}, err
}

func (p postgresWrites) lock(ctx context.Context, name string) (func() error, error) {
	var token int64
	err := p.pool.QueryRow(ctx, `INSERT INTO writes AS w VALUES ($1, 1, $2, now() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET token = w.token + 1, owner = $2, expires = now() + $3::interval
		WHERE w.owner IS NULL OR w.expires < now() RETURNING token`, name, someOwner, ttl).Scan(&token)
	if err != nil {
		return nil, err
	}
	return func() error {
		tag, err := p.pool.Exec(context.Background(), `UPDATE writes SET owner = NULL
			WHERE name = $1 AND token = $2 AND owner = $3 AND set_config('synchronous_commit', 'off', true) = 'off'`, name, token, someOwner)
		return unlessTaken(tag.RowsAffected() != 0, err)
	}, nil
}

func (p postgresWrites) close() error { p.pool.Close(); return nil }

type mysqlWrites struct{ db *sql.DB }

func openMySQLWrites(dsn string) (locks, error) {
	db, err := openMySQLPool(dsn)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS writes (name VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL, owner VARBINARY(32), expires DATETIME(6) NOT NULL)`)
	return mysqlWrites{db}, err
}

func (p mysqlWrites) lock(ctx context.Context, name string) (func() error, error) {
	for {
		out, err := p.db.ExecContext(ctx, `UPDATE writes SET token = LAST_INSERT_ID(token + 1), owner = ?, expires = UTC_TIMESTAMP(6) + INTERVAL ? SECOND
			WHERE name = ? AND (owner IS NULL OR expires < UTC_TIMESTAMP(6))`, someOwner, int(ttl.Seconds()), name)
		if err != nil {
			return nil, err
		}
		if n, _ := out.RowsAffected(); n == 1 {
			token, err := out.LastInsertId()
			return func() error { return p.give(name, token) }, err
		}
		// It is taken, or not there yet.
		if out, err = p.db.ExecContext(ctx, `INSERT IGNORE INTO writes VALUES (?, 0, NULL, UTC_TIMESTAMP(6))`, name); err != nil {
			return nil, err
		}
		if n, _ := out.RowsAffected(); n == 0 {
			return nil, errTaken
		}
	}
}

func (p mysqlWrites) give(name string, token int64) error {
	out, err := p.db.Exec(`UPDATE writes SET owner = NULL WHERE name = ? AND token = ? AND owner = ?`, name, token, someOwner)
	if err != nil {
		return err
	}
	n, err := out.RowsAffected()
	return unlessTaken(n != 0, err)
}

func (p mysqlWrites) close() error { return p.db.Close() }

// etcdWrites creates a key in a lease, whose revision is the token, and deletes it if it still
// has that revision.
type etcdWrites struct {
	client *clientv3.Client
	lease  clientv3.LeaseID
}

func openEtcdWrites(addr string) (locks, error) {
	c, err := etcdClient(addr)
	if err != nil {
		return nil, err
	}
	granted, err := c.Grant(context.Background(), 3600) // it is never renewed
	if err != nil {
		c.Close()
		return nil, err
	}
	return etcdWrites{c, granted.ID}, nil
}

func (l etcdWrites) lock(ctx context.Context, name string) (func() error, error) {
	key := "writes/" + name
	out, err := l.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, someOwner, clientv3.WithLease(l.lease))).Commit()
	if err = unlessTaken(err == nil && out.Succeeded, err); err != nil {
		return nil, err
	}
	token := out.Header.Revision
	return func() error {
		out, err := l.client.Txn(context.Background()).If(clientv3.Compare(clientv3.ModRevision(key), "=", token)).
			Then(clientv3.OpDelete(key)).Commit()
		return unlessTaken(err == nil && out.Succeeded, err)
	}, nil
}

func (l etcdWrites) close() error {
	_, err := l.client.Revoke(context.Background(), l.lease)
	return errors.Join(err, l.client.Close())
}

// natsWrites writes a name's subject on condition of its last sequence number, and remembers
// that number for the next time. The number of the grant is the token.
type natsWrites struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	mu     sync.Mutex
	last   map[string]uint64
}

func openNATSWrites(addr string) (locks, error) {
	nc, err := nats.Connect(addr)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	var stream jetstream.Stream
	if err == nil {
		stream, err = js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{Name: "writes", Subjects: []string{"writes.>"}, MaxMsgsPerSubject: 1})
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &natsWrites{nc: nc, js: js, stream: stream, last: map[string]uint64{}}, nil
}

func (l *natsWrites) lock(ctx context.Context, name string) (func() error, error) {
	token, err := l.write(ctx, name, someOwner) // a wrong number is an error: the name is taken
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := l.write(context.Background(), name, fmt.Sprint(token))
		return err
	}, nil
}

func (l *natsWrites) write(ctx context.Context, name, value string) (uint64, error) {
	subject := "writes." + keyOnNATS(name)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	l.mu.Lock()
	last, known := l.last[name]
	l.mu.Unlock()
	if !known {
		m, err := l.stream.GetLastMsgForSubject(ctx, subject)
		if err == nil {
			last = m.Sequence
		} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, err
		}
	}
	ack, err := l.js.Publish(ctx, subject, []byte(value), jetstream.WithExpectLastSequencePerSubject(last))
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	l.last[name] = ack.Sequence
	l.mu.Unlock()
	return ack.Sequence, nil
}

func (l *natsWrites) close() error {
	l.nc.Close()
	return nil
}
