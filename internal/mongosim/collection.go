package mongosim

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A collection has documents by _id.
type collection struct {
	documents map[string]*document // by idKey
	made      int                  // number of documents made so far
	ttls      []ttl
	due       bson.DateTime // no document expires by its TTL before this
}

type document struct {
	bson.D
	made int // its number, in the order of creation
}

// A ttl is an index that deletes documents this many seconds after the date in a field.
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

// idKey returns the same key for values that compare as equal, and different keys for others.
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

// put stores the document under its _id. It keeps the position of one that was there.
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

// matched returns the documents that the filter matches, in the order of creation. With an _id
// in the filter, or a list of them, it looks only at these documents.
func (c *collection) matched(filter value) (all []bson.D) {
	match := parseQuery(filter)
	for _, d := range c.candidates(filter.(bson.D)) {
		if match(d) {
			all = append(all, d)
		}
	}
	return all
}

// first returns the first document that the filter matches, or nil.
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

// indexed adds an index. Only one with a TTL has an effect: it deletes documents.
func (c *collection) indexed(index bson.D) {
	seconds, is := number(field(index, "expireAfterSeconds"))
	if keys, _ := field(index, "key").(bson.D); is && len(keys) == 1 {
		c.ttls = append(c.ttls, ttl{keys[0].Key, seconds})
		c.due = math.MinInt64
	}
}

// end returns when the document expires.
func (t ttl) end(d bson.D) bson.DateTime {
	if at, is := field(d, t.field).(bson.DateTime); is {
		return at + bson.DateTime(t.seconds*1000)
	}
	return math.MaxInt64
}

// expire deletes the documents whose TTL has passed.
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
