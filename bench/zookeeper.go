package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/zkstore"
)

// zkLock is the lock of ZooKeeper's client, and the reference.
const zkLock = "zk.Lock"

var onZooKeeper = []contender{
	onStore(openOnZooKeeper),
	{name: zkLock, open: openZKLock},
	{name: bareNode, open: openBareNode, alone: true},
}

// bareNode is not a lock: it is the minimum cost of one.
const bareNode = "create + delete"

func openOnZooKeeper(addr string, o *holdfast.Options) (ours, error) {
	s, err := zkstore.New([]string{addr}, nil)
	return oursOn(s, err, o, nil)
}

func zkConn(addr string) (*zk.Conn, error) {
	c, _, err := zk.Connect([]string{addr}, ttl, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	return c, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// lockZKLock makes a new zk.Lock each time, on one connection.
type lockZKLock struct{ conn *zk.Conn }

func openZKLock(addr string) (locks, error) {
	c, err := zkConn(addr)
	return lockZKLock{c}, err
}

func (l lockZKLock) lock(_ context.Context, name string) (func() error, error) {
	one := zk.NewLock(l.conn, "/zklock/"+name, zk.WorldACL(zk.PermAll))
	return one.Unlock, one.Lock()
}

func (l lockZKLock) close() error {
	l.conn.Close()
	return nil
}

type lockBareNode struct{ conn *zk.Conn }

func openBareNode(addr string) (locks, error) {
	c, err := zkConn(addr)
	return lockBareNode{c}, err
}

func (l lockBareNode) lock(_ context.Context, name string) (func() error, error) {
	path := "/bare-" + strings.ReplaceAll(name, "/", "-")
	_, err := l.conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	return func() error { return l.conn.Delete(path, -1) }, err
}

func (l lockBareNode) close() error {
	l.conn.Close()
	return nil
}

// zooKeeperSays returns the server's answer to srvr.
func zooKeeperSays(ctx context.Context, addr string) (string, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	says, err := io.ReadAll(c)
	return string(says), err
}

// zooKeeperTitle describes the server in the rows.
func zooKeeperTitle(ctx context.Context, addr string) (string, error) {
	says, err := zooKeeperSays(ctx, addr)
	if err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(says, "Zookeeper version: "), "-")
	return "ZooKeeper " + version + " on the loopback, one server, without fsync", nil
}

func zooKeeperSuite(ctx context.Context, s setup) error {
	addr, stopServer := testserver.ExampleZooKeeper()
	defer stopServer()
	title, err := zooKeeperTitle(ctx, addr)
	if err != nil {
		return err
	}
	s = s.at(title)
	if err := uncontended(ctx, s, "ZooKeeper", zkLock, onZooKeeper, addr, 1, 64); err != nil {
		return err
	}
	if err := handoff(ctx, s, "ZooKeeper", zkLock, "zk", patient(onZooKeeper), addr); err != nil {
		return err
	}
	var here []runner
	for _, c := range patient(onZooKeeper) {
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
	title = fmt.Sprintf("ZooKeeper: one name, %d goroutines of one process", crowdAlone)
	return rounds(ctx, s, title, zkLock, append(crowdColumns, stalled), here)
}
