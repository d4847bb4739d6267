package holdfastgoose_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastgoose"
	"github.com/holdfast-go/holdfast/memstore"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, "orders.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: pgstore.New(pool, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	migrations := fstest.MapFS{ // in a program: an embed.FS
		"00001_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id int);\n")},
	}
	locker := holdfastgoose.New(locks, "migrations of orders")
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithSessionLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := provider.Up(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range results {
		fmt.Println("migrated:", r.Source.Path)
	}
	// Output:
	// migrated: 00001_orders.sql
}
