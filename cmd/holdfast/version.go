package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// version returns the version of the module; "(devel)" in a build from its tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// versionLine returns the version, with commit and date if the build knows them, the Go version
// and the platform.
func versionLine() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	text := "holdfast " + version()
	commit, when, changed := builtFrom(info)
	if commit != "" {
		text += ", commit " + commit
		if changed {
			text += " with changes"
		}
	}
	if when != "" {
		text += ", " + when
	}
	return fmt.Sprintf("%s, %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// builtFrom returns the commit that the program was built from, and its date: from the build
// settings, or from the module's version if it was fetched.
func builtFrom(info *debug.BuildInfo) (commit, when string, changed bool) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case "vcs.time":
			when, _, _ = strings.Cut(s.Value, "T")
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if commit != "" {
		return commit, when, changed
	}
	// If the module was fetched: v0.0.0-20261125080400-ed5317f00000.
	plain, dirty := strings.CutSuffix(info.Main.Version, "+dirty")
	parts := strings.FieldsFunc(plain, func(r rune) bool { return r == '-' || r == '.' })
	if n := len(parts); n >= 2 && len(parts[n-1]) == 12 {
		if t, err := time.Parse("20060102150405", parts[n-2]); err == nil {
			commit, when, changed = parts[n-1], t.Format(time.DateOnly), dirty
		}
	}
	return commit, when, changed
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, its commit and its date",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Println(versionLine())
			return exit(err)
		},
	}
}
