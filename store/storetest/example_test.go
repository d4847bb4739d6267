package storetest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// testStore is the whole test of a store. In your own store it is called TestStore.
func testStore(t *testing.T) {
	// What all processes share: a server, a directory, or here the memory of this process.
	shared := memstore.New()

	// Each call is for one more process. Return a new store object on the shared server.
	// This store has its state in itself.
	storetest.Run(t, func(*testing.T) store.Store { return shared })
}

// The test of a store is one call, with a function that opens the store.
func ExampleRun() {
	tests := []testing.InternalTest{{Name: "TestStore", F: testStore}} // go test calls it
	_ = tests
}
