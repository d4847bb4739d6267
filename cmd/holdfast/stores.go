package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/store/scheme"
)

// A storeKind is one kind of URL, for help and manual.
type storeKind struct {
	schemes []string // the first is that of the example
	example string   // the user replaces the host, if there is one
	is      string
	options []string // the main options of the URL: "?name=value" and what it means
	port    string   // the usual port of such a server
}

// storeKinds are all stores, the ones without a server first. A test compares it with the
// registered schemes.
var storeKinds = []storeKind{
	{[]string{"file"}, "file:/var/lib/locks", "a directory of this host, created if it is missing",
		[]string{"?trust-fs=1 also on a file system that hosts share (NFS, SMB, FUSE)"}, ""},
	{[]string{"redis", "rediss"}, "redis://user:password@host:6379/0", "a Redis or Valkey server; rediss:// with TLS",
		[]string{"?replicas=1 to grant nothing before one replica has confirmed it", "?dial_timeout=3s&read_timeout=3s"}, "6379"},
	{[]string{"redis+cluster", "rediss+cluster"}, "redis+cluster://host:6379,host2:6379", "a Redis Cluster: name some of its servers; rediss+cluster:// with TLS", nil, ""},
	{[]string{"redis+sentinel", "rediss+sentinel"}, "redis+sentinel://host:26379,host2:26379/master/0", "the Redis that these Sentinels call master; rediss+sentinel:// with TLS",
		[]string{"?sentinel_username=NAME&sentinel_password=WORD for the Sentinels themselves"}, "26379"},
	{[]string{"redlock"}, "redlock:redis://a,redis://b,redis://c", "a majority of several independent Redis servers",
		[]string{"?max-ttl=60s the longest TTL; all clients must have the same", "?timeout=1s how long to wait for one server"}, ""},
	{[]string{"postgres", "postgresql"}, "postgres://user:password@host:5432/db", "a table in PostgreSQL, created at first use if the user may; or postgresql://",
		[]string{"?sslmode=verify-full and other settings of libpq", "?schema=NAME&table=NAME where the locks are kept", "?listen=host:port the server itself, if the URL names a pooler"}, "5432"},
	{[]string{"postgres+session", "postgresql+session"}, "postgres+session://user:password@host:5432/db", "advisory locks in a session of PostgreSQL: no TTL, no ls, no pooler; or postgresql+session://",
		[]string{"?tokens=1 for fencing tokens"}, ""},
	{[]string{"mysql", "mariadb"}, "mysql://user:password@host:3306/db", "three tables in MySQL or MariaDB, created at first use if the user may; or mariadb://",
		[]string{"?tls=true", "?table=NAME where the locks are kept"}, "3306"},
	{[]string{"sqlserver"}, "sqlserver://user:password@host:1433?database=db&encrypt=true", "two tables in SQL Server or Azure SQL, created at first use if the user may",
		[]string{"?schema=NAME&table=NAME where the locks are kept"}, "1433"},
	{[]string{"mongodb", "mongodb+srv"}, "mongodb://user:password@host:27017/db", "a collection of MongoDB 4.4 or newer; or mongodb+srv://",
		[]string{"?collection=NAME where the locks are kept", "?tls=true&replicaSet=NAME and other options of MongoDB"}, "27017"},
	{[]string{"etcd"}, "etcd://user:password@host:2379,host2:2379", "an etcd cluster",
		[]string{"?prefix=locks/ where the locks are kept", "?tls=1&ca=FILE&cert=FILE&key=FILE"}, "2379"},
	{[]string{"zk"}, "zk://user:password@host:2181,host2:2181/locks", "a ZooKeeper ensemble; the locks are kept below the path",
		[]string{"?tls=1&ca=FILE&cert=FILE&key=FILE"}, "2181"},
	{[]string{"nats", "nats+tls"}, "nats://user:password@host:4222,host2:4222", "a bucket of NATS JetStream 2.11 or newer; nats+tls:// with TLS",
		[]string{"?bucket=NAME&replicas=3 where the locks are kept", "?creds=FILE"}, "4222"},
	{[]string{"s3"}, "s3://bucket/prefix?region=eu-central-1", "a bucket of S3, by conditional writes, if the program was built with -tags holdfast_cloud",
		[]string{"?endpoint=http://host:port another server than Amazon's", "?profile=NAME of the AWS files"}, ""},
	{[]string{"dynamodb"}, "dynamodb://table/prefix?region=eu-central-1", "a table of DynamoDB, by conditional writes, if the program was built with -tags holdfast_cloud",
		[]string{"?endpoint=http://host:port another server than Amazon's", "?profile=NAME of the AWS files"}, ""},
	{[]string{"azblob"}, "azblob://account/container/prefix", "a container of Azure Blob Storage, by conditional writes, if the program was built with -tags holdfast_cloud",
		[]string{"?endpoint=http://host:port/account another server than Azure"}, ""},
	{[]string{"k8s"}, "k8s://namespace", "Leases of Kubernetes, with the settings of kubectl or of the pod, if the program was built with -tags holdfast_cloud",
		[]string{"?kubeconfig=FILE", "?context=NAME"}, ""},
}

func storesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stores",
		Short: "List the stores and their URLs",
		Long: `List every kind of store, with an example of its URL and its main options. Put
the URL into --store, HOLDFAST_STORE, or the one line of a file that
HOLDFAST_STORE_FILE names. 'holdfast doctor --store URL' says whether a store
works.

` + storeList(true),
		Example: `  holdfast stores
  holdfast doctor --store redis://localhost:6379`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return exit(printStores(os.Stdout)) },
	}
}

