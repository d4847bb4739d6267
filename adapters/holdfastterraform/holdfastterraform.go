// Package holdfastterraform is a server for the http backend of Terraform and OpenTofu: it stores
// states in a storage of your choice, and locks them.
//
//	backend := holdfastterraform.New(locks, holdfastterraform.Dir("/var/lib/states"))
//	http.Handle("/states/", http.StripPrefix("/states/", backend))
//
// and in the configuration of a project:
//
//	terraform {
//	  backend "http" {
//	    address        = "https://states.example.com/states/network"
//	    lock_address   = "https://states.example.com/states/network"
//	    unlock_address = "https://states.example.com/states/network"
//	  }
//	}
//
// The path is the name of the state, here "network". The name of its lock is [LockPrefix] and that
// name. There is no authentication and no limit to the size of a state: states have secrets, so put
// your own handler before this one, and [http.MaxBytesHandler].
//
// # Locks
//
// The server process holds a lock, from LOCK to UNLOCK, and renews it. A refused LOCK is answered
// by 423 with the lock info of the holder. Only a request that has the ID of the lock can write a
// state: a request without a lock, as with -lock=false or without a lock_address, is refused by
// 409.
//
// A client that dies keeps its state locked. Unlock it as with other backends: "tofu force-unlock ID". Or give
// locks a MaxHold, after which any lock is lost.
//
// If the server process dies, the lock expires after the TTL. The client does not notice, and
// continues to change the infrastructure: the protocol has no message for it. Its later writes are
// refused by 409, even by a new server process, because another client may have had the lock
// meanwhile. The client keeps its state in errored.tfstate and says so; check what changed
// meanwhile, then run "tofu state push". The same happens if the store does not answer for the TTL.
// A TTL of minutes makes this rare, but a locked state then stays locked that long after a restart.
// [holdfast.Locker.Close] releases all locks: stop the server when no client works. All of this was
// tried with OpenTofu 1.12.6.
//
// # Several servers
//
// Two server processes on one store never grant the same lock. But only the process that was asked
// for the lock accepts the state that it protects, so route the requests of a state to one process:
// by its path. Another process refuses a LOCK and answers with the holder's ID correctly. If
// another process gets an UNLOCK with the holder's ID, it breaks the lock, which is free when the
// hold has expired, after the TTL at the latest.
package holdfastterraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
)

// LockPrefix precedes the name of a state in the name of its lock.
const LockPrefix = "terraform/"

// States keeps states by name. Its methods are called by many goroutines at a time, but Put and
// Delete of one name only while its lock is held: [holdfast.LeaseFrom] finds the lease in ctx, with
// its fencing token.
type States interface {
	// Get returns the state, or nil if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put replaces the state as a whole. It should not if ctx ends before.
	Put(ctx context.Context, name string, state []byte) error
	// Delete removes the state. A missing state is no error.
	Delete(ctx context.Context, name string) error
}

// A Backend is an http.Handler for GET, POST, DELETE, LOCK and UNLOCK of states. It is safe
// for concurrent use.
type Backend struct {
	locks  *holdfast.Locker
	states States

	mu   sync.Mutex
	held map[string]*held // by the name of the state
}

// held is a lock that a client has.
type held struct {
	info  []byte // as the client gave it
	id    string
	lease *holdfast.Lease
	// Its element is taken out while the state is written, so that no other client gets the lock.
	turn chan struct{}
}

// New returns a Backend.
func New(locks *holdfast.Locker, states States) *Backend {
	return &Backend{locks: locks, states: states, held: map[string]*held{}}
}

// A lockInfo is the lock info of the protocol.
type lockInfo struct {
	ID        string
	Operation string
	Info      string
	Who       string
	Version   string
	Created   time.Time
	Path      string
}

// maxInfo bounds the body of LOCK and UNLOCK.
const maxInfo = 64 << 10

