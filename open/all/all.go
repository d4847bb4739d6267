// Package all makes package open open the URLs of every store. Import it for
// its side effect only.
//
//	import _ "github.com/holdfast-go/holdfast/open/all"
//
// A program that imports it links every driver except those of S3, DynamoDB, Azure Blob and Kubernetes. If you know
// which stores the program needs, import their packages instead.
//
// With the build tag holdfast_lean the drivers of etcd, MongoDB, NATS and SQL Server are left out, and with
// holdfast_lean,holdfast_files those of all servers: only files and memory are left. The drivers of S3, DynamoDB,
// Azure Blob and Kubernetes are linked only with the tag holdfast_cloud, and without holdfast_lean; or import package
// s3store, dynamostore, azblobstore or k8sstore. The URL of a store that was left out is a store.ErrUnsupported.
package all
