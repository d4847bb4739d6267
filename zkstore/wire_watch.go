package zkstore

import (
	"encoding/binary"
	"slices"

	"github.com/go-zookeeper/zk"
)

// The driver could watch by itself. But after a reconnect it sends its watches and the newest
// transaction that it has seen, and reads that number while an answer on the new connection may
// already raise it: changes in between would never be reported. So the driver knows no watches. The
// wire sets the watch flag in its read requests, and each new connection wakes all listeners, which
// read and watch again.

// A watched is the data of a node, or its children.
type watched struct {
	path     string
	children bool
}

// Operations of requests, by their numbers in ZooKeeper's protocol.
const (
	opCreate          = 1
	opExists          = 3
	opGetData         = 4
	opSync            = 9
	opPing            = 11
	opGetChildren2    = 12
	opCreateContainer = 19
)

// asking runs a read of what (Get, Exists or Children) that makes the server watch it from then on.
// wire.heard receives the events.
func (w *wire) asking(what watched, read func() error) error { return w.marked(w.asked, what, read) }

// reading runs a Get of a path that returns the newest state: the member asks the leader first.
func (w *wire) reading(path string, read func() error) error {
	return w.marked(w.fresh, watched{path, false}, read)
}

// marked runs a read, and has it in the set meanwhile.
func (w *wire) marked(set map[watched]int, what watched, read func() error) error {
	w.mu.Lock()
	set[what]++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if set[what]--; set[what] == 0 {
			delete(set, what)
		}
	}()
	return read()
}

// expect returns a channel that gets one event: what happened to what, that there is a new
// connection (type EventSession: the server no longer watches), or EventNotWatching once the wire
// has ended. unexpect removes the channel.
func (w *wire) expect(what watched) <-chan zk.Event {
	events := make(chan zk.Event, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expected[what] = append(w.expected[what], events); w.over() {
		w.wake(what, zk.Event{Type: zk.EventNotWatching}) //mutant:zk-expects-after-the-end
	}
	return events
}

func (w *wire) unexpect(what watched, events <-chan zk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(w.expected[what], func(one chan zk.Event) bool { return one == events })
	if w.expected[what] = rest; len(rest) == 0 {
		delete(w.expected, what)
	}
}

// outgoing returns what is sent instead of b, one request of the driver. In a read with a watch it
// sets the last byte, the watch flag. Before a read of the newest state it sends a sync, with a
// number that the driver ignores. A create with the flag of a container, in the last four bytes,
// becomes the operation that creates containers: when the driver is closed, its own function for
// that reads a result that may still be written. The pings of a session that lapses are dropped.
func (w *wire) outgoing(b []byte) []byte {
	const (
		operation = 8  // after length and number of the request
		length    = 12 // of the path
		path      = 16
	)
	if len(b) == length && w.lapses > 0 && binary.BigEndian.Uint32(b[operation:]) == opPing { //mutant:zk-pings-pass
		return nil
	}
	if len(b) < path+4 {
		return b
	}
	switch op := binary.BigEndian.Uint32(b[operation:]); op {
	case opCreate:
		if binary.BigEndian.Uint32(b[len(b)-4:]) == zk.FlagContainer {
			b = slices.Clone(b)
			binary.BigEndian.PutUint32(b[operation:], opCreateContainer)
		}
	case opExists, opGetData, opGetChildren2:
		end := path + int(binary.BigEndian.Uint32(b[length:]))
		if end != len(b)-1 {
			return b
		}
		what := watched{string(b[path:end]), op == opGetChildren2}
		w.mu.Lock()
		asked, fresh := w.asked[what] > 0, w.fresh[what] > 0 //mutant:zk-read-watches
		w.mu.Unlock()
		var sync []byte
		if fresh { //mutant:zk-read-is-fresh
			sync = slices.Clone(b[:end])
			binary.BigEndian.PutUint32(sync, uint32(end-4))
			binary.BigEndian.PutUint32(sync[4:], syncNumber)
			binary.BigEndian.PutUint32(sync[operation:], opSync)
		}
		b = append(sync, b...)
		if asked {
			b[len(b)-1] = 1
		}
	}
	return b
}

// syncNumber is the number of each sync: -9.
const syncNumber = 1<<32 - 9

// wake sends an event to those who expect one for what. w.mu is held.
func (w *wire) wake(what watched, e zk.Event) {
	for _, events := range w.expected[what] {
		events <- e // it does not block: one event each
	}
	delete(w.expected, what)
}

// heard wakes the listeners of an event. It does not block.
func (w *wire) heard(e zk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Type == zk.EventNodeDeleted:
		w.wake(watched{e.Path, false}, e)
		w.wake(watched{e.Path, true}, e)
	case e.Type == zk.EventNodeChildrenChanged:
		w.wake(watched{e.Path, true}, e)
	case e.Type == zk.EventNodeDataChanged, e.Type == zk.EventNodeCreated:
		w.wake(watched{e.Path, false}, e)
	case e.State == zk.StateHasSession: //mutant:zk-new-connection-wakes
		for what := range w.expected {
			w.wake(what, e)
		}
	}
}
