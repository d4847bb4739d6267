package k8sstore

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/objecttest"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// subject is this store, for the tests of all object stores. A place is an address and a namespace.
var subject = objecttest.Subject{
	Place: func(t testing.TB) string {
		addr, name := namespace(t)
		return addr + " " + name
	},
	Open: func(t testing.TB, place string) *objecttest.Process {
		addr, name, _ := strings.Cut(place, " ")
		b := backendOn(t, at(addr), name)
		return &objecttest.Process{Backend: b, Objects: b.objects, Server: lister{b.server}}
	},
	Linked: func(t testing.TB, place string) (string, objecttest.Link) {
		addr, name, _ := strings.Cut(place, " ")
		link := testserver.NewLink(t, addr)
		return link.Addr() + " " + name, link
	},
	Freeze: func(t *testing.T) (string, func()) {
		server := testserver.Kubernetes(t)
		t.Cleanup(server.Thaw)
		return server.Addr + " " + namespaceOn(t, server.Addr), server.Freeze
	},
}

// A lister also lists the keys in order.
type lister struct{ *server }

func (l lister) List(ctx context.Context, prefix, after string, _ int) iter.Seq2[object.Object, error] {
	return func(yield func(object.Object, error) bool) {
		err := l.pages(ctx, labelKind, func(all []lease, now time.Time) bool {
			for i := range all {
				name := all[i].Metadata.Name
				key := "n/" + name
				if strings.HasPrefix(name, "holdfast-") {
					key = keyOf(name)
				}
				if strings.HasPrefix(key, prefix) && key > after && !yield(objectOf(&all[i], key, now), nil) {
					return false
				}
			}
			return true
		})
		if err != nil {
			yield(object.Object{}, err)
		}
	}
}

func TestBackend(t *testing.T) {
	t.Parallel()
	objecttest.Backend(t, subject)
}

func TestStore(t *testing.T) {
	t.Parallel()
	objecttest.Suite(t, subject)
}

func TestDifferential(t *testing.T) {
	testserver.AtNight(t) // before anything is logged
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

func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	objecttest.ARefusedTryWritesNothing(t, subject)
}

func TestServer(t *testing.T) {
	t.Parallel()
	objecttest.Server(t, subject)
}
