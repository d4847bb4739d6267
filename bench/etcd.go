package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// etcdMutex is the mutex of etcd's own client, and the reference.
const etcdMutex = "concurrency.Mutex"

var onEtcd = []contender{
	onStore(openOnEtcd),
	{name: etcdMutex, open: openEtcdMutex},
	{name: barePut, open: openBarePut, alone: true},
}

// barePut is not a lock: it is the minimum cost of one.
const barePut = "put + delete"

func etcdClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
}

func openOnEtcd(addr string, o *holdfast.Options) (ours, error) {
	c, err := etcdClient(addr)
	if err != nil {
		return ours{}, err
	}
	s, err := etcdstore.New(c, nil)
	return oursOn(s, err, o, func() { c.Close() })
}

// lockEtcdMutex has a session for each concurrent lock, and a new Mutex each time: two Mutexes
// of one session would share a key, and both would hold the lock.
type lockEtcdMutex struct {
	client *clientv3.Client
	idle   chan *concurrency.Session
}

func openEtcdMutex(addr string) (locks, error) {
	c, err := etcdClient(addr)
	return lockEtcdMutex{c, make(chan *concurrency.Session, crowdAlone)}, err
}

func (l lockEtcdMutex) lock(ctx context.Context, name string) (func() error, error) {
	var s *concurrency.Session
	select {
	case s = <-l.idle:
	default:
		var err error
		if s, err = concurrency.NewSession(l.client, concurrency.WithTTL(int(ttl/time.Second))); err != nil {
			return nil, err
		}
	}
	m := concurrency.NewMutex(s, name)
	if err := m.Lock(ctx); err != nil {
		l.idle <- s
		return nil, err
	}
	return func() error {
		defer func() { l.idle <- s }()
		return m.Unlock(context.Background())
	}, nil
}

func (l lockEtcdMutex) close() error { return l.client.Close() }

type lockBarePut struct{ client *clientv3.Client }

func openBarePut(addr string) (locks, error) {
	c, err := etcdClient(addr)
	return lockBarePut{c}, err
}

func (l lockBarePut) lock(ctx context.Context, name string) (func() error, error) {
	if _, err := l.client.Put(ctx, name, ""); err != nil {
		return nil, err
	}
	return func() error { _, err := l.client.Delete(context.Background(), name); return err }, nil
}

func (l lockBarePut) close() error { return l.client.Close() }

// etcdTitle describes the server in the rows.
func etcdTitle(ctx context.Context, c *clientv3.Client, addr string) (string, error) {
	status, err := c.Status(ctx, addr)
	if err != nil {
		return "", err
	}
	return "etcd " + status.Version + " on the loopback, one member, without fsync", nil
}

func etcdSuite(ctx context.Context, s setup) error {
	addr, stopServer := testserver.ExampleEtcd()
	defer stopServer()
	c, err := etcdClient(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	title, err := etcdTitle(ctx, c, addr)
	if err != nil {
		return err
	}
	s = s.at(title)
	if err := uncontended(ctx, s, "etcd", etcdMutex, besideWrites(onEtcd, openEtcdWrites), addr, 1, 64); err != nil {
		return err
	}
	if err := handoff(ctx, s, "etcd", etcdMutex, "etcd", patient(onEtcd), addr); err != nil {
		return err
	}
	var here []runner
	for _, c := range patient(onEtcd) {
		l, err := c.open(addr)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		defer l.close()
		here = append(here, runner{c.name, func(context.Context) (measure, error) {
			came, err := crowd(l, "crowd", crowdAlone, s.slice)
			return came.measure(s.slice), err
		}})
	}
	title = fmt.Sprintf("etcd: one name, %d goroutines of one process", crowdAlone)
	return rounds(ctx, s, title, etcdMutex, append(crowdColumns, stalled), here)
}
