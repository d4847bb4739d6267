package mssqlstore

import (
	"database/sql/driver"
	"strings"
	"testing"
)

func TestAVersionThatIsTooOldIsWarnedOf(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{"12.0.6024.0": true, "13.0.4001.0": false, "16.0.1000.6": false, "": false, "x": false} {
		if f := checkVersion(facts{version: version, edition: 3}); f.Warning != old {
			t.Errorf("version %q: got %+v", version, f)
		}
	}
	// Azure reports version 12 for itself, whatever it runs.
	for _, edition := range []int{5, 8} {
		if f := checkVersion(facts{version: "12.0.2000.8", edition: edition}); f.Warning {
			t.Errorf("edition %d: got %+v", edition, f)
		}
	}
}

func TestTheServersStateIsJudged(t *testing.T) {
	t.Parallel()
	for update, writes := range map[string]bool{"READ_WRITE": true, "READ_ONLY": false, "": false} {
		if f := (&facts{update: update}).readOnly(); (f == "") != writes {
			t.Errorf("%q: got %q", update, f)
		}
	}
	for delayed, warns := range map[int]bool{0: false, 1: false, 2: true} {
		if setting, run := (&facts{delayed: delayed}).forgets(); (setting != "") != warns || (run != "") != warns {
			t.Errorf("delayed durability %d: got %q, %q", delayed, setting, run)
		}
	}
	for versions := range 2 {
		if f := checkReads(facts{versions: versions}); f.Warning || f.Err != nil || f.Found == "" {
			t.Errorf("versions %d: got %+v", versions, f)
		}
	}
}

func TestTheCheckWarnsOfAPoolThatOthersCanEmpty(t *testing.T) {
	t.Parallel()
	b := answeredBy(t, func(statement string) ([][]driver.Value, error) {
		if strings.Contains(statement, "is_read_committed_snapshot_on") {
			return [][]driver.Value{{int64(5), "16.0.1000.6", int64(3), "dbo", "READ_WRITE", int64(0), int64(1)}}, nil
		}
		return ours, nil
	})
	for most, warns := range map[int]bool{0: false, 5: true} {
		b.db.SetMaxOpenConns(most)
		warned := false
		for _, f := range b.Check(t.Context()) {
			warned = warned || f.About == "pool" && f.Warning
		}
		if warned != warns {
			t.Errorf("a bound of %d: got a warning: %v", most, warned)
		}
	}
}
