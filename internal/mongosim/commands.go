package mongosim

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// An answered error is the server's reply instead of a result.
type answered struct {
	code   int32
	name   string
	text   string
	fields bson.D
}

func (e *answered) Error() string { return fmt.Sprintf("%s (%d): %s", e.name, e.code, e.text) }

func failed(code int32, name, format string, args ...any) *answered {
	return &answered{code: code, name: name, text: fmt.Sprintf(format, args...)}
}

// refuse returns the error for a feature that a real server may have and this one does not.
func refuse(format string, args ...any) *answered {
	return failed(238, "NotImplemented", "mongosim does not know "+format, args...)
}

func (e *answered) reply() bson.D {
	return append(bson.D{{Key: "ok", Value: 0.0}, {Key: "errmsg", Value: e.text}, {Key: "code", Value: e.code}, {Key: "codeName", Value: e.name}}, e.fields...)
}

// always are the fields that every command may have.
var always = []string{"$db", "lsid", "writeConcern", "readConcern", "maxTimeMS", "$clusterTime", "$readPreference", "apiVersion"}

// A call is a command with its fields.
type call struct {
	bson.D
	s   *Server
	now bson.DateTime
}

// commands has the method that runs each command, and the fields that the command may have.
var commands = map[string]struct {
	run    func(c *call) bson.D
	fields []string
}{
	"isMaster":      {(*call).hello, nil},
	"ismaster":      {(*call).hello, nil},
	"hello":         {(*call).hello, nil},
	"ping":          {func(*call) bson.D { return nil }, nil},
	"endSessions":   {func(*call) bson.D { return nil }, nil},
	"findAndModify": {(*call).findAndModify, []string{"query", "update", "new", "upsert", "fields"}},
	"find":          {(*call).find, []string{"filter", "limit", "singleBatch"}},
	"insert":        {(*call).insert, []string{"documents", "ordered"}},
	"delete":        {(*call).delete, []string{"deletes", "ordered"}},
	"aggregate":     {(*call).aggregate, []string{"pipeline", "cursor"}},
	"getMore":       {(*call).getMore, []string{"collection", "batchSize"}},
	"killCursors":   {(*call).killCursors, []string{"cursors"}},
	"createIndexes": {(*call).createIndexes, []string{"indexes"}},
	"buildInfo":     {func(*call) bson.D { return bson.D{{Key: "version", Value: "4.4.0"}} }, nil},
}

// answer runs a command; ok is false if there must be no reply.
func (s *Server) answer(command bson.D) (reply bson.D, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(command) == 0 {
		return nil, false
	}
	name := command[0].Key
	s.sent[name]++
	f, faulty := s.fault(command)
	if f.Late || f.Again {
		s.kept = append(s.kept, command)
		if f.Late {
			return nil, false
		}
		faulty = false
	}
	switch {
	case faulty && f.Before && f.Cut:
		return nil, false
	case faulty && f.Before:
		return failed(f.Code, f.Name, "the fault that was asked for").reply(), true
	}
	s.wait(command)
	reply = s.run(name, command)
	switch {
	case faulty && f.Cut:
		return nil, false
	case faulty:
		reply = append(reply, bson.E{Key: "writeConcernError", Value: bson.D{
			{Key: "code", Value: f.Code}, {Key: "codeName", Value: f.Name}, {Key: "errmsg", Value: "the fault that was asked for"},
		}})
	}
	return reply, true
}

func (s *Server) run(name string, command bson.D) (reply bson.D) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *answered:
			reply = r.reply()
		default:
			panic(r)
		}
	}()
	known, ok := commands[name]
	if !ok {
		return failed(59, "CommandNotFound", "mongosim does not know the command %s", name).reply()
	}
	if known.fields != nil {
		for _, f := range command[1:] {
			if !slices.Contains(known.fields, f.Key) && !slices.Contains(always, f.Key) {
				return refuse("%s with %s", name, f.Key).reply()
			}
		}
	}
	c := &call{D: command, s: s, now: bson.NewDateTimeFromTime(s.o.Clock())}
	s.expire(c.now)
	return append(known.run(c), bson.E{Key: "ok", Value: 1.0})
}

func (c *call) namespace() string {
	db, _ := field(c.D, "$db").(string)
	name, _ := c.D[0].Value.(string)
	return db + "." + name
}

func (c *call) flag(key string) bool { return truth(field(c.D, key)) }

func (c *call) hello() bson.D {
	d := bson.D{
		{Key: "helloOk", Value: true}, {Key: "maxBsonObjectSize", Value: int32(16 << 20)}, {Key: "maxMessageSizeBytes", Value: int32(maxMessage)},
		{Key: "maxWriteBatchSize", Value: int32(100_000)}, {Key: "localTime", Value: c.now}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)},
		{Key: "connectionId", Value: int32(1)}, {Key: "minWireVersion", Value: int32(0)}, {Key: "maxWireVersion", Value: int32(9)}, {Key: "readOnly", Value: false},
	}
	if c.D[0].Key == "hello" {
		d = append(d, bson.E{Key: "isWritablePrimary", Value: true})
	} else {
		d = append(d, bson.E{Key: "ismaster", Value: true})
	}
	if !c.s.o.Standalone {
		d = append(d, bson.E{Key: "setName", Value: "sim"}, bson.E{Key: "setVersion", Value: int32(1)}, bson.E{Key: "hosts", Value: bson.A{c.s.Addr}},
			bson.E{Key: "me", Value: c.s.Addr}, bson.E{Key: "primary", Value: c.s.Addr}, bson.E{Key: "secondary", Value: false})
	}
	return append(d, c.s.o.Hello...)
}

