// Package prove runs several processes against a store while it freezes, kills, cuts off and delays them,
// records what each of them saw, and judges it.
//
// A history is a file of JSON lines, the first of which describes the run. It is written as the events come in
// and judged by [Check], which does no I/O and uses nothing but the history: so a file can be judged again at
// any time.
//
// The Go API of this package is unstable: it may change in any release, and
// docs/stability.md does not cover it. `holdfast prove` is the stable way to use it.
//
// Locks of your own can be proved too: see [Own], and the section "Prove your own lock" of docs/proof.md.
//
// Promises that a store lacks (Description.Lacks) are left out of the workload and of the checks, and listed in
// the report as not checked. A store without [store.PromiseDeadline] has leases whose Deadline is the zero time,
// and is judged without checks 1 and 4; its grants are judged by check 3, where a lost hold may have ended at
// any time before.
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

// A Run is what a history is of: its first line.
type Run struct {
	Format      int                      `json:"holdfast_history"`   // of the file: 1
	Store       string                   `json:"store"`              // Description.Store: never a password
	Scheme      string                   `json:"scheme"`             // of the URL
	Tokens      string                   `json:"tokens,omitempty"`   // Description.Tokens: when a token may be smaller than one before
	Forgets     []Fault                  `json:"forgets"`            // after these the store may have granted a name twice
	Survives    []Fault                  `json:"survives,omitempty"` // of those: as this store is set up it has not, and only queue positions are forgotten
	Lacks       map[store.Promise]string `json:"lacks,omitempty"`    // Description.Lacks: what needs it is left out
	Unchecked   []string                 `json:"unchecked"`          // what is not checked on this store, and why
	Seed        uint64                   `json:"seed"`               // of all that is drawn at random
	For         time.Duration            `json:"for"`                // how long the processes work
	TTL         time.Duration            `json:"ttl"`                // of the leases
	PositionTTL time.Duration            `json:"place"`              // how long a position lasts without being asked for
	Processes   int                      `json:"processes"`          // how many there are at a time
	Mode        string                   `json:"mode"`               // as in Options
	Names       []Name                   `json:"names"`              // that they fight for
	Peer        bool                     `json:"peer,omitempty"`     // these are locks of a user's own, and no store
	Silent      bool                     `json:"silent,omitempty"`   // whose leases have no deadline: a hold lasts until it is released, or its loss is reported
	Lines       bool                     `json:"lines,omitempty"`    // see Own.Lines: a hold lasts until its worker was last asked and had it
	Dense       bool                     `json:"dense,omitempty"`    // see Options
	Wide        bool                     `json:"wide,omitempty"`     // see Options
	Faults      []Fault                  `json:"faults"`             // that were asked for
	Floor       int                      `json:"floor"`              // fewer grants than that are no proof
	// Driver is how much longer than its context a release may take because the
	// driver ignores contexts while it reads.
	Driver time.Duration `json:"driver"`
}

// A Name is one of those that the processes fight for.
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
	got      Kind = "got"      // and was granted: Token, ID, Until, Sent, Tells
	not      Kind = "not"      // or was not: Err
	until    Kind = "until"    // the lease is valid still: Until, which has moved
	upgrade  Kind = "upgrade"  // an upgrade is about to be called: Bound
	stayed   Kind = "stayed"   // and has failed; else the weight has changed: Err
	weight   Kind = "weight"   // the weight of the hold has changed: Weight, and Token if an upgrade drew one
	lowered  Kind = "lowered"  // the downgrade that began with the change has returned
	nested   Kind = "nested"   // the lease of a re-entry was granted: Token
	release  Kind = "release"  // the release is about to be called
	released Kind = "released" // and has returned: Err
	over     Kind = "over"     // a bare timer for the deadline has fired, By late, and the lease is not valid
	lost     Kind = "lost"     // the loss was reported
	use      Kind = "use"      // of the registers, by the hold: Token, Write, Weight above 0 if it has the whole; and what the parent made of it: Refused, Harm
	placed   Kind = "placed"   // the claim ID, first sent at Sent, has a position in the queue
	stall    Kind = "stall"    // a bare timer of the process was late, or the parent slow to hear it, or the store to answer the parent, By
	finished Kind = "finished" // the process has ended its work and closed its locker
	dialled  Kind = "dialled"  // the process connects to an address for the first time: Text
	astray   Kind = "astray"   // a connection went past the process's own proxies: Text
)

