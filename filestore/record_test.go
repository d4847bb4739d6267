package filestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"pgregory.net/rapid"
)

func anyQueue(t *rapid.T) *queue.Queue {
	i32 := rapid.Int32()
	i64 := rapid.Int64()
	q := &queue.Queue{Last: rapid.Int64Min(0).Draw(t, "last")}
	for range rapid.IntRange(0, 5).Draw(t, "entries") {
		limit := rapid.Int32Range(1, store.Full).Draw(t, "limit")
		q.Entries = append(q.Entries, queue.Entry{
			Limit:        limit,
			GiveUp:       rapid.Ptr(rapid.StringN(1, -1, store.MaxReason), true).Draw(t, "give up"),
			ID:           store.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
			Weight:       rapid.Int32Range(1, limit).Draw(t, "weight"),
			Want:         i32.Draw(t, "want"),
			Turn:         i32.Draw(t, "turn"),
			N:            rapid.Uint16().Draw(t, "n"),
			Granted:      rapid.Bool().Draw(t, "granted"),
			Shown:        rapid.Bool().Draw(t, "shown"),
			Broken:       rapid.Ptr(rapid.StringN(1, -1, queue.MaxBroken), true).Draw(t, "broken"),
			Token:        rapid.Int64Min(1).Draw(t, "token"),
			UpgradeToken: i64.Draw(t, "fence"),
			Since:        i64.Draw(t, "since"),
			Expires:      i64.Draw(t, "expires"),
			MinHold:      i64.Draw(t, "keep"),
			LockDelay:    i64.Draw(t, "delay"),
			Owner:        rapid.StringN(-1, -1, store.MaxOwner).Draw(t, "owner"),
		})
	}
	return q
}

// Every field of a queue is in its record. This test fails for a new field of a
// queue until the record has it.
func TestARecordHasEveryFieldOfTheQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyQueue(t)
		name := rapid.StringN(1, -1, store.MaxName).Draw(t, "name")
		seq := rapid.Uint64().Draw(t, "seq")
		b := appendRecord(nil, seq, name, "boot", want)
		var got queue.Queue
		gotName, boot, err := parseRecord(append(b, "rest of an older record"...), &got)
		if err != nil || string(gotName) != name || string(boot) != "boot" {
			t.Fatalf("got name %q, boot id %q, error %v", gotName, boot, err)
		}
		if got.Last != want.Last || len(got.Entries) != len(want.Entries) {
			t.Fatalf("got %+v, want %+v", got, *want)
		}
		for i := range got.Entries {
			if !reflect.DeepEqual(got.Entries[i], want.Entries[i]) {
				t.Fatalf("entry %d is %+v, want %+v", i, got.Entries[i], want.Entries[i])
			}
		}
		if h, ok := parseHead(b); !ok || h.seq != seq {
			t.Fatalf("got head %+v, %v", h, ok)
		}
	})
	if n := reflect.TypeFor[queue.Entry]().NumField() + reflect.TypeFor[queue.Queue]().NumField(); n != 17+4 {
		t.Fatalf("the queue has %d fields: add the new ones to the record and to anyQueue, and change the number here", n)
	}
}

// One changed bit anywhere in a record is found.
func TestAChangedBitIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := appendRecord(nil, 7, "name", "boot", anyQueue(t))
		bit := rapid.IntRange(0, len(b)*8-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if _, _, err := parseRecord(b, new(queue.Queue)); err != errBadRecord {
			t.Fatalf("bit %d of %d: got %v, want errBadRecord", bit, len(b)*8, err)
		}
	})
}

