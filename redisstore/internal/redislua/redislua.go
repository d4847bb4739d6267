// Package redislua contains what the scripts of redisstore and redlock share.
package redislua

import "embed"

// Files contains save.lua, which replaces the line "--@ save.lua" of a script.
//
//go:embed save.lua
var Files embed.FS
