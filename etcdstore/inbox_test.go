package etcdstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// lossyBackend is a backend with a session that is not renewed. Its transactions can be lost, and can arrive again.
func lossyBackend(t *testing.T, addr, prefix string) (*backend, *replaying, session.ID) {
	t.Helper()
	client := clientOf(t, addr)
	kv := &replaying{KV: client.KV}
	client.KV = kv
	b := newBackend(client, prefix, store.TokenRetention)
	t.Cleanup(func() { b.Close() })
	id := session.NewID()
	if _, err := b.Begin(t.Context(), id, time.Hour); err != nil {
		t.Fatal(err)
	}
	return b, kv, id
}

func (b *backend) mustSwap(t *testing.T, s *record.Swap) record.Outcome {
	t.Helper()
	out, err := b.Swap(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// notesWith is a swap that is refused, as the name is already written, and that joins.
func notesWith(id session.ID, keys ...string) *record.Swap {
	j := &record.Join{Session: id}
	for _, k := range keys {
		j.Notes = append(j.Notes, record.Note{Key: k, Data: []byte("of " + k)})
	}
	return &record.Swap{Name: "a", Data: []byte("x"), Join: j}
}

// etcd keeps every key that ever existed until it is compacted, and a read of an inbox goes through all of them.
func TestANameThatIsJoinedOverAndOverHasFewKeys(t *testing.T) {
	t.Parallel()
	b, _, id := lossyBackend(t, testserver.SharedEtcd(t), apart().Prefix)
	rec := b.mustSwap(t, &record.Swap{Name: "a", Data: []byte("x")}).Now
	before, err := b.client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	const joins = 20
	for i := range joins {
		out := b.mustSwap(t, notesWith(id, fmt.Sprint("n", i, "a"), fmt.Sprint("n", i, "b")))
		if !out.Joined || len(out.Now.Inbox) != 2 {
			t.Fatalf("join %d: got %+v", i, out)
		}
		if out = b.mustSwap(t, &record.Swap{Name: "a", Old: out.Now, Data: []byte("y")}); !out.Done {
			t.Fatal("a swap on the current version was refused")
		}
		rec = out.Now
	}
	if len(rec.Inbox) != 0 || len(b.slots) != 0 {
		t.Errorf("got notes %v and slots %v left", rec.Inbox, b.slots)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	keys, puts := map[string]bool{}, 0
	for r := range b.client.Watch(ctx, b.inboxKey("a"), clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithRev(before.Header.Revision)) {
		for _, e := range r.Events {
			keys[string(e.Kv.Key)] = true
			puts++
		}
		if puts >= 2*joins {
			break
		}
	}
	if puts != 2*joins || len(keys) != 2 {
		t.Errorf("%d notes, two at once, had %d keys, want %d notes and 2 keys", puts, len(keys), 2*joins)
	}
}

// A join that was not answered may still be done until it is void. Another note in its slot would be lost.
func TestASlotOfAnUnansweredJoinIsNotReused(t *testing.T) {
	t.Parallel()
	b, kv, id := lossyBackend(t, testserver.SharedEtcd(t), apart().Prefix)
	b.mustSwap(t, &record.Swap{Name: "a", Data: []byte("x")})
	kv.loses(1, true)
	if _, err := b.Swap(t.Context(), notesWith(id, "late")); err == nil {
		t.Fatal("a lost join got an answer")
	}
	if out := b.mustSwap(t, notesWith(id, "next")); !out.Joined || len(out.Now.Inbox) != 1 {
		t.Fatalf("the next join: got %+v", out)
	}
	if out := b.mustSwap(t, notesWith(id, "third")); !out.Joined || len(out.Now.Inbox) != 2 { // the inbox was read meanwhile
		t.Fatalf("the third join: got %+v", out)
	}
	kv.again(t)
	r, err := b.Load(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, n := range r.Inbox {
		have = append(have, n.Key)
	}
	if all := strings.Join(have, " "); !strings.Contains(all, "next") || !strings.Contains(all, "late") || !strings.Contains(all, "third") {
		t.Errorf("got notes %v, want those of all joins", have)
	}
}

// When all its data is lost, etcd counts its revisions from one again. Then a new record has the revision that an old
// one had.
func TestAVersionFromBeforeALossOfAllDataIsInvalid(t *testing.T) {
	t.Parallel()
	prefix := apart().Prefix
	var all [2]record.Record
	var backends [2]*backend
	for i := range all {
		b := newBackend(clientOf(t, testserver.Etcd(t).Addr), prefix, store.TokenRetention)
		defer b.Close()
		all[i], backends[i] = b.mustSwap(t, &record.Swap{Name: "a", Data: []byte("x")}).Now, b
	}
	rev, _, _ := strings.Cut(all[0].Version, " ")
	if !strings.HasPrefix(all[1].Version, rev+" ") {
		t.Fatalf("got versions %q and %q: the test shows nothing", all[0].Version, all[1].Version)
	}
	if out := backends[1].mustSwap(t, &record.Swap{Name: "a", Old: all[0], Data: []byte("old")}); out.Done {
		t.Error("a swap on a version of another etcd was done")
	}
	// A process that has not noticed the loss assumes that the data is still the old one.
	backends[1].known = backends[0].known
	if out := backends[1].mustSwap(t, &record.Swap{Name: "a", Old: all[0], Data: []byte("old")}); out.Done {
		t.Error("a swap on a version of another etcd was done before the change was noticed")
	}
	if out := backends[1].mustSwap(t, &record.Swap{Name: "a", Old: all[1], Data: []byte("new")}); !out.Done {
		t.Error("after that a swap on the current version was refused")
	}
}

// A swap that was not applied, because a lease of ours is gone, is refused once and done the next time.
func TestALeaseThatIsGoneCostsOneRefusal(t *testing.T) {
	t.Parallel()
	b, _, _ := lossyBackend(t, testserver.SharedEtcd(t), apart().Prefix)
	rec := b.mustSwap(t, &record.Swap{Name: "a", Data: []byte("x"), Idle: true}).Now
	if _, err := b.client.Revoke(t.Context(), b.idle.id); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		out := b.mustSwap(t, &record.Swap{Name: "b", Data: []byte("x"), Idle: true})
		if out.Done != (i == 1) {
			t.Fatalf("swap %d: got %+v", i, out)
		}
	}
	r, err := b.Load(t.Context(), "a")
	if err != nil || r.Version == rec.Version {
		t.Errorf("the idle record: got %+v, %v, want the write of its lease", r, err)
	}
}

// A join that is not answered keeps its slots until its session has ended.
func TestTheSlotsOfASessionThatHasEndedAreForgotten(t *testing.T) {
	t.Parallel()
	b, _, id := lossyBackend(t, testserver.SharedEtcd(t), apart().Prefix)
	j := b.join(notesWith(id, "a", "b"), "base") // it is not sent
	if len(b.slots["a"]) != 2 {
		t.Fatalf("got slots %v", b.slots)
	}
	if err := b.End(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if len(b.slots) != 0 {
		t.Errorf("got slots %v left", b.slots)
	}
	b.joined(j, 7) // now it is answered
	if len(b.slots) != 0 {
		t.Errorf("got slots %v left", b.slots)
	}
}
