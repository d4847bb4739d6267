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

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "8") // most of them wait, but the stand-in is in this process: with 16, a busy machine leaves asks without an answer
	debug.SetGCPercent(400)        // the tests make many short-lived documents
	if os.Getenv("HOLDFAST_TEST_STEPS") == "" {
		os.Setenv("HOLDFAST_TEST_STEPS", "2000")
	}
	goleak.VerifyTestMain(testserver.Main{M: m})
}

// apart is a collection that no other test uses.
func apart() *Options { return &Options{Collection: "test_" + store.NewProcess().String()} }

func storeOn(t testing.TB, db *mongo.Database, o *Options) *Store {
	t.Helper()
	return storeOf(backendOn(t, db, o))
}

// drop closes the store of a test and removes its collection.
func drop(s *Store) {
	s.Close() // before the drop: an open store would make the index again
	s.b.locks.Drop(context.Background())
}

// newStore returns a Store in a collection of its own. The test closes it at its end.
func newStore(t testing.TB) *Store {
	t.Helper()
	s := storeOn(t, clientOf(t, serverURI(t)).Database(database), apart())
	t.Cleanup(func() { drop(s) })
	return s
}

var me = store.NewProcess()

func mutex(name string) store.Claim { return storetest.Mutex(me, name) }

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

func TestStore(t *testing.T) {
	t.Parallel()
	db, o := clientOf(t, serverURI(t)).Database(database), apart()
	t.Cleanup(func() { db.Collection(o.Collection).Drop(context.Background()) })
	storetest.Run(t, opener(t, db, o))
}

func TestStoreOnAStandalone(t *testing.T) {
	t.Parallel()
	uri := standaloneURI(t)
	storetest.Run(t, opener(t, clientOf(t, uri).Database(database), nil))
}

// opener makes stores for the suite. A store whose server has no notifications is no Watcher in it.
func opener(t *testing.T, db *mongo.Database, o *Options) func(*testing.T) store.Store {
	probe := storeOn(t, db, o)
	defer probe.Close()
	err := probe.Watch(t.Context(), me, func(store.Notification) {})
	if err != nil && !errors.Is(err, store.ErrUnsupported) {
		t.Fatal(err)
	}
	return func(t *testing.T) store.Store {
		s := storeOn(t, db, o)
		if err == nil {
			return s
		}
		return s.Store
	}
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storetest.DifferentialBySession(t, storetest.Sessioned{
		Open: func(t *testing.T) func() store.Store {
			db, o := clientOf(t, serverURI(t)).Database(database), apart()
			t.Cleanup(func() { db.Collection(o.Collection).Drop(context.Background()) })
			return func() store.Store { return storeOn(t, db, o) }
		},
		End: func(t *testing.T, s store.Store) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
			defer cancel()
			b := s.(*Store).b
			for _, id := range s.(*Store).Sessions() {
				if _, err := b.modify(ctx, living(id), b.over(), false); err != nil {
					return err
				}
			}
			return s.(*Store).Settle(ctx)
		},
	})
}

// The binary of these tests, alone in a directory, runs on the server that the environment names. This server is a
// stand-in, too.
func TestTheSuiteRunsOnAServerThatIsNamed(t *testing.T) {
	t.Parallel()
	if os.Getenv("HOLDFAST_TEST_MONGODB") != "" {
		t.Skip("the suite itself runs on a named server: HOLDFAST_TEST_MONGODB")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := mongosim.Start(t, mongosim.Options{})
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^(TestDifferential|TestTheStoredFormIsWhatIsDocumented|TestTheTestsCatchEachMutant|"+
		"TestACollationKeepsNamesDistinct|TestALeaseOutlivesAStepDown|TestTwoRoutersAgree|TestTheRightsThatAreListedSuffice)$")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOLDFAST_TEST_MONGODB=" + server.URI(), "HOLDFAST_TEST_SEED=1", "HOLDFAST_TEST_STEPS=500"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{
		"--- PASS: TestDifferential", "--- PASS: TestTheStoredFormIsWhatIsDocumented", "--- SKIP: TestTheTestsCatchEachMutant",
		"does not let the tests replSetStepDown: ", "does not let the tests createRole: ", // the stand-in knows neither command
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	if server.Sent("findAndModify") < 200 {
		t.Errorf("got %d operations sent to the server, want 200 or more", server.Sent("findAndModify"))
	}
}
