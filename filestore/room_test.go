package filestore

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// The check reports a full disk as a failure, and a nearly full one as a warning.
func TestAFullDiskIsFound(t *testing.T) {
	was := roomOnFS
	defer func() { roomOnFS = was }()
	s, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		bytes, files uint64
		err          error
		want         store.Level
	}{
		{1 << 30, 1 << 20, nil, store.LevelOK}, {0, 1 << 20, nil, store.LevelFailure}, {1 << 30, 0, nil, store.LevelFailure},
		{1 << 20, 1 << 20, nil, store.LevelWarning}, {1 << 30, 10, nil, store.LevelWarning}, {0, 0, errors.New("no"), store.LevelWarning},
	} {
		roomOnFS = func(string) (uint64, uint64, error) { return c.bytes, c.files, c.err }
		all := s.Check(t.Context())
		if f := all[len(all)-1]; f.About != "disk" || f.Level() != c.want {
			t.Errorf("%d bytes, %d files, %v: %s %q", c.bytes, c.files, c.err, f.Level(), f.Text())
		}
	}
}
