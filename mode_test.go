package holdfast

import (
	"testing"

	"github.com/holdfast-go/holdfast/memstore"
)

func TestMode_SaysWhoElseMayHoldTheName(t *testing.T) {
	locks, err := New(memstore.New(), &Options{Reentrant: On})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	rw, ctx := locks.RWMutex("a"), t.Context()
	w, err := rw.Write().Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := rw.Read().Lock(w.Context(ctx))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "a write lease", w.Mode(), ModeWrite)
	same(t, "a read lease under a write lease", inner.Mode(), ModeWrite)
	release(t, inner)
	release(t, w)
	same(t, "a write lease that has ended", w.Mode(), ModeWrite)

	r, err := rw.Read().Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "a read lease", r.Mode(), ModeRead)
	release(t, r)

	u, err := rw.Upgradeable().Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	inner, err = rw.Read().Lock(u.Context(ctx))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "an upgradeable lease", u.Mode(), ModeRead)
	if err := u.Upgrade(ctx); err != nil {
		t.Fatal(err)
	}
	same(t, "an upgraded lease", u.Mode(), ModeWrite)
	same(t, "a read lease under an upgraded lease", inner.Mode(), ModeWrite)
	if err := u.Downgrade(); err != nil {
		t.Fatal(err)
	}
	same(t, "a downgraded lease", u.Mode(), ModeRead)
	same(t, "a read lease under a downgraded lease", inner.Mode(), ModeRead)

	s, err := locks.Semaphore("slots", 1).Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "all slots", s.Mode(), ModeSlots)
	for m, text := range map[Mode]string{ModeWrite: "write", ModeRead: "read", ModeSlots: "slots", 9: "mode 9"} {
		same(t, "text of a mode", m.String(), text)
	}
}