// ServeHTTP answers one request of the protocol. The name of the state is the path.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.Trim(r.URL.Path, "/")
	if name == "" {
		http.Error(w, "the path has no name of a state", http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodGet:
		b.get(w, r, name)
	case http.MethodPost:
		b.change(w, r, name, func(ctx context.Context) error {
			state, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			return b.states.Put(ctx, name, state)
		})
	case http.MethodDelete:
		b.change(w, r, name, func(ctx context.Context) error { return b.states.Delete(ctx, name) })
	case "LOCK":
		b.lock(w, r, name)
	case "UNLOCK":
		b.unlock(w, r, name)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE, LOCK, UNLOCK")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	}
}

func (b *Backend) get(w http.ResponseWriter, r *http.Request, name string) {
	switch state, err := b.states.Get(r.Context(), name); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case state == nil:
		http.Error(w, "there is no such state", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Write(state)
	}
}

// change writes or deletes a state for the client that has its lock.
func (b *Backend) change(w http.ResponseWriter, r *http.Request, name string, do func(context.Context) error) {
	id := r.URL.Query().Get("ID")
	h := b.holding(name)
	switch {
	case h != nil && h.id != id: //mutant:terraform-id
		h.conflict(w)
		return
	case h == nil:
		http.Error(w, "this process does not hold the lock: it was never taken, or it was lost and others may have had it", http.StatusConflict)
		return
	}
	<-h.turn
	defer func() { h.turn <- struct{}{} }()
	if !h.lease.Valid() { //mutant:terraform-lost-meanwhile
		http.Error(w, "the lock is lost: others may have had it", http.StatusConflict)
		return
	}
	if err := do(h.lease.Context(r.Context())); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// holding returns the lock of a state that this process holds, or nil.
func (b *Backend) holding(name string) *held {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.held[name]
	if h != nil && !h.lease.Valid() { //mutant:terraform-lost
		delete(b.held, name)
		return nil
	}
	return h
}

// conflict answers with the lock info of the holder.
func (h *held) conflict(w http.ResponseWriter) { locked(w, h.info) }

func locked(w http.ResponseWriter, info []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusLocked)
	w.Write(info)
}

// info reads the lock info of a request. For an empty body it is empty.
func info(w http.ResponseWriter, r *http.Request) (body []byte, i lockInfo, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxInfo))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &i)
	}
	if err == nil && (len(i.ID) > 64 || strings.ContainsAny(i.ID, " \n")) {
		err = errors.New("the ID is longer than 64 bytes, or has a blank")
	}
	if err != nil {
		http.Error(w, "the lock info: "+err.Error(), http.StatusBadRequest)
	}
	return body, i, err == nil
}

func (b *Backend) lock(w http.ResponseWriter, r *http.Request, name string) {
	body, i, ok := info(w, r)
	if !ok {
		return
	}
	if i.ID == "" {
		http.Error(w, "the lock info has no ID", http.StatusBadRequest)
		return
	}
	// Other processes of this server know the holder by its note.
	lease, err := b.locks.With(&holdfast.Options{Note: note(i)}).Mutex(LockPrefix + name).TryLock(r.Context()) //mutant:terraform-name
	switch refused := (*holdfast.HeldError)(nil); {
	case err == nil:
		h := &held{info: body, id: i.ID, lease: lease, turn: make(chan struct{}, 1)}
		h.turn <- struct{}{}
		b.mu.Lock()
		b.held[name] = h
		b.mu.Unlock()
	case errors.As(err, &refused):
		h := b.holding(name)
		switch {
		case h != nil && h.id == i.ID: // the client did not get the first answer, and asks again
		case h != nil:
			h.conflict(w)
		default:
			text, _ := json.Marshal(lockInfoOf(refused))
			locked(w, text)
		}
	case errors.Is(err, holdfast.ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// note returns the note by which others know the holder of a lock: its ID, and who it is.
func note(i lockInfo) string {
	text := strings.ToValidUTF8(i.ID+" "+i.Who, "")
	for len(text) > 100 {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return text
}

// lockInfoOf returns what this process knows of a lock that another process holds.
func lockInfoOf(e *holdfast.HeldError) (i lockInfo) {
	i.Info = e.Who()
	if len(e.Holders) > 0 {
		i.ID, i.Who, _ = strings.Cut(e.Holders[0].Note, " ")
		i.Created = e.Holders[0].Since
	}
	return i
}

// unlock releases a lock: for its client, and for force-unlock, which sends only the ID, or, from
// old clients, nothing.
func (b *Backend) unlock(w http.ResponseWriter, r *http.Request, name string) {
	body, i, ok := info(w, r)
	if !ok {
		return
	}
	h := b.holding(name)
	switch {
	case h == nil:
		b.breakLock(w, r, name, i.ID)
		return
	case len(body) > 0 && i.ID != h.id: //mutant:terraform-unlock-id
		h.conflict(w)
		return
	}
	<-h.turn // until the state is written //mutant:terraform-unlock-waits
	defer func() { h.turn <- struct{}{} }()
	b.mu.Lock()
	if b.held[name] == h {
		delete(b.held, name)
	}
	b.mu.Unlock()
	switch err := h.lease.Release(); {
	case errors.Is(err, holdfast.ErrReleased): // two requests at a time
	case errors.Is(err, holdfast.ErrLost):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, fmt.Sprintf("%v: the lock is free after its TTL", err), http.StatusServiceUnavailable)
	}
}

// breakLock breaks a lock that another process of this server holds.
func (b *Backend) breakLock(w http.ResponseWriter, r *http.Request, name, id string) {
	status, err := b.locks.Look(r.Context(), LockPrefix+name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	for _, h := range status.Holders {
		if known, _, _ := strings.Cut(h.Note, " "); known != id || id == "" || h.Broken != "" {
			continue
		}
		err := b.locks.Break(r.Context(), holdfast.Break{Name: LockPrefix + name, ID: h.ID, Token: h.Token, Reason: "UNLOCK to another process"})
		if err != nil && !errors.Is(err, holdfast.ErrLost) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
		return
	}
	http.Error(w, "there is no such lock: it was released before, or lost", http.StatusConflict)
}
