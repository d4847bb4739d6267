// Package mongosim is a small simulation of a MongoDB server, for the tests of mongostore: no
// package that we can install where they run contains a real one.
//
// It speaks the wire protocol, so the driver is the real one. It knows the commands and
// operators that mongostore sends, and the two commands that insert and delete a document, as
// of MongoDB 4.4. It was written from MongoDB's manual, and not from what mongostore needs. It
// refuses everything else, even a retryable write, with an error that begins "mongosim does not
// know". It shows what the documentation says, and no more: that mongostore works with it
// proves nothing about a real server.
//
// Commands run one at a time. TTL indexes delete documents at once, where a real server takes
// up to a minute. $currentDate is the clock of Options.
package mongosim

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Options configure a Server. The zero Options are a replica set of one member, with the clock
// of this machine.
type Options struct {
	Standalone bool             // not a replica set: no change streams, no linearizable reads
	Clock      func() time.Time // the clock of $currentDate, truncated to milliseconds
	Hello      bson.D           // added to the reply to hello
	Engine     Engine           // the server's fault
}

// An Engine is a fault of a server that claims to be MongoDB.
type Engine int

// The kinds of Engine. Each fault was seen on a relative of MongoDB.
const (
	_               Engine = iota
	UpsertsReplace         // an upsert that meets another document replaces it, reports an insert, and sends no event
	UpsertsBothWin         // an upsert that meets another document reports an insert, and writes nothing
	FiltersByID            // an update checks only the _id of its filter
	PushesReplace          // $push replaces the list
	NoDates                // $currentDate is unknown
	NoChangeStreams        // change streams fail with code 115
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
	kept        []bson.D // commands that Deliver runs
	events      []event
	forgotten   int               // number of older events that were dropped
	streams     map[int64]*stream // open cursors of change streams
	cursors     int64             // number of cursors made so far
	sent        map[string]int    // number of commands, by name
	written     int               // number of writes to documents
}

// Start starts a server, and stops it when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Serve("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Serve starts a server at the address. It runs until Stop.
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

// URI returns the connection string of the server.
func (s *Server) URI() string { return "mongodb://" + s.Addr + "/holdfast" }

// Stop closes the server and all of its connections.
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

// Sent returns how often a command was sent since the start.
func (s *Server) Sent(command string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[command]
}

// Written returns how many writes changed, inserted or deleted a document since the start: the
// number of entries an oplog would have.
func (s *Server) Written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// Indexes returns the indexes created on a collection ("db.collection").
func (s *Server) Indexes(namespace string) []bson.D {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.indexes[namespace])
}

// A Fault says what goes wrong with a command.
type Fault struct {
	// Cut closes the connection instead of replying: with Before instead of running the
	// command, otherwise after running it.
	Cut, Before bool
	// Late closes the connection instead of replying, and runs the command when Deliver is
	// called. Again runs the command and replies, and runs it once more when Deliver is called.
	Late, Again bool
	// Code and Name are an error: with Before instead of running the command, otherwise a write
	// concern error after a write that was done.
	Code int32
	Name string
}

type fault struct {
	Fault
	command string
}

// Deliver runs the delayed commands.
func (s *Server) Deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, command := range s.kept {
		s.run(command[0].Key, command)
	}
	s.kept = nil
}

// Fault makes the next command with this name fail once; or, with the name of an operator, the next update that uses
// it.
func (s *Server) Fault(command string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fault{f, command})
}

// fault removes and returns the fault for the command, if there is one.
func (s *Server) fault(command bson.D) (Fault, bool) {
	for i, f := range s.faults {
		if f.command == command[0].Key || !isMissing(at(command, []string{"update", f.command})) {
			s.faults = slices.Delete(s.faults, i, i+1)
			return f.Fault, true
		}
	}
	return Fault{}, false
}
