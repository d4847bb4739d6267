package holdfastmigrate_test

import (
	"fmt"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/holdfastmigrate"
	"github.com/holdfast-go/holdfast/memstore"
)

func ExampleNew() {
	locks, err := holdfast.New(memstore.New(), nil) // for a fleet: redisstore.New(client, nil), or another store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	migrations, err := iofs.New(fstest.MapFS{ // in a program: an embed.FS
		"1_orders.up.sql":   {Data: []byte("CREATE TABLE orders (id int)")},
		"1_orders.down.sql": {Data: []byte("DROP TABLE orders")},
	}, ".")
	if err != nil {
		fmt.Println(err)
		return
	}
	driver, err := stub.WithInstance(nil, &stub.Config{}) // in a program: the driver of its database
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := migrate.NewWithInstance("iofs", migrations, "stub",
		holdfastmigrate.New(driver, locks, "migrations of orders", 10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := m.Up(); err != nil {
		fmt.Println(err)
		return
	}
	version, dirty, err := m.Version()
	fmt.Println(version, dirty, err)
	if err, errDriver := m.Close(); err != nil || errDriver != nil {
		fmt.Println(err, errDriver)
	}
	// Output:
	// 1 false <nil>
}
