// Package all makes package open open the URLs of every store. Import it for
// its side effect only.
//
//	import _ "github.com/holdfast-go/holdfast/open/all"
//
// A program that imports it links every driver except those of S3 and DynamoDB. If you know which
// stores the program needs, import their packages instead.
//
// With the build tag holdfast_lean the drivers of etcd, MongoDB, NATS and SQL Server are left out, and with
// holdfast_lean,holdfast_files those of all servers: only files and memory are left. The drivers of S3 and DynamoDB are
// linked only with the tag holdfast_aws, and without holdfast_lean; or import package s3store or dynamostore. The URL
// of a store that was left out is a store.ErrUnsupported.
package all
