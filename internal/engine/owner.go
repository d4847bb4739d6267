package engine

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// ThisProcess returns the owner of this process's claims, unless the options name
// another.
var ThisProcess = sync.OnceValue(func() store.Owner {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	o := store.Owner{Host: host, PID: os.Getpid(), Program: filepath.Base(os.Args[0])}
	// On Linux a PID is unique only within its namespace.
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		o.Space = strings.TrimSuffix(strings.TrimPrefix(ns, "pid:["), "]")
	}
	return o
})

// Short formats a duration, rounded for people.
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
