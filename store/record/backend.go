// Package record makes a store.Store of any server that can compare and swap one record per name, and has sessions
// (package store/session). The rule of package store/queue runs here, in the client: an operation reads the record
// of the name, applies the rule, and swaps the record if it has not been written since.
//
// A [Backend] connects a server. Package store/record/recordtest tests a Backend.
//
// Law numbers refer to docs/design.md, "Records and sessions".
package record

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// Limits of what a Backend receives.
const (
	// MaxNotes is the largest number of notes in one Join.
	MaxNotes = 32
	// MaxNote is the length of the longest note, in bytes.
	MaxNote = 2 << 10
	// MaxKey is the length of the longest Note.Key, in bytes.
	MaxKey = 40
)

// A Record is what the server stores for a name.
type Record struct {
	// Data is what the newest swap wrote, opaque to the backend. It is empty if no swap has written yet, whatever
	// the Version.
	Data []byte

	// Version changes with each swap. It is never reused for the name, even if the name is deleted and recreated,
	// except "", which means that there is no record. It is opaque to the caller. A name without Data may have a
	// Version (a node that only has children).
	Version string

	// Inbox holds the notes that no swap has taken in, oldest first. If they are too many for one swap, it holds the
	// oldest, and More is true.
	Inbox []Note
	More  bool // the server has notes that Inbox lacks

	// Now is a time on the server's clock, in microseconds since 1970, no later than that clock showed when this
	// answer was made. 0: unknown. List may leave it out.
	Now int64

	// Foreign, if not nil, holds the name besides what Data says, on a server whose locks other programs use, too. If
	// another program changes that, the Version is another.
	Foreign *Foreign

	// Shared says that another program uses the lock, or has used it. Then it may take the lock from a holder, and
	// each renewal reads the record. A swap on a Shared record leaves one.
	Shared bool

	// Free says that other programs find the lock free, whatever Data says. The next swap with a Holder changes that.
	Free bool
}

// A Foreign is the holder of a lock in a program that does not use holdfast. No claim is granted beside it, and a hold
// that is found beside it has ended.
type Foreign struct {
	Owner string        // as that program calls it
	Age   time.Duration // how long it has held the lock, as far as known
	Left  time.Duration // how long it holds the lock at most, unless it is seen again
}

// A Note is a claim that waits to be taken into the record.
type Note struct {
	Key     string // set by the caller: lower-case letters and digits, never reused
	Data    []byte // opaque to the backend
	Version string // set by the backend, to identify this note; empty in a Join
}

// A Swap writes the record of a name if it has not been written since Old was read.
type Swap struct {
	Name string // of the record
	Old  Record // Version, Inbox, Foreign and Shared matter: the swap takes in all notes of the Inbox
	Data []byte // never empty

	// Idle says that only the newest token is left. The backend may delete the record once it has been idle for
	// Traits.Retention: together with its inbox, or only while that is empty. A note that outlives the marks of its
	// record would count as new.
	Idle bool

	// Holder is the owner of the oldest hold, as store.ParseOwner reads it; empty: there is none. A backend may show
	// it to people.
	Holder string

	// Notifications go to other processes once the record is written.
	Notifications []Notification

	// Join, if not nil, is done if the swap is refused.
	Join *Join

	// Lost says that a swap on Old was refused before, or that this one probably will be. A backend that sends the
	// Join in a request of its own may then send only that.
	Lost bool
}

// A Join leaves notes in the inbox of a name. It never conflicts with other
// writes.
type Join struct {
	Session session.ID // the session of all the notes
	Calls   int64      // VoidByCall: the call counter of that session, as its owner last read it
	Notes   []Note     // at most MaxNotes
}

// An Outcome is the result of a Swap.
type Outcome struct {
	Done   bool // the record is written, the notes of Old.Inbox are removed
	Joined bool // refused, and the notes of the Join are in the inbox

	// Current says that Now is the current state: after a refused Swap, the Record as Load would return it; after a
	// done one, its Version (Data is left out). A backend sets Current if that costs no further request.
	Current bool
	Now     Record // see Current
	// Inbox says that Now.Inbox is the inbox right after this swap or join. A refused Swap with Current always has
	// it.
	Inbox bool
}

// A Void says how an unanswered join is made impossible.
type Void int

// The kinds of Void.
const (
	// VoidByCall: a Join is refused unless the session is alive and has been called Calls times. So a Call voids all
	// joins of the session that are under way.
	VoidByCall Void = iota + 1
	// VoidByMark: a Join depends on nothing. It may be done late, and more than once. The record has a mark that
	// shows which such notes to ignore.
	VoidByMark
)

