//go:build !holdfast_files

package prove

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/mysqlstore"
	"github.com/holdfast-go/holdfast/store"
)

// ownMySQL is a store in MySQL or MariaDB with the pool that belongs to it.
type ownMySQL struct {
	*mysqlstore.Store
	db *sql.DB
}

func (s ownMySQL) Close() error {
	err := s.Store.Close()
	return errors.Join(err, s.db.Close())
}

func openMySQL(rawURL string, dial Dial) (store.Store, error) {
	c, o, err := mysqlstore.ParseURL(rawURL, nil)
	if err != nil {
		return nil, err
	}
	c.DialFunc = dial
	connector, err := mysql.NewConnector(c)
	if err != nil { // its error may show the URL
		return nil, fmt.Errorf("%w: the MySQL URL is wrong", store.ErrInvalid)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(16)
	s, err := mysqlstore.New(db, o)
	if err != nil {
		db.Close()
		return nil, err
	}
	return ownMySQL{s, db}, nil
}
