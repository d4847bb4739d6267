package all_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/mongostore"
	"github.com/holdfast-go/holdfast/mssqlstore"
	"github.com/holdfast-go/holdfast/mysqlstore"
	"github.com/holdfast-go/holdfast/natsstore"
	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/pgstore"
	"github.com/holdfast-go/holdfast/pgstore/pgadvisory"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

func TestEachSchemeOpensItsStore(t *testing.T) {
	dir := t.TempDir()
	for url, want := range map[string]string{
		"file:" + dir + "/a":                "file:" + dir + "/a",
		"file://" + dir + "/b":              "file:" + dir + "/b",
		"file:" + dir + "/w%20b?trust-fs=1": "file:" + dir + "/w b",
		"file:" + dir + "/d%23e?trust-fs=0": "file:" + dir + "/d#e",
		"FILE:" + dir + "/f":                "file:" + dir + "/f",
		"redis://:secret@127.0.0.1:1/2":     "Redis at 127.0.0.1:1, database 2",
		"rediss://u:p@127.0.0.1:1":          "Redis at 127.0.0.1:1, database 0",
		"redis://127.0.0.1?dial_timeout=3s": "Redis at 127.0.0.1:6379, database 0",

		"etcd://127.0.0.1:1,db:2":                       "etcd at http://127.0.0.1:1, http://db:2",
		"zk://127.0.0.1:1,db:2/locks":                   "ZooKeeper at 127.0.0.1:1, db:2",
		"zk://u:p@[::1]/a/b?tls=1":                      "ZooKeeper at [::1]:2181",
		"etcd://[::1]":                                  "etcd at http://[::1]:2379",
		"etcd://host?prefix=locks/&tls=1&server-name=n": "etcd at https://host:2379",

		"mongodb://u:sec%2Fret@127.0.0.1:1,127.0.0.1:2/locks?directConnection=false": "MongoDB at 127.0.0.1:1,127.0.0.1:2, collection holdfast.locks of database locks",
		"mongodb://127.0.0.1:1?collection=l&retryWrites=false":                       "MongoDB at 127.0.0.1:1, collection l of database holdfast",

		"mysql://u:sec%2Fret@127.0.0.1:1/locks":                              "MySQL or MariaDB at 127.0.0.1:1, database locks, table holdfast_locks",
		"mariadb://127.0.0.1/locks?parseTime=true&table=l&charset=utf8,big5": "MySQL or MariaDB at 127.0.0.1:3306, database locks, table l",

		"sqlserver://u:sec%2Fret@127.0.0.1:1?database=locks&encrypt=true":           "SQL Server at 127.0.0.1:1, database locks, table [dbo].[holdfast_locks]",
		"sqlserver://db/EXPRESS?Database=locks&schema=ops&table=l&Dial%20Timeout=3": "SQL Server at db\\EXPRESS, database locks, table [ops].[l]",

		"redis+cluster://u:p@127.0.0.1:1,127.0.0.1:2?replicas=1": "Redis cluster 127.0.0.1:1, 127.0.0.1:2",
		"rediss+cluster://127.0.0.1:1":                           "Redis cluster 127.0.0.1:1",
		"redis+sentinel://:p@127.0.0.1:1,127.0.0.1:2/m":          "Redis behind Sentinel 127.0.0.1:1, 127.0.0.1:2, master m, database 0",
		"rediss+sentinel://127.0.0.1:1/m/2":                      "Redis behind Sentinel 127.0.0.1:1, master m, database 2",

		"postgres://u:secret@127.0.0.1:1/locks":                             "PostgreSQL at 127.0.0.1, port 1, database locks",
		"postgres://u:secret@127.0.0.1:1":                                   "PostgreSQL at 127.0.0.1, port 1",
		"postgres+session://u:secret@127.0.0.1:1":                           "PostgreSQL at 127.0.0.1, port 1, a session",
		"postgresql://u@127.0.0.1/locks?schema=ops&table=l&sslmode=disable": "PostgreSQL at 127.0.0.1, port 5432, database locks",
		"postgres+session://u:secret@127.0.0.1:1/locks":                     "PostgreSQL at 127.0.0.1, port 1, database locks, a session",
		"postgresql+session://u@127.0.0.1/locks?schema=ops&tokens=1":        "PostgreSQL at 127.0.0.1, port 5432, database locks, a session",

		"nats://u:secret@127.0.0.1:1,127.0.0.1:2": "NATS at 127.0.0.1:1, 127.0.0.1:2, bucket holdfast",
		"nats+tls://[::1]?bucket=l&replicas=3":    "NATS at [::1]:4222, bucket l",
	} {
		s, err := open.URL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := s.Describe().Store; got != want {
			t.Errorf("%s is %q, want %q", url, got, want)
		}
		switch s.(type) {
		case *filestore.Store:
			if _, err := os.Stat(strings.TrimPrefix(want, "file:")); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		case *redisstore.Store, *pgstore.Store, *mysqlstore.Store, *mssqlstore.Store, *mongostore.Store, *pgadvisory.Store, *etcdstore.Store, *zkstore.Store, *natsstore.Store:
		default:
			t.Errorf("%s is a %T", url, s)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", url, err)
		}
	}
	if s, err := open.URL("mem:"); err != nil {
		t.Error(err)
	} else if _, ok := s.(*memstore.Store); !ok {
		t.Errorf("mem: is a %T", s)
	}
}

