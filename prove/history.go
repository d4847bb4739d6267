// Package prove runs several processes against a store while it freezes, kills, cuts off and delays them. It
// records what each process observed, and judges the record.
//
// A history is a file of JSON lines. The first line describes the run. The file is written as the events come
// in. [Check] judges it: it does no I/O and uses nothing but the history, so a file can be judged again at any
// time.
//
// The Go API of this package is unstable: it may change in any release, and
// docs/stability.md does not cover it. `holdfast prove` is the stable way to use it.
//
// Locks of your own can be proved too: see [Own], and the section "Prove your own lock" of docs/proof.md.
//
// Promises that a store lacks (Description.Lacks) are left out of the workload and of the checks, and listed in
// the report as not checked. A store without [store.PromiseDeadline] has leases whose Deadline is the zero time.
// Checks 1 and 4 are not made of it. Check 3 judges its grants, and assumes that a lost hold may have ended at
// any time before its loss was reported.
package prove

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Run describes a run. It is the first line of a history.
type Run struct {
	Format      int                      `json:"holdfast_history"`   // version of the history format: 1
	Store       string                   `json:"store"`              // Description.Store: it has no password
	Scheme      string                   `json:"scheme"`             // scheme of the URL
	Tokens      string                   `json:"tokens,omitempty"`   // Description.Tokens: when a token may be smaller than an earlier one
	Forgets     []Fault                  `json:"forgets"`            // faults after which the store may have granted a name twice
	Survives    []Fault                  `json:"survives,omitempty"` // of those, the faults after which this store, as it is set up, forgets only queue positions
	Lacks       map[store.Promise]string `json:"lacks,omitempty"`    // Description.Lacks: what needs these promises is left out
	Unchecked   []string                 `json:"unchecked"`          // what is not checked on this store, and why
	Seed        uint64                   `json:"seed"`               // seed of all random choices
	For         time.Duration            `json:"for"`                // how long the processes work
	TTL         time.Duration            `json:"ttl"`                // TTL of the leases
	PositionTTL time.Duration            `json:"place"`              // how long a queue position lasts unless its waiter polls
	Processes   int                      `json:"processes"`          // how many run at a time
	Mode        string                   `json:"mode"`               // as in Options
	Names       []Name                   `json:"names"`              // the names they compete for
	Peer        bool                     `json:"peer,omitempty"`     // the locks are a user's own, not those of a store
	Silent      bool                     `json:"silent,omitempty"`   // deadlines are only estimates: a hold lasts until it is released, or its loss is reported
	Lines       bool                     `json:"lines,omitempty"`    // see Own.Lines: a hold lasts until the last question to which its worker answered "held"
	Dense       bool                     `json:"dense,omitempty"`    // see Options
	Wide        bool                     `json:"wide,omitempty"`     // see Options
	Faults      []Fault                  `json:"faults"`             // the faults of processes and links that were chosen
	Floor       int                      `json:"floor"`              // the least number of grants for a proof
	// Driver is how much longer than its context a release may take because the
	// driver ignores contexts while it reads.
	Driver time.Duration `json:"driver"`
}

// A Name is one of the names that the processes compete for.
type Name struct {
	Name  string `json:"name"`  // what is locked
	Mode  string `json:"mode"`  // mutex, rw or slots
	Limit int64  `json:"limit"` // the slots of a semaphore; of a lock 0 or store.Full
}

// A Kind says what an Event reports.
type Kind string

// What processes report.
const (
	started  Kind = "started"  // a process began its work
	ask      Kind = "ask"      // a claim is about to be made: Op, Name, Verb, Weight, Limit, Bound
	got      Kind = "got"      // the claim was granted: Token, ID, Until, Raced, Sent, Tells
	not      Kind = "not"      // the claim was not granted: Err, Text
	until    Kind = "until"    // the lease is still valid, and its deadline has moved: Until
	upgrade  Kind = "upgrade"  // an upgrade is about to be called: Bound
	stayed   Kind = "stayed"   // the upgrade failed: Err; after a success weight is reported instead
	weight   Kind = "weight"   // an upgrade succeeded: Weight, Token; or a downgrade is about to be called: Weight
	lowered  Kind = "lowered"  // the downgrade has returned
	nested   Kind = "nested"   // the lease of a re-entry was granted: Token
	release  Kind = "release"  // the release is about to be called
	released Kind = "released" // the release has returned: Err
	over     Kind = "over"     // a bare timer for the deadline has fired, late by By, and the lease is not valid
	lost     Kind = "lost"     // the loss was reported
	use      Kind = "use"      // the hold uses the registers: Token, Write, Value, Weight above 0 if it has the whole name; and the outcome, set by the parent: Refused, Harm
	placed   Kind = "placed"   // the claim ID, first sent at Sent, has a position in the queue
	stall    Kind = "stall"    // By is how late a bare timer of the process was, or how long the parent took to read an event, the store to answer the parent, or a worker by lines stood still
	finished Kind = "finished" // the process has ended its work and closed its locker
	dialled  Kind = "dialled"  // the process is about to connect to an address for the first time: Text
	astray   Kind = "astray"   // a connection bypassed the process's own proxies: Text
)

