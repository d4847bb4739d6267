//go:build holdfast_lean

package prove

// Each is an error that says that the driver was left out.
var openEtcd, openMongoDB, openNATS, openSQLServer = asItIs, asItIs, asItIs, asItIs
