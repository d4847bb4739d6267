package row

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// CheckClock returns the finding on the difference between the server's clock and this host's. The server returned
// now, in microseconds since 1970, half a round trip after a request was sent at sent; its answer has just arrived.
func CheckClock(now int64, sent time.Time) store.Finding {
	half := time.Since(sent) / 2
	return store.ClockFinding(time.UnixMicro(now).Sub(sent.Add(half)), half)
}

// CheckRole returns the finding on whether the server takes writes. If it does not, readOnly is what it calls
// itself.
func (b *Base) CheckRole(readOnly string) store.Finding {
	if readOnly != "" {
		return store.Finding{About: "role", Found: readOnly, Err: fmt.Errorf("%w: %s takes no writes, as a replica does not: name the primary", store.ErrUnavailable, b.Address)}
	}
	return store.Finding{About: "role", Found: "takes writes"}
}

// CheckDisk returns the finding on whether the server waits for its disk. If it does not, setting says why, and run
// changes that.
func (b *Base) CheckDisk(setting, run string) store.Finding {
	if setting != "" {
		return store.Finding{About: "disk", Warning: true, Run: run,
			Found: fmt.Sprintf("%s: when %s or its machine fails it may forget who holds what, and two may hold a name", setting, b.Address)}
	}
	return store.Finding{About: "disk", Found: "grants wait for the disk"}
}

// CheckPool warns of a caller's pool with a bound (most connections; 0: no bound): other parts of the program
// can use up such a pool. It returns nothing for a pool of the store's own.
func (b *Base) CheckPool(most int) []store.Finding {
	if b.Own != nil || most == 0 { //mutant:row-pool-warned
		return nil
	}
	return []store.Finding{{About: "pool", Warning: true, Found: fmt.Sprintf("this pool has at most %d connections (SetMaxOpenConns): when others keep all of them in use for longer than a TTL, "+
		"every lease of this process is lost; give the locks a pool of their own", most)}}
}

// CheckTable returns the finding on tables that exist (there), or that this user may create. keeps says that the
// user may not delete from them, and grants changes that.
func CheckTable(table string, there, keeps bool, grants string) store.Finding {
	switch {
	case !there:
		return store.Finding{About: "table", Found: table + " does not exist yet; the first use creates it, which this user may do"}
	case keeps:
		return store.Finding{About: "table", Found: table + ": this user may not DELETE from it and from its sessions, so unused rows are never deleted", Run: grants}
	}
	return store.Finding{About: "table", Found: table + ": exists, and this user has the rights that locks need"}
}

// Known returns the error so that it matches one of package store: one that is not definite
// matches store.ErrUnavailable. Nil stays nil.
func Known(err error) error {
	if err != nil && !store.Definite(err) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}
