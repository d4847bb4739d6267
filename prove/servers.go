//go:build !holdfast_files

package prove

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/pgadvisory"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/redisstore/redlock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

func openRedis(rawURL string, dial Dial) (store.Store, error) {
	s, err := redisstore.Open(rawURL, &redisstore.Options{Dialer: dial})
	if err != nil {
		return nil, err // not s: a nil pointer in an interface is not nil
	}
	return s, nil
}

func openRedlock(rawURL string, dial Dial) (store.Store, error) {
	s, err := redlock.Open(rawURL, &redlock.Options{Dialer: dial})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ownSession is a session of PostgreSQL with the pool whose settings it has.
type ownSession struct {
	*pgadvisory.Store
	pool *pgxpool.Pool
}

func (s ownSession) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

func openPostgresSession(rawURL string, dial Dial) (store.Store, error) {
	config, o, err := pgadvisory.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DialFunc = pgconn.DialFunc(dial)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("%w: the PostgreSQL URL is wrong", store.ErrInvalid)
	}
	s, err := pgadvisory.New(pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return ownSession{s, pool}, nil
}

func openZooKeeper(rawURL string, dial Dial) (store.Store, error) {
	servers, o, err := zkstore.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o.Dial = dial
	s, err := zkstore.New(servers, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}
