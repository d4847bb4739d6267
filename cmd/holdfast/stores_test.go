package main

import (
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/open"
	drivers "github.com/holdfast-go/holdfast/open/all"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// Help, manual and `holdfast stores` name exactly the existing stores.
func TestEveryURLIsInTheHelpWithAnExample(t *testing.T) {
	var listed []string
	help := newRoot(nil).Long
	for _, k := range storeKinds {
		listed = append(listed, k.schemes...)
		if !strings.HasPrefix(k.example, k.schemes[0]+":") || !strings.Contains(help, k.example) {
			t.Errorf("%q: %q is not an example, or the help lacks it", k.schemes, k.example)
		}
		for _, s := range k.schemes {
			if !strings.Contains(k.example+" "+k.is, s+"://") && s != "file" && s != "redlock" {
				t.Errorf("no help or example names %q", s)
			}
		}
		s, err := open.URL(strings.Replace(k.example, "file:/var/lib/locks", "file:"+t.TempDir(), 1))
		if err != nil {
			if !errors.Is(err, store.ErrUnavailable) && !drivers.LeftOut(k.example) { // the store of etcd logs in at once
				t.Errorf("example of %q: %v", k.schemes, err)
			}
			continue
		}
		go s.Close() // some wait for their servers
	}
	slices.Sort(listed)
	all := slices.DeleteFunc(scheme.All(), func(s string) bool { return s == "mem" }) // which excludes no other process
	if !slices.Equal(listed, all) {
		t.Errorf("got %q listed, want %q", listed, all)
	}
}

func TestNoPartOfAWrongURLButItsSchemeIsRepeated(t *testing.T) {
	for _, url := range []string{"user:secret@host:6379", "redsi://user:secret@host", "secret", "postgres//user:secret@host/db", "secret@host:6379", "my secret:x", "https://user:secret@host"} {
		if advice := adviceOnURL(url); advice == "" || strings.Contains(advice, "secret") {
			t.Errorf("%q: got advice %q", url, advice)
		}
	}
}

// The advice fits the URL that was typed.
func TestTheAdviceOnAURLFits(t *testing.T) {
	for url, want := range map[string]string{
		"redis//h":                      "a colon is missing: redis://host:6379/0",
		"nats//h:4222":                  "a colon is missing: nats://host:4222",
		"postgres//user:secret@host/db": "a colon is missing: postgres://host:5432/db",
		"redlock://a,b,c":               "the nodes of Redlock are URLs themselves: redlock:redis://a,redis://b,redis://c",
		"redlock:redis://a":             "",
		"/var/locks//x":                 "a directory is written as file:/DIR",
		"locks//x":                      "a directory is written as file:/DIR",
		"redis":                         "write redis://host:6379/0",
	} {
		if got := adviceOnURL(url); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: got %q, want %q", url, got, want)
		}
	}
}

func TestTheVersionHasCommitAndDate(t *testing.T) {
	for name, c := range map[string]struct {
		info         debug.BuildInfo
		commit, when string
		changed      bool
	}{
		"built from a tree": {debug.BuildInfo{Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "ed5317f0123456789"}, {Key: "vcs.time", Value: "2026-11-25T07:00:00Z"}, {Key: "vcs.modified", Value: "true"},
		}}, "ed5317f01234", "2026-11-25", true},
		"fetched":         {debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261125070000-ed5317f01234"}}, "ed5317f01234", "2026-11-25", false},
		"fetched, behind": {debug.BuildInfo{Main: debug.Module{Version: "v1.2.4-0.20261125070000-ed5317f01234+dirty"}}, "ed5317f01234", "2026-11-25", true},
		"a release":       {debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "", "", false},
		"unknown":         {},
	} {
		if commit, when, changed := builtFrom(&c.info); commit != c.commit || when != c.when || changed != c.changed {
			t.Errorf("%s: got %q, %q, %v", name, commit, when, changed)
		}
	}
}