// What the parent reports.
const (
	struck Kind = "struck" // a fault has begun: Fault, Proc (0: of the store)
	mended Kind = "mended" // the fault has ended: Fault, Hits
	died   Kind = "died"   // a process is about to be killed
	calm   Kind = "calm"   // all faults have ended: from here on every name must come free
	left   Kind = "left"   // what the store still has for the names, once that is nothing, or at the latest Run.takenBy after the processes have ended: Entries, Text
	failed Kind = "failed" // the run could not go on: Text
)

// An Event is one line of a history. Fields that a kind does not need are
// zero.
type Event struct {
	At    time.Duration `json:"at"`              // on the boot clock, from the start of the run
	Do    Kind          `json:"do"`              // what happened
	Proc  int           `json:"proc,omitempty"`  // from 1; 0: the parent
	Life  int           `json:"life,omitempty"`  // how often the process was started before
	Op    int           `json:"op,omitempty"`    // number of the claim, counted in each life from 1
	Name  string        `json:"name,omitempty"`  // name of the claim, the hold or the use
	Verb  string        `json:"verb,omitempty"`  // what the process called
	ID    string        `json:"id,omitempty"`    // id of the claim
	Token int64         `json:"token,omitempty"` // fencing token of the hold or the use

	Weight int64         `json:"weight,omitempty"` // weight that is held, or asked for
	Limit  int64         `json:"limit,omitempty"`  // limit of the claim
	Bound  time.Duration `json:"bound,omitempty"`  // from At to the end of the claim's context; 0: it does not end
	Until  time.Duration `json:"until,omitempty"`  // the lease's deadline
	Tells  bool          `json:"tells,omitempty"`  // for a user's own lock: it has a deadline, and reports its loss
	Raced  bool          `json:"raced,omitempty"`  // the lease is not renewed, and is to be released at about its deadline
	Sent   time.Duration `json:"sent,omitempty"`   // when the claim was first sent to the store
	By     time.Duration `json:"by,omitempty"`     // how late it was, or how long it took

	Write   bool  `json:"write,omitempty"`   // the use wrote; otherwise it read
	Value   int64 `json:"value,omitempty"`   // value of the unfenced register
	Refused bool  `json:"refused,omitempty"` // the fenced register refused the use
	Harm    bool  `json:"harm,omitempty"`    // the write harmed the unfenced register: the fence refused it, or the last write had not been read

	Fault   Fault  `json:"fault,omitempty"`   // the fault that has begun or ended
	Hits    int    `json:"hits,omitempty"`    // what the fault met: a process, connections, calls
	Entries int    `json:"entries,omitempty"` // how many entries are left in the store
	Err     string `json:"err,omitempty"`     // the class of an error: held, lost, cancelled, …
	Text    string `json:"text,omitempty"`    // the error, or a remark
}

// key identifies a claim.
type key struct{ proc, life, op int }

func (e *Event) key() key { return key{e.Proc, e.Life, e.Op} }

// A History is a run with its events, in the order of At.
type History struct {
	Run    Run     // its first line
	Events []Event // the rest, in the order of At
}

// format is the version of the history format.
const format = 1

// Read reads a history. It ignores a last line that was cut off. Anything else that
// it does not understand is an error that matches store.ErrInvalid.
func Read(r io.Reader) (*History, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	h := &History{}
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if h.Run.Format == 0 {
				return nil, fmt.Errorf("%w: the history has no complete line", store.ErrInvalid)
			}
			h.sort()
			return h, nil
		}
		if err != nil {
			return nil, err
		}
		if n == 1 {
			err = json.Unmarshal(line, &h.Run)
			if err == nil && h.Run.Format != format {
				return nil, fmt.Errorf("%w: this is not a history of format %d, the only one that this program reads", store.ErrInvalid, format)
			}
		} else {
			var e Event
			err = json.Unmarshal(line, &e)
			h.Events = append(h.Events, e)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d of the history: %w", store.ErrInvalid, n, err)
		}
	}
}

// sort puts the events in the order of At. Events with the same At keep their order.
func (h *History) sort() {
	slices.SortStableFunc(h.Events, func(a, b Event) int { return int(min(max(a.At-b.At, -1), 1)) })
}

// Write writes a history in the form that Read reads.
func (h *History) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	if err := out.Encode(h.Run); err != nil {
		return err
	}
	for i := range h.Events {
		if err := out.Encode(&h.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

// probe is the verb of the claims that take each name once more at the end.
const probe = "probe"
