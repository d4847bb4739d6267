package recordtest

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// Options say what kind of server a Memory is. The zero Options are a server with all features: one request for a
// swap and its join, void by call, notifications, a clock, and reports of the end of a session.
type Options struct {
	Void   record.Void // VoidByCall if zero
	Apart  bool        // the join is a request of its own, sent after the swap was refused
	Halves bool        // Load reads the inbox and the record in two requests
	Quiet  bool        // no notifications: waiters poll
	Blind  bool        // no clock: Record.Now is 0
	Silent bool        // the end of a session is not reported
	Terse  bool        // the answer to a swap has only its new version

	// Life is session.ByServer if zero. With session.ByOwnClock the server ends no session: each client closes those
	// that it has seen unchanged for their TTL. So their end is not reported (Silent is implied).
	Life session.Life

	MinTTL, MaxTTL, Tick time.Duration // 10 ms, an hour and a millisecond if zero
	MaxRecord            int           // 1 MiB if zero
	Retention            time.Duration // store.TokenRetention if zero
}

// A Memory is a server in this process. [Memory.Client] connects to it. It keeps every
// promise of a record.Backend, and the tests of this package are tested with it. Its
// methods are safe for concurrent use.
type Memory struct {
	o       Options
	started store.Instant
	epoch   int64 // the server's clock at started, in microseconds since 1970

	mu        sync.Mutex
	server    int64         // the identity of the server: Fork makes another
	ahead     time.Duration // set by Advance
	version   uint64        // the newest of any name and any note: none is reused
	names     map[string]*name
	sessions  map[session.ID]*life
	listening map[*listener]bool
	looking   map[*looker]bool
	kept      []func() // the requests that are still under way
}

// A name is a record and its inbox.
type name struct {
	data    []byte
	version string
	idle    bool
	written time.Duration // Memory.age at that time
	inbox   []left
}

// A left is a note and its session.
type left struct {
	record.Note
	by session.ID
}

// A listener is the result of one Listen.
type listener struct {
	client  *Client
	process store.Process
	sink    func(record.Notification)
	failed  bool // its Listen was not answered
}

// maxInbox is the most notes that a Load returns.
const maxInbox = record.MaxNotes

// NewMemory returns an empty server.
func NewMemory(o Options) *Memory {
	if o.Void == 0 {
		o.Void = record.VoidByCall
	}
	if o.Life == 0 {
		o.Life = session.ByServer
	}
	o.Silent = o.Silent || o.Life == session.ByOwnClock
	if o.MinTTL == 0 {
		o.MinTTL = 10 * time.Millisecond
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = time.Hour
	}
	if o.Tick == 0 {
		o.Tick = time.Millisecond
	}
	if o.MaxRecord == 0 {
		o.MaxRecord = 1 << 20
	}
	if o.Retention == 0 {
		o.Retention = store.TokenRetention
	}
	return &Memory{
		o: o, server: 1, started: store.Now(), epoch: time.Now().UnixMicro(),
		names: map[string]*name{}, sessions: map[session.ID]*life{}, listening: map[*listener]bool{}, looking: map[*looker]bool{},
	}
}

// Advance sets ahead the server's clock, by which idle records are kept and swept. It does not affect sessions.
func (m *Memory) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead += d
}

// Lapse ends sessions as if they had not been renewed for their TTL. So a test need
// not wait for the end of a process that it has stopped.
func (m *Memory) Lapse(ids ...session.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if l := m.sessions[id]; l != nil {
			m.end(id, l)
		}
	}
}

