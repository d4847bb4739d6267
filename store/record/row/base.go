package row

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// The range of TTLs, minimum holds and lock delays.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = 365 * 24 * time.Hour
)

// A Base is the common part of backends that keep a row per name in one table and a row per session in another,
// and whose server has a clock but no notifications. NewBase makes one.
type Base struct {
	Address   string        // for people
	Retention time.Duration // of idle records
	Checked   *Once         // the tables exist and are holdfast's
	Sweeps    Sweeps        // when unneeded rows are deleted
	Own       io.Closer     // the connections of Open, which Close closes; nil: they are the caller's

	server atomic.Int64 // the one that answered last

	ctx   context.Context // for sweeps, canceled by Close
	end   context.CancelFunc
	tasks sync.WaitGroup
}

// NewBase returns a Base whose tables have not been checked yet.
func NewBase(address string) *Base {
	b := &Base{Address: address, Retention: store.TokenRetention, Checked: NewOnce()}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// Description returns what Describe of a backend returns. loses says how the server loses grants that were answered,
// and for how long two processes may then hold a name.
func (b *Base) Description(loses string) store.Description {
	return store.Description{
		Store:   b.Address,
		Tokens:  "when the name's row is lost and the clock of the server that answers is behind the newest token",
		Loses:   loses,
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentFailOver, store.AccidentClockStep},
		Crash:   store.CrashTTL,
	}
}

// Traits implements [record.Backend]. A join is void by mark, as it depends on no row but that of its name.
func (b *Base) Traits() record.Traits {
	return record.Traits{Void: record.VoidByMark, Clock: true, MaxRecord: MaxRecord, Retention: b.Retention}
}

// SessionTraits implements [session.Backend].
func (b *Base) SessionTraits() session.Traits {
	return session.Traits{Life: session.ByServerClock, MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Microsecond}
}

// Listen implements [record.Backend]. Decisions 21 and 50 say why there are no notifications.
func (b *Base) Listen(context.Context, store.Process, func(record.Notification)) error {
	return store.ErrUnsupported
}

// Await implements [session.Backend].
func (b *Base) Await(context.Context, session.ID) error { return store.ErrUnsupported }

// Met records which server answered a Begin or a Renew. The number is not 0, and two servers are unlikely to share
// it.
func (b *Base) Met(server int64) { b.server.Store(server) }

// Server implements [session.Replaceable].
func (b *Base) Server() int64 { return b.server.Load() }

// Prepare makes sure, once, that the tables exist and are holdfast's. check reads them and reports whether all
// exist; create makes the missing ones.
func (b *Base) Prepare(ctx context.Context, check func() (bool, error), create func() error) error {
	return b.Checked.Do(ctx, func() error {
		there, err := check()
		if err != nil || there {
			return err
		}
		if err = create(); err != nil {
			return fmt.Errorf("a table is not there, or this user may not see it, and it cannot be created; ask an administrator to run what Schema returns: %w", err)
		}
		there, err = check()
		if err == nil && !there { //mutant:row-made-is-checked
			err = fmt.Errorf("%w: a table is there that this user may not see", store.ErrDenied)
		}
		return err
	})
}

// NotOurs is the error for a foreign table.
func (b *Base) NotOurs(table, why string, args ...any) error {
	return fmt.Errorf("%w: the table %s of %s: %s: it was not made by this version of holdfast and was not changed; use another (Options.Table), or drop it if nothing else uses it",
		store.ErrCorrupt, table, b.Address, fmt.Sprintf(why, args...))
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckName checks a name of at most most bytes that becomes a part of statements.
func CheckName(what, name string, most int) error {
	if !identifier.MatchString(name) || len(name) > most { //mutant:row-name-is-plain
		return fmt.Errorf("%w: %.130q as %s: want 1 to %d letters, digits and underscores, not first a digit", store.ErrInvalid, name, what, most)
	}
	return nil
}

// sweepLimit is how long one sweep may take.
const sweepLimit = 10 * time.Second

// SweepInTime begins a sweep in the background if one is due.
func (b *Base) SweepInTime(sweep func(context.Context) error) {
	if !b.Sweeps.Due() {
		return
	}
	b.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, sweepLimit)
		defer cancel()
		_ = sweep(ctx) // a later sweep tries again, here or in another process
	})
}

// Close implements [record.Backend]. It ends a sweep that is under way.
func (b *Base) Close() error {
	b.end()
	b.tasks.Wait() //mutant:row-close-waits
	if b.Own == nil {
		return nil
	}
	return b.Own.Close()
}
