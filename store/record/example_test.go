package record_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// Two processes share locks on a server that can compare and swap a record, and can notify. Here
// the server is in memory, and each process has its own Backend on it.
func ExampleNew() {
	ctx := context.Background()
	server := recordtest.NewMemory(recordtest.Options{})
	process := func() *holdfast.Locker {
		// Without notifications it is record.New(backend) alone.
		locks, err := holdfast.New(record.WatchStore{Store: record.New(server.Client())}, nil)
		if err != nil {
			panic(err)
		}
		return locks
	}
	one, other := process(), process()
	defer one.Close()
	defer other.Close()

	lease, err := one.Mutex("nightly").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := other.Mutex("nightly").TryDo(ctx, func(context.Context) error { return nil })
	fmt.Println("the other, meanwhile:", got, err)
	if err := lease.Release(); err != nil {
		fmt.Println(err)
		return
	}
	got, err = other.Mutex("nightly").TryDo(ctx, func(context.Context) error { return nil })
	fmt.Println("the other, after that:", got, err)
	// Output:
	// the other, meanwhile: false <nil>
	// the other, after that: true <nil>
}

// A backend whose server carries messages sends all notifications for one process as one message.
func ExampleAppendNotifications() {
	message := record.AppendNotifications(nil, []record.Notification{{Name: "nightly", Token: 7, N: 1}, {Name: "hourly", Token: 9, N: 1}})

	record.ParseNotifications(message, func(n record.Notification) {
		fmt.Println(n.Name, "is granted, with token", n.Token)
	})
	// Output:
	// nightly is granted, with token 7
	// hourly is granted, with token 9
}