// Traits describe what a Backend can do. They never change.
type Traits struct {
	Void Void // how joins are made void

	// Notifies says that Listen works. Without it waiters poll.
	Notifies bool

	// Clock says that Load returns Record.Now. Without it there is no lock delay, and a minimum hold takes a session
	// of its own. If answers of a server with Clock lack the time for a while, operations that need no time still
	// work. A claim with a minimum hold or a lock delay is then refused with ErrUnsupported, and so is each write of
	// a record that has one.
	Clock bool

	// Age is how far the difference between two times that Load returned may be off from the time that passed
	// between their answers: how old such a time may be, plus the clock differences of machines that answer for one
	// server. Minimum holds and lock delays are lengthened by it, so that none ends early. 0: no more than a request
	// takes.
	Age time.Duration

	// MaxRecord is the largest length of Data, in bytes.
	MaxRecord int

	// Retention is how long an idle record is kept at least. It must be far longer than any request can be under
	// way, because the version is "" again once the record is deleted. It is usually store.TokenRetention.
	Retention time.Duration
}

// A Notification goes to the process of ID. It may be lost, late or duplicated. The zero Notification is for all
// claims of the process: some notifications may have been lost.
type Notification struct {
	Name string   // of the claim
	ID   store.ID // of the claim

	// Token and N: the claim was granted with these, and is in Session. This is the grant only while Session is the
	// claim's present one (law 6). Token 0, N 1: the claim's note was taken into the record, in Session. Token 0, N
	// 0: another entry is ahead of the claim now, in Session (law 9); or, if Session is zero, the claim has to be
	// asked for again, or renewed if it is held.
	Token   int64
	N       int        // see Token
	Session session.ID // see Token
	Asked   bool       // with a token: a waiter asks the holders to give up
}

// A Named is a record and its name.
type Named struct {
	Name string // of the record
	Record
}

// A Backend connects a server. It sends each request once, and never retries, sleeps or logs. Its methods are safe
// for concurrent use, and return when ctx ends.
//
// A definite error ([store.Definite]) says that nothing was or will be done. After any other error of Swap, the swap
// may have been done, or may yet be done as long as the version that it depends on is the newest. Its join may have
// been done, or may yet be done as long as it is not void.
//
// What a Backend promises. recordtest tests each sentence, except 43, which each backend tests itself by damaging
// its own data:
//
// Reading
//
//  1. Load of an unwritten name returns no Data, no Inbox and no error, and writes nothing.
//  2. Load returns what the newest swap that was answered with Done has written,
//     to every process, at once: never an older record.
//  3. Load returns all notes of joins that were answered and that no swap has removed since, in the order in
//     which they came; if they are too many for one swap, the oldest, at least MaxNotes.
//  4. Data, the notes' Data and Keys, and names of up to store.MaxName bytes come back byte
//     for byte: zero bytes, bytes that are not UTF-8, slashes, dots, trailing spaces.
//  5. Names that differ in one byte, in letter case, or in trailing zeros or spaces
//     are different names.
//  6. Where the record and the inbox are read in two requests, the inbox is read first
//     (law 11): a note in neither was never there, or the Data has taken it in.
//  7. With Clock, Now of every Load is above 0 if the server returns its time, never ahead of the server's clock,
//     and at most a few seconds behind it. It advances as the local clock does, within Age.
//
// Swapping
//
//  8. A Swap is Done if Old.Version is the current version, and all notes of Old.Inbox still exist (law 8).
//     Then it has written Data and removed these notes, in one step, or in a way that no reader can tell from
//     one.
//  9. Otherwise it is refused: it has written nothing of the record and removed no note.
//  10. Of any number of swaps on one version at most one is ever done.
//  11. A done Swap makes a new version, even if Data is unchanged.
//  12. A version other than "" never recurs for the name: not after other swaps, nor after the name was
//     deleted and recreated. (A server whose data was wiped may start over; a backend that can avoid it does.)
//  13. A Swap on version "" is done only if there is no record.
//  14. A Swap removes only the notes of Old.Inbox; nothing else removes a note, except the end of its session.
//  15. A refused Swap without a Join changes nothing at all.
//  16. Current after a done Swap: Now.Version is that of the record just written, and
//     serves as Old of the next.
//  17. Current after a refused Swap: Now is what a Load at that moment would have returned.
//  18. Inbox after a done Swap: Now.Inbox has all notes that existed at that moment, without the removed ones.
//  19. A swap that the server reports as not applied (a deadlock, a lock timeout) is refused, without Current and
//     without an error.
//  20. A Swap whose reply was lost, and that is not done yet, is never done once another swap of the name is
//     (there is a newer version).
//  21. An idle record is kept for at least Retention. A swap that is not idle removes its expiry.
//  22. Data of MaxRecord bytes is written. Longer Data is an error of the caller.
//
// Joining
//
//  23. A Join of a refused Swap is done whatever other processes do to the record: it never fails because of
//     them.
//  24. The Join of a done Swap does nothing. The Join of a Lost Swap is done, unless the Swap is.
//  25. Joined is true only if all notes of the Join are, or were, in the inbox. Without Joined and without an
//     error no note is in the inbox, nor ever will be.
//  26. Notes of one Join are in the inbox in their order; a Join that begins after
//     another was answered has its notes behind those of the other.
//  27. The notes of a Join change no version: a swap on the version from before it is done.
//  28. VoidByCall: a Join whose Calls is not the counter of its session is not done.
//  29. VoidByCall: a Join of a session that has ended (by Left or End) is not done.
//  30. VoidByCall: once a Call was answered, no Join that was sent with a smaller Calls is done any more, not even
//     a delayed one. Each Load that is sent after the answer sees those done before.
//  31. VoidByMark: a Join is done whether or not its session is alive.
//
// Notifying
//
//  32. With Notifies, a Notification of a done Swap soon reaches the sink of Listen for the process of its ID,
//     with all its fields.
//  33. No notification is delivered before Load returns the record of its swap.
//  34. No notification of a refused Swap is delivered. One of a Swap with an error
//     is delivered only if that was done.
//  35. When Listen has returned nil, no notification of a swap that begins then is missed while the connection
//     lasts. A Listen that has returned an error delivers nothing, and may be repeated.
//  36. After a connection was lost and replaced, the zero Notification is delivered, or all those sent
//     meanwhile; from then on 35 holds again.
//  37. A Swap with many notifications (300, to 300 processes) is done, and all are delivered.
//  38. A process that does not listen delays no other, and its notifications are dropped in time.
//  39. Listens of two processes on one Backend, or of one process on two, do not disturb each other.
//  40. Without Notifies, Listen returns store.ErrUnsupported.
//
// Listing
//
//  41. List yields each name whose record has Data and is not idle, once, as Load would return it; the Inbox
//     may be left out. Idle records may be left out. Between two names the caller may read and write names.
//  42. List with unwritten > 0 yields at least the names that were not written for that long; others may be
//     left out.
//  43. A name that cannot be read is yielded as an error with its name, and the others follow.
//
// Ending
//
//  44. Close returns soon, even if the server is frozen, ends every Listen and Await, and
//     leaves no goroutine.
//  45. Traits and Describe do no I/O, and are the same each time.
type Backend interface {
	session.Backend

	// Load reads the record of a name.
	Load(ctx context.Context, name string) (Record, error)

	// Swap writes the record of a name, or joins it if that is refused. If that takes two requests, the join is sent
	// only after the swap was answered as refused.
	Swap(ctx context.Context, s *Swap) (Outcome, error)

	// Listen delivers the notifications for a process to sink until Close. It returns once no later one can be
	// missed. The caller repeats it for a process until it has returned nil. sink does not block and is safe for
	// concurrent use. If the connection breaks, the backend subscribes again by itself, and then delivers what was
	// sent meanwhile, or the zero Notification.
	Listen(ctx context.Context, p store.Process, sink func(Notification)) error

	// List yields the names in no particular order. If unwritten > 0, only names that were not written for that long
	// are wanted.
	List(ctx context.Context, unwritten time.Duration) iter.Seq2[Named, error]

	// Describe returns the description of the store. MinTTL, MaxTTL and Tick are filled in from SessionTraits, and
	// Lacks with what follows from the Traits.
	Describe() store.Description

	// Check is that of store.Checker.
	Check(ctx context.Context) []store.Finding

	// Close ends what Listen and Await began, and frees what the backend itself opened. No method is called after
	// Close.
	Close() error

	// Traits returns what the backend and its server can do. It does no I/O, and its result never changes.
	Traits() Traits
}

