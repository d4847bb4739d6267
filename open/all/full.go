//go:build !holdfast_lean

package all

// These drivers slow the start of every program that links them (that of etcd takes
// three milliseconds), or take long to build, as that of SQL Server does. So the
// command is also built without them, with the tag holdfast_lean.
import (
	_ "github.com/holdfast-go/holdfast/etcdstore"
	_ "github.com/holdfast-go/holdfast/mongostore"
	_ "github.com/holdfast-go/holdfast/mssqlstore"
	_ "github.com/holdfast-go/holdfast/natsstore"
)
