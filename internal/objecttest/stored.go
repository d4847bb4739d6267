package objecttest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// keys returns the keys below the prefix, listed with page keys a page.
func (p *process) keys(t testing.TB, page int) (all []string) {
	t.Helper()
	for l, err := range p.Server.List(t.Context(), p.Objects.Prefix, "", page) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimPrefix(l.Key, p.Objects.Prefix))
	}
	return all
}

// NothingIsLeft tests that sessions and notes are deleted after use. Only the object of the
// name stays.
func NothingIsLeft(t *testing.T, s Subject) {
	t.Helper()
	place := s.Place(t)
	a, b := s.start(t, place), s.start(t, place)
	const name = "a/b ü"
	h := storetest.MustHold(t, a, storetest.Mutex(store.NewProcess(), name))
	w := storetest.Mutex(store.NewProcess(), name)
	storetest.MustAsk(t, b, w)
	if err := a.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	until(t, "the waiter is granted", func() bool { return storetest.MustAsk(t, b, w).Granted })
	if err := b.Release(t.Context(), store.Hold{Name: w.Name, ID: w.ID}); err != nil {
		t.Fatal(err)
	}
	a.Objects.Finish() // notes are deleted in the background
	b.Objects.Finish()
	a.Close()
	b.Close()
	all := s.open(t, place).keys(t, 1)
	all = slices.DeleteFunc(all, func(key string) bool { return key == "w/sweep" || strings.HasSuffix(key, "/keep") }) // the mark of a sweep, and the files that keep directories
	if len(all) != 1 || all[0] != "n/a%2Fb%20%C3%BC.lock" {
		t.Errorf("got keys %q", all)
	}
}

// ForeignIsLeftAlone tests that objects which holdfast did not write, or which a newer version wrote, are not
// changed.
func ForeignIsLeftAlone(t *testing.T, s Subject) {
	t.Helper()
	p, me := s.open(t, s.Place(t)), store.NewProcess()
	storetest.MustHold(t, p, storetest.Mutex(me, "warm"))
	for name, c := range map[string]struct {
		value string
		want  error
	}{
		"a": {"nonsense", store.ErrCorrupt},
		"b": {`{"v":99,"name":"Yg=="}` + "\nx", store.ErrUnsupported},
		"c": {`{"v":1,"name":"Yg=="}` + "\nx", store.ErrCorrupt}, // with another object's name
		"d": {`{"v":1,"name":"ZA=="}` + "\n\x7fnewer", store.ErrUnsupported},
		"e": {`{"v":1,"name":"ZQ=="}`, store.ErrCorrupt},
	} {
		key := p.Objects.Prefix + "n/" + name + ".lock"
		if _, what, err := p.Server.Put(t.Context(), key, []byte(c.value), ""); what != object.Done {
			t.Fatal(err)
		}
		if _, err := p.Ask(t.Context(), storetest.Mutex(me, name)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: ask: got %v, want %v with the name", name, err, c.want)
		}
		if o, err := p.Server.Get(t.Context(), key); err != nil || string(o.Body) != c.value {
			t.Errorf("%s was changed: %s, %v", name, o.Body, err)
		}
	}
	fine, wrong := 0, 0
	for st, err := range p.List(t.Context(), "") {
		switch {
		case err == nil && st.Name == "warm":
			fine++
		case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrUnsupported):
			wrong++
		}
	}
	if fine != 1 || wrong < 4 { // "c" contains the name of another object
		t.Errorf("got %d names in the list, and %d reported as foreign", fine, wrong)
	}
}

// ARefusedTryWritesNothing tests that a refused try writes nothing.
func ARefusedTryWritesNothing(t *testing.T, s Subject) {
	t.Helper()
	p, me := s.open(t, s.Place(t)), store.NewProcess()
	storetest.MustHold(t, p, storetest.Mutex(me, "a"))
	p.Objects.Finish()
	versions := func() string {
		all := ""
		for l, err := range p.Server.List(t.Context(), p.Objects.Prefix+"n/", "", 1000) {
			if err != nil {
				t.Fatal(err)
			}
			all += l.Key + l.Version
		}
		return all
	}
	before := versions()
	try := storetest.Mutex(me, "a")
	try.Try = true
	for range 3 {
		if storetest.MustAsk(t, p, try).Granted {
			t.Fatal("two processes hold the name")
		}
	}
	if after := versions(); after != before {
		t.Errorf("got %s, before %s", after, before)
	}
}

// Server tests the promises of an object.Server: that writes and deletes depend on the version, and what a listing
// contains.
func Server(t *testing.T, s Subject) {
	t.Helper()
	p := s.open(t, s.Place(t))
	put := func(key, body, version string, want object.Fate) object.Object {
		t.Helper()
		o, what, err := p.Server.Put(t.Context(), p.Objects.Prefix+key, []byte(body), version)
		if err != nil || what != want {
			t.Fatalf("a write of %s on %q: got %v, %v, want %v", key, version, what, err, want)
		}
		return o
	}
	get := func(key, want string) {
		t.Helper()
		o, err := p.Server.Get(t.Context(), p.Objects.Prefix+key)
		if err != nil || string(o.Body) != want || (o.Version == "") != (want == "") {
			t.Fatalf("%s: got %q of version %q, %v, want %q", key, o.Body, o.Version, err, want)
		}
	}
	key := "n/a.lock"
	get(key, "")
	first := put(key, "first", "", object.Done)
	put(key, "late", "", object.Refused)
	second := put(key, "second", first.Version, object.Done)
	put(key, "late", first.Version, object.Refused)
	put("n/none.lock", "late", second.Version, object.Refused)
	get(key, "second")
	for _, version := range []string{first.Version, second.Version, second.Version} {
		if err := p.Server.Delete(t.Context(), p.Objects.Prefix+key, version); err != nil {
			t.Fatal(err)
		}
		if version == first.Version {
			get(key, "second") // a newer version is not deleted
		} else {
			get(key, "")
		}
	}
	for _, key := range []string{"x/1", "x/2", "x/3", "y/1"} {
		put(key, key, "", object.Done)
	}
	for after, want := range map[string]string{"": "x/1 x/2 x/3", "x/1": "x/2 x/3", "x/25": "x/3", "x/3": ""} {
		var all []string
		from := after
		if from != "" {
			from = p.Objects.Prefix + from
		}
		for l, err := range p.Server.List(t.Context(), p.Objects.Prefix+"x/", from, 1) {
			if err != nil || l.Version == "" {
				t.Fatalf("%+v, %v", l, err)
			}
			all = append(all, strings.TrimPrefix(l.Key, p.Objects.Prefix))
		}
		if got := strings.Join(all, " "); got != want {
			t.Errorf("listed after %q: got %s, want %s", after, got, want)
		}
	}
}
