package pgstore

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

func TestTheCheckReportsTheSchemaAndWhatToRun(t *testing.T) {
	addr := sharedAddr(t)
	pool := poolOn(t, addr)
	finding := func(s *Store, about string) store.Finding {
		t.Helper()
		all := s.Check(t.Context())
		for _, f := range all {
			if f.About == about {
				return f
			}
		}
		t.Fatalf("no finding about %s in %+v", about, all)
		return store.Finding{}
	}
	s := newShared(t)
	for about, want := range map[string]string{
		"version": "PostgreSQL ", "role": "takes writes", "disk": "fsync is off", "replicas": "none is connected", "isolation": "read committed", "clock": "this host's", "table": "first use creates it",
	} {
		if f := finding(s, about); !strings.Contains(f.Found, want) || f.Err != nil || f.Warning != (about == "disk") {
			t.Errorf("%s: got %+v, want %q", about, f, want)
		}
	}
	if f := finding(s, "table"); f.Run != "" {
		t.Errorf("Check prints what to run to a user that may create the table: %+v", f)
	}
	mustHold(t, s, mutex("n"))
	if f := finding(s, "table"); !strings.Contains(f.Found, "exists") || f.Run != "" {
		t.Errorf("with the table: got %+v", f)
	}
	if f := finding(tableOn(t, pool, &Options{Schema: "no_such"}), "table"); f.Level() != store.LevelFailure || !strings.Contains(f.Run, "CREATE SCHEMA") {
		t.Errorf("without the schema: got %+v", f)
	}
}
