package recordtest_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "32") // they wait; the command line comes before
	flag.Parse()
	if os.Getenv("HOLDFAST_TEST_PATIENCE") == "" {
		goleak.VerifyTestMain(m)
		return
	}
	os.Exit(m.Run())
}

// subject is a memory of the kind.
func subject(o recordtest.Options) recordtest.Subject {
	m := recordtest.NewMemory(o)
	open := func(*testing.T) record.Backend { return m.Client() }
	if o.Halves {
		open = func(*testing.T) record.Backend { return m.Client().Peeking() }
	}
	brief := o
	brief.Retention = 200 * time.Millisecond
	short := recordtest.NewMemory(brief)
	return recordtest.Subject{
		Open: open,
		Linked: func(*testing.T) (record.Backend, storetest.Link) {
			c := m.Client()
			return c, c.Link()
		},
		Freeze: func(*testing.T) (record.Backend, func()) {
			c := m.Client()
			return c, func() { c.Fates(func(recordtest.Request) recordtest.Fate { return recordtest.Hangs }) }
		},
		Brief: func(*testing.T) record.Backend { return short.Client() },
	}
}

func TestMemory(t *testing.T) { recordtest.Run(t, subject(recordtest.Options{})) }

// One that is as little as a server can be.
func TestMemoryThatCanDoLittle(t *testing.T) {
	recordtest.Run(t, subject(recordtest.Options{
		Void: record.VoidByMark, Apart: true, Halves: true, Quiet: true, Blind: true, Silent: true, Terse: true, MaxRecord: 70_000,
	}))
}

// One of which nobody can tell how late it is there.
func TestMemoryWithoutAClock(t *testing.T) {
	recordtest.Run(t, subject(recordtest.Options{Life: session.ByOwnClock, Blind: true}))
}

func TestMemoryWithRequestsApart(t *testing.T) {
	recordtest.Run(t, subject(recordtest.Options{Apart: true, Halves: true}))
}
