package testserver

import "os"

// An example has no test to end with. It uses the server of its kind that all tests of this
// binary share, if a TestMain manages one. Otherwise it gets a server of its own, which stop
// ends.

// ExampleRedis returns the address of a Redis server for an example.
func ExampleRedis() (addr string, stop func()) { return example(sharedRedis("redis")) }

// ExamplePostgres returns the URL of a database on a PostgreSQL server for an example.
func ExamplePostgres() (url string, stop func()) {
	addr, stop := example(sharedPostgres)
	return PostgresURL(addr), stop
}

// ExampleMariaDB returns the DSN of a database on a MariaDB server for an example.
func ExampleMariaDB() (dsn string, stop func()) {
	addr, stop := example(sharedMariaDB)
	return MariaDBDSN(addr), stop
}

// ExampleEtcd returns the address of an etcd server for an example.
func ExampleEtcd() (addr string, stop func()) { return example(sharedEtcd) }

// ExampleNATS returns the address of a NATS server for an example.
func ExampleNATS() (addr string, stop func()) { return example(sharedNATS) }

// ExampleZooKeeper returns the address of a ZooKeeper server for an example.
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

// A sharedKind is a kind of server that the tests of a binary share, with the function that
// starts one.
type sharedKind struct {
	name  string
	start func(tb fataler, dir string) (*Server, error)
}

func (k sharedKind) share(t fataler) string {
	t.Helper()
	return share(t, k.name, k.start)
}
