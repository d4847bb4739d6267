package record

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// full is a record with every field set.
func full(now queue.Time) *view {
	why, asks := "why", "asks"
	p := store.NewProcess()
	ids := []store.ID{p.NewID(), p.NewID(), p.NewID()}
	v := &view{
		now: now, in: map[store.ID]session.ID{}, kept: map[store.ID]session.ID{ids[1]: session.NewID()}, wish: map[store.ID]int64{ids[2]: 7},
		marks: []mark{{session.NewID(), 12}},
		q: queue.Queue{Last: 99, Entries: []queue.Entry{
			{ID: ids[0], Limit: store.Full, Weight: store.Upgradeable, Want: store.Full, Turn: 3, N: 2, Granted: true, Shown: true, Broken: &why, Token: 5, UpgradeToken: 6, Since: now.Clock - 9, Expires: now.Clock + unending, MinHold: 4, LockDelay: 8, Owner: "owner"},
			{ID: ids[1], Limit: store.Full - 1, Weight: 1, Want: 1, N: 1, Granted: true, Token: 7, Since: now.Clock - 8, Expires: now.Clock - 1, MinHold: 1},
			{ID: ids[2], Limit: store.Full, Weight: 1, Want: 1, N: 4, Expires: now.Clock + unending, GiveUp: &asks},
		}},
	}
	for _, id := range ids {
		v.in[id] = session.NewID()
	}
	return v
}

func TestARecordComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	v := full(queue.At(time.Now()))
	back, err := decode(v.encode(false), v.now)
	if err != nil {
		t.Fatal(err)
	}
	want := v.q
	want.Entries[1].MinHold, want.Entries[2].MinHold = 0, 7 // the second entry is in a session
	if !reflect.DeepEqual(back.q, want) || !reflect.DeepEqual(back.in, v.in) || !reflect.DeepEqual(back.kept, v.kept) || !reflect.DeepEqual(back.marks, v.marks) {
		t.Fatalf("decoded as\n%+v\nwant\n%+v", back, v)
	}
}

func TestADamagedRecordIsCorruptAndANewerOneUnsupported(t *testing.T) {
	t.Parallel()
	v := full(queue.At(time.Now()))
	data := v.encode(false)
	for n := 1; n < len(data); n++ {
		if _, err := decode(data[:n], v.now); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("%d of %d bytes: got %v, want ErrCorrupt", n, len(data), err)
		}
	}
	if _, err := decode(append(data, 0), v.now); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("one byte more: got %v, want ErrCorrupt", err)
	}
	data[0]++
	if _, err := decode(data, v.now); !errors.Is(err, store.ErrUnsupported) {
		t.Fatalf("a newer format: got %v, want ErrUnsupported", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(full(queue.At(time.Now())).encode(false))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = decode(data, queue.At(time.Now()))
		_, _ = parseNote(data)
		ParseNotifications(data, func(Notification) {})
	})
}

// Law 5.
func TestTheClockIsNotBehindWhatIsStored(t *testing.T) {
	t.Parallel()
	v := full(queue.At(time.Now()))
	late := queue.Time{Clock: v.now.Clock - 1000, Wall: v.now.Wall}
	back, err := decode(v.encode(false), late)
	if err != nil {
		t.Fatal(err)
	}
	if back.now.Clock < v.now.Clock-1 {
		t.Fatalf("the clock is %d behind a stored instant", v.now.Clock-1-back.now.Clock)
	}
}

// Law 5.
func TestTheClockIsNotAheadOfTheServer(t *testing.T) {
	t.Parallel()
	s := &records{}
	const now = 1_700_000_000_000_000
	heard := store.Now()
	s.hear(now, heard)
	s.hear(now-5_000_000, store.Now()) // a slower reply is less exact
	if have := s.present().Clock; have < now || have > now+store.Now().Sub(heard).Microseconds() {
		t.Fatalf("the clock is %d µs ahead of the latest possible server time", have-now)
	}
}

// Law 5: this host's clock drifts, and the server's clock is set.
func TestTheClockFollowsTheServerBack(t *testing.T) {
	t.Parallel()
	s := &records{}
	heard := store.Now()
	s.hear(1_700_000_000_000_000, heard)
	for _, c := range []struct{ passed, server time.Duration }{
		{30 * 24 * time.Hour, 30*24*time.Hour - 52*time.Second}, // 20 ppm
		{2 * time.Second, -time.Hour},
	} {
		heard = heard.Add(c.passed)
		server := s.clock + c.server.Microseconds()
		if s.hear(server, heard); s.clock != server || s.clockAt != heard {
			t.Fatalf("the clock is %v ahead of the server", time.Duration(s.clock-server)*time.Microsecond+heard.Sub(s.clockAt))
		}
	}
}

func TestANoteComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	ever := time.Duration(unending) * time.Microsecond
	want := waiter{store.Claim{
		ID: store.NewProcess().NewID(), TTL: ever, PositionTTL: ever, Limit: store.Full, Weight: store.Full, Block: 4,
		MinHold: time.Second, LockDelay: time.Minute, Owner: "o", GiveUp: "please",
	}, session.NewID(), 7}
	n := want.note()
	for k := range len(n.Data) {
		if _, ok := parseNote(n.Data[:k]); ok {
			t.Errorf("%d bytes of %d are read as a note", k, len(n.Data))
		}
	}
	if have, ok := parseNote(n.Data); !ok || have != want {
		t.Fatalf("got %+v, want %+v", have, want)
	}
}

func TestNotificationsComeBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	want := []Notification{
		{Name: "a", ID: store.NewProcess().NewID(), Token: 5, N: 2, Session: session.NewID(), Asked: true},
		{Name: "b\x00", ID: store.NewProcess().NewID()},
	}
	b := AppendNotifications(nil, want)
	for n := range len(b) {
		ParseNotifications(b[:n], func(Notification) {})
	}
	var have []Notification
	ParseNotifications(b, func(n Notification) { have = append(have, n) })
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("got %+v, want %+v", have, want)
	}
}
