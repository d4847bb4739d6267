package main

import (
	"cmp"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// All events of run --json. docs/stability.md promises them.
const (
	eventWaiting = "waiting" // we have a queue position; repeated each minute
	eventHeld    = "held"    // we hold the lock and the command is about to start
	eventRefused = "refused" // another holds it and we do not wait, or no longer
	eventRenewed = "renewed" // hold only: the lock lasts for expires_ms from now on
	eventAsked   = "asked"   // a waiter asks for the lock: hold, and run --give-up
	eventLost    = "lost"    // the lock is lost, or could not be renewed: the command is stopped
	eventWarning = "warning" // anything else worth reporting
	eventFailed  = "failed"  // an error: of the store, or the command cannot be run
	eventEnded   = "ended"   // always the last: with the exit code
)

// A record is one line of run --json. Its fields mean the same as those of ls --json with the
// same name.
type record struct {
	Event   string   `json:"event"`
	Time    string   `json:"time"`            // RFC 3339
	Name    string   `json:"name"`            // if several, the first, or the one that blocks
	Names   []string `json:"names,omitempty"` // if several: all
	Store   string   `json:"store,omitempty"` // for people; absent until it is known
	Mode    string   `json:"mode"`
	Weight  int64    `json:"weight"`
	Limit   int64    `json:"limit"`
	ID      string   `json:"id,omitempty"`         // from held on
	Token   int64    `json:"token,omitempty"`      // from held on
	Leases  []lease  `json:"leases,omitempty"`     // if several, from held on, in place of id and token
	Expires int64    `json:"expires_ms,omitempty"` // held: unless renewed
	Holding *int     `json:"holding,omitempty"`    // waiting, refused: how many hold
	Ahead   *int     `json:"ahead,omitempty"`      // waiting, refused: how many wait ahead of us
	Holders []holder `json:"holders,omitempty"`    // waiting, refused: the first 8 holders
	Message string   `json:"message,omitempty"`    // refused, asked, lost, warning, failed: for people
	Code    *int     `json:"code,omitempty"`       // ended: the exit code
}

// A holder is a hold that blocks us.
type holder struct {
	ID      string `json:"id"` // empty, like all but the owner, if the store knows only the owner
	Token   int64  `json:"token"`
	Owner   owner  `json:"owner"`
	Since   string `json:"since"`
	Expires int64  `json:"expires_ms"` // until it is free, unless renewed; 0: not known
}

// A journal makes the lines of one run.
type journal struct {
	names         []string
	store, mode   string
	weight, limit int64
	leases        []lease
}

func newJournal(j *job) *journal {
	l := &journal{names: j.names, limit: store.Full, weight: store.Full}
	switch {
	case j.slots.n > 0:
		l.limit, l.weight = int64(j.slots.n), int64(j.slots.k)
	case j.shared:
		l.weight = 1
	}
	l.mode = mode(l.limit, l.weight)
	return l
}

// line returns the record with the fields that every record has. Write it in one call: the
// command writes to the same stderr.
func (j *journal) line(r record) []byte {
	r.Time = time.Now().Format(time.RFC3339Nano)
	r.Name = cmp.Or(r.Name, j.names[0])
	r.Store, r.Mode, r.Weight, r.Limit = j.store, j.mode, j.weight, j.limit
	switch {
	case len(j.names) > 1:
		r.Names, r.Leases = j.names, j.leases
	case len(j.leases) > 0:
		r.ID, r.Token = j.leases[0].ID, j.leases[0].Token //mutant:run-events-name-hold
	}
	return jsonLine(r)
}

// refusal returns the record of a refused claim.
func refusal(held *holdfast.HeldError, message string) record {
	r := record{Event: eventRefused, Name: held.Name, Holding: &held.Holding, Ahead: &held.Waiting, Message: message}
	for _, h := range held.Holders {
		ends := h.Expires
		if time.Until(ends) <= 0 { // the hold has ended, but keeps the name taken
			ends = h.Ends
		}
		known := holder{ID: h.ID, Token: h.Token, Owner: ownerOf(h.Owner)}
		if !h.Since.IsZero() { // else the store knows only the owner //mutant:run-known-times-told
			known.Since = h.Since.Format(time.RFC3339Nano)
		}
		if !ends.IsZero() { //mutant:run-known-ends-told
			known.Expires = time.Until(ends).Milliseconds()
		}
		r.Holders = append(r.Holders, known)
	}
	return r
}
