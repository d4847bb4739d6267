//go:build holdfast_s3 && !holdfast_lean

package all

// Its driver has 5,000 more things to do at the start of every program that is linked with it, and is for few.
import _ "github.com/holdfast-go/holdfast/s3store"
