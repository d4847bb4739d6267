// Package redislua has what the scripts of redisstore and redlock share.
package redislua

import "embed"

// Files has save.lua, which their line "--@ save.lua" stands for.
//
//go:embed save.lua
var Files embed.FS
