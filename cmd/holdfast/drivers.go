//go:build !holdfast_files

package main

import "github.com/redis/go-redis/v9/logging"

// go-redis writes each attempt to stderr; the errors tell enough.
func init() { logging.Disable() }
