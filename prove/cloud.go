//go:build holdfast_cloud && !holdfast_lean

package prove

import (
	"github.com/holdfast-go/holdfast/azblobstore"
	"github.com/holdfast-go/holdfast/dynamostore"
	"github.com/holdfast-go/holdfast/k8sstore"
	"github.com/holdfast-go/holdfast/s3store"
	"github.com/holdfast-go/holdfast/store"
)

func openS3(rawURL string, dial Dial) (store.Store, error) {
	return opened(s3store.Open(rawURL, dial))
}

func openDynamoDB(rawURL string, dial Dial) (store.Store, error) {
	return opened(dynamostore.Open(rawURL, dial))
}

func openAzure(rawURL string, dial Dial) (store.Store, error) {
	return opened(azblobstore.Open(rawURL, dial))
}

func openKubernetes(rawURL string, dial Dial) (store.Store, error) {
	return opened(k8sstore.Open(rawURL, dial))
}
