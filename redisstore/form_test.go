package redisstore

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestNoTwoNamesHaveOneKeyAndEachIsInItsOwnHashTag(t *testing.T) {
	s := storeOn(t, clientOf(t, "127.0.0.1:1"), nil)
	name := rapid.OneOf(
		rapid.StringMatching(`[%{}257BDabd]{1,12}`), // the characters that escaping treats specially
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 40), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if ka, kb := s.key(a), s.key(b); (a == b) != (ka == kb) {
			t.Errorf("%q and %q: got keys %q and %q", a, b, ka, kb)
		}
		back, ok := s.name(s.key(a))
		if !ok || back != a {
			t.Errorf("%q: got key %q, read as %q, %v", a, s.key(a), back, ok)
		}
		// Redis finds the tag so: from the first opening brace to the next closing one.
		_, rest, _ := strings.Cut(s.key(a), "{")
		tag, rest, _ := strings.Cut(rest, "}")
		if tag == "" || rest != "" {
			t.Errorf("%q: got hash tag %q, followed by %q", s.key(a), tag, rest)
		}
		if name, ok := s.name(b); ok && s.key(name) != b {
			t.Errorf("key %q: got name %q, with key %q", b, name, s.key(name))
		}
	})
}

func TestOrdinaryNamesCanBeReadInTheirKeys(t *testing.T) {
	s := storeOn(t, clientOf(t, "127.0.0.1:1"), nil)
	for name, key := range map[string]string{ // fixed for good: another key would be another lock
		"invoice/42":         "holdfast:{invoice/42}",
		"ein Prozeß: 100 %":  "holdfast:{ein Prozeß: 100 %25}",
		"{user1}.{cart}":     "holdfast:{%7Buser1%7D.%7Bcart%7D}",
		"a\x00b\n":           "holdfast:{a\x00b\n}",
		"%7B":                "holdfast:{%257B}",
		"Nightly":            "holdfast:{Nightly}",
		"holdfast:{nightly}": "holdfast:{holdfast:%7Bnightly%7D}",
	} {
		if got := s.key(name); got != key {
			t.Errorf("%q: got key %q, want %q", name, got, key)
		}
	}
}

