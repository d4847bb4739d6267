package mongosim

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// insert and delete take one document a command. mongostore does not use them. The simple lock
// that the bench compares it with does: its lock is just a document.

func (c *call) insert() bson.D {
	documents, _ := field(c.D, "documents").(bson.A)
	if len(documents) != 1 {
		panic(refuse("an insert of other than one document"))
	}
	ns, d := c.namespace(), documents[0].(bson.D)
	id := field(d, "_id")
	if isMissing(id) {
		panic(refuse("an insert without _id"))
	}
	all := c.s.collection(ns)
	if all.has(id) {
		e := duplicate(ns, id)
		return bson.D{{Key: "n", Value: int32(0)}, {Key: "writeErrors", Value: bson.A{
			append(bson.D{{Key: "index", Value: int32(0)}, {Key: "code", Value: e.code}, {Key: "errmsg", Value: e.text}}, e.fields...),
		}}}
	}
	all.put(d)
	c.s.changed(ns, nil, d)
	return bson.D{{Key: "n", Value: int32(1)}}
}

func (c *call) delete() bson.D {
	deletes, _ := field(c.D, "deletes").(bson.A)
	if len(deletes) != 1 {
		panic(refuse("other than one delete"))
	}
	spec := deletes[0].(bson.D)
	for _, f := range spec {
		if f.Key != "q" && f.Key != "limit" {
			panic(refuse("a delete with %s", f.Key))
		}
	}
	if compare(field(spec, "limit"), int32(1)) != 0 {
		panic(refuse("a delete of more than one document"))
	}
	ns := c.namespace()
	all := c.s.collection(ns)
	if d := all.first(field(spec, "q")); d != nil {
		all.remove(d)
		c.s.changed(ns, d, nil)
		return bson.D{{Key: "n", Value: int32(1)}}
	}
	return bson.D{{Key: "n", Value: int32(0)}}
}
