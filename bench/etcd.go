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

// etcdMutex is what etcd's own client has, and the reference.
const etcdMutex = "concurrency.Mutex"

var onEtcd = []contender{
	{name: "holdfast", open: openOnEtcd},
	{name: etcdMutex, open: openEtcdMutex},
	{name: barePut, open: openBarePut},
}

// barePut is no lock: what one costs at least.
const barePut = "put + delete"

func etcdClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
}

type oursOnEtcd struct {
	ours
	client *clientv3.Client
}

func openOnEtcd(addr string) (locks, error) {
	c, err := etcdClient(addr)
	if err != nil {
		return nil, err
	}
	s, err := etcdstore.New(c, nil)
	if err != nil {
		return nil, err
	}
	l, err := holdfast.New(s, &holdfast.Options{TTL: ttl})
	return oursOnEtcd{ours{l}, c}, err
}

func (o oursOnEtcd) close() error {
	defer o.client.Close()
	return o.ours.close()
}

// lockEtcdMutex is a session for each of few, and a Mutex each time: two of one
// session would share their key, and both would have the lock.
type lockEtcdMutex struct {
	client   *clientv3.Client
	sessions chan *concurrency.Session
}

func openEtcdMutex(addr string) (locks, error) {
	c, err := etcdClient(addr)
	if err != nil {
		return nil, err
	}
	l := lockEtcdMutex{c, make(chan *concurrency.Session, crowdAlone)}
	for range cap(l.sessions) {
		s, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second)))
		if err != nil {
			return nil, err
		}
		l.sessions <- s
	}
	return l, nil
}

func (l lockEtcdMutex) lock(ctx context.Context, name string) (func() error, error) {
	s := <-l.sessions
	m := concurrency.NewMutex(s, name)
	if err := m.Lock(ctx); err != nil {
		l.sessions <- s
		return nil, err
	}
	return func() error {
		defer func() { l.sessions <- s }()
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

func etcdSuite(ctx context.Context, s setup) error {
	addr, stopServer := testserver.ExampleEtcd()
	defer stopServer()
	c, err := etcdClient(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	status, err := c.Status(ctx, addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\netcd %s on the loopback, one member, without fsync\n", status.Version)
	if err := uncontended(ctx, s, "etcd", etcdMutex, onEtcd, addr, 1, 64); err != nil {
		return err
	}
	if err := handoff(ctx, s, "etcd", etcdMutex, "etcd", onEtcd[:2], addr); err != nil {
		return err
	}
	var here []runner
	for _, c := range onEtcd[:2] {
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
	title := fmt.Sprintf("etcd: one name, %d goroutines of one process", crowdAlone)
	return rounds(ctx, s, title, etcdMutex, append(crowdColumns, column{name: "stalled", print: count, sum: true}), here)
}
