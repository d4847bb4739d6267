//go:build holdfast_files

package prove

// Each returns an error: the driver was left out of this build.
var openRedis, openRedlock, openPostgres, openPostgresSession, openMySQL, openZooKeeper = asItIs, asItIs, asItIs, asItIs, asItIs, asItIs
