package mongostore

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16") // most of them wait most of the time
	debug.SetGCPercent(400)         // documents are made and thrown away
	if os.Getenv("HOLDFAST_TEST_STEPS") == "" {
		os.Setenv("HOLDFAST_TEST_STEPS", "4000")
	}
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// apart is a collection that nobody else uses.
func apart() *Options { return &Options{Collection: "test_" + store.NewProcess().String()} }

func storeOn(t testing.TB, db *mongo.Database, o *Options) *Store {
	t.Helper()
	s, err := New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newStore returns a Store in a collection of its own, closed when the test
// ends.
func newStore(t testing.TB) *Store {
	t.Helper()
	s := storeOn(t, clientOf(t, serverURI(t)).Database(database), apart())
	t.Cleanup(func() { drop(s) })
	return s
}

var me = store.NewProcess()

func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

// patience bounds what is waited for. A search for mutants cannot wait that long
// for each of them.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HOLDFAST_TEST_PATIENCE")); err == nil {
		return d
	}
	return 30 * time.Second
}()

func TestStore(t *testing.T) {
	t.Parallel()
	db, o := clientOf(t, serverURI(t)).Database(database), apart()
	t.Cleanup(func() { db.Collection(o.Collection).Drop(context.Background()) })
	storetest.Run(t, opener(t, db, o))
}

// The stand-in differs as a standalone in the two things that
// TestAStandaloneWakesNobodyAndLocks shows; there is no need to hold it to all of
// this once more.
func TestStoreOnAStandalone(t *testing.T) {
	t.Parallel()
	storetest.Run(t, opener(t, clientOf(t, standaloneURI(t)).Database(database), nil))
}

// opener makes stores for the suite. One whose server wakes nobody is no Watcher
// in it.
func opener(t *testing.T, db *mongo.Database, o *Options) func(*testing.T) store.Store {
	probe := storeOn(t, db, o)
	defer probe.Close()
	err := probe.Watch(t.Context(), me, func(store.Hint) {})
	if err != nil && !errors.Is(err, store.ErrUnsupported) {
		t.Fatal(err)
	}
	return func(t *testing.T) store.Store {
		s := storeOn(t, db, o)
		if err == nil {
			return s
		}
		return struct {
			store.Store
			store.Looker
			store.Inspector
			store.Checker
		}{s, s, s, s}
	}
}

// On a real server the time is a parameter of the calls, for its clock cannot be
// set; on the stand-in it is $$NOW.
func TestDifferential(t *testing.T) {
	t.Parallel()
	storetest.Differential(t, storetest.Clocked{
		Open: func(t *testing.T, clock func() queue.Time) func() store.Store {
			micros := func() int64 { return clock().Clock }
			uri := realURI(t)
			if uri == "" {
				uri = mongosim.Start(t, mongosim.Options{Deltas: true, Clock: func() time.Time { return time.UnixMicro(clock().Clock) }}).URI()
				micros = nil
			}
			db, o := clientOf(t, uri).Database(database), apart()
			t.Cleanup(func() { db.Collection(o.Collection).Drop(context.Background()) })
			return func() store.Store {
				s := storeOn(t, db, o)
				s.clock = micros
				s.indexed.Store(micros != nil) // the server would delete what it finds so old
				return s
			}
		},
		Stored: func(t *testing.T, s store.Store, name string) queue.Queue {
			var q queue.Queue
			for r, err := range s.(*Store).read(t.Context(), "read", object("_id", name)) {
				if err != nil {
					t.Fatal(err)
				}
				q = r.q
			}
			return q
		},
	})
}

// The binary of these tests, alone in a directory, runs on a server that is
// named: this one is a stand-in too.
func TestTheSuiteRunsOnAServerThatIsNamed(t *testing.T) {
	t.Parallel()
	if os.Getenv("HOLDFAST_TEST_MONGODB") != "" {
		t.Skip("it is running on a server that is named: HOLDFAST_TEST_MONGODB")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := mongosim.Start(t, mongosim.Options{})
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^(TestDifferential|TestAReleaseKeepsTheTokenForADay|TestTheTestsCatchEachMutant|"+
		"TestAReplyOfTheServerKnowsItsTime|TestACollectionWithACollationIsTold|TestALeaseOutlivesAStepDown|TestTwoRoutersAgree|TestTheRightsThatAreListedSuffice)$")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOLDFAST_TEST_MONGODB=" + server.URI(), "HOLDFAST_TEST_SEED=1", "HOLDFAST_TEST_STEPS=500"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{
		"--- PASS: TestDifferential", "--- PASS: TestAReleaseKeepsTheTokenForADay", "--- PASS: TestAReplyOfTheServerKnowsItsTime", "--- SKIP: TestTheTestsCatchEachMutant",
		"does not let the tests replSetStepDown: ", "does not let the tests createRole: ", // the stand-in knows neither
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	if server.Sent("findAndModify") < 250 {
		t.Errorf("the server was sent %d operations", server.Sent("findAndModify"))
	}
}
