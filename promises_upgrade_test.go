package holdfast

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// upgradeableLease takes an upgradeable read lock that must be free.
func upgradeableLease(t testing.TB, rw *RWMutex) *UpgradeableLease {
	t.Helper()
	l, err := rw.Upgradeable().TryLock(t.Context())
	if err != nil {
		t.Fatal("TryUpgradeableRLock:", err)
	}
	return l
}

func upgradeNow(t testing.TB, l *UpgradeableLease) {
	t.Helper()
	if err := l.TryUpgrade(t.Context()); err != nil {
		t.Fatal("TryUpgrade:", err)
	}
}

func downgrade(t testing.TB, l *UpgradeableLease) {
	t.Helper()
	if err := l.Downgrade(); err != nil {
		t.Fatal("Downgrade:", err)
	}
}

// upgrading is an Upgrade under way.
func upgrading(t testing.TB, l *UpgradeableLease) *waiter {
	return waits(t, func(ctx context.Context) (*Lease, error) { return l.Lease, l.Upgrade(ctx) })
}

// weighs is the weight of the upgradeable hold of the name in the store.
func weighs(mem *memstore.Store, name string) (weight, want int64) {
	for _, e := range stored(mem, name).Entries {
		if e.Granted && e.Weight > 1 {
			return e.Weight, e.Want
		}
	}
	return 0, 0
}

// has checks that the store has the hold as read, or as written.
func (s *link) has(t testing.TB, weight int64) {
	t.Helper()
	w, want := weighs(s.mem, "a")
	if w != weight || want != weight {
		t.Fatalf("the store has weight %d and wanted weight %d, want %d for both", w, want, weight)
	}
}

// turns are the turns of the changes that were sent, each with its weight.
func (s *link) turns() string {
	var all []string
	for _, c := range s.made("change") {
		to := "down"
		if c.weight == store.Full {
			to = "up"
		}
		all = append(all, string(rune('0'+c.turn))+to)
	}
	return strings.Join(all, " ")
}

// debugging is a logger that accepts every level and discards all.
var debugging = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))

// eachUpgradeable runs f in a bubble on each kind of store.
func eachUpgradeable(t *testing.T, f func(*testing.T, *Locker)) {
	t.Run("in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, locker(t, memstore.New(), &Options{Logger: debugging})) })
	})
	for what, wrap := range map[string]func(*link) store.Store{
		"with notifications": func(s *link) store.Store { return withNotifications{s} },
		"polled":             func(s *link) store.Store { return s },
	} {
		t.Run("over a link, "+what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
				f(t, locker(t, wrap(s), nil))
			})
		})
	}
}

func TestUpgrade_B22_OneAmongReadersExcludesAWriterAndASecond(t *testing.T) {
	eachUpgradeable(t, func(t *testing.T, locks *Locker) {
		rw := locks.RWMutex("a")
		before := take(t, t.Context(), rw.Read().Lock)
		u := upgradeableLease(t, rw)
		after := take(t, t.Context(), rw.Read().TryLock)
		_, err := rw.Upgradeable().TryLock(t.Context())
		is(t, err, ErrHeld)
		_, err = rw.Write().TryLock(t.Context())
		is(t, err, ErrHeld)
		second := waits(t, func(ctx context.Context) (*Lease, error) {
			l, err := locks.RWMutex("a").Upgradeable().Lock(ctx)
			if err != nil {
				return nil, err
			}
			return l.Lease, nil
		})
		release(t, before)
		release(t, after)
		time.Sleep(time.Minute)
		second.waiting()
		release(t, u.Lease)
		release(t, second.got())
	})
}

func TestUpgrade_B23_ATryIsRefusedByAReaderAndChangesNothing(t *testing.T) {
	eachUpgradeable(t, func(t *testing.T, locks *Locker) {
		rw := locks.RWMutex("a")
		u := upgradeableLease(t, rw)
		token, deadline := u.Token(), u.Deadline()
		reader := take(t, t.Context(), rw.Read().Lock)
		err := u.TryUpgrade(t.Context())
		is(t, err, ErrHeld)
		same(t, "the blocking holder", heldBy(t, err).ID, reader.ID())
		if !strings.Contains(err.Error(), "upgrade") {
			t.Errorf("%v does not name the upgrade", err)
		}
		if !u.Valid() || u.Token() != token || u.Deadline() != deadline {
			t.Fatal("the refused upgrade changed the lease")
		}
		another := take(t, t.Context(), rw.Read().TryLock) // nothing is pending
		release(t, another)
		release(t, reader)
		upgradeNow(t, u)
		if u.Token() <= reader.Token() {
			t.Fatalf("upgraded with token %d, want one larger than the earlier reader's, %d", u.Token(), reader.Token())
		}
		release(t, u.Lease)
		release(t, take(t, t.Context(), rw.Write().TryLock))
	})
}

