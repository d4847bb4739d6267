package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// stores are all stores that a server can be started for.
var stores = []served{
	{"file", "Files", onFiles, "flock(2)", startFiles, nil},
	{"redis", "Redis", onRedis, reference, startManyRedis, nil},
	{"redlock", "Redlock of 3", onMajority, "redsync", startManyRedlock, nil},
	{"postgres", "PostgreSQL", onPostgres, tableLease, startManyPostgres, nil},
	{"mysql", "MariaDB", onMySQL, tableLease, func(ctx context.Context) (running, error) { return startManyMySQL(ctx, mariaDB) }, nil},
	{"mysql9", "MySQL", onMySQL, tableLease, func(ctx context.Context) (running, error) { return startManyMySQL(ctx, mySQL) }, nil},
	{"etcd", "etcd", onEtcd, etcdMutex, startManyEtcd, nil},
	{"zk", "ZooKeeper", onZooKeeper, zkLock, startManyZooKeeper, nil},
	{"nats", "NATS", onNATS, "", startManyNATS, nil},
	{"mongo", "MongoDB", onMongoDB, "", namedMongoDB, nil},
	{"s3", "S3", onS3, "", startManyS3, fewOnS3},
	{"dynamodb", "DynamoDB", onDynamoDB, "", startManyDynamoDB, fewOnDynamoDB},
	{"azblob", "Azure Blob", onAzure, "", startManyAzure, fewOnAzure},
	{"kubernetes", "Kubernetes", onKubernetes, "", startManyKubernetes, fewOnKubernetes},
}

func startFiles(context.Context) (running, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	return running{dir, "files in " + dir, nil, func() { os.RemoveAll(dir) }}, err
}

func startManyRedis(ctx context.Context) (running, error) {
	server, end, err := startRedis(forMany...)
	if err != nil {
		return running{}, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	stop := func() { rdb.Close(); end() }
	title, err := redisTitle(ctx, rdb)
	if err != nil {
		stop()
		return running{}, err
	}
	return running{server.Addr, title, countRedis(rdb), stop}, nil
}

func startManyRedlock(ctx context.Context) (running, error) {
	nodes, clients, end, err := startRedlock(ctx, 3, forMany...)
	if err != nil {
		return running{}, err
	}
	stop := func() { clients.close(); end() }
	version, err := redisVersion(ctx, clients[0])
	if err != nil {
		stop()
		return running{}, err
	}
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.addr)
	}
	title := "Redis " + version + " on the loopback, 3 independent servers without persistence"
	return running{strings.Join(addrs, ","), title, countRedis(clients...), stop}, nil
}

func startManyPostgres(ctx context.Context) (running, error) {
	addr, conn, _, end, err := startPostgres(ctx, 5000, "-c", "shared_preload_libraries=pg_stat_statements")
	if err != nil {
		return running{}, err
	}
	title, err := postgresTitle(ctx, conn)
	if err == nil {
		_, err = conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements")
	}
	if err != nil {
		end()
		return running{}, err
	}
	return running{testserver.PostgresURL(addr, "pool_max_conns=16"), title, countPostgres(conn), end}, nil
}

func startManyMySQL(ctx context.Context, kind mySQLKind) (running, error) {
	server, err := kind.start(ctx, 5000)
	if err != nil {
		return running{}, err
	}
	return running{server.dsn, server.title, countMariaDB(server.db), server.stop}, nil
}

func startManyEtcd(ctx context.Context) (running, error) {
	addr, end := testserver.ExampleEtcd()
	c, err := etcdClient(addr)
	if err != nil {
		end()
		return running{}, err
	}
	defer c.Close()
	title, err := etcdTitle(ctx, c, addr)
	if err != nil {
		end()
		return running{}, err
	}
	return running{addr, title, countEtcd(addr), end}, nil
}

func startManyZooKeeper(ctx context.Context) (running, error) {
	server, end, err := startIn(func(dir string) (*testserver.Server, error) {
		return testserver.StartZooKeeper(dir, "clientPortListenBacklog=4096")
	})
	if err != nil {
		return running{}, err
	}
	title, err := zooKeeperTitle(ctx, server.Addr)
	if err != nil {
		end()
		return running{}, err
	}
	return running{server.Addr, title, countZooKeeper(server.Addr), end}, nil
}

func startManyNATS(context.Context) (running, error) {
	server, end, err := startNATS()
	if err != nil {
		return running{}, err
	}
	addr := "nats://" + server.Addr
	nc, err := nats.Connect(addr)
	if err != nil {
		end()
		return running{}, err
	}
	defer nc.Close()
	return running{addr, natsTitle(nc), countNATS(server.Monitor), end}, nil
}

func namedMongoDB(ctx context.Context) (running, error) {
	uri := os.Getenv(mongoEnv)
	if uri == "" {
		return running{}, errNoMongoDB
	}
	title, err := mongoTitle(ctx, uri)
	if err != nil {
		return running{}, fmt.Errorf("the server in %s: %w", mongoEnv, err)
	}
	return running{uri, title, nil, func() {}}, nil
}
