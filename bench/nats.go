package main

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/natsstore"
)

// bareCreate is the minimum cost of a NATS lock, and the reference: create a key, which fails
// if it exists, and delete it.
const bareCreate = "create + delete"

var onNATS = []contender{
	onStore(openOnNATS),
	{name: bareCreate, open: openBareCreate, alone: true},
}

func openOnNATS(addr string, o *holdfast.Options) (ours, error) {
	nc, err := nats.Connect(addr)
	if err != nil {
		return ours{}, err
	}
	s, err := natsstore.New(nc, nil)
	return oursOn(s, err, o, nc.Close)
}

// lockBareCreate cannot wait, only retry, so it is for names without contention.
type lockBareCreate struct {
	nc *nats.Conn
	kv jetstream.KeyValue
}

func openBareCreate(addr string) (locks, error) {
	nc, err := nats.Connect(addr)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	kv, err := js.CreateOrUpdateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: "bare"})
	return lockBareCreate{nc, kv}, err
}

func (l lockBareCreate) lock(ctx context.Context, name string) (func() error, error) {
	key := keyOnNATS(name)
	for {
		_, err := l.kv.Create(ctx, key, nil)
		if err == nil {
			return func() error { return l.kv.Delete(context.Background(), key) }, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return nil, err
		}
	}
}

// keyOnNATS is a name as a key or a subject.
func keyOnNATS(name string) string { return strings.NewReplacer("/", ".", " ", "_").Replace(name) }

func (l lockBareCreate) close() error {
	l.nc.Close()
	return nil
}

func startNATS() (server *testserver.Server, stop func(), err error) {
	return startIn(func(dir string) (*testserver.Server, error) { return testserver.StartNATS(dir, "") })
}

// natsTitle describes the server in the rows.
func natsTitle(nc *nats.Conn) string {
	return "NATS " + nc.ConnectedServerVersion() + " on the loopback, one server, synced to disk every two minutes"
}

func natsSuite(ctx context.Context, s setup) error {
	server, stopServer, err := startNATS()
	if err != nil {
		return err
	}
	defer stopServer()
	addr := "nats://" + server.Addr
	nc, err := nats.Connect(addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	s = s.at(natsTitle(nc))
	if err := uncontended(ctx, s, "NATS", bareCreate, besideWrites(onNATS, openNATSWrites), addr, 1, 64); err != nil {
		return err
	}
	return handoff(ctx, s, "NATS", bareCreate, "nats", onNATS, addr)
}
