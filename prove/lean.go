//go:build holdfast_lean

package prove

// Each returns an error: the driver was left out of this build.
var openEtcd, openMongoDB, openNATS, openSQLServer = asItIs, asItIs, asItIs, asItIs
