package pgadvisory

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// B85: keys never change, or two versions of a program would not exclude each other.
func TestKey_TheMappingIsFrozen(t *testing.T) {
	for name, want := range map[string]string{
		"a":                               "advisory:-3848465438864589366",
		"A":                               "advisory:6168500820899059065",
		"invoice/42":                      "advisory:6496269355956695625",
		"zürich 🔒":                        "advisory:5594211277732127630",
		strings.Repeat("x", 512):          "advisory:7212026910977811256",
		"advisory:0":                      "advisory:0",
		"advisory:-1":                     "advisory:-1",
		"advisory:9223372036854775807":    "advisory:9223372036854775807",
		"advisory:-9223372036854775808":   "advisory:-9223372036854775808",
		"advisory:-2147483648,2147483647": "advisory:-2147483648,2147483647",
	} {
		k, err := KeyOf(name)
		if err != nil || k.String() != want {
			t.Errorf("%.20q: got %s, %v, want %s", name, k, err, want)
		}
		if again, err := KeyOf(k.String()); err != nil || again != k {
			t.Errorf("%s: got %s, %v when read again", k, again, err)
		}
	}
}

// B137.
func TestKey_WhatIsNearlyAKeyIsInvalid(t *testing.T) {
	for _, name := range []string{
		"", strings.Repeat("x", 513), "advisory:", "advisory:x", "advisory:01", "advisory:+1", "advisory:-0", "advisory: 1", "advisory:1 ", "advisory:1.0",
		"advisory:9223372036854775808", "advisory:2147483648,1", "advisory:1,2147483648", "advisory:1,", "advisory:,1", "advisory:1,2,3", "advisory:1, 2",
	} {
		if k, err := KeyOf(name); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%.20q: got %s, %v, want ErrInvalid", name, k, err)
		}
	}
}

// B136. It also shows that pg_locks has the two halves as the store looks them up.
func TestKey_IsThatOfTheServersOwnFunctions(t *testing.T) {
	pool := poolOn(t, sharedAddr(t))
	u := newUser(t, pool, nil)
	name := "key/" + store.NewProcess().String()
	ours, err := KeyOf(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, lock string
		args       []any
	}{
		{"advisory:5", "pg_advisory_lock($1::bigint)", []any{5}},
		{"advisory:0,5", "pg_advisory_lock($1::int, $2::int)", []any{0, 5}},
		{"advisory:-7,-9", "pg_advisory_lock($1::int, $2::int)", []any{-7, -9}},
		{"advisory:-9223372036854775808", "pg_advisory_lock($1::bigint)", []any{int64(math.MinInt64)}},
		{name, "pg_advisory_lock(('x' || left(encode(sha256(convert_to($1, 'UTF8')), 'hex'), 16))::bit(64)::bigint)", []any{name}},
		{ours.String(), "pg_advisory_lock($1::bigint)", []any{ours.n}},
	} {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SELECT "+c.lock, c.args...); err != nil {
			t.Fatal(c.name, err)
		}
		if a := u.refused(c.name); a.Holding != 1 || len(a.Holders) != 1 || !strings.HasPrefix(a.Holders[0].Owner.Note, "session ") {
			t.Errorf("%s: got refusal %+v", c.name, a)
		}
		if c.name == "advisory:5" { // the same bits are a different lock
			u.release(u.take("advisory:0,5"))
		}
		if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
			t.Fatal(err)
		}
		conn.Release()
		u.release(u.take(c.name))
	}
}
