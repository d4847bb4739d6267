// Package all has package open open the URLs of every store: import it for its
// effect alone.
//
//	import _ "github.com/holdfast-go/holdfast/open/all"
//
// A program that imports it links every driver but that of S3. One that knows which stores it may
// meet imports their packages instead.
//
// With the build tag holdfast_lean the drivers of etcd, MongoDB, NATS and SQL Server
// are left out, and with holdfast_lean,holdfast_files those of all servers: only files
// and memory are left. The driver of S3 is
// there only with the tag holdfast_s3, and without holdfast_lean; a program may as well import package s3store. The URL of a store that was left out is a
// store.ErrUnsupported.
package all
