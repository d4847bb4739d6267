package mysqlstore

import (
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	c, err := mysql.ParseDSN(sharedDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	addr, o := c.Addr, apart()
	storetest.Faults(t, storetest.Linked{Open: func(t *testing.T) (store.Store, storetest.Link) {
		link := testserver.NewLink(t, addr)
		linked := c.Clone()
		linked.Addr = link.Addr()
		return storeOn(t, dbOn(t, linked.FormatDSN()), o), link
	}})
}