func TestForeignDataIsReportedAndLeftAlone(t *testing.T) {
	s := newShared(t)
	newest := mutex("what is stored")
	mustHold(t, s, newest)
	mustAsk(t, s, mutex(newest.Name))
	good := s.client.Get(t.Context(), s.key(newest.Name)).Val()
	for what, c := range map[string]struct {
		value string
		want  error
	}{
		"a string of another program": {"hello world", store.ErrCorrupt},
		"an empty string":             {"", store.ErrCorrupt},
		"a value cut off":             {good[:len(good)-1], store.ErrCorrupt},
		"a head cut off":              {good[:10], store.ErrCorrupt},
		"a value with a tail":         {good + "x", store.ErrCorrupt},
		"a newer form":                {"hf4" + good[3:], store.ErrUnsupported},
		"a newer form, idle":          {"hf4" + good[3:11], store.ErrUnsupported},
		"the form before":             {"hf2" + good[3:], store.ErrUnsupported},
		"the form before, idle":       {"hf2" + good[3:11], store.ErrUnsupported},
		"a form of other versions":    {"hf:" + good[3:], store.ErrUnsupported},
		"a list":                      {"list", store.ErrCorrupt},
		"a hash":                      {"hash", store.ErrCorrupt},
		"a head of another program":   {"h:hello", store.ErrCorrupt},
		"an empty head":               {"h:", store.ErrCorrupt},
		"a head that is cut off":      {"h:hf3" + good[3:11], store.ErrCorrupt},
		"a head of a newer form":      {"h:hf4" + good[3:11], store.ErrUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			name := "not ours: " + what
			key := s.key(name)
			read := func() any {
				v, err := s.client.Dump(t.Context(), key).Result()
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			var err error
			switch head, many := strings.CutPrefix(c.value, "h:"); {
			case many:
				err = s.client.HSet(t.Context(), key, "h", head, me.NewID().String(), "").Err()
			case c.value == "list":
				err = s.client.RPush(t.Context(), key, "x").Err()
			case c.value == "hash":
				err = s.client.HSet(t.Context(), key, "x", "y").Err()
			default:
				err = s.client.Set(t.Context(), key, c.value, 0).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			before := read()
			claim := mutex(name)
			try := claim
			try.Try = true
			hold := store.Hold{Name: name, ID: claim.ID, Token: 7, TTL: time.Minute}
			for op, f := range map[string]func() error{
				"ask":    func() error { _, err := s.Ask(t.Context(), claim); return err },
				"try":    func() error { _, err := s.Ask(t.Context(), try); return err },
				"look":   func() error { _, err := s.Poll(t.Context(), claim); return err },
				"renew":  func() error { return s.Renew(t.Context(), []store.Hold{hold})[0].Err },
				"change": func() error { _, err := s.Change(t.Context(), hold, 1, store.Full); return err },
				"adopt": func() error {
					other := hold
					other.NewID = me.NewID()
					return s.Renew(t.Context(), []store.Hold{other})[0].Err
				},
				"release":     func() error { return s.Release(t.Context(), hold) },
				"release all": func() error { return s.Release(t.Context(), store.Hold{Name: name, ID: claim.ID}) },
				"break":       func() error { return s.BreakHold(t.Context(), store.Break{Name: name, ID: claim.ID, Token: 7}) },
				"list": func() (err error) {
					for _, err = range s.List(t.Context(), name) {
					}
					return err
				},
			} {
				if err := f(); !errors.Is(err, want) || !store.Definite(err) {
					t.Errorf("%s: %v, want %v", op, err, want)
				} else if !strings.Contains(err.Error(), what) && !strings.Contains(err.Error(), key) {
					t.Errorf("%s: the error does not name the key: %v", op, err)
				}
				if after := read(); after != before {
					t.Errorf("%s changed the value", op)
				}
			}
			// A list of all names still has the others.
			var found, other bool
			for st, err := range s.List(t.Context(), "") {
				found = found || st.Name == name && errors.Is(err, want)
				other = other || st.Name == newest.Name && err == nil
			}
			if !found || !other {
				t.Errorf("listed all names: got this one %v, others %v", found, other)
			}
		})
	}
}

// A damaged hash is reported by every operation that reads it, and none of them writes.
func TestADamagedHashIsReportedAndLeftAlone(t *testing.T) {
	s := newShared(t)
	for what, damage := range map[string]func(key string, hold store.Hold) error{
		"a node cut off":   func(key string, _ store.Hold) error { return s.client.HSet(t.Context(), key, "t0:0", "x").Err() },
		"an entry cut off": func(key string, h store.Hold) error { return s.client.HSet(t.Context(), key, h.ID.String(), "x").Err() },
		"no such entry":    func(key string, h store.Hold) error { return s.client.HDel(t.Context(), key, h.ID.String()).Err() },
		"no such position": func(key string, h store.Hold) error { return s.client.HDel(t.Context(), key, "#0").Err() },
		"an unneeded node": func(key string, h store.Hold) error {
			return s.client.HSet(t.Context(), key, "t0:0", strings.Repeat("\x00", 12*usual.fanout)).Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			name := "damaged: " + what
			h := mustHold(t, s, mutex(name))
			for range usual.fewest {
				mustAsk(t, s, mutex(name))
			}
			if err := damage(s.key(name), h); err != nil {
				t.Fatal(err)
			}
			before := s.client.Dump(t.Context(), s.key(name)).Val()
			try := mutex(name)
			try.Try = true
			if _, err := s.Ask(t.Context(), try); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), what) {
				t.Errorf("a try: %v, want ErrCorrupt", err)
			}
			if after := s.client.Dump(t.Context(), s.key(name)).Val(); after != before {
				t.Error("the value was changed")
			}
		})
	}
}

func TestANameIsRememberedForAsLongAsSaidAfterItsLastEntry(t *testing.T) {
	t.Parallel()
	for said, retention := range map[time.Duration]time.Duration{
		0: store.TokenRetention, time.Minute: time.Minute, 90 * time.Minute: 90 * time.Minute, 365 * 24 * time.Hour: 365 * 24 * time.Hour,
	} {
		t.Run(said.String(), func(t *testing.T) {
			o := apart()
			o.TokenRetention = said
			s := storeOn(t, clientOf(t, testserver.SharedRedis(t)), o)
			defer s.Close()
			remembered(t, s, retention)
		})
	}
	for _, d := range []time.Duration{-1, 1, time.Minute - 1, 365*24*time.Hour + 1, math.MaxInt64} {
		if _, err := New(clientOf(t, "127.0.0.1:1"), &Options{TokenRetention: d}); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "TokenRetention") {
			t.Errorf("%v: got %v, want ErrInvalid", d, err)
		}
	}
}

