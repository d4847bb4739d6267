package mongostore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/store"
)

func TestCheckTellsWhatTheServerIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o       mongosim.Options
		server  string
		warning bool
		clock   string
	}{
		{mongosim.Options{}, "replica set sim", false, "as this host's"},
		{mongosim.Options{Standalone: true}, "a standalone", true, "as this host's"},
		{mongosim.Options{Clock: func() time.Time { return time.Now().Add(time.Hour) }}, "replica set sim", false, "ahead"},
		{mongosim.Options{Clock: func() time.Time { return time.Now().Add(-time.Hour) }}, "replica set sim", false, "behind"},
	} {
		s, server := newSim(t, c.o)
		found := s.Check(t.Context())
		if len(found) != 3 || !strings.HasPrefix(found[0].Found, c.server) || found[0].Warning != c.warning || !strings.Contains(found[1].Found, c.clock) || found[2].Err != nil {
			t.Errorf("%+v", found)
		}
		server.Fault("aggregate", mongosim.Fault{Before: true, Code: unauthorized, Name: "Unauthorized"})
		if found = s.Check(t.Context()); !errors.Is(found[2].Err, store.ErrDenied) {
			t.Errorf("%+v", found[2])
		}
		if server.Written() != 0 {
			t.Error("something was written")
		}
	}
	s, _ := newSim(t, mongosim.Options{})
	if f := s.checkServer(8, "rs", ""); !errors.Is(f.Err, store.ErrUnsupported) {
		t.Errorf("%+v", f)
	}
	if f := s.checkServer(9, "", "isdbgrid"); f.Err != nil || !strings.Contains(f.Found, "sharded") {
		t.Errorf("%+v", f)
	}
}