// A NameWatcher is a Backend that can report that a record was written.
type NameWatcher interface {
	// WatchRecord calls changed soon after each Swap of the name, by any process, that is done after WatchRecord has
	// returned, until stop is called or the backend is closed. It may call changed without a Swap, and calls it
	// after the connection broke, as it may have missed some. changed does not block and is safe for concurrent use.
	// ctx bounds only this call. stop waits for no I/O, and may be called after Close.
	WatchRecord(ctx context.Context, name string, changed func()) (stop func(), err error)
}

// A Sweeper is a Backend on which listing all names costs so much that processes take turns.
type Sweeper interface {
	// Sweep yields what List with unwritten does, or nothing if a process has done that lately. If the caller breaks
	// a sweep off, the next turn resumes it there. A store calls Sweep each minute.
	Sweep(ctx context.Context, unwritten time.Duration) iter.Seq2[Named, error]
}

// A Preparer is a Backend that tries its server, by many requests, before it first writes. Other operations may take
// several requests as well.
type Preparer interface {
	// Prepare returns once the server was tried.
	Prepare(ctx context.Context) error

	// Heard returns when the server last answered a read or a write; 0: never.
	Heard() store.Instant
}

// A Peeker is a Backend that reads the record and the inbox in separate requests, and can return one without the
// other where that costs less than Load. Both methods return what Load would.
type Peeker interface {
	// Peek is Load without the inbox.
	Peek(ctx context.Context, name string) (Record, error)

	// Oldest returns the first note of the inbox, or one that was removed a moment ago; the zero Note only if there
	// is none.
	Oldest(ctx context.Context, name string) (Note, error)
}