// Sessions returns the sessions that are alive, in no particular order.
func (m *Memory) Sessions() (ids []session.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.sessions {
		if m.lives(id) != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Deliver does the requests that are still under way (fates Late and Twice), in the order in which they were sent,
// and returns how many there were.
func (m *Memory) Deliver() int {
	m.mu.Lock()
	kept := m.kept
	m.kept = nil
	m.mu.Unlock()
	for _, do := range kept {
		do()
	}
	return len(kept)
}

func (m *Memory) keep(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = append(m.kept, do)
}

// age is the time since the start by the server's clock. m.mu is held, as in all that follow.
func (m *Memory) age() time.Duration { return store.Now().Sub(m.started) + m.ahead }

func (m *Memory) clock() int64 {
	if m.o.Blind {
		return 0
	}
	return m.epoch + m.age().Microseconds() //mutant:recordtest-clock
}

func (m *Memory) next() string {
	m.version++
	return strconv.FormatUint(m.version, 10)
}

// at returns a name, without its record if that was idle for too long.
func (m *Memory) at(what string) *name {
	n := m.names[what] //mutant:recordtest-name-as-given
	if n == nil {
		return &name{}
	}
	if n.idle && m.age() >= n.written+m.o.Retention { //mutant:recordtest-retention
		n.data, n.version, n.idle = nil, "", false //mutant:recordtest-version-after-retention
	}
	return n
}

// made is at for a name that is about to be changed.
func (m *Memory) made(what string) *name {
	n := m.at(what)
	m.names[what] = n
	return n
}

// load is Load at the server, or one of its halves.
func (m *Memory) load(what string, record, inbox bool) (r loaded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read(m.at(what), record, inbox)
}

type loaded = record.Record

func (m *Memory) read(n *name, record, inbox bool) (r loaded) {
	if r.Now = m.clock(); record {
		r.Data, r.Version = bytes.Clone(n.data), n.version //mutant:recordtest-load-data
	}
	if inbox {
		r.Inbox = m.inbox(n)
		r.More = len(n.inbox) > maxInbox //mutant:recordtest-more
	}
	return r
}

func (m *Memory) inbox(n *name) (notes []record.Note) {
	for _, x := range n.inbox[:min(len(n.inbox), maxInbox)] { //mutant:recordtest-oldest-notes
		x.Data = bytes.Clone(x.Data)
		notes = append(notes, x.Note) //mutant:recordtest-notes-in-order
	}
	return notes
}

// write is Swap at the server. joins says that a refused swap joins in the same request.
func (m *Memory) write(s *record.Swap, joins bool) (out record.Outcome) {
	m.mu.Lock()
	n := m.at(s.Name)
	if n.version != s.Old.Version || !n.has(s.Old.Inbox) { //mutant:recordtest-swap-depends
		out.Current, out.Inbox = true, true
		if joins && s.Join != nil { //mutant:recordtest-refused-joins
			out.Joined = m.join(s.Name, s.Join)
		}
		out.Now = m.read(m.at(s.Name), true, true) //mutant:recordtest-refused-tells
		m.mu.Unlock()                              //mutant:recordtest-refused-notifies
		return out
	}
	n = m.made(s.Name)
	n.data, n.version = bytes.Clone(s.Data), m.next() //mutant:recordtest-new-version
	n.idle, n.written = s.Idle, m.age()               //mutant:recordtest-idle
	for _, note := range s.Old.Inbox {                //mutant:recordtest-takes-in
		n.inbox = slices.DeleteFunc(n.inbox, func(x left) bool { return x.Version == note.Version })
	}
	out = record.Outcome{Done: true, Current: true, Inbox: true, Now: m.read(n, false, true)}
	out.Now.Version = n.version //mutant:recordtest-done-tells-version
	m.mu.Unlock()
	m.notify(s.Notifications)
	m.looked(s.Name, nil) //mutant:recordtest-watched
	return out
}

// has reports whether all the notes still exist.
func (n *name) has(notes []record.Note) bool {
	for _, note := range notes {
		if !slices.ContainsFunc(n.inbox, func(x left) bool { return x.Version == note.Version }) {
			return false
		}
	}
	return true
}

// apart does the join of a refused swap, as a request of its own.
func (m *Memory) apart(what string, j *record.Join) (out record.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Joined, out.Inbox = m.join(what, j), true
	out.Now = m.read(m.at(what), false, true)
	return out
}

// join leaves the notes, and reports whether it did.
func (m *Memory) join(what string, j *record.Join) bool {
	if m.o.Void == record.VoidByCall { //mutant:recordtest-join-depends
		l := m.lives(j.Session) //mutant:recordtest-join-session
		if l == nil {           //mutant:recordtest-join-of-ended
			return false
		}
		if l.calls != j.Calls { //mutant:recordtest-join-of-called
			return false
		}
	}
	n := m.made(what)              //mutant:recordtest-joins-name
	for _, note := range j.Notes { //mutant:recordtest-joins-all
		if slices.ContainsFunc(n.inbox, func(x left) bool { return x.Key == note.Key }) { //mutant:recordtest-join-again
			continue // it was done before
		}
		note.Data, note.Version = bytes.Clone(note.Data), m.next()
		n.inbox = append(n.inbox, left{note, j.Session}) //mutant:recordtest-joins-behind
	}
	return true
}

// notify delivers the notifications to processes that listen, on working connections.
func (m *Memory) notify(all []record.Notification) {
	for _, n := range all { //mutant:recordtest-notifies-all
		m.mu.Lock()
		var to []*listener
		for l := range m.listening {
			if l.process == n.ID.Process() { //mutant:recordtest-notifies-process
				to = append(to, l)
			}
		}
		m.mu.Unlock()
		for _, l := range to { //mutant:recordtest-notifies-those
			l.client.hear(l, n)
		}
	}
}

// old returns the names that have a record, are not idle without notes, and were not written for that long.
func (m *Memory) old(unwritten time.Duration) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for what := range m.names {
		n := m.at(what)
		if n.data != nil && (!n.idle || len(n.inbox) > 0) && m.age() >= n.written+unwritten { //mutant:recordtest-lists
			all = append(all, what)
		}
	}
	return all
}