func printStores(w io.Writer) error {
	_, err := fmt.Fprint(w, storeList(true))
	return err
}

// storeList returns the list of all stores, with or without the options of their URLs.
func storeList(options bool) string {
	var b strings.Builder
	for _, k := range storeKinds {
		fmt.Fprintf(&b, "  %s\n      %s\n", k.example, k.is)
		if options {
			for _, o := range k.options {
				fmt.Fprintf(&b, "      %s\n", o)
			}
		}
	}
	return b.String()
}

// plainScheme reports whether s is written like a scheme. Messages repeat no other part of a URL,
// as it may be a password.
func plainScheme(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
}

// adviceOnURL returns what is wrong with a URL whose scheme is of no store; "" if it is of one.
func adviceOnURL(url string) string {
	name, rest, colon := strings.Cut(url, ":")
	known := scheme.All()
	before, _, slashes := strings.Cut(url, "//")
	switch {
	case strings.HasPrefix(strings.ToLower(url), "redlock://"):
		return "the nodes of Redlock are URLs themselves: " + exampleOf("redlock")
	case colon && scheme.Opener(name) != nil:
		return ""
	case !colon && slashes && scheme.Opener(before) != nil, colon && slashes && len(before) < len(name) && scheme.Opener(before) != nil:
		return "a colon is missing: " + exampleOf(before)
	case strings.HasPrefix(url, "/"):
		return "a directory is written as file:/DIR, with the whole path"
	case !colon && strings.ContainsAny(url, `/\`), strings.HasPrefix(url, "."), strings.HasPrefix(url, "~"):
		return "a directory is written as file:/DIR, with the whole path"
	case !colon && scheme.Opener(url) != nil:
		return "write " + exampleOf(url) + ", with your own host"
	case !colon:
		return "a store is a URL like redis://host:6379 or file:/var/lib/locks; 'holdfast stores' lists all"
	case strings.EqualFold(name, "http") || strings.EqualFold(name, "https"):
		return "a store is not named by its web address; for etcd write etcd://host:2379"
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	if port := rest[:digits]; port != "" {
		for _, k := range storeKinds {
			if k.port == port {
				return "what comes before the host is missing: " + k.schemes[0] + "://host:" + port
			}
		}
		return "a URL begins with the kind of the store, like redis://host:6379; 'holdfast stores' lists all"
	}
	if !plainScheme(name) {
		return "a URL begins with the kind of the store, like redis://host:6379; 'holdfast stores' lists all"
	}
	if is := aliases[strings.ToLower(name)]; is != "" { //mutant:cmd-store-has-aliases
		return fmt.Sprintf("there is no store %.30q; write %s", name+":", exampleOf(is))
	}
	if like := similar(strings.ToLower(name), slices.DeleteFunc(known, func(s string) bool { return s == "mem" })); like != "" {
		return fmt.Sprintf("there is no store %.30q; did you mean %q?", name+":", like+":")
	}
	return fmt.Sprintf("there is no store %.30q; 'holdfast stores' lists all", name+":")
}

// aliases maps what people call a store to its scheme.
var aliases = map[string]string{
	"mssql": "sqlserver", "azuresql": "sqlserver", "mongo": "mongodb", "mongo+srv": "mongodb+srv", "zookeeper": "zk",
	"pg": "postgres", "pgx": "postgres", "psql": "postgres", "valkey": "redis", "valkeys": "rediss",
	"dir": "file", "files": "file", "filesystem": "file",
}

func exampleOf(name string) string {
	for _, k := range storeKinds {
		if slices.Contains(k.schemes, strings.ToLower(name)) {
			return strings.Replace(strings.Replace(k.example, "user:password@", "", 1), k.schemes[0], strings.ToLower(name), 1)
		}
	}
	return name + ":"
}

// optionMeant suggests an option that is similar to one that a driver does not know, as the end
// of a sentence.
func optionMeant(scheme string, err error) string {
	_, option, unknown := strings.Cut(err.Error(), "unexpected option: ") // the text of go-redis, which lists no options
	for _, k := range storeKinds {
		if !unknown || !slices.Contains(k.schemes, strings.ToLower(scheme)) {
			continue
		}
		var names []string
		for _, o := range k.options {
			query, _, _ := strings.Cut(strings.TrimPrefix(o, "?"), " ")
			for _, pair := range strings.Split(query, "&") {
				name, _, _ := strings.Cut(pair, "=")
				names = append(names, name)
			}
		}
		if like := similar(option, names); like != "" {
			return "; did you mean " + like + "?"
		}
	}
	return ""
}

// isURL reports whether a NAME is the URL of a store, as happens if --store is left out.
func isURL(name string) bool {
	before, _, ok := strings.Cut(name, "://")
	return ok && (scheme.Opener(before) != nil || aliases[strings.ToLower(before)] != "")
}

// similar returns the one of the words that is most similar to the word; "" if none is.
func similar(word string, words []string) string {
	best, least := "", max(1, min(2, len(word)/3))+1
	for _, w := range words {
		if d := distance(word, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance returns how many letters must be inserted, deleted, replaced, or exchanged with the
// next to turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := range rows[i] {
			switch {
			case i == 0:
				rows[i][j] = j
			case j > 0:
				same := 1
				if a[i-1] == b[j-1] {
					same = 0
				}
				d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					d = min(d, rows[i-2][j-2]+1)
				}
				rows[i][j] = d
			}
		}
	}
	return rows[len(a)][len(b)]
}