// modify updates the first document that the filter matches. after is nil if nothing matched
// and nothing was inserted.
func (c *call) modify(filter, update value, upsert bool) (before, after bson.D) {
	ns := c.namespace()
	if c.s.o.Engine == FiltersByID {
		filter = bson.D{{Key: "_id", Value: at(filter, []string{"_id"})}}
	}
	all := c.s.collection(ns)
	if d := all.first(filter); d != nil {
		out := c.apply(update, d)
		if same(d, out) {
			return d, d
		}
		all.put(out)
		c.s.changed(ns, d, out)
		return d, out
	}
	if !upsert {
		return nil, nil
	}
	seed := bson.D{} // the equality conditions of the filter
	for _, f := range filter.(bson.D) {
		if _, is := f.Value.(bson.D); is {
			panic(refuse("an upsert with the condition %s", f.Key))
		}
		seed = append(seed, f)
	}
	id := field(seed, "_id")
	if isMissing(id) {
		panic(refuse("an upsert without _id"))
	}
	out := c.apply(update, seed)
	if all.has(id) {
		switch c.s.o.Engine {
		case UpsertsReplace:
			all.put(out)
			return nil, out
		case UpsertsBothWin:
			return nil, out
		}
		panic(duplicate(ns, id))
	}
	all.put(out)
	c.s.changed(ns, nil, out)
	return nil, out
}

func duplicate(ns string, id value) *answered {
	e := failed(11000, "DuplicateKey", "E11000 duplicate key error collection: %s index: _id_ dup key: { _id: %q }", ns, id)
	e.fields = bson.D{{Key: "keyPattern", Value: bson.D{{Key: "_id", Value: int32(1)}}}, {Key: "keyValue", Value: bson.D{{Key: "_id", Value: id}}}}
	return e
}

func (c *call) findAndModify() bson.D {
	if !c.flag("new") {
		panic(refuse("findAndModify that returns the document as it was"))
	}
	before, after := c.modify(field(c.D, "query"), field(c.D, "update"), c.flag("upsert"))
	last := bson.D{{Key: "n", Value: int32(bit(after != nil))}, {Key: "updatedExisting", Value: before != nil}}
	if before == nil && after != nil {
		last = append(last, bson.E{Key: "upserted", Value: field(after, "_id")})
	}
	var v value
	if after != nil {
		v = after
		if fields := field(c.D, "fields"); !isMissing(fields) {
			v = project(fields, after)
		}
	}
	return bson.D{{Key: "lastErrorObject", Value: last}, {Key: "value", Value: v}}
}

// find returns what a filter matches, in one batch.
func (c *call) find() bson.D {
	if level := at(field(c.D, "readConcern"), []string{"level"}); !isMissing(level) && level != "local" {
		switch {
		case level != "linearizable":
			panic(refuse("the read concern %v", level))
		case c.s.o.Standalone:
			panic(failed(123, "NotAReplicaSet", "node needs to be a replica set member to use read concern"))
		}
	}
	batch := bson.A{}
	limit, limited := number(field(c.D, "limit"))
	for _, d := range c.s.collection(c.namespace()).matched(field(c.D, "filter")) {
		if !limited || len(batch) < int(limit) {
			batch = append(batch, d)
		}
	}
	return bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: batch}, {Key: "id", Value: int64(0)}, {Key: "ns", Value: c.namespace()}}}}
}

// aggregate opens a change stream.
func (c *call) aggregate() bson.D {
	stages, _ := field(c.D, "pipeline").(bson.A)
	if st, ok := c.watch(stages); ok {
		return st
	}
	panic(refuse("an aggregate that is no change stream"))
}

func (c *call) createIndexes() bson.D {
	ns := c.namespace()
	before := len(c.s.indexes[ns])
	wanted, _ := field(c.D, "indexes").(bson.A)
	for _, w := range wanted {
		index, _ := w.(bson.D)
		known := false
		for _, have := range c.s.indexes[ns] {
			if compare(field(have, "name"), field(index, "name")) != 0 {
				continue
			}
			if !same(have, index) {
				panic(failed(85, "IndexOptionsConflict", "an index of that name exists with other options"))
			}
			known = true
		}
		if !known {
			c.s.indexes[ns] = append(c.s.indexes[ns], index)
			c.s.collection(ns).indexed(index)
		}
	}
	return bson.D{
		{Key: "numIndexesBefore", Value: int32(before + 1)}, {Key: "numIndexesAfter", Value: int32(len(c.s.indexes[ns]) + 1)}, // plus that of _id
		{Key: "createdCollectionAutomatically", Value: false},
	}
}
