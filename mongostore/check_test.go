package mongostore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestCheckReportsWhatTheServerIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o       mongosim.Options
		server  string
		warning bool
		clock   string
	}{
		{mongosim.Options{}, "replica set sim", false, "as this host's"},
		{mongosim.Options{Standalone: true}, "a standalone", true, "as this host's"},
		{mongosim.Options{Standalone: true, Hello: object("msg", "isdbgrid")}, "a sharded cluster", false, "as this host's"},
		{mongosim.Options{Standalone: true, Hello: object("internal", object("documentdb_versions", bson.A{"0.112.0"}))}, "DocumentDB", true, "as this host's"},
		{mongosim.Options{Clock: func() time.Time { return time.Now().Add(time.Hour) }}, "replica set sim", false, "ahead"},
		{mongosim.Options{Clock: func() time.Time { return time.Now().Add(-time.Hour) }}, "replica set sim", false, "behind"},
	} {
		server := mongosim.Start(t, c.o)
		s := storeOn(t, clientOf(t, server.URI()).Database(database), nil)
		defer s.Close()
		found := s.Check(t.Context())
		if len(found) != 3 || !strings.HasPrefix(found[0].Found, c.server) || found[0].Warning != c.warning || !strings.Contains(found[1].Found, c.clock) {
			t.Errorf("%+v", found)
		}
		if routed := strings.HasPrefix(c.server, "a sharded"); found[2].Err != nil && !routed { // the stand-in cannot be one
			t.Errorf("%+v", found[2])
		}
	}
	s, _ := newSim(t, mongosim.Options{})
	if _, err := s.b.kind(hello{Wire: leastWire - 1, Set: "rs"}); !errors.Is(err, store.ErrUnsupported) {
		t.Error(err)
	}
}

// A server that could grant a lock twice is refused, and the error says why. The doctor reports what a trial has shown
// to be wrong, too.
func TestAnUnsafeServerIsRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []mongosim.Options{
		{Engine: mongosim.UpsertsReplace}, {Engine: mongosim.UpsertsBothWin}, {Engine: mongosim.FiltersByID}, {Engine: mongosim.PushesReplace}, {Engine: mongosim.NoDates},
		{Engine: mongosim.UpsertsReplace, Standalone: true}, {Hello: object("setName", "globaldb")}, {Hello: object("me", "db-eu.mongo.cosmos.azure.com:10255")},
	} {
		server := mongosim.Start(t, o)
		s := storeOn(t, clientOf(t, server.URI()+"?directConnection=true").Database(database), nil)
		defer s.Close()
		_, err := s.Ask(t.Context(), mutex("n"))
		if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "use MongoDB") {
			t.Errorf("%+v: %v, want ErrUnsupported with what to do", o, err)
		}
		reported := false
		for _, f := range s.Check(t.Context()) {
			reported = reported || errors.Is(f.Err, store.ErrUnsupported)
		}
		if !reported {
			t.Errorf("%+v: Check reports no failure", o)
		}
	}
}

// A user without write rights can still read.
func TestAReadOnlyUserCanLook(t *testing.T) {
	t.Parallel()
	s, server := newSim(t, mongosim.Options{})
	h := storetest.MustHold(t, s, mutex("n"))
	reader := storeOn(t, clientOf(t, server.URI()).Database(database), nil)
	defer reader.Close()
	for range 4 * racers {
		server.Fault("findAndModify", mongosim.Fault{Before: true, Code: unauthorized, Name: "Unauthorized"})
	}
	r, err := reader.b.Load(t.Context(), "n")
	if err != nil || len(r.Data) == 0 || r.Now <= 0 {
		t.Errorf("got %d bytes, %v", len(r.Data), err)
	}
	names := 0
	for one, err := range reader.b.List(t.Context(), 0) {
		if err != nil || one.Name != h.Name {
			t.Errorf("got %q, %v", one.Name, err)
		}
		names++
	}
	if names != 1 {
		t.Errorf("got %d names, want 1", names)
	}
	if _, err := reader.Ask(t.Context(), mutex("m")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("%v, want ErrDenied", err)
	}
}

// A trial runs once, and its documents are deleted.
func TestATrialIsMadeOnce(t *testing.T) {
	t.Parallel()
	var clock handClock
	server := mongosim.Start(t, mongosim.Options{Clock: clock.now})
	s := storeOn(t, clientOf(t, server.URI()).Database(database), nil)
	defer s.Close()
	h := storetest.MustHold(t, s, mutex("n"))
	s.b.tasks.Wait() // the task that makes the index
	was := server.Sent("hello")
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	storetest.MustHold(t, s, mutex("m"))
	trials := func() (n int) {
		if err := s.b.each(t.Context(), object("v", int32(form)), func(id []byte, _ bson.Raw) bool {
			if id[0] == 't' {
				n++
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := trials(); n != 1 {
		t.Errorf("got %d trials, want 1", n)
	}
	clock.advance(2 * time.Minute)
	if n := trials(); n != 0 {
		t.Errorf("got %d trials two minutes later, want none", n)
	}
	if n := server.Sent("hello") - was; n > 2 { // the driver sends hellos, too
		t.Errorf("hello was sent %d more times", n)
	}
}

func TestYoungNamesAreNotListedAsOld(t *testing.T) {
	t.Parallel()
	var clock handClock
	s, _ := newSim(t, mongosim.Options{Clock: clock.now})
	mustSwap(t, s.b, "old", "x")
	clock.advance(2 * time.Hour)
	mustSwap(t, s.b, "young", "x")
	for age, want := range map[time.Duration]string{0: "old young ", time.Hour: "old ", 3 * time.Hour: ""} {
		got := ""
		for one, err := range s.b.List(t.Context(), age) {
			if err != nil {
				t.Fatal(err)
			}
			got += one.Name + " "
		}
		if got != want {
			t.Errorf("unwritten for %v: got %q, want %q", age, got, want)
		}
	}
}
