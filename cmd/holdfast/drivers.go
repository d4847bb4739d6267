//go:build !holdfast_files

package main

import "github.com/redis/go-redis/v9/logging"

// go-redis logs each attempt to stderr; the errors say enough.
func init() { logging.Disable() }
