//go:build !holdfast_files

package prove

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore"
	"github.com/holdfast-go/holdfast/pgstore/pgadvisory"
	"github.com/holdfast-go/holdfast/store"
)

// ownPostgres is a PostgreSQL store with the pool that belongs to it.
type ownPostgres struct {
	*pgstore.Store
	pool *pgxpool.Pool
}

func (s ownPostgres) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

func openPostgres(rawURL string, dial Dial) (store.Store, error) {
	config, o, err := pgstore.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	pool, err := newPool(config, dial)
	if err != nil {
		return nil, err
	}
	s, err := pgstore.New(pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return ownPostgres{s, pool}, nil
}

// ownSession is a store of PostgreSQL sessions with the pool whose settings it uses.
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
	pool, err := newPool(config, dial)
	if err != nil {
		return nil, err
	}
	s, err := pgadvisory.New(pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return ownSession{s, pool}, nil
}

// newPool returns a pool that makes its connections by dial.
func newPool(config *pgxpool.Config, dial Dial) (*pgxpool.Pool, error) {
	config.ConnConfig.DialFunc = pgconn.DialFunc(dial)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil { // its error may show the URL
		return nil, fmt.Errorf("%w: the PostgreSQL URL is wrong", store.ErrInvalid)
	}
	return pool, nil
}
