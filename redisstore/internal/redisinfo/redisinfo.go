// Package redisinfo reads what a Redis or Valkey server reports about itself (INFO),
// for redisstore and redlock.
package redisinfo

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// Field returns the value of a field of INFO, or "".
func Field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TooOld reports whether the version of Redis is older than major.minor. It returns false
// for a version that it cannot read.
func TooOld(version string, major, minor int) bool {
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	haveMajor, err := strconv.Atoi(a)
	haveMinor, _ := strconv.Atoi(b)
	return err == nil && (haveMajor < major || haveMajor == major && haveMinor < minor)
}

// Version returns the server's name and version as text.
func Version(info string) string {
	if v := Field(info, "valkey_version"); v != "" {
		return "Valkey " + v
	}
	return "Redis " + Field(info, "redis_version")
}

// Replicas returns the number of connected replicas as text.
func Replicas(info string) string {
	n := Field(info, "connected_slaves")
	if n == "1" { //mutant:redis-one-replica
		return "1 replica"
	}
	return n + " replicas"
}

// Eviction warns of an eviction policy that lets the server drop locks.
func Eviction(info string) store.Finding {
	policy := Field(info, "maxmemory_policy")
	f := store.Finding{About: "eviction", Found: cmp.Or(policy, "unknown")}
	if policy != "" && policy != "noeviction" {
		f.Warning = true
		f.Found = "maxmemory-policy is " + policy + ": when the server's memory is full it may drop locks that are held; set it to noeviction"
		f.Run = "redis-cli CONFIG SET maxmemory-policy noeviction"
	}
	return f
}

// Memory reports in words how much of its memory the server uses, and whether the memory is
// full, so that with maxmemory-policy noeviction the server refuses all commands that may
// need more. It is never full for a replica, which leaves that check to its primary.
func Memory(info string) (found string, full bool) {
	used, most := number(info, "used_memory"), number(info, "maxmemory")
	if most == 0 {
		return fmt.Sprintf("%s in use, without a limit (maxmemory)", size(used)), false
	}
	counted := used - number(info, "mem_not_counted_for_evict") // computed as the server does
	full = counted > most && Field(info, "maxmemory_policy") == "noeviction" && Field(info, "role") != "slave"
	return fmt.Sprintf("%s in use of %s (maxmemory)", size(counted), size(most)), full
}

// ReadOnly reports whether the server is a replica that takes no writes.
func ReadOnly(info string) bool {
	return Field(info, "role") == "slave" && Field(info, "slave_read_only") != "0"
}

// number returns the value of a field, or 0 if it is missing.
func number(info, name string) int64 {
	n, _ := strconv.ParseInt(Field(info, name), 10, 64)
	return n
}

func size(bytes int64) string {
	switch {
	case bytes >= 10<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 10<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
