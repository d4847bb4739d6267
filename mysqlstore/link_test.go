package mysqlstore

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// linkTo returns the DSN of a server by way of a link of its own.
func linkTo(t testing.TB, dsn string) (linked string, link *testserver.Link) {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	link = testserver.NewLink(t, c.Addr)
	c.Addr = link.Addr()
	return c.FormatDSN(), link
}

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	dsn, o := sharedDSN(t), apart()
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		linked, link := linkTo(t, dsn)
		return storeOn(t, dbOn(t, linked), o), link
	}})
}

// The process of a holder is killed: the lock is free within its TTL and a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	storetest.Killed(t, storetest.Killable{
		At: func(t *testing.T) string { return apart().Table + " " + sharedDSN(t) },
		Open: func(t *testing.T, at string) store.Store {
			table, dsn, _ := strings.Cut(at, " ")
			return storeOn(t, dbOn(t, dsn), &Options{Table: table})
		},
	})
}
