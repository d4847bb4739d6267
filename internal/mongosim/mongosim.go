// Package mongosim is a small stand-in for a MongoDB server, for the tests of
// mongostore: no package that can be used where they run brings a real one.
//
// It speaks the wire protocol, so the driver is the real one. It knows the
// commands, stages and operators that mongostore sends, and the two by which a
// document is made and deleted, as MongoDB 4.4 does, and
// was written from what MongoDB's manual says of them, and not from what
// mongostore needs. Whatever else it is sent it refuses loudly, with an error
// that begins "mongosim does not know". It shows what the documentation says,
// and no more: that mongostore works with it proves nothing of a real server.
//
// Commands run one at a time. $$NOW is the clock of Options.
package mongosim

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Options of a Server. The zero Options are a replica set of one member, with
// the clock of this machine.
type Options struct {
	Standalone bool             // no replica set: no retryable writes, no change streams
	Clock      func() time.Time // what $$NOW is, cut to milliseconds
	Timeless   bool             // a projection of findAndModify does not know $$NOW, found out after the write
	Deltas     bool             // change streams tell what changed, as 5.0 does; else the whole document, as 4.4
}

// A Server keeps documents in memory. Its methods are safe for concurrent use.
type Server struct {
	Addr string // host:port, on the loopback

	o        Options
	listener net.Listener
	serving  sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	conns       map[net.Conn]bool
	collections map[string][]bson.D // by namespace, in the order of their making
	indexes     map[string][]bson.D
	writes      map[string]write // the newest retryable write of each session that changed something
	faults      []fault
	events      []event
	forgotten   int               // events before these
	streams     map[int64]*stream // open cursors of change streams
	cursors     int64             // made so far
	news        chan struct{}     // closed at the next event, and at the end
	sent        map[string]int    // commands, by name
	written     int               // documents that were changed
}

// Start starts a server, and stops it when the test has ended.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Serve("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Serve starts a server at the address, until Stop.
func Serve(addr string, o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Addr: l.Addr().String(), o: o, listener: l, conns: map[net.Conn]bool{}, collections: map[string][]bson.D{},
		indexes: map[string][]bson.D{}, writes: map[string]write{}, streams: map[int64]*stream{}, news: make(chan struct{}), sent: map[string]int{},
	}
	s.serving.Go(s.accept)
	return s, nil
}

// URI is how a driver comes to the server.
func (s *Server) URI() string { return "mongodb://" + s.Addr + "/holdfast" }

// Stop closes the server with all of its connections.
func (s *Server) Stop() {
	s.mu.Lock()
	s.closed = true
	s.listener.Close()
	for c := range s.conns {
		c.Close()
	}
	s.tell()
	s.mu.Unlock()
	s.serving.Wait()
}

// Sent is how often a command was sent since the start.
func (s *Server) Sent(command string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[command]
}

// Written is how many documents were changed or inserted since the start: what
// would be in the oplog.
func (s *Server) Written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// Indexes is the indexes made on a collection ("db.collection").
func (s *Server) Indexes(namespace string) []bson.D {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.indexes[namespace])
}

// A write is what a server keeps of one, to answer its repetition.
type write struct {
	number int64
	reply  bson.D
}

// A Fault is what goes wrong with a command.
type Fault struct {
	// Cut closes the connection instead of a reply: Before the command is run,
	// or after it was.
	Cut, Before bool
	// Code and Name are an error: with Before instead of running the command,
	// else a write concern error behind a write that was done.
	Code   int32
	Name   string
	Labels []string
}

type fault struct {
	Fault
	command string
}

// Fault has the next command of that name go wrong, once.
func (s *Server) Fault(command string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fault{f, command})
}

// fault takes the fault that the command is to meet.
func (s *Server) fault(command string) (Fault, bool) {
	for i, f := range s.faults {
		if f.command == command {
			s.faults = slices.Delete(s.faults, i, i+1)
			return f.Fault, true
		}
	}
	return Fault{}, false
}
