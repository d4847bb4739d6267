package mssqlstore

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

func TestAVersionThatIsTooOldIsWarnedOf(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{"12.0.6024.0": true, "13.0.4001.0": false, "16.0.1000.6": false, "": false, "x": false} {
		if f := checkVersion(facts{version: version, edition: 3}); f.Warning != old {
			t.Errorf("%q: %+v", version, f)
		}
	}
	// Azure says 12 of itself whatever it is.
	for _, edition := range []int{5, 8} {
		if f := checkVersion(facts{version: "12.0.2000.8", edition: edition}); f.Warning {
			t.Errorf("edition %d: %+v", edition, f)
		}
	}
}

func TestWhatALookAtTheServerTellsIsJudged(t *testing.T) {
	t.Parallel()
	b := unsent(t)
	if f := b.checkRole(facts{update: "READ_ONLY"}); !errors.Is(f.Err, store.ErrUnavailable) {
		t.Errorf("a replica: %+v", f)
	}
	if f := b.checkRole(facts{update: "READ_WRITE"}); f.Err != nil {
		t.Errorf("a primary: %+v", f)
	}
	for delayed, warns := range map[int]bool{0: false, 1: false, 2: true} {
		if f := b.checkDisk(facts{delayed: delayed}); f.Warning != warns || warns != (f.Run != "") {
			t.Errorf("delayed durability %d: %+v", delayed, f)
		}
	}
	for versions := range 2 {
		if f := checkReads(facts{versions: versions}); f.Warning || f.Err != nil || f.Found == "" {
			t.Errorf("versions %d: %+v", versions, f)
		}
	}
}
