//go:build !holdfast_cloud || holdfast_lean

package all

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func init() {
	leaveOut("with -tags holdfast_cloud", map[string][]string{"S3": {"s3"}, "DynamoDB": {"dynamodb"}, "Kubernetes": {"k8s"}, "Azure Blob": {"azblob"}})
}

// leaveOut registers the schemes of stores whose drivers were left out, by the name of the store. how says how to build
// a program with them.
func leaveOut(how string, stores map[string][]string) {
	for driver, schemes := range stores {
		scheme.Absent(without(driver, how), schemes...)
		leftOut = append(leftOut, schemes...)
	}
}

func without(driver, how string) func(string) error {
	return func(string) error {
		return fmt.Errorf("%w: this program was built without the driver of %s: build it %s", store.ErrUnsupported, driver, how)
	}
}
