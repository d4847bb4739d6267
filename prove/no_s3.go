//go:build !holdfast_s3 || holdfast_lean

package prove

var openS3 = asItIs // an error that says that the driver was left out
