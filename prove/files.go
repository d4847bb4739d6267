//go:build holdfast_files

package prove

// Each is an error that says that the driver was left out.
var openRedis, openRedlock, openPostgres, openPostgresSession, openMySQL, openZooKeeper = asItIs, asItIs, asItIs, asItIs, asItIs, asItIs
