package objecttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// after ignores the condition of a write of one kind, after the first n.
func after(n int, first bool) func(key, version string) bool {
	seen := 0
	return func(_, version string) bool {
		if (version == "") != first {
			return false
		}
		seen++
		return seen > n
	}
}

// until4 ignores the condition of only the first four, which come at once.
func until4(first bool) func(key, version string) bool {
	late := after(4, first)
	return func(key, version string) bool { return (version == "") == first && !late(key, version) }
}

// A server that would grant a lock twice, or that would delete or keep what it must not, is refused before anything is
// granted.
func TestAServerThatIsUnfitIsRefused(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		m   *Memory
		why string
	}{
		"several concurrent writes create an object": {&Memory{Ignores: until4(true)}, "at once"},
		"several concurrent writes change an object": {&Memory{Ignores: until4(false)}, "at once"},
		"a late write creates an object":             {&Memory{Ignores: after(4, true)}, "must fail"},
		"a late write changes an object":             {&Memory{Ignores: after(4, false)}, "must fail"},
		"a change creates a missing object":          {&Memory{Ignores: func(key, version string) bool { return version != "" && strings.HasSuffix(key, "-none") }}, "was not there"},
		"a late delete deletes an object":            {&Memory{Deletes: true}, "must fail"},
		"the server has two clocks": {&Memory{Spoils: func(o *object.Object) {
			if !o.Written.IsZero() {
				o.Written = o.Written.Add(-time.Hour)
			}
		}}, "two clocks"},
		"one clock is just too far ahead": {&Memory{Spoils: func(o *object.Object) {
			if !o.Written.IsZero() {
				o.Written = o.Written.Add(-3 * time.Second)
			}
		}}, "two clocks"},
		"the server deletes or keeps objects": {&Memory{Spoils: func(o *object.Object) { o.Unfit = "it has a rule for that" }}, "it has a rule for that"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := c.m.Process("x/", nil)
			defer p.Backend.Close()
			_, err := p.Backend.Swap(t.Context(), &record.Swap{Name: "a", Data: []byte("x")})
			if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), p.Objects.Address) {
				t.Fatalf("got %v, want ErrUnsupported that names the store and %q", err, c.why)
			}
			p.Objects.Finish()
			if n := c.m.Len(); n > 0 {
				t.Errorf("%d objects are left", n)
			}
		})
	}
}

// A cache answers reads with what it has read before.
type cache struct {
	object.Lister
	read map[string]object.Object
}

func (c cache) Get(ctx context.Context, key string) (object.Object, error) {
	if o, is := c.read[key]; is {
		return o, nil
	}
	o, err := c.Lister.Get(ctx, key)
	if err == nil && o.Version != "" {
		c.read[key] = o
	}
	return o, err
}

func TestAServerBehindACacheIsRefused(t *testing.T) {
	t.Parallel()
	p := (&Memory{}).Process("x/", func(next object.Lister) object.Lister { return cache{next, map[string]object.Object{}} })
	defer p.Backend.Close()
	if err := p.Objects.Prepare(t.Context()); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "cache") {
		t.Errorf("got %v, want ErrUnsupported that names the cache", err)
	}
}

func TestATrialLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		m := &Memory{Untimed: silent}
		p := m.Process("x/", nil)
		defer p.Backend.Close()
		for range 2 {
			if err := p.Objects.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		p.Objects.Finish()
		if n := m.Len(); n != 0 || m.count != 2 || p.Objects.Timed() == silent {
			t.Errorf("got %d objects after %d writes, want none after 2; the server reports times: %v", n, m.count, p.Objects.Timed())
		}
	}
}
