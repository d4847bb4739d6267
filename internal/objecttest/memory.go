package objecttest

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// A Memory is an object server in this process, for testing the tests of this package. It works correctly unless a
// test makes it fail. Its methods are safe for concurrent use.
type Memory struct {
	Untimed bool                           // its answers contain no times
	Ignores func(key, version string) bool // reports whether it writes although the condition is not met
	Spoils  func(*object.Object)           // changes its answers
	Deletes bool                           // it deletes although the condition is not met

	mu      sync.Mutex
	objects map[string]object.Object
	count   int
}

// done returns an answer. m.mu is held.
func (m *Memory) done(o object.Object) object.Object {
	o.Now, o.Written, o.Server = time.Now().Truncate(time.Second), o.Written.Truncate(time.Second), "memory"
	if m.Untimed {
		o.Now, o.Written = time.Time{}, time.Time{}
	}
	if m.Spoils != nil {
		m.Spoils(&o)
	}
	return o
}

// Get implements [object.Lister].
func (m *Memory) Get(ctx context.Context, key string) (object.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done(m.objects[key]), ctx.Err()
}

// Put implements [object.Lister].
func (m *Memory) Put(ctx context.Context, key string, body []byte, version string) (object.Object, object.Fate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return object.Object{}, 0, err
	}
	ignored := m.Ignores != nil && m.Ignores(key, version)
	if m.objects[key].Version != version && !ignored {
		return m.done(object.Object{}), object.Refused, nil
	}
	if m.objects == nil {
		m.objects = map[string]object.Object{}
	}
	m.count++
	o := object.Object{Key: key, Body: bytes.Clone(body), Version: strconv.Itoa(m.count), Written: time.Now()}
	m.objects[key] = o
	return m.done(object.Object{Version: o.Version}), object.Done, nil
}

// Delete implements [object.Lister].
func (m *Memory) Delete(ctx context.Context, key, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if version == "" || m.objects[key].Version == version || m.Deletes {
		delete(m.objects, key)
	}
	return nil
}

// List implements [object.Lister].
func (m *Memory) List(ctx context.Context, prefix, after string, _ int) iter.Seq2[object.Object, error] {
	return func(yield func(object.Object, error) bool) {
		m.mu.Lock()
		var all []object.Object
		for _, key := range slices.Sorted(maps.Keys(m.objects)) {
			if strings.HasPrefix(key, prefix) && key > after {
				all = append(all, m.done(m.objects[key]))
			}
		}
		m.mu.Unlock()
		if err := ctx.Err(); err != nil {
			yield(object.Object{}, err)
			return
		}
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Len returns the number of objects.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.objects)
}

// A described backend is a complete record.Backend.
type described struct{ *object.Backend }

func (described) Check(context.Context) []store.Finding {
	return []store.Finding{{About: "memory", Found: "it is there"}}
}

func (d described) Describe() store.Description {
	return store.Description{
		Store: d.Address, Loses: "all, with the process", Crash: store.CrashTTL, Unsure: "where it tells no time",
		Forgets: []store.Accident{store.AccidentRestart, store.AccidentWipe},
	}
}

// Process returns one more process on the server, or on the server that made returns for it.
func (m *Memory) Process(prefix string, made func(object.Lister) object.Lister) *Process {
	var server object.Lister = m
	if made != nil {
		server = made(m)
	}
	o := object.New(server, "the memory of a test, prefix "+prefix, prefix)
	o.Atomic = func(string) bool { return true }
	return &Process{described{o}, o, server}
}