// Any content of a file, also with a correct checksum, is decoded within bounds.
func FuzzParseRecord(f *testing.F) {
	q := queue.Queue{Last: 9, Entries: []queue.Entry{{Limit: 3, Weight: 1, Owner: "x", GiveUp: new("y")}, {Limit: 3, Weight: 2, Granted: true, Token: 9}}}
	f.Add(appendRecord(nil, 7, "name", "boot", &q))
	f.Add(appendRecord(nil, 0, "", "", &queue.Queue{}))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		for range 2 {
			var q queue.Queue
			name, boot, err := parseRecord(b, &q)
			if err == nil {
				again := appendRecord(nil, binary.LittleEndian.Uint64(b[headSize-8:]), string(name), string(boot), &q)
				if h, _ := parseHead(b); !bytes.Equal(again[headSize:], b[headSize:headSize+h.length]) {
					t.Fatalf("%x was read, but written again as %x", b, again)
				}
			}
			if len(b) < headSize {
				return
			}
			seal(b)
		}
	})
}

// seal gives a record the correct length and checksum.
func seal(b []byte) {
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[len(magic)+8:], uint32(len(b)-headSize))
	binary.LittleEndian.PutUint32(b[len(magic):], crc32.Checksum(b[len(magic)+4:], castagnoli()))
}

// A stored is a name with a hold, and its file.
type stored struct {
	*Store
	t    *testing.T
	hold store.Hold
	end  func() // closes the store
}

func newStored(t *testing.T) *stored {
	s := open(t, t.TempDir())
	end := sync.OnceFunc(func() { s.Close() })
	t.Cleanup(end)
	c := store.Claim{Name: "name", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full, TTL: time.Hour, PositionTTL: time.Hour}
	a, err := s.Ask(t.Context(), c)
	if err != nil || !a.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	return &stored{s, t, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL}, end}
}

// edit changes the bytes of the file, as a later Store finds them.
func (s *stored) edit(f func([]byte) []byte) *Store {
	s.t.Helper()
	path := s.path("name")
	b, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		s.t.Fatal(err)
	}
	later := open(s.t, s.dir)
	s.t.Cleanup(func() { later.Close() })
	return later
}

// fileOf is a file with a record in its first slot.
func fileOf(record []byte) []byte {
	if len(record) <= near {
		return record
	}
	at, _ := place(0, near)
	b := append(make([]byte, 0, 2*longest), record[:near]...)
	return append(b[:at], record[near:]...)
}

// slotOf is the content of a slot of a file.
func slotOf(file []byte, slot int) (b []byte) {
	for len(b) < longest {
		at, follow := place(slot, len(b))
		from := min(int(at), len(file))
		part := file[from:min(from+follow, len(file))]
		b = append(b, part...)
		if len(part) < follow {
			break
		}
	}
	return b
}

