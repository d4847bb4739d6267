//go:build holdfast_cloud && !holdfast_lean

package prove

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

func init() {
	tags = "holdfast_cloud"
	provable = append(provable,
		rightStore{"S3, on versitygw", func(t *testing.T) string { return testserver.S3URL(testserver.SharedS3(t)) }, false},
		rightStore{"DynamoDB, on dynalite", func(t *testing.T) string { return testserver.DynamoDBURL(testserver.SharedDynamoDB(t)) }, false},
		rightStore{"Azure Blob, on Azurite", func(t *testing.T) string { return testserver.AzureURL(testserver.SharedAzure(t)) }, false},
		rightStore{"Kubernetes", func(t *testing.T) string {
			url, err := testserver.KubernetesURL(testserver.SharedKubernetes(t), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return url
		}, false})
}