// remembered checks how long the server keeps names of a Store.
func remembered(t *testing.T, s *Store, retention time.Duration) {
	left := func(name string) time.Duration {
		t.Helper()
		d, err := s.client.PTTL(t.Context(), s.key(name)).Result()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	check := func(what, name string, want time.Duration) {
		t.Helper()
		if d := left(name); d <= want-slack || d > want+time.Second {
			t.Errorf("%s: got a key that lives for %v, want %v", what, d, want)
		}
	}
	c := mutex("plain")
	c.TTL = time.Hour
	h := mustHold(t, s, c)
	check("held", c.Name, retention+time.Hour)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if d := left(c.Name); d <= retention-slack {
		t.Errorf("released: got a key that lives for %v, want at least %v", d, retention)
	}

	long := mutex("long")
	long.MinHold, long.LockDelay = 100*time.Hour, 10*time.Hour
	h = mustHold(t, s, long)
	check("with a minimum hold", long.Name, retention+100*time.Hour)
	waits := mutex(long.Name)
	mustAsk(t, s, waits)
	check("a claim waits", long.Name, retention+long.TTL+long.LockDelay) // the minimum does not count before it was shown
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Fatal(err)
	}
	check("shown", long.Name, retention+100*time.Hour)
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	check("released, with a minimum hold", long.Name, retention+100*time.Hour)

	many := mutex("many")
	many.Limit, many.Weight, many.TTL = 1000, 1, time.Hour
	var holds []store.Hold
	for range usual.fewest + 1 {
		many.ID = me.NewID()
		holds = append(holds, mustHold(t, s, many))
	}
	between := func(what string, least, most time.Duration) {
		t.Helper()
		if d := left(many.Name); d <= least-slack || d > most+time.Second {
			t.Errorf("%s: got a key that lives for %v, want %v to %v", what, d, least, most)
		}
	}
	between("many", retention+time.Hour, retention+time.Hour+time.Minute)
	for i := range holds {
		holds[i].TTL = 2 * time.Hour
	}
	for _, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	between("many, renewed", retention+2*time.Hour, retention+2*time.Hour+time.Minute)
	for _, err := range s.ReleaseAll(t.Context(), holds) {
		if err != nil {
			t.Fatal(err)
		}
	}
	between("many, released", retention, retention+2*time.Hour)
}

func TestTokensGrowWhenTheClockOfTheServerIsBehind(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	now := time.Now().UnixMicro()
	s, err := newStore(clientOf(t, server.Addr), nil, func() int64 { return now }, usual)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var last int64
	for range 5 {
		h := mustHold(t, s, mutex("n"))
		if h.Token <= last {
			t.Errorf("got token %d after %d, want a larger one", h.Token, last)
		}
		last = h.Token
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		now -= time.Hour.Microseconds()
	}
}

func TestPrefixesAreApart(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testserver.Redis(t).Addr)
	a := storeOn(t, client, &Options{Prefix: "a*[?\\:"}) // used as a pattern it would match more
	b := storeOn(t, client, &Options{Prefix: "axx?\\:"})
	ha := mustHold(t, a, mutex("n"))
	hb := mustHold(t, b, mutex("n"))
	for s, h := range map[*Store]store.Hold{a: ha, b: hb} {
		n := 0
		for st, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if n++; len(st.Entries) != 1 || st.Entries[0].ID != h.ID {
				t.Errorf("prefix %q: got %+v listed", s.prefix, st)
			}
		}
		if n != 1 {
			t.Errorf("prefix %q: got %d names listed, want 1", s.prefix, n)
		}
		defer s.Close()
	}
	if _, err := New(client, &Options{Prefix: "a{b"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a prefix with a brace: %v, want ErrInvalid", err)
	}
}

func TestANotificationIsReadWithItsBlockOrWithout(t *testing.T) {
	s := newShared(t)
	id := me.NewID()
	for payload, want := range map[string]store.Notification{
		"17 " + id.String() + " " + s.key("a b"):   {Name: "a b", ID: id, Token: 17, N: 1},
		"17+64 " + id.String() + " " + s.key("a"):  {Name: "a", ID: id, Token: 17, N: 64},
		"0 " + id.String() + " " + s.key("a"):      {Name: "a", ID: id},
		"17+x " + id.String() + " " + s.key("a"):   {},
		"17+ " + id.String() + " " + s.key("a"):    {},
		"x " + id.String() + " " + s.key("a"):      {},
		"17 " + id.String()[1:] + " " + s.key("a"): {},
		"17 " + id.String():                        {},
	} {
		if h, ok := s.notification(payload); h != want && ok || ok != (want != store.Notification{}) {
			t.Errorf("%q: got %+v, %v, want %+v", payload, h, ok, want)
		}
	}
}
