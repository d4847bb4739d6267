// Package all has package open open the URLs of every store: import it for its
// effect alone.
//
//	import _ "github.com/holdfast-go/holdfast/open/all"
//
// A program that imports it links every driver. One that knows which stores it may
// meet imports their packages instead. With the build tag holdfast_lean the drivers
// of etcd, MongoDB, NATS and SQL Server are left out, and their URLs are a
// store.ErrUnsupported.
package all

import (
	_ "github.com/holdfast-go/holdfast/mysqlstore"
	_ "github.com/holdfast-go/holdfast/pgstore"
	_ "github.com/holdfast-go/holdfast/pgstore/pgadvisory"
	_ "github.com/holdfast-go/holdfast/redisstore"
	_ "github.com/holdfast-go/holdfast/redisstore/redlock"
	_ "github.com/holdfast-go/holdfast/zkstore"
)
