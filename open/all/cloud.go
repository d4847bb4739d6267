//go:build holdfast_cloud && !holdfast_lean

package all

// These drivers do thousands more things at the start of every program that links them, and few need them.
import (
	_ "github.com/holdfast-go/holdfast/azblobstore"
	_ "github.com/holdfast-go/holdfast/dynamostore"
	_ "github.com/holdfast-go/holdfast/k8sstore"
	_ "github.com/holdfast-go/holdfast/s3store"
)
