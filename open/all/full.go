//go:build !holdfast_lean

package all

// The drivers of these have much to do at the start of every program that is
// linked with them (that of etcd takes three milliseconds) or take long to build, as
// that of SQL Server does. So the command is built without them as well, with the tag
// holdfast_lean.
import (
	_ "github.com/holdfast-go/holdfast/etcdstore"
	_ "github.com/holdfast-go/holdfast/mongostore"
	_ "github.com/holdfast-go/holdfast/mssqlstore"
	_ "github.com/holdfast-go/holdfast/natsstore"
)
