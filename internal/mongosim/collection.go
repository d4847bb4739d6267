package mongosim

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A collection is documents by their _id.
type collection struct {
	documents map[string]*document // by idKey
	made      int                  // documents so far
	ttls      []ttl
	due       bson.DateTime // no document is over by its TTL before
}

type document struct {
	bson.D
	made int // as the how many-th
}

// A ttl is an index that deletes documents: seconds behind the date in a field.
type ttl struct {
	field   string
	seconds int64
}

func (s *Server) collection(ns string) *collection {
	c := s.collections[ns]
	if c == nil {
		c = &collection{documents: map[string]*document{}, due: math.MaxInt64}
		s.collections[ns] = c
	}
	return c
}

// idKey is the same for values that compare as equal, and for no others.
func idKey(id value) string {
	switch id := id.(type) {
	case string:
		return "s" + id
	case bson.Binary:
		return "b" + string([]byte{id.Subtype}) + string(id.Data)
	}
	if n, is := number(id); is {
		id = n
	}
	return "v" + string(encode(bson.D{{Key: "", Value: id}}))
}

func (c *collection) has(id value) bool { return c.documents[idKey(id)] != nil }

// put sets the document with its _id, which keeps its place if it was there.
func (c *collection) put(d bson.D) {
	key := idKey(field(d, "_id"))
	of := c.documents[key]
	if of == nil {
		of = &document{made: c.made}
		c.documents[key] = of
		c.made++
	}
	of.D = d
	for _, t := range c.ttls {
		c.due = min(c.due, t.end(d))
	}
}

func (c *collection) remove(d bson.D) { delete(c.documents, idKey(field(d, "_id"))) }

// matched is what the filter matches, in the order of its making. Only what can be is
// looked at: with an _id, or a list of them, that is little.
func (c *collection) matched(filter value) (all []bson.D) {
	match := parseQuery(filter)
	for _, d := range c.candidates(filter.(bson.D)) {
		if match(d) {
			all = append(all, d)
		}
	}
	return all
}

// first is the first that the filter matches, or nil.
func (c *collection) first(filter value) bson.D {
	if all := c.matched(filter); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (c *collection) candidates(filter bson.D) (all []bson.D) {
	var some []*document
	switch of := field(filter, "_id").(type) {
	case missing:
		some = slices.Collect(maps.Values(c.documents))
	case bson.D:
		ids, isIn := field(of, "$in").(bson.A)
		switch {
		case isIn:
			for _, id := range ids {
				some = append(some, c.documents[idKey(id)])
			}
		case len(of) > 0 && strings.HasPrefix(of[0].Key, "$"):
			some = slices.Collect(maps.Values(c.documents))
		default:
			some = append(some, c.documents[idKey(of)])
		}
	default:
		some = append(some, c.documents[idKey(of)])
	}
	some = slices.DeleteFunc(some, func(d *document) bool { return d == nil })
	slices.SortFunc(some, func(a, b *document) int { return cmp.Compare(a.made, b.made) })
	for _, d := range slices.Compact(some) {
		all = append(all, d.D)
	}
	return all
}

// indexed has an index from now on: it deletes documents if it has a TTL.
func (c *collection) indexed(index bson.D) {
	seconds, is := number(field(index, "expireAfterSeconds"))
	if keys, _ := field(index, "key").(bson.D); is && len(keys) == 1 {
		c.ttls = append(c.ttls, ttl{keys[0].Key, seconds})
		c.due = math.MinInt64
	}
}

// end is when the document is over.
func (t ttl) end(d bson.D) bson.DateTime {
	if at, is := field(d, t.field).(bson.DateTime); is {
		return at + bson.DateTime(t.seconds*1000)
	}
	return math.MaxInt64
}

// expire deletes what the TTL indexes are for.
func (s *Server) expire(now bson.DateTime) {
	for ns, c := range s.collections {
		if now < c.due {
			continue
		}
		c.due = math.MaxInt64
		for _, d := range c.candidates(nil) {
			end := bson.DateTime(math.MaxInt64)
			for _, t := range c.ttls {
				end = min(end, t.end(d))
			}
			if end <= now {
				c.remove(d)
				s.changed(ns, d, nil)
				continue
			}
			c.due = min(c.due, end)
		}
	}
}
