package zkstore

import (
	"encoding/binary"
	"slices"

	"github.com/go-zookeeper/zk"
)

// The driver could watch by itself. But it tells a new connection what was watched, and up to
// which transaction it has heard all, and reads that number while its reader may raise it
// already, by an answer on the new connection: what changed in between would never be told.
// So it knows of no watch. What it reads is watched where the wire says so in the request,
// and all who wait are woken by each new connection, to look and to watch anew.

// A watched is a node's data, or its children.
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

// asking runs a read of what, Get, Exists or Children, as one that has the server watch it from then
// on: wire.heard hears what happens to it.
func (w *wire) asking(what watched, read func() error) error { return w.marked(w.asked, what, read) }

// reading runs a Get of a path that tells what is newest: the member asks the leader first.
func (w *wire) reading(path string, read func() error) error {
	return w.marked(w.fresh, watched{path, false}, read)
}

// marked runs a read that is in the set meanwhile.
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

// expect is a channel that gets one event: what happened to what, that there is a new
// connection (of type EventSession: the server watches no more), or EventNotWatching once
// the wire has ended. unexpect gives it back.
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

// outgoing returns what is sent instead of b, one request of the driver's. A read that shall
// watch gets its last byte set, the flag of the watch; before one that shall tell what is newest goes a sync, whose
// number is one of those that the driver passes over. A node that is made with the flag of
// a container, the last four bytes, becomes the operation that makes containers: the driver's
// own function for that reads a result, when it is closed, that may still be written. The pings of a session that lapses
// do not pass.
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

// syncNumber is that of each sync: -9.
const syncNumber = 1<<32 - 9

// wake gives an event to those who expect something to happen to what. w.mu is held.
func (w *wire) wake(what watched, e zk.Event) {
	for _, events := range w.expected[what] {
		events <- e // there is room: one event each
	}
	delete(w.expected, what)
}

// heard wakes those whom an event is for. It does not block.
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
