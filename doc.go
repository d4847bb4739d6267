// Package holdfast lets one holder at a time, or N, or many readers, work on a
// named thing: across goroutines, processes and machines, on the store that
// you already run.
//
//	store, err := redisstore.New(client, nil)
//	locks, err := holdfast.New(store, nil)
//	lease, err := locks.Mutex("invoice/42").Lock(ctx) // ctx bounds the waiting only
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//	err = work(lease.Context(ctx), lease.Token())
//
// # Terms
//
// A claim is one request for a name, and a try is a claim that does not wait. The
// store keeps claims in the queue of their name: a claim that waits has a position there,
// and a granted one is a hold. A lease is what the caller has of a hold: an object in its
// process, with a deadline. A hold can have several leases: at the same time, where a
// caller enters it again ([Options.Reentrant]), and one after another, where it is handed
// over inside the process ([HandOver]).
//
// # Primitives
//
// A [Lock] is a name and a way to hold it: alone ([Locker.Mutex]), together with other
// readers ([RWMutex]), or as some of its slots ([Semaphore]). It can be waited for
// (Lock), tried (TryLock), and both with a function that runs under it (Do, TryDo). What
// it gives is a [Lease]. Mutex and RWMutex of one name are one lock. An
// [UpgradeableLease] reads, and can become the writer, with no other writer in between.
// Claims are served in order, so none starves; see Order below. [Locker.All] takes
// several names, all or none; [Election] is a mutex for candidates. A claim would wait
// for itself if its context comes from a lease that blocks it: that is [ErrDeadlock], or
// with [Options.Reentrant] the claim enters the same hold again.
//
// # Order
//
// Inside a process claims on a name are served in the order of arrival.
// Between processes the order is that of the claims that each process has in the
// store's queue:
//
//   - Readers, and slots of a semaphore, that fit together under the limit have
//     positions of their own there, up to 64 of a process.
//   - Of claims that exclude each other a process has one there, the first. The
//     others follow it, so that processes take turns.
//
// So a claim that has k claims of its own process before it, which exclude each other,
// can be overtaken by claims of other processes that came later: by k of each process.
// With hand-over ([HandOver], which is on by default) a turn has up to 64 leases instead
// of one, and one more turn can come first: up to 64 × (k+1) leases of each other
// process. Readers that follow each other in a process are one turn, as are slots that
// fit together. Then, too, one more turn can come first, of up to 64 claims.
//
// Claims that fit together and are made within one round trip of each other are sent at
// the same time, at most 16 of them: the store may take them in any order. While two
// numbers of slots are in use for one semaphore, a claim with a different number from
// those in the local queue asks the store by itself: it has a position of its own, and
// overtakes the claims of its process that have none yet. A store can lack order as a
// whole; its Describe says so.
//
// # What a lease promises
//
// A lease renews itself until it is released or lost. Its deadline counts from before the
// call that last renewed it was sent, and comes slightly before the store can grant the
// name to anyone else. A timer ends the lease then, even if the network is down:
// [Lease.Valid] is false, [Lease.Lost] is closed and every [Lease.Context] has ended. A
// lost lease stays lost. One store has no deadlines:
// [github.com/holdfast-go/holdfast/pgstore/pgadvisory] in session mode. There a loss is
// noticed only after it has happened.
//
// A process can still be stopped between checking its lease and writing. So each lease
// carries a fencing [Lease.Token], larger than that of any earlier conflicting hold. A
// resource that refuses tokens smaller than the largest it has seen is safe even then.
// Package [github.com/holdfast-go/holdfast/guard] does that for SQL,
// [github.com/holdfast-go/holdfast/redisstore/redisguard] for Redis.
//
// # Contexts
//
// The context of a claim bounds its waiting, and nothing after that. Its values reach the
// driver of the store with all calls that serve this claim alone, including its release,
// so that a trace has them. Its end and its deadline never do. A call for many claims at
// once, such as a renewal, has no values; [github.com/holdfast-go/holdfast/store.Claims]
// returns the claims that it serves, for code that traces the driver. If your driver
// takes a transaction from the context, give the store a client of its own.
//
// # Errors
//
// Every error matches one of the Err values of this package, or the context's error, and
// says what was tried, on which name and store. [ErrHeld] comes as a [HeldError], which
// says who blocks the claim. An error caused by the store matches [ErrUnavailable] and
// wraps the cause; it matches a context's error only if the caller's context has ended.
// [Options.Wait] counts as a deadline of that context: its end matches
// [context.DeadlineExceeded]. A method that runs a function, such as Do, returns
// [ErrNotRun] if the function was not called, and a [ReleaseError] if it was called and
// the lease did not end well.
//
// # Stores
//
// Package [github.com/holdfast-go/holdfast/memstore] is for one process and for tests,
// [github.com/holdfast-go/holdfast/filestore] for the processes of one host. For a
// fleet, each a module of its own, there are:
//
//   - Redis, Valkey: [github.com/holdfast-go/holdfast/redisstore], and on a majority of
//     independent servers [github.com/holdfast-go/holdfast/redisstore/redlock]
//   - PostgreSQL: [github.com/holdfast-go/holdfast/pgstore], and by its advisory locks
//     [github.com/holdfast-go/holdfast/pgstore/pgadvisory]
//   - MySQL, MariaDB: [github.com/holdfast-go/holdfast/mysqlstore]
//   - SQL Server: [github.com/holdfast-go/holdfast/mssqlstore]
//   - MongoDB: [github.com/holdfast-go/holdfast/mongostore]
//   - etcd: [github.com/holdfast-go/holdfast/etcdstore]
//   - ZooKeeper: [github.com/holdfast-go/holdfast/zkstore]
//   - NATS: [github.com/holdfast-go/holdfast/natsstore]
//   - S3: [github.com/holdfast-go/holdfast/s3store]
//   - DynamoDB: [github.com/holdfast-go/holdfast/dynamostore]
//   - Azure Blob Storage: [github.com/holdfast-go/holdfast/azblobstore]
//   - Kubernetes: [github.com/holdfast-go/holdfast/k8sstore]
//
// Package [github.com/holdfast-go/holdfast/open] turns a URL into one of them. What each
// one promises is in its package documentation, always under the same headings: Stored
// form, Guarantees, Requirements, Rights. In the repository docs/stores.md is a table to
// choose by, and docs/design.md has the rule that they all follow.
package holdfast
