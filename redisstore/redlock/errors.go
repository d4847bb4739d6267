package redlock

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// A NodeError is the failure of one node. If too few nodes did an operation, its error
// contains a NodeError for each node that failed: errors.As finds the first, and errors.Is
// matches any of them.
type NodeError struct {
	Node string // its address
	Err  error  // what went wrong
}

// Error returns the address of the node and the failure.
func (e *NodeError) Error() string { return e.Node + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// A tooFew means that too few nodes did an operation. It has the errors of the others.
type tooFew struct {
	kind              error  // the sentinel
	what              string // the operation, and on what
	done, all, needed int    // how many nodes agreed, of how many, and how many must
	grantsIn          int    // seconds until enough nodes may grant again; 0: not known
	nodes             []error
}

func (e *tooFew) Error() string {
	parts := make([]string, len(e.nodes))
	for i, err := range e.nodes {
		parts[i] = err.Error()
	}
	if len(parts) == 0 {
		parts = []string{"the others have not answered in time"}
	}
	return fmt.Sprintf("%v: %s: %s: %s", e.kind, e.what, e.count(), strings.Join(parts, "; "))
}

func (e *tooFew) count() string {
	text := fmt.Sprintf("%d of %d nodes agreed, %d are needed", e.done, e.all, e.needed)
	if e.grantsIn > 0 {
		text += fmt.Sprintf("; enough nodes may grant again in %d s", e.grantsIn)
	}
	return text
}

func (e *tooFew) Unwrap() []error { return append([]error{e.kind}, e.nodes...) }

// ByNode is for the command, which looks for this method and prints the error in one line.
// It returns how many nodes did the operation, and each other node's address and error. A
// node that only has to wait is left out if the count says how long.
func (e *tooFew) ByNode() (count string, failed iter.Seq2[string, error]) {
	return e.count(), func(yield func(string, error) bool) {
		for _, err := range e.nodes {
			var of *NodeError
			var young *quarantined
			if !errors.As(err, &of) || e.grantsIn > 0 && errors.As(err, &young) {
				continue
			}
			if !yield(of.Node, of.Err) {
				return
			}
		}
	}
}

// tooFew makes the error of an operation that only done of the needed nodes did. If all
// reported errors are of the same definite kind, the error has that kind.
func (s *Store) tooFew(what, name string, done, needed int, nodes []error) *tooFew {
	e := &tooFew{kind: store.ErrUnavailable, what: fmt.Sprintf("%s %q", what, name), done: done, all: len(s.nodes), needed: needed}
	if done == 0 && len(nodes) > len(s.nodes)-needed {
		for _, kind := range []error{store.ErrDenied, store.ErrCorrupt, store.ErrUnsupported, store.ErrInvalid} {
			all := true
			for _, err := range nodes {
				all = all && errors.Is(err, kind)
			}
			if all {
				e.kind = kind
			}
		}
	}
	nodes = append(nodes, s.awayBeside(nodes, len(s.nodes)-done-len(nodes))...)
	for _, err := range nodes { // a definite cause must not make an indeterminate error definite
		if e.kind == store.ErrUnavailable && store.Definite(err) {
			var of *NodeError
			if errors.As(err, &of) {
				err = &NodeError{of.Node, errors.New(of.Err.Error())}
			}
		}
		e.nodes = append(e.nodes, err)
	}
	return e
}

// awayBeside returns the errors of at most n nodes that are known to be down and are not in
// errs. A caller with enough errors has not waited for these nodes.
func (s *Store) awayBeside(errs []error, n int) (more []error) {
	for _, x := range s.nodes {
		x.mu.Lock()
		away := x.err
		x.mu.Unlock()
		named := slices.ContainsFunc(errs, func(err error) bool {
			var of *NodeError
			return errors.As(err, &of) && of.Node == x.address
		})
		if away != nil && !named && len(more) < n { //mutant:redlock-all-away-named
			more = append(more, away)
		}
	}
	return more
}

// indeterminate is the error of an operation that fewer than needed nodes did.
func (s *Store) indeterminate(what, name string, done, needed int, errs []error) error {
	err := s.tooFew(what, name, done, needed, errs)
	if seconds, soon := s.waitsFor(needed); soon && err.kind == store.ErrUnavailable {
		err.grantsIn = seconds
	}
	return err
}

// failed turns an error of the client or the server into a NodeError.
func (n *node) failed(err error) error {
	var server redis.Error
	var own *NodeError
	switch {
	case errors.As(err, &own):
		return err
	case store.Definite(err):
		return &NodeError{n.address, err}
	case !errors.As(err, &server):
		return &NodeError{n.address, err}
	}
	text := err.Error()
	err = redisinfo.WithoutScript(err)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("NOPERM", "NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH ", "No permissions", "The user executing the script", "ACL failure in script"): //mutant:redlock-denied
		err = fmt.Errorf("%w: %w", store.ErrDenied, err)
	case has("WRONGTYPE"):
		err = fmt.Errorf("%w: the key holds another type of value: it was not written by holdfast and was not changed", store.ErrCorrupt)
	case has("CROSSSLOT", "unknown command", "Unknown Redis command", "syntax error"):
		err = fmt.Errorf("%w: the server cannot run the script (Redis %d.%d or newer is needed): %w", store.ErrUnsupported, needMajor, needMinor, err)
	}
	if full(err) {
		err = fmt.Errorf("%w (the node's memory is full, so nothing new can be locked there until some is free again or its maxmemory is raised; what is held can be renewed and released, by a user who may use PEXPIRE)", err)
	}
	return &NodeError{n.address, err}
}

func (n *node) corrupt(key string) error {
	return n.failed(fmt.Errorf("%w: key %q holds a value that was not written by holdfast, or is damaged: it was not changed; delete it if nothing else uses it", store.ErrCorrupt, key))
}

func (n *node) newer(key string, version byte) error {
	return n.failed(store.NewerFormError(fmt.Sprintf("key %q on %s", key, n.address), int(version)-'0', int(1)))
}

func (n *node) strange(answer string) error {
	return n.failed(fmt.Errorf("answered with %.40q, which is no answer of this program", answer))
}

// bounds are the limits of the stored format and of MaxTTL.
func (s *Store) bounds() *store.Bounds {
	return &store.Bounds{Min: s.minTTL, Max: s.maxTTL,
		On: "these nodes; the most is MaxTTL (?max-ttl= in a URL), which all their clients share and for which a node that may have forgotten grants nothing"}
}
