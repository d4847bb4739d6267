package azblobstore

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// subject is this store, for the tests of all object stores. A place is an address and a prefix.
var subject = objecttest.Subject{
	Place: func(t testing.TB) string { return testserver.SharedAzure(t) + " " + apart() },
	Open: func(t testing.TB, place string) *objecttest.Process {
		addr, prefix, _ := strings.Cut(place, " ")
		b := backendOn(t, addr, prefix)
		return &objecttest.Process{Backend: b, Objects: b.Backend, Server: b.server}
	},
	Linked: func(t testing.TB, place string) (string, objecttest.Link) {
		addr, prefix, _ := strings.Cut(place, " ")
		link := testserver.NewLink(t, addr)
		return link.Addr() + " " + prefix, link
	},
	Untimed: func(t testing.TB, place string) string {
		addr, prefix, _ := strings.Cut(place, " ")
		f := &front{answer: func(h http.Header) { h.Del("Date"); h.Del("Last-Modified") }}
		return f.on(t, addr) + " " + prefix
	},
	Freeze: func(t *testing.T) (string, func()) {
		server := testserver.Azure(t)
		t.Cleanup(server.Thaw)
		return server.Addr + " " + apart(), server.Freeze
	},
}

func TestBackend(t *testing.T) {
	t.Parallel()
	objecttest.Backend(t, subject)
}

func TestStore(t *testing.T) {
	t.Parallel()
	objecttest.Suite(t, subject)
}

func TestStoreWithoutTime(t *testing.T) {
	testserver.AtNight(t) // not beside the other suite, which loads the server as much
	objecttest.SuiteWithoutTime(t, subject)
}

func TestWithoutTimeAMinimumHoldIsRefused(t *testing.T) {
	t.Parallel()
	objecttest.WithoutTime(t, subject)
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	objecttest.Differential(t, subject)
}

// Connections fall silent and are reset while they are used.
func TestFaults(t *testing.T) {
	t.Parallel()
	objecttest.Faults(t, subject)
}

// The process of a holder is killed: the name is free within the holder's TTL plus a second.
func TestACrashedHolderIsGoneWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	objecttest.Killed(t, subject)
}

func TestACronOfTriesGetsWhatADeadProcessHeld(t *testing.T) {
	t.Parallel()
	objecttest.Cron(t, subject)
}

func TestOnlyTheNameIsLeft(t *testing.T) {
	t.Parallel()
	objecttest.NothingIsLeft(t, subject)
}

func TestForeignAndNewerBlobsAreLeftAlone(t *testing.T) {
	t.Parallel()
	objecttest.ForeignIsLeftAlone(t, subject)
}

func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	objecttest.ARefusedTryWritesNothing(t, subject)
}

func TestServer(t *testing.T) {
	t.Parallel()
	objecttest.Server(t, subject)
}
