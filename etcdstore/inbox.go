package etcdstore

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
)

// A note is a key below its name. The last part of the key, its slot, is the session, "-", and a
// number. etcd keeps every past key until it is compacted, and a read of an inbox goes through all
// of them. So a slot is reused once its note is known to be deleted, and a name has as many slots
// as it had simultaneous notes.
//
// Its value is its index in the join and the length of the note's own key, one byte each, then that
// key and the data.

// maxInbox is how many notes are read at a time. One swap takes them in, together with a join,
// within maxOps.
const maxInbox = 80

// pending marks a slot whose join is unanswered. Otherwise the slot has the revision at which its
// note was put.
const pending = 0

// A joining is a join under way.
type joining struct {
	name  string
	slots []string
	op    clientv3.Op
}

// ops returns how many operations of the transaction the join takes.
func (j *joining) ops() int {
	if j == nil {
		return 0
	}
	return max(2, len(j.slots))
}

// join prepares the join of a swap, if it has one: a transaction that is applied if the session was
// not called meanwhile.
func (b *backend) join(s *record.Swap, base string) *joining {
	if s.Join == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.slots[s.Name]
	if taken == nil {
		taken = map[string]int64{}
		b.slots[s.Name] = taken
	}
	j := &joining{name: s.Name}
	var puts []clientv3.Op
	for n := 0; len(puts) < len(s.Join.Notes); n++ {
		slot := s.Join.Session.String() + "-" + strconv.Itoa(n)
		if _, is := taken[slot]; is { //mutant:etcd-slot-is-taken
			continue
		}
		taken[slot] = pending //mutant:etcd-slot-pending
		note := &s.Join.Notes[len(puts)]
		value := string([]byte{byte(len(puts)), byte(len(note.Key))}) + note.Key + string(note.Data)
		puts = append(puts, clientv3.OpPut(b.inboxKey(s.Name)+slot, value, clientv3.WithLease(leaseOf(s.Join.Session))))
		j.slots = append(j.slots, slot)
	}
	uncalled := clientv3.Compare(clientv3.Version(b.sessionKey(s.Join.Session)), "=", s.Join.Calls+1) //mutant:etcd-join-uncalled
	j.op = clientv3.OpTxn([]clientv3.Cmp{uncalled, b.isBase(base)}, puts, nil)
	return j
}

// joined notes that the notes of a join were put at a revision; 0: they never will be.
func (b *backend) joined(j *joining, rev int64) {
	if j == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, slot := range j.slots {
		if _, is := b.slots[j.name][slot]; !is {
			continue // its session has ended meanwhile
		}
		b.slots[j.name][slot] = rev
		if rev == 0 {
			b.free(j.name, slot)
		}
	}
}

// free makes a slot available again. b.mu is held.
func (b *backend) free(name, slot string) {
	if delete(b.slots[name], slot); len(b.slots[name]) == 0 {
		delete(b.slots, name)
	}
}

// forgetSlots forgets the slots of a session that no longer joins anything: the outcome of its
// unanswered joins stays unknown.
func (b *backend) forgetSlots(id session.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, taken := range b.slots {
		for slot := range taken {
			if strings.HasPrefix(slot, id.String()) {
				b.free(name, slot) //mutant:etcd-slots-of-ended-session
			}
		}
	}
}

// readInbox reads the oldest notes of a name.
func (b *backend) readInbox(name string) clientv3.Op {
	return clientv3.OpGet(b.inboxKey(name), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(maxInbox))
}

// inbox returns the notes that readInbox has read at a revision.
func (b *backend) inbox(name string, rev int64, read *pb.RangeResponse) (notes []record.Note, more bool) {
	notes = notesOf(read.Kvs)
	// It is unknown which notes of the newest join were left out.
	if read.More { //mutant:etcd-inbox-cut-in-a-join
		newest := read.Kvs[len(read.Kvs)-1].ModRevision
		return slices.DeleteFunc(notes, func(n record.Note) bool { _, put := cutSlot(n.Version); return put == newest }), true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for slot, put := range b.slots[name] {
		if put != pending && put <= rev && !slices.ContainsFunc(read.Kvs, func(kv *mvccpb.KeyValue) bool { return strings.HasSuffix(string(kv.Key), slot) }) {
			b.free(name, slot) //mutant:etcd-slot-used-again
		}
	}
	return notes, false
}

// notesOf sorts what was read by arrival, and parses it. A note is put once.
func notesOf(kvs []*mvccpb.KeyValue) (notes []record.Note) {
	slices.SortFunc(kvs, func(x, y *mvccpb.KeyValue) int {
		return cmp.Or(cmp.Compare(x.ModRevision, y.ModRevision), strings.Compare(string(x.Value), string(y.Value))) //mutant:etcd-inbox-order
	})
	for _, kv := range kvs {
		if v := kv.Value; len(v) >= 2 && len(v) >= 2+int(v[1]) {
			slot, n := string(kv.Key[strings.LastIndexByte(string(kv.Key), '/')+1:]), 2+int(v[1])
			notes = append(notes, record.Note{Key: string(v[2:n]), Data: v[n:], Version: slot + " " + strconv.FormatInt(kv.ModRevision, 10)})
		}
	}
	return notes
}

// cutSlot splits the version of a note.
func cutSlot(version string) (slot string, rev int64) {
	slot, digits, _ := strings.Cut(version, " ")
	rev, _ = strconv.ParseInt(digits, 10, 64)
	return slot, rev
}
