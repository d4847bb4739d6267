package store_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Tracing of a driver links the span of a call for many claims to the span of each claim: with
// OpenTelemetry in the OnStart of a span processor.
func ExampleClaims() {
	type span struct{}
	onStart := func(parent context.Context) {
		fmt.Println("parent:", parent.Value(span{}))
		for _, claim := range store.Claims(parent) {
			fmt.Println("linked to:", claim.Value(span{}))
		}
	}
	request := func(id int) context.Context {
		return context.WithValue(context.Background(), span{}, fmt.Sprint("request ", id))
	}

	// A store sends one request alone, and two together.
	onStart(store.Join(context.Background(), request(1)))
	onStart(store.Join(context.Background(), request(2), request(3)))
	// Output:
	// parent: request 1
	// parent: <nil>
	// linked to: request 2
	// linked to: request 3
}

// An owner describes a holder for people, on one line.
func ExampleOwner_String() {
	o := store.Owner{Host: "web-3", PID: 4711, Program: "backup.sh", Note: "nightly"}
	fmt.Println(o)
	// Output: host web-3, pid 4711 (backup.sh), "nightly"
}
