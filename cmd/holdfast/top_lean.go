//go:build holdfast_lean

package main

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

// top is left out, and what it needs.
func (p *program) top(time.Duration) error {
	return &message{"top: this program was built without it (build tag holdfast_lean); use 'holdfast ls --watch'", holdfast.ErrUnsupported}
}
