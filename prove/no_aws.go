//go:build !holdfast_aws || holdfast_lean

package prove

var openS3, openDynamoDB = asItIs, asItIs // returns an error: the driver was left out of this build
