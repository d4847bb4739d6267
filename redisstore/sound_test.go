package redisstore

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/store/queue"
)

// head is the field "h" of a hash, without the id of the hold that wants to upgrade, and without the limits.
type head struct {
	Magic                [3]byte
	Last                 float64
	Asking               uint32
	Held                 float64
	Granted, N           uint32
	Tail, First, Covered float64
	Levels, Upgrader     uint8
}

// stored reads what the server keeps of a name, and returns in which form. It checks the derived values (sums, the tree, the index) against
// the entries.
func stored(t testing.TB, s *Store, name string, sh shape) (q queue.Queue, form string) {
	t.Helper()
	key := s.key(name)
	form, err := s.client.Type(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	switch form {
	case "none":
		return queue.Queue{}, form
	case "string":
		cmd := s.command(&s.scripts.view, key) // an entry that a session keeps gets the expiry of that session
		s.start(t.Context(), cmd)
		_, q, err = s.view(t.Context(), cmd, "look at", name)
		if v := s.client.Get(t.Context(), key).Val(); len(v) >= headSize+entrySize && v[headSize+entrySize-1] == 7 {
			form = "string in a session"
		}
		if err != nil {
			t.Fatal(err)
		}
		var counted, freed int
		for i := range q.Entries {
			if q.Entries[i].Freed() {
				freed++
			} else {
				counted++
			}
		}
		if counted > sh.fewest {
			t.Fatalf("got a string with %d entries", counted)
		}
		if freed > 0 {
			form = "string with what is freed"
		}
		return q, form
	}
	fields, err := s.client.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	var h head
	n, err := binary.Decode([]byte(fields["h"]), le, &h)
	if err != nil {
		t.Fatal(err)
	}
	upgrader := fields["h"][n:]
	upgrader, rest := upgrader[:h.Upgrader], upgrader[h.Upgrader:]
	type counts struct{ All, Holds uint32 }
	limits, wantLimits := map[uint32]counts{}, map[uint32]counts{}
	for ; rest != ""; rest = rest[12:] {
		var one struct {
			Limit uint32
			counts
		}
		if _, err := binary.Decode([]byte(rest), le, &one); err != nil {
			t.Fatalf("the head ends with %q: %v", rest, err)
		}
		limits[one.Limit] = one.counts
	}
	delete(fields, "h")
	type placed struct {
		place int
		e     queue.Entry
	}
	var all []placed
	for f, v := range fields {
		if len(f) != 32 {
			continue
		}
		some, err := parseEntries(v[8:])
		if err != nil || len(some) != 1 || some[0].ID.String() != f {
			t.Fatalf("field %q: %+v, %v", f, some, err)
		}
		all = append(all, placed{int(float(v)), some[0]})
		delete(fields, f)
	}
	for rest := fields["x"]; rest != ""; {
		n := 8 + entrySize + int(rest[8+64]) + int(rest[8+65])<<8 + int(rest[8+66])
		some, err := parseEntries(rest[8:n])
		if err != nil || len(some) != 1 || !some[0].Freed() {
			t.Fatalf("field x: %+v, %v", some, err)
		}
		all = append(all, placed{int(float(rest)), some[0]})
		rest, form = rest[n:], "hash with what is freed"
		delete(fields, "x")
	}
	slices.SortFunc(all, func(a, b placed) int { return a.place - b.place })
	q.Last = int64(h.Last)
	want := head{Magic: h.Magic, Last: h.Last, Tail: h.Tail, First: math.Inf(1), Covered: h.Covered, Levels: h.Levels, Upgrader: h.Upgrader}
	wants := ""
	tree := make([]map[int][]float64, h.Levels) // by level and node: ends, then numbers, then those that ask
	for _, p := range all {
		e := p.e
		q.Entries = append(q.Entries, e)
		end := float64(e.Expires)
		if e.Freed() {
			if h.Covered < end || p.place >= int(h.Tail) {
				t.Fatalf("freed at %d: %+v in %+v", p.place, e, h)
			}
			continue
		}
		want.N++
		of, asks := wantLimits[uint32(e.Limit)], 0.0
		of.All++
		if !e.Granted && e.GiveUp != nil {
			want.Asking++
			asks = 1
		}
		if e.Granted {
			of.Holds++
			want.Granted++
			want.Held += float64(e.Weight)
			if e.Want > e.Weight {
				wants = e.ID.String()
			}
			if end += float64(e.LockDelay); e.Shown {
				end = max(end, float64(e.Since+e.MinHold))
			}
		}
		wantLimits[uint32(e.Limit)] = of
		want.First = min(want.First, end)
		if want.Covered < end || p.place >= int(h.Tail) {
			t.Fatalf("entry at %d: %+v in %+v", p.place, e, h)
		}
		index := "#" + strconv.Itoa(p.place)
		if fields[index] != e.ID.String() {
			t.Fatalf("%s is %q, want %v", index, fields[index], e.ID)
		}
		delete(fields, index)
		child := p.place
		for l := range tree {
			if tree[l] == nil {
				tree[l] = map[int][]float64{}
			}
			node := tree[l][child/sh.fanout]
			if node == nil {
				for range sh.fanout {
					node = append(node, math.Inf(1))
				}
				node = append(node, make([]float64, 2*sh.fanout)...)
				tree[l][child/sh.fanout] = node
			}
			node[child%sh.fanout] = min(node[child%sh.fanout], end)
			node[sh.fanout+child%sh.fanout]++
			node[2*sh.fanout+child%sh.fanout] += asks
			child /= sh.fanout
		}
		if child != 0 {
			t.Fatalf("position %d is outside a tree of %d levels", p.place, h.Levels)
		}
	}
	if h != want || upgrader != wants || !maps.Equal(limits, wantLimits) {
		t.Fatalf("the head is %+v %q %v, want %+v %q %v", h, upgrader, limits, want, wants, wantLimits)
	}
	for l, nodes := range tree {
		for i, want := range nodes {
			f := fmt.Sprintf("t%d:%d", l, i)
			ends, numbers := make([]float64, sh.fanout), make([]uint32, 2*sh.fanout)
			n, err := binary.Decode([]byte(fields[f]), le, ends)
			if err == nil {
				_, err = binary.Decode([]byte(fields[f])[n:], le, numbers)
			}
			if err != nil {
				t.Fatalf("field %q: %q: %v", f, fields[f], err)
			}
			for _, n := range numbers {
				ends = append(ends, float64(n))
			}
			if !slices.Equal(ends, want) {
				t.Fatalf("field %q: %v, want %v", f, ends, want)
			}
			delete(fields, f)
		}
	}
	if len(fields) > 0 {
		t.Fatalf("got fields that nothing needs: %q", fields)
	}
	return q, form
}
