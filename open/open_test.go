package open_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/open"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/scheme"
)

// A program that imports no store has no driver, and can still open these two.
func TestFilesAndMemoryNeedNoImport(t *testing.T) {
	if all := scheme.All(); !slices.Equal(all, []string{"file", "mem"}) {
		t.Errorf("the schemes are %q: package open must import no driver", all)
	}
	s, err := open.URL("file:" + t.TempDir())
	if _, ok := s.(*filestore.Store); !ok || err != nil {
		t.Fatalf("%T, %v", s, err)
	}
	s.Close()
	s, err = open.URL("mem:")
	if _, ok := s.(*memstore.Store); !ok || err != nil {
		t.Fatalf("%T, %v", s, err)
	}
	s.Close()
}

func TestAStoreThatIsNotImportedIsInvalidAndSaysWhatToDo(t *testing.T) {
	s, err := open.URL("redis://u:secret@host")
	if s != nil || !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("got %v, %v, want ErrInvalid", s, err)
	}
	for _, part := range []string{`"redis:"`, "there are: file, mem", "imported", "open/all"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q repeats the URL", err)
	}
}