// What the parent reports.
const (
	struck Kind = "struck" // a fault has begun: Fault, Proc, or 0 for the store
	mended Kind = "mended" // it has ended: Fault, Hits
	died   Kind = "died"   // a process is about to be killed
	calm   Kind = "calm"   // all faults have ended: from here on everything must come right
	left   Kind = "left"   // what the store has of the names at the end: nothing, or what it still has a TTL and two seconds after the processes have ended: Entries
	failed Kind = "failed" // the run could not go on: Err
)

// An Event is one line of a history. Fields that a kind does not need are
// zero.
type Event struct {
	At    time.Duration `json:"at"`              // on the boot clock, from the start of the run
	Do    Kind          `json:"do"`              // what happened
	Proc  int           `json:"proc,omitempty"`  // from 1; 0: the parent
	Life  int           `json:"life,omitempty"`  // of the process: how often it was started before
	Op    int           `json:"op,omitempty"`    // claims are counted in each life, from 1
	Name  string        `json:"name,omitempty"`  // of the claim, the hold or the use
	Verb  string        `json:"verb,omitempty"`  // what the process called
	ID    string        `json:"id,omitempty"`    // of the claim
	Token int64         `json:"token,omitempty"` // of the hold or the use

	Weight int64         `json:"weight,omitempty"` // what is held, or asked for
	Limit  int64         `json:"limit,omitempty"`  // of the claim
	Bound  time.Duration `json:"bound,omitempty"`  // when the claim's context ends, from At; 0: never
	Until  time.Duration `json:"until,omitempty"`  // the lease's deadline
	Tells  bool          `json:"tells,omitempty"`  // of a user's own lock: it has a deadline, and its loss is reported
	Raced  bool          `json:"raced,omitempty"`  // the lease is not renewed, and is to be released as it ends
	Sent   time.Duration `json:"sent,omitempty"`   // when the request behind it was sent
	By     time.Duration `json:"by,omitempty"`     // by how much it was late, or how long it took

	Write   bool  `json:"write,omitempty"`   // of a use: it wrote; else it read
	Value   int64 `json:"value,omitempty"`   // of the unfenced register
	Refused bool  `json:"refused,omitempty"` // by the fenced register
	Harm    bool  `json:"harm,omitempty"`    // to the unfenced one: the writer no longer held the name

	Fault   Fault  `json:"fault,omitempty"`   // that has begun or ended
	Hits    int    `json:"hits,omitempty"`    // what the fault met: a process, connections, calls
	Entries int    `json:"entries,omitempty"` // how many are left in the store
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

// format is the number of the form that histories are written in.
const format = 1

// Read reads a history. A last line that was cut off is left out; anything else
// that is not understood matches store.ErrInvalid.
func Read(r io.Reader) (*History, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	h := &History{}
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if h.Run.Format == 0 {
				return nil, fmt.Errorf("%w: a history with no whole line", store.ErrInvalid)
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
				return nil, fmt.Errorf("%w: this is no history of form %d, which this program knows", store.ErrInvalid, format)
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

// sort puts the events in the order of At. Events of one instant keep theirs.
func (h *History) sort() {
	slices.SortStableFunc(h.Events, func(a, b Event) int { return int(min(max(a.At-b.At, -1), 1)) })
}

// Write writes a history that Read reads.
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

// probe is the verb of the claims by which each name is taken in the end.
const probe = "probe"
