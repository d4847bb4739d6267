package mysqlstore_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/mysqlstore"
)

// This example locks on the connections that a program has anyway.
func ExampleNew() {
	dsn, stop := exampleServer() // "app:secret@tcp(db-1:3306)/shop"
	defer stop()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	store, err := mysqlstore.New(db, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ran, err := locks.Mutex("nightly").TryDo(context.Background(), func(ctx context.Context) error {
		return nil // only one of all processes is here
	})
	fmt.Println(ran, err)
	// Output: true <nil>
}

// For a user without the right to create tables: the statements to hand to somebody who has it.
func ExampleSchema() {
	schema, err := mysqlstore.Schema(&mysqlstore.Options{Database: "ops", Table: "locks"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema[:40])
	// Output: CREATE TABLE IF NOT EXISTS `ops`.`locks`
}

// exampleServer starts a MariaDB for the example.
func exampleServer() (dsn string, stop func()) { return testserver.ExampleMariaDB() }
