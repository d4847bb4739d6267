package holdfast

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// A Locker makes locks on one store. It is safe for concurrent use, and meant
// to be made once a process.
type Locker struct {
	e   *engine
	o   *Options  // as given, over the parent's
	s   *settings // o with the defaults, checked
	err error     // why s is no good
}

// New returns a Locker on the store. It does no I/O. From now on the store
// belongs to the Locker, and [Locker.Close] closes it; the client that the
// store was made from stays the caller's.
//
// If the options are nonsense the error is ErrInvalid, or ErrUnsupported where
// the store cannot do what they ask.
func New(s store.Store, o *Options) (*Locker, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: holdfast.New needs a store, got nil", ErrInvalid)
	}
	if d := s.Describe(); endless(&d) {
		if _, ok := s.(store.LossTeller); !ok {
			return nil, fmt.Errorf("%w: %s has no deadlines, and is no store.LossTeller: how is a loss to be known?", ErrInvalid, d.Store)
		}
	}
	l := (&Locker{e: newEngine(s), o: &Options{}}).With(o)
	if l.err != nil {
		return nil, l.err
	}
	return l, nil
}

// With returns a Locker on the same store with other options. If they are
// nonsense, every call on it gives the error.
func (l *Locker) With(o *Options) *Locker {
	m := &Locker{e: l.e, o: o.over(l.o)}
	m.s, m.err = m.o.settle(&l.e.desc)
	return m
}

// Close gives back every lease of this Locker and of all that With returned,
// ends every wait with ErrClosed, waits until what is under way has ended
// (bounded by five seconds an operation), and closes the store. Later calls
// are ErrClosed; a second Close does nothing.
func (l *Locker) Close() error { return l.e.close() }
