//go:build !holdfast_cloud || holdfast_lean

package prove

var openS3, openDynamoDB, openAzure, openKubernetes = asItIs, asItIs, asItIs, asItIs // returns an error: the driver was left out of this build
