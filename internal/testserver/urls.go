package testserver

import (
	"fmt"
	"strings"
)

// URLs are URL patterns of every store that has a server, with a %s for each address.
var URLs = map[string]string{
	"Redis":              "redis://%s",
	"Redis Cluster":      "redis+cluster://%s",
	"Redis Sentinel":     "redis+sentinel://%s/mymaster",
	"Redlock":            "redlock:redis://%[1]s,redis://%[2]s,redis://%[3]s",
	"PostgreSQL":         "postgres://someone:secret@%s/db",
	"PostgreSQL session": "postgres+session://someone:secret@%s/db",
	"MySQL":              "mysql://someone:secret@%s/db",
	"SQL Server":         "sqlserver://someone:secret@%s?database=db",
	"MongoDB":            "mongodb://%s/db",
	"etcd":               "etcd://%s",
	"ZooKeeper":          "zk://%s",
	"NATS":               "nats://%s",
}

// At returns one of the URLs with addresses put in.
func At(url string, address func() string) string {
	var all []any
	for range strings.Count(url, "%") {
		all = append(all, address())
	}
	return fmt.Sprintf(url, all...)
}