func TestUpgrade_B24_WaitsForTheReadersAndOneReleaseFreesAll(t *testing.T) {
	eachUpgradeable(t, func(t *testing.T, locks *Locker) {
		rw := locks.RWMutex("a")
		one, two := take(t, t.Context(), rw.Read().Lock), take(t, t.Context(), rw.Read().Lock)
		u := upgradeableLease(t, rw)
		id := u.ID()
		writer := waits(t, rw.Write().Lock)
		up := upgrading(t, u)
		release(t, one)
		time.Sleep(time.Minute)
		up.waiting()
		_, err := rw.Read().TryLock(t.Context())
		is(t, err, ErrHeld)
		left := time.Now()
		release(t, two)
		up.got()
		if d := up.at.Sub(left); d > time.Second {
			t.Fatalf("upgraded %v after the last reader left, want at most 1s", d)
		}
		same(t, "id", u.ID(), id)
		if u.Token() <= two.Token() || !u.Valid() {
			t.Fatalf("upgrade token %d, an earlier reader had %d; valid: %v", u.Token(), two.Token(), u.Valid())
		}
		reader := waits(t, rw.Read().Lock)
		time.Sleep(time.Minute)
		writer.waiting()
		reader.waiting()
		release(t, u.Lease)
		w := writer.got()
		if w.Token() <= u.Token() {
			t.Fatalf("the next writer's token %d is not larger than the upgrade token %d", w.Token(), u.Token())
		}
		reader.waiting()
		release(t, w)
		release(t, reader.got())
	})
}

func TestUpgrade_B25_TwiceIsAMistakeAndAnEndedLeaseStaysEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		rw := locker(t, s, nil).RWMutex("a")
		u := upgradeableLease(t, rw)
		is(t, u.Downgrade(), ErrInvalid)
		upgradeNow(t, u)
		calls := len(s.made())
		is(t, u.Upgrade(t.Context()), ErrInvalid)
		is(t, u.TryUpgrade(t.Context()), ErrInvalid)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		is(t, u.Upgrade(ended), context.Canceled)
		same(t, "calls", len(s.made()), calls)
		release(t, u.Lease)
		calls = len(s.made())
		is(t, u.Upgrade(t.Context()), ErrReleased)
		is(t, u.TryUpgrade(t.Context()), ErrReleased)
		is(t, u.Downgrade(), ErrReleased)
		is(t, u.Release(), ErrReleased)

		u = upgradeableLease(t, rw)
		suspend(time.Minute) // the timer is late
		is(t, u.Upgrade(t.Context()), ErrLost)
		is(t, u.Downgrade(), ErrLost)
		same(t, "calls", len(s.made()), calls+1)
	})
}

func TestUpgrade_B26_LostStaysSilentDuringItAndReportsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		u := upgradeableLease(t, locker(t, s, nil).RWMutex("a"))
		lost, ctx, deadline := u.Lost(), u.Context(t.Context()), u.Deadline()
		time.Sleep(5 * time.Second)
		upgradeNow(t, u)
		same(t, "deadline", u.Deadline(), deadline) // an upgrade does not move it
		time.Sleep(time.Hour)
		if over(lost) || ctx.Err() != nil {
			t.Fatal("the upgrade ended the lease that was lost during it")
		}
		s.mem.Break("a")
		<-lost
		is(t, context.Cause(ctx), ErrLost)
		is(t, u.Downgrade(), ErrLost)
		is(t, u.Release(), ErrLost)
	})
}

func TestDowngrade_GrantsReadersAndNoWriterBetween(t *testing.T) {
	eachUpgradeable(t, func(t *testing.T, locks *Locker) {
		rw := locks.RWMutex("a")
		u := upgradeableLease(t, rw)
		upgradeNow(t, u)
		token := u.Token()
		reader := waits(t, rw.Read().Lock)
		writer := waits(t, rw.Write().Lock)
		reader.waiting()
		downgrade(t, u)
		r := reader.got()
		writer.waiting()
		same(t, "token", u.Token(), token)
		is(t, u.Downgrade(), ErrInvalid)
		up := upgrading(t, u) // once more, before the writer that waits
		time.Sleep(time.Minute)
		up.waiting()
		release(t, r)
		up.got()
		if u.Token() <= token {
			t.Fatalf("got token %d after the second upgrade, want one larger than %d, the first's", u.Token(), token)
		}
		writer.waiting()
		release(t, u.Lease)
		release(t, writer.got())
	})
}
