package mssqlstore_test

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/microsoft/go-mssqldb"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/mssqlstore"
)

// This example locks on the connections that a program has anyway. They are encrypted, as the URL says so. The example is compiled and not
// run: not everyone who runs the tests can install SQL Server, as that means accepting its license.
func ExampleNew() {
	db, err := sql.Open("sqlserver", "sqlserver://app:secret@db-1?database=shop&encrypt=true&connection+timeout=10")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	store, err := mssqlstore.New(db, nil)
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
}

// For a user without the right to create tables: the statements to hand to somebody who has it.
func ExampleSchema() {
	schema, err := mssqlstore.Schema(&mssqlstore.Options{Schema: "ops", Table: "locks"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema[21:63])
	// Output: IF OBJECT_ID(N'[ops].[locks]',N'U') IS NUL
}