func TestAWrongURLIsInvalidAndNotRepeated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	for _, url := range []string{
		"", "secret", "/secret/dir", "secret:x", "sqlite:secret",
		"mem:secret", "mem://secret", "mem:?secret=1",
		"file:", "file:?trust-fs=1", "file://secret@host/dir", "file:" + dir + "#secret",
		"file:" + dir + "?trust-fs=yes", "file:" + dir + "?trustfs=1", "file:" + dir + "?trust-fs=1;b=%zz",
		"redis://:sec%ret@host", "redis://u:secret@host:notaport", "redis://u:secret@host/notanumber", "redis://u:secret@host?no-such=1",
		"etcd://u:secret@host/path", "etcd://u:secret@host?no-such=1", "etcd://host?tls=secret", "etcd://u:sec%ret@host", "etcd://u:secret@host#x",
		"zk://u:secret@host/a//b", "zk://u:secret@host?no-such=1", "zk://host?tls=secret", "zk://u:sec%ret@host", "zk://u:secret@host#x", "zk:secret",
		"zk://u:secret@host?ca=/no/such/file", "etcd://u:secret@host?ca=/no/such/file", "etcd:secret",
		"mongodb://u:secret@", "mongodb://u:sec%ret@host", "mongodb://u:secret@host/a/b", "mongodb://u:secret@host/db?collection=", "mongodb://u:secret@host/db?collection=a$b", "mongodb:secret",
		"nats://u:secret@host/path", "nats://u:secret@host?no-such=1", "nats://u:secret@host?bucket=a.b", "nats://host?replicas=secret", "nats://u:sec%ret@host", "nats://u:secret@host#x",
		"nats://u:secret@host?ca=/no/such/file", "nats://u:secret@host?cert=/no/such/file", "nats:secret", "nats://host?replicas=6",
		"mysql://u:secret@", "mysql://u:secret@host", "mysql://u:secret@host/a/b",
		"mysql://u:secret@host/db?table=", "mysql://u:secret@host/db?table=a-b", "mysql://u:sec#ret@host/db", "mysql://u:secret@host/db?tls=secret", "mysql:secret",
		"sqlserver://u:secret@?database=d", "sqlserver://u:secret@host", "sqlserver://u:secret@host:1433/db?database=d", "sqlserver://u:secret@host?database=", "sqlserver://u:secret@a,b?database=d",
		"sqlserver://u:secret@host?database=d&encrpyt=true", "sqlserver://u:secret@host?database=d&encrypt=maybe", "sqlserver://u:secret@host?database=d&table=a-b", "sqlserver://u:secret@host?database=d&schema=",
		"sqlserver://u:secret@host?database=d&applicationintent=ReadOnly", "sqlserver://u:sec%ret@host?database=d", "sqlserver://u:secret@host?database=d#x", "sqlserver://u:secret@host?database=d&Database=e", "sqlserver:secret",
		"redis+cluster://u:secret@host,other:notaport", "redis+cluster://u:secret@host/1", "redis+sentinel://u:secret@host,other", "redis+sentinel://host/m?sentinel_password=secret&no-such=1",
		"redis://u:sec ret@host", "rediss://u:secret@[::1", "redis:\x00secret",
		"postgres://u:sec%ret@host", "postgres://u:secret@host:notaport", "postgres://u:secret@host/db?sslmode=no-such", "postgres://u:secret@host?%zz",
		"postgres://u:secret@host/db?schema=a-b", "postgres://u:secret@host/db?table=1st", "postgresql://u:sec ret@host", "postgres:\x00secret",
		"zk://u:secret@host:65536", "redis://u:secret@host:99999", "etcd://u:secret@host:2379,other:0", "nats://u:secret@host:4222,other:70000", "postgres://u:secret@host:65536/db", "mongodb://u:secret@host:1,other:65536",
		"postgres+session://u:secret@host/db?tokens=yes", "postgres+session://u:secret@host/db?schema=a-b&tokens=1", "postgres+session://u:secret@host:notaport", "postgres+session://u:secret@host?%zz",
	} {
		s, err := open.URL(url)
		if s != nil || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: got %v, %v, want ErrInvalid", url, s, err)
			continue
		}
		if url != "secret:x" && strings.Contains(err.Error(), "secret") { // in "secret:x" it is the scheme
			t.Errorf("%q: the error repeats the secret: %v", url, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s was created for an invalid URL", dir)
	}
}

func TestAURLWithAUserOrPasswordIsSecret(t *testing.T) {
	for url, want := range map[string]bool{
		"file:/a": false, "redis://host": false, "redis://host:6379/1?db=2": false, "mem:": false,
		"redis+cluster://a:1,b:2": false, "redis+sentinel://a:1,b:2/m?replicas=1": false,
		"redis+cluster://:p@a:1,b:2": true, "redis+sentinel://a:1,b:2/m?sentinel_password=p": true, "redis+sentinel://a:1,b/m?sentinel_username=u": true,
		"redis://:p@host": true, "redis://u:p@host": true, "redis://u@host": true, "redis://a%b@host": true,
	} {
		if got := open.Secret(url); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
}

// Tokens are drawn only if the URL asks for them.
func TestURL_SessionsHaveTokensIfAskedFor(t *testing.T) {
	for url, want := range map[string]bool{
		"postgres+session://u@h/db": false, "postgres+session://u@h/db?tokens=0": false, "postgres+session://u@h/db?tokens=1": true,
	} {
		s, err := open.URL(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, lacks := s.Describe().Lacks[store.PromiseTokens]; lacks == want {
			t.Errorf("%s: the store has tokens: %v, want the opposite", url, !lacks)
		}
		s.Close()
	}
}
