//go:build holdfast_aws && !holdfast_lean

package all

// These drivers do thousands more things at the start of every program that links them, and few need them.
import (
	_ "github.com/holdfast-go/holdfast/dynamostore"
	_ "github.com/holdfast-go/holdfast/s3store"
)
