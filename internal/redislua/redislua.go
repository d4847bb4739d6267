// Package redislua has what the scripts of redisstore and redlockstore share.
package redislua

import (
	_ "embed"
	"strings"
)

//go:embed save.lua
var save string

// Expand puts the shared helpers in the place of the line "--@ save.lua".
func Expand(text string) string { return strings.Replace(text, "--@ save.lua\n", save, 1) }
