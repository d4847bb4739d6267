package testserver

import "os"

// What an example has no test to end: the server of its kind that all tests of this
// binary share, if it has a TestMain for that, else one of the example's own, that ends
// by stop.

// ExampleRedis is a Redis server for an example.
func ExampleRedis() (addr string, stop func()) { return example(sharedRedis("redis")) }

// ExamplePostgres is the URL of a database on a PostgreSQL server for an example.
func ExamplePostgres() (url string, stop func()) {
	addr, stop := example(sharedPostgres)
	return PostgresURL(addr), stop
}

// ExampleMariaDB is how the driver comes to a database on a MariaDB server for an
// example.
func ExampleMariaDB() (dsn string, stop func()) {
	addr, stop := example(sharedMariaDB)
	return MariaDBDSN(addr), stop
}

// ExampleEtcd is an etcd server for an example.
func ExampleEtcd() (addr string, stop func()) { return example(sharedEtcd) }

// ExampleNATS is a NATS server for an example.
func ExampleNATS() (addr string, stop func()) { return example(sharedNATS) }

// ExampleZooKeeper is a ZooKeeper server for an example.
func ExampleZooKeeper() (addr string, stop func()) { return example(sharedZooKeeper) }

func example(of sharedKind) (addr string, stop func()) {
	if sharing() {
		return of.share(panicker{}), func() {}
	}
	dir, err := os.MkdirTemp("", "holdfast-test-")
	if err != nil {
		panic(err)
	}
	s, err := of.start(panicker{}, dir)
	if err != nil {
		panic(err)
	}
	return s.Addr, func() {
		s.Stop()
		os.RemoveAll(dir)
	}
}

// A sharedKind is a kind of server that the tests of a binary share, and how one is
// started.
type sharedKind struct {
	name  string
	start func(tb fataler, dir string) (*Server, error)
}

func (k sharedKind) share(t fataler) string {
	t.Helper()
	return share(t, k.name, k.start)
}
