package recordtest

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

var retentionPromises = []promise{
	{name: "an idle record is there for its retention", run: idleStays, brief: true},
	{name: "a record that is used again stays", run: usedAgainStays, brief: true},
	{name: "no version comes back with a name that was deleted", run: deletedVersions, brief: true},
	{name: "an idle record is swapped as any other", run: idleSwapped},
}

// idle writes an idle record, and returns it and when the request was sent. On a machine that stalls the record may
// be deleted before its version is read, which the clock shows: then it is written again.
func (t *trial) idle(b record.Backend, name string) (r record.Record, sent store.Instant) {
	t.Helper()
	for {
		old := t.load(b, name)
		sent = store.Now()
		out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("idle"), Idle: true})
		if !out.Done {
			t.Fatal("an idle Swap on the newest version is refused")
		}
		if !out.Current {
			out.Now = t.load(b, name)
		}
		if out.Current || has(out.Now, "idle") || !t.isOld(b, sent) {
			return record.Record{Version: out.Now.Version}, sent
		}
	}
}

// isOld reports whether an idle record whose write was sent then may be deleted.
func (t *trial) isOld(b record.Backend, sent store.Instant) bool {
	return store.Now().Sub(sent) >= b.Traits().Retention
}

// use writes a record that has been idle since then. On a machine that stalls it may be deleted right before it is
// written.
func (t *trial) use(b record.Backend, name string, since store.Instant) {
	t.Helper()
	old := t.load(b, name)
	use := record.Swap{Name: name, Old: old, Data: []byte("used")}
	if t.swap(b, use).Done {
		return
	}
	if use.Old = t.load(b, name); len(use.Old.Data) > 0 || !t.isOld(b, since) || !t.swap(b, use).Done {
		t.Fatalf("a Swap on the newest version, %q, is refused", old.Version)
	}
}

// idlePatience is how much longer than its retention an idle record is watched. It may stay forever.
var idlePatience = min(patience, 30*time.Second)

// deleted waits until an idle record is deleted. If that takes longer than idlePatience, there is nothing to test.
func (t *trial) deleted(b record.Backend, name string, retention time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(retention + idlePatience); len(t.load(b, name).Data) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Skip("the server keeps an idle record for longer")
		}
	}
}

func idleStays(t *trial) {
	b, name := t.closing(t.s.Brief(t.T)), fresh()
	retention := b.Traits().Retention
	_, sent := t.idle(b, name)
	for {
		r := t.load(b, name)
		heard := store.Now()
		if len(r.Data) > 0 {
			if heard.Sub(sent) > retention+idlePatience {
				return // it may stay
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if kept := heard.Sub(sent); kept < retention {
			t.Errorf("an idle record was deleted after %v, want at least %v", kept, retention)
		}
		return
	}
}

// The record that was idle first is used again. When the later one is deleted, the first one's time would have ended
// too.
func usedAgainStays(t *trial) {
	b, used, idle := t.closing(t.s.Brief(t.T)), fresh(), fresh()
	_, since := t.idle(b, used)
	t.use(b, used, since)
	t.idle(b, idle)
	t.deleted(b, idle, b.Traits().Retention)
	t.never("a record in use is deleted", func() bool { return !has(t.load(b, used), "used") })
}

func deletedVersions(t *trial) {
	b, name := t.closing(t.s.Brief(t.T)), fresh()
	seen := map[string]bool{}
	for range 5 {
		seen[t.write(b, name, "before").Version] = true
	}
	idle, _ := t.idle(b, name)
	seen[idle.Version] = true
	t.deleted(b, name, b.Traits().Retention)
	if out := t.swap(b, record.Swap{Name: name, Old: idle, Data: []byte("late")}); out.Done {
		t.Error("a Swap is done on a version that was deleted")
	}
	for range 8 {
		r := t.write(b, name, "after")
		if seen[r.Version] {
			t.Fatalf("version %q was created again, after its name was deleted", r.Version)
		}
		for version := range seen {
			if out := t.swap(b, record.Swap{Name: name, Old: record.Record{Version: version}, Data: []byte("late")}); out.Done {
				t.Fatalf("a Swap is done on version %q, from before its name was deleted", version)
			}
		}
	}
}

func idleSwapped(t *trial) {
	a, b, name := t.open(), t.open(), fresh()
	t.write(a, name, "x")
	old, _ := t.idle(a, name)
	if r := t.load(b, name); !has(r, "idle") || r.Version != old.Version {
		t.Errorf("Load: got %s, want %q as version %q", describe(r), "idle", old.Version)
	}
	if out := t.swap(b, record.Swap{Name: name, Data: []byte("y")}); out.Done {
		t.Error("a Swap on no version is done, although there is an idle record")
	}
	if out := t.swap(b, record.Swap{Name: name, Old: old, Data: []byte("y")}); !out.Done {
		t.Error("a Swap on an idle record is refused")
	}
}