func (s *stored) bytes() []byte {
	s.t.Helper()
	b, err := os.ReadFile(s.path("name"))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// refuses checks that every operation on the name fails with that error, names the
// file, and does not change it.
func (s *stored) refuses(later *Store, want error, words ...string) {
	s.t.Helper()
	before := s.bytes()
	check := func(what string, err error) {
		s.t.Helper()
		if !errors.Is(err, want) || !store.Definite(err) {
			s.t.Fatalf("%s: got %v, want %v", what, err, want)
		}
		for _, w := range append(words, s.path("name")) {
			if !strings.Contains(err.Error(), w) {
				s.t.Errorf("%s: %q does not say %q", what, err, w)
			}
		}
	}
	ctx := s.t.Context()
	c := store.Claim{Name: "name", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full, TTL: time.Hour, PositionTTL: time.Hour}
	_, err := later.Ask(ctx, c)
	check("ask", err)
	_, err = later.Poll(ctx, c)
	check("look", err)
	check("renew", later.Renew(ctx, []store.Hold{s.hold})[0].Err)
	adopted := s.hold
	adopted.NewID = c.ID
	check("adopt", later.Renew(ctx, []store.Hold{adopted})[0].Err)
	_, err = later.Change(ctx, s.hold, 1, store.Full)
	check("change", err)
	check("release", later.Release(ctx, s.hold))
	check("break", later.BreakHold(ctx, store.Break{Name: "name", ID: s.hold.ID, Token: s.hold.Token}))
	for _, name := range []string{"", "name"} {
		n := 0
		for _, err := range later.List(ctx, name) {
			check("list", err)
			n++
		}
		if n != 1 {
			s.t.Errorf("listed %d times, want once with its error", n)
		}
	}
	if !bytes.Equal(before, s.bytes()) {
		s.t.Error("the file was changed")
	}
}

func TestACorruptFileIsReportedAndLeftAlone(t *testing.T) {
	t.Run("garbage", func(t *testing.T) {
		s := newStored(t)
		s.refuses(s.edit(func([]byte) []byte { return bytes.Repeat([]byte("foreign "), 100) }), store.ErrCorrupt)
	})
	t.Run("a changed bit", func(t *testing.T) {
		s := newStored(t)
		s.refuses(s.edit(func(b []byte) []byte { b[headSize+4] ^= 1; return b }), store.ErrCorrupt)
	})
	t.Run("another name", func(t *testing.T) {
		s := newStored(t)
		s.refuses(s.edit(func([]byte) []byte { return appendRecord(nil, 1, "other", s.boot, &queue.Queue{}) }), store.ErrCorrupt, "another name")
	})
	t.Run("not a file", func(t *testing.T) {
		s := newStored(t)
		s.end() // Windows does not remove an open file
		if err := os.Remove(s.path("name")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(s.path("name"), 0o700); err != nil {
			t.Fatal(err)
		}
		later := open(t, s.dir)
		defer later.Close()
		if _, err := later.Ask(t.Context(), store.Claim{Name: "name", ID: s.hold.ID, Limit: 1, Weight: 1, TTL: time.Hour, PositionTTL: time.Hour}); err == nil || !strings.Contains(err.Error(), s.path("name")) {
			t.Fatalf("got %v, want an error that names the file", err)
		}
	})
}

func TestANewerFormIsRefusedNamingBoth(t *testing.T) {
	s := newStored(t)
	later := s.edit(func(b []byte) []byte {
		h, _ := parseHead(b)
		b = b[:headSize+h.length] // without the reserved room
		binary.LittleEndian.PutUint32(b[len(magic)+4:], version+1)
		seal(b)
		return b
	})
	s.refuses(later, store.ErrUnsupported, "form 3", "up to 2")
}

// A torn slot counts as never written.
func TestATornSlotLeavesTheStateBefore(t *testing.T) {
	s := newStored(t)
	if err := s.Renew(t.Context(), []store.Hold{s.hold})[0].Err; err != nil {
		t.Fatal(err)
	}
	later := s.edit(func(b []byte) []byte { // the renewal is in the second slot
		if h, ok := parseHead(b[near:]); !ok || h.seq != 2 {
			t.Fatalf("got head %+v, %v, want record 2", h, ok)
		}
		b[near+headSize] ^= 1
		return b
	})
	if err := later.Renew(t.Context(), []store.Hold{s.hold})[0].Err; err != nil {
		t.Fatal(err)
	}
	if err := later.Release(t.Context(), s.hold); err != nil {
		t.Fatal(err)
	}
}

// A file that a power cut has damaged must not block its name for ever.
func TestAFileHalfOnDiskFromBeforeTheBootIsANewOne(t *testing.T) {
	s := newStored(t)
	later := s.edit(func(b []byte) []byte { b[headSize+4] ^= 1; return b })
	now := s.now()
	boot := time.UnixMicro(now.Wall - now.Clock)
	if err := os.Chtimes(s.path("name"), time.Time{}, boot.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := store.Claim{Name: "name", ID: store.NewProcess().NewID(), Limit: store.Full, Weight: store.Full, TTL: time.Hour, PositionTTL: time.Hour}
	a, err := later.Ask(t.Context(), c)
	if err != nil || !a.Granted || a.Token <= s.hold.Token {
		t.Fatalf("got %+v, %v, want granted with a token above %d", a, err, s.hold.Token)
	}
}

func TestAFullQueueIsAnErrorAndChangesNothing(t *testing.T) {
	s := newStored(t)
	p := s.hold.ID.Process()
	c := store.Claim{Name: "name", Limit: store.Full, Weight: 1, TTL: time.Hour, PositionTTL: time.Hour, Owner: strings.Repeat("x", store.MaxOwner)}
	var q queue.Queue
	for mostFor("name", s.boot, len(q.Entries)+100) <= longest {
		q.Entries = append(q.Entries, queue.Entry{ID: p.NewID(), Limit: store.Full, Weight: 1, Expires: 1 << 60, Owner: c.Owner})
	}
	later := s.edit(func([]byte) []byte { return fileOf(appendRecord(nil, 1, "name", s.boot, &q)) })
	var err error
	asked := 0
	for ; err == nil && asked < 200; asked++ {
		c.ID = p.NewID()
		_, err = later.Ask(t.Context(), c)
	}
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "full") {
		t.Fatalf("after %d asks: got %v, want an error that the queue is full", asked, err)
	}
	if err := later.Release(t.Context(), store.Hold{Name: "name", ID: c.ID}); err != nil {
		t.Fatal(err)
	}
	got, err := later.peek(t.Context(), "read", "name")
	if err != nil || len(got.Entries) != len(q.Entries)+asked-1 {
		t.Fatalf("got %d entries, %v, want %d", len(got.Entries), err, len(q.Entries)+asked-1)
	}
}

func TestFileNames(t *testing.T) {
	// These must not change: another version of this program must find the same files.
	for name, want := range map[string]string{
		"invoice/42":             "nfxhm33jmnss6nbs",
		"\x00":                   "aa",
		strings.Repeat("a", 125): strings.Repeat("mfqwcylb", 25),
		strings.Repeat("a", 126): "mfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqwcylbmfqw-",
	} {
		got := fileName(name)
		if !strings.HasPrefix(got, want) || len(got) != len(want) && len(got) != 153 || !isFileName(got) {
			t.Errorf("the file of %q is %q, want %q", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.OneOf(rapid.StringN(1, -1, 20), rapid.StringN(120, -1, store.MaxName))
		a, b := g.Draw(t, "a"), g.Draw(t, "b")
		fa, fb := fileName(a), fileName(b)
		if (a == b) != strings.EqualFold(fa, fb) || len(fa) > 255 || !isFileName(fa) {
			t.Fatalf("%q is in %q, %q in %q", a, fa, b, fb)
		}
	})
}

func TestBadClaimsAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	good := store.Claim{Name: "name", ID: store.NewProcess().NewID(), Limit: 3, Weight: 2, TTL: time.Hour, PositionTTL: time.Hour}
	for what, spoil := range map[string]func(*store.Claim){
		"no name":        func(c *store.Claim) { c.Name = "" },
		"a long name":    func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"no limit":       func(c *store.Claim) { c.Limit = 0 },
		"a large limit":  func(c *store.Claim) { c.Limit = store.Full + 1 },
		"no weight":      func(c *store.Claim) { c.Weight = 0 },
		"a weight above": func(c *store.Claim) { c.Weight = 4 },
		"a long owner":   func(c *store.Claim) { c.Owner = strings.Repeat("x", store.MaxOwner+1) },
	} {
		c := good
		spoil(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", what, err)
		}
	}
	h := store.Hold{Name: "name", ID: good.ID, Token: 1, TTL: time.Hour, Owner: strings.Repeat("x", store.MaxOwner+1)}
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a renewal with a long owner: got %v, want ErrInvalid", err)
	}
	if _, err := s.Change(t.Context(), h, 0, store.Full); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a change of turn 0: got %v, want ErrInvalid", err)
	}
	if left, err := os.ReadDir(s.dir + "/" + namesDir); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}
