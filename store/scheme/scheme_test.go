package scheme_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

func TestARegisteredSchemeIsOpened(t *testing.T) {
	var opened []string
	scheme.Register(func(rawURL string) (*memstore.Store, error) {
		opened = append(opened, rawURL)
		return memstore.New(), nil
	}, "test-a", "test-b")
	for _, name := range []string{"test-a", "TEST-b"} {
		s, err := scheme.Opener(name)(name + ":x")
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if want := []string{"test-a:x", "TEST-b:x"}; !slices.Equal(opened, want) {
		t.Errorf("opened %q, want %q", opened, want)
	}
	if all := scheme.All(); !slices.Contains(all, "test-a") || !slices.IsSorted(all) {
		t.Errorf("the schemes are %q", all)
	}
	if scheme.Opener("test-none") != nil {
		t.Error("an unknown scheme has an opener")
	}
}

// A store that could not be opened must be no store: a nil pointer in an interface
// would be one.
func TestAnErrorComesWithoutAStore(t *testing.T) {
	refused := errors.New("refused")
	scheme.Register(func(string) (*memstore.Store, error) { return nil, refused }, "test-refused")
	if s, err := scheme.Opener("test-refused")(""); s != nil || err != refused {
		t.Errorf("got %v, %v, want no store and the error", s, err)
	}
}

func TestASchemeIsRegisteredOnceAndInLowerCase(t *testing.T) {
	open := func(string) (store.Store, error) { return memstore.New(), nil }
	scheme.Register(open, "test-once")
	for _, name := range []string{"test-once", "", "Test", "test:"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was registered, want a panic", name)
				}
			}()
			scheme.Register(open, name)
		}()
	}
}

// A store that is linked opens its URLs, whoever says first that it is not there.
func TestAStoreThatIsLinkedIsNotAbsent(t *testing.T) {
	why := errors.New("it was left out")
	open := func(string) (*memstore.Store, error) { return memstore.New(), nil }
	missing := func(string) error { return why }
	scheme.Absent(missing, "absent-first", "absent-alone")
	scheme.Register(open, "absent-first", "absent-last")
	scheme.Absent(missing, "absent-last")
	for name, want := range map[string]error{"absent-first": nil, "absent-last": nil, "absent-alone": why} {
		s, err := scheme.Opener(name)(name + ":")
		if err != want {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		if s != nil {
			s.Close()
		}
	}
}
