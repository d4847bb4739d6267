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
	opGetData         = 4
	opGetChildren2    = 12
	opCreateContainer = 19
)

// asking runs a read of what, Get or Children, as one that has the server watch it from then
// on: [Store.event] hears what happens to it.
func (w *wire) asking(what watched, read func() error) error {
	w.mu.Lock()
	if w.asked == nil {
		w.asked = map[watched]int{}
	}
	w.asked[what]++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked[what]--; w.asked[what] == 0 {
			delete(w.asked, what)
		}
	}()
	return read()
}

// expect is a channel that gets one event: what happened to what, that there is a new
// connection (of type EventSession: the server watches no more), or EventNotWatching at
// the end of the session. unexpect gives it back.
func (w *wire) expect(what watched) <-chan zk.Event {
	events := make(chan zk.Event, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expected == nil {
		w.expected = map[watched][]chan zk.Event{}
	}
	w.expected[what] = append(w.expected[what], events)
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
// watch gets its last byte set, the flag of the watch. A node that is made with the flag of
// a container, the last four bytes, becomes the operation that makes containers: the driver's
// own function for that reads a result, when it is closed, that may still be written.
func (w *wire) outgoing(b []byte) []byte {
	const (
		operation = 8  // after length and number of the request
		length    = 12 // of the path
		path      = 16
	)
	if len(b) < path+4 {
		return b
	}
	switch op := binary.BigEndian.Uint32(b[operation:]); op {
	case opCreate:
		if binary.BigEndian.Uint32(b[len(b)-4:]) == zk.FlagContainer {
			b = slices.Clone(b)
			binary.BigEndian.PutUint32(b[operation:], opCreateContainer)
		}
	case opGetData, opGetChildren2:
		end := path + int(binary.BigEndian.Uint32(b[length:]))
		if end != len(b)-1 {
			return b
		}
		what := watched{string(b[path:end]), op == opGetChildren2}
		w.mu.Lock()
		asked := w.asked[what] > 0 //mutant:zk-read-watches
		w.mu.Unlock()
		if asked {
			b = slices.Clone(b)
			b[end] = 1
		}
	}
	return b
}

// heard wakes those whom an event is for. It does not block.
func (w *wire) heard(e zk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake := func(what watched) {
		for _, events := range w.expected[what] {
			events <- e // there is room: one event each
		}
		delete(w.expected, what)
	}
	switch {
	case e.Type == zk.EventNodeDeleted:
		wake(watched{e.Path, false})
		wake(watched{e.Path, true})
	case e.Type == zk.EventNodeChildrenChanged:
		wake(watched{e.Path, true})
	case e.Type == zk.EventNodeDataChanged:
		wake(watched{e.Path, false})
	case e.State == zk.StateHasSession: //mutant:zk-new-connection-wakes
		for what := range w.expected {
			wake(what)
		}
	case e.State == zk.StateExpired:
		e.Type = zk.EventNotWatching
		for what := range w.expected {
			wake(what)
		}
	}
}
