package object

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A memory is a Server whose clock the test sets, and that can be told what becomes of a request.
type memory struct {
	mu      sync.Mutex
	now     time.Time     // cut to the second in what it tells
	cached  time.Duration // how old the time is that it tells, before it is cut; below 0: another machine answers, which is ahead
	silent  string        // what it does not tell: Date, Last-Modified
	unread  string        // the key that it cannot read
	objects map[string]Object
	count   int
	asked   []string                                   // "GET key" and so on
	before  func(what, key string, body []byte) answer // nil: it is done
}

// An answer is what becomes of a request.
type answer int

const (
	_       answer = iota
	lost           // it is done, and not answered
	beside         // it is not done, as another was under way
	phantom        // it is answered as done, and is not
	twice          // it is sent twice, done once, and has the second answer
)

var errLost = errors.New("no answer")

func newMemory() *memory {
	return &memory{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), objects: map[string]Object{}}
}

// backendOn is one more process.
func backendOn(t testing.TB, m *memory) *Backend {
	t.Helper()
	b := New(m, "memory", "locks/")
	if err := b.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Finish()
	t.Cleanup(func() { b.Close() })
	return b
}

func (m *memory) passes(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// tells sets how old the time is that it tells.
func (m *memory) tells(cached time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cached = cached
}

// meets has f say what becomes of requests.
func (m *memory) meets(f func(what, key string, body []byte) answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = f
}

// request counts one, and says what becomes of it. It is called without the lock, so that another may be done before it.
func (m *memory) request(what, key string, body []byte) answer {
	m.mu.Lock()
	m.asked = append(m.asked, what+" "+key)
	f := m.before
	m.mu.Unlock()
	if f == nil {
		return 0
	}
	return f(what, key, body)
}

func (m *memory) reported(o Object) Object {
	o.Now, o.Written = m.now.Add(-m.cached).Truncate(time.Second), o.Written.Truncate(time.Second)
	if strings.Contains(m.silent, "Date") {
		o.Now = time.Time{}
	}
	if strings.Contains(m.silent, "Last-Modified") {
		o.Written = time.Time{}
	}
	return o
}

func (m *memory) Get(ctx context.Context, key string) (Object, error) {
	m.request("GET", key, nil)
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if key == m.unread {
		return Object{}, errLost
	}
	return m.reported(m.objects[key]), nil
}

func (m *memory) Put(ctx context.Context, key string, body []byte, version string) (Object, Fate, error) {
	a := m.request("PUT", key, body)
	if err := ctx.Err(); err != nil {
		return Object{}, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case a == beside:
		return m.reported(Object{}), Conflict, nil
	case m.objects[key].Version != version:
		return m.reported(Object{}), Refused, nil
	}
	m.count++
	if a == phantom {
		return m.reported(Object{Version: strconv.Itoa(m.count)}), Done, nil
	}
	m.objects[key] = Object{Key: key, Body: slices.Clone(body), Version: strconv.Itoa(m.count), Written: m.now}
	switch a {
	case lost:
		return Object{}, 0, errLost
	case twice:
		return m.reported(Object{}), Refused, nil
	}
	return m.reported(Object{Version: strconv.Itoa(m.count)}), Done, nil
}

func (m *memory) Delete(_ context.Context, key, version string) error {
	m.request("DELETE", key, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if version == "" || m.objects[key].Version == version {
		delete(m.objects, key)
	}
	return nil
}

func (m *memory) List(_ context.Context, prefix, after string, _ int) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		m.request("LIST", prefix, nil)
		m.mu.Lock()
		var all []Object
		for _, key := range slices.Sorted(maps.Keys(m.objects)) {
			if strings.HasPrefix(key, prefix) && key > after {
				all = append(all, m.reported(m.objects[key]))
			}
		}
		m.mu.Unlock()
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// keepers are what is always there.
var keepers = []string{"c/keep", "j/keep", "n/keep", "s/keep", "t/keep"}

// keys are those that are there below the prefix, but the keepers.
func (m *memory) keys() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if key = strings.TrimPrefix(key, "locks/"); !slices.Contains(keepers, key) {
			all = append(all, key)
		}
	}
	return all
}

// kept are the keepers that are there.
func (m *memory) kept() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(keepers), func(key string) bool { return m.objects["locks/"+key].Version == "" })
}
