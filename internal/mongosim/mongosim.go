// Package mongosim is a small stand-in for a MongoDB server, for the tests of
// mongostore: no package that can be used where they run brings a real one.
//
// It speaks the wire protocol, so the driver is the real one. It knows the
// commands and operators that mongostore sends, and the two by which a
// document is made and deleted, as MongoDB 4.4 does, and
// was written from what MongoDB's manual says of them, and not from what
// mongostore needs. Whatever else it is sent, a retryable write too, it refuses loudly, with an error
// that begins "mongosim does not know". It shows what the documentation says,
// and no more: that mongostore works with it proves nothing of a real server.
//
// Commands run one at a time. What a TTL index has deleted is gone at once, where a
// server takes a minute. $currentDate is the clock of Options.
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
	Standalone bool             // no replica set: no change streams, no linearizable reads
	Clock      func() time.Time // what $currentDate is, cut to milliseconds
	Hello      bson.D           // what else it says of itself
	Engine     Engine           // what it does wrong
}

// An Engine is what a server does wrong that says it was MongoDB.
type Engine int

// The kinds of Engine. Each is a fault that was seen on a relative of MongoDB.
const (
	_               Engine = iota
	UpsertsReplace         // an upsert that meets another document replaces it, and says so to nobody
	UpsertsBothWin         // an upsert that meets another document says that it was made
	FiltersByID            // an update looks at the _id of its filter alone
	PushesReplace          // $push makes a list of its own
	NoDates                // $currentDate is not known
	NoChangeStreams        // code 115
)

// A Server keeps documents in memory. Its methods are safe for concurrent use.
type Server struct {
	Addr string // host:port, on the loopback

	o        Options
	listener net.Listener
	serving  sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	conns       map[net.Conn]bool
	collections map[string]*collection // by namespace
	indexes     map[string][]bson.D
	faults      []fault
	kept        []bson.D // commands on their way
	events      []event
	forgotten   int               // events before these
	streams     map[int64]*stream // open cursors of change streams
	cursors     int64             // made so far
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
		Addr: l.Addr().String(), o: o, listener: l, conns: map[net.Conn]bool{}, collections: map[string]*collection{},
		indexes: map[string][]bson.D{}, streams: map[int64]*stream{}, sent: map[string]int{},
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
	for _, st := range s.streams {
		st.wake()
	}
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

// A Fault is what goes wrong with a command.
type Fault struct {
	// Cut closes the connection instead of a reply: Before the command is run,
	// or after it was.
	Cut, Before bool
	// Late closes the connection instead of a reply, and has the command run with Deliver;
	// Again has it run and answered, and run once more with Deliver.
	Late, Again bool
	// Code and Name are an error: with Before instead of running the command,
	// else a write concern error behind a write that was done.
	Code int32
	Name string
}

type fault struct {
	Fault
	command string
}

// Deliver runs the commands that were kept on their way.
func (s *Server) Deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, command := range s.kept {
		s.run(command[0].Key, command)
	}
	s.kept = nil
}

// Fault has the next command of that name go wrong, once; or, with the name of an operator, the next update
// that has it.
func (s *Server) Fault(command string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fault{f, command})
}

// fault takes the fault that the command is to meet.
func (s *Server) fault(command bson.D) (Fault, bool) {
	for i, f := range s.faults {
		if f.command == command[0].Key || !isMissing(at(command, []string{"update", f.command})) {
			s.faults = slices.Delete(s.faults, i, i+1)
			return f.Fault, true
		}
	}
	return Fault{}, false
}
