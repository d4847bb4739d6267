package mongosim

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// An answered error is what a server replies instead of a result.
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

// refuse is the error for all that a real server may know and this one does
// not.
func refuse(format string, args ...any) *answered {
	return failed(238, "NotImplemented", "mongosim does not know "+format, args...)
}

func (e *answered) reply() bson.D {
	return append(bson.D{{Key: "ok", Value: 0.0}, {Key: "errmsg", Value: e.text}, {Key: "code", Value: e.code}, {Key: "codeName", Value: e.name}}, e.fields...)
}

// always are the fields that any command may have besides its own.
var always = []string{"$db", "lsid", "txnNumber", "writeConcern", "readConcern", "maxTimeMS", "$clusterTime", "$readPreference", "apiVersion"}

// A call is a command with its fields.
type call struct {
	bson.D
	s   *Server
	now bson.DateTime
}

// commands has what runs each, and the fields that it may have.
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
	"update":        {(*call).update, []string{"updates", "ordered"}},
	"insert":        {(*call).insert, []string{"documents", "ordered"}},
	"delete":        {(*call).delete, []string{"deletes", "ordered"}},
	"aggregate":     {(*call).aggregate, []string{"pipeline", "cursor"}},
	"getMore":       {(*call).getMore, []string{"collection", "batchSize"}},
	"killCursors":   {(*call).killCursors, []string{"cursors"}},
	"createIndexes": {(*call).createIndexes, []string{"indexes"}},
	"buildInfo":     {func(*call) bson.D { return bson.D{{Key: "version", Value: "4.4.0"}} }, nil},
}

// answer runs a command; ok is false if there is to be no reply.
func (s *Server) answer(command bson.D) (reply bson.D, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(command) == 0 {
		return nil, false
	}
	name := command[0].Key
	s.sent[name]++
	f, faulty := s.fault(name)
	switch {
	case faulty && f.Before && f.Cut:
		return nil, false
	case faulty && f.Before:
		e := failed(f.Code, f.Name, "the fault that was asked for")
		if f.Labels != nil {
			e.fields = bson.D{{Key: "errorLabels", Value: labels(f.Labels)}}
		}
		return e.reply(), true
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
		if f.Labels != nil {
			reply = append(reply, bson.E{Key: "errorLabels", Value: labels(f.Labels)})
		}
	}
	return reply, true
}

func labels(all []string) bson.A {
	out := bson.A{}
	for _, l := range all {
		out = append(out, l)
	}
	return out
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
	if reply, ok := c.again(); ok {
		return reply
	}
	return append(known.run(c), bson.E{Key: "ok", Value: 1.0})
}

// retryable is the session and the number of a retryable write; ok is false of
// other commands.
func (c *call) retryable() (session string, number int64, ok bool) {
	number, ok = field(c.D, "txnNumber").(int64)
	if !ok {
		return "", 0, false
	}
	if c.s.o.Standalone {
		panic(failed(20, "IllegalOperation", "Transaction numbers are only allowed on a replica set member or mongos"))
	}
	id, _ := field(c.D, "lsid").(bson.D)
	return string(encode(id)), number, true
}

// again is the reply to a retryable write that was done before. One that
// changed nothing is done anew.
func (c *call) again() (bson.D, bool) {
	session, number, ok := c.retryable()
	if !ok {
		return nil, false
	}
	w, ok := c.s.writes[session]
	if ok && number < w.number {
		panic(failed(225, "TransactionTooOld", "a newer write of the session has begun"))
	}
	return append(slices.Clone(w.reply), bson.E{Key: "ok", Value: 1.0}), ok && number == w.number
}

// keep keeps the reply to a retryable write that changed something.
func (c *call) keep(reply bson.D) {
	if session, number, ok := c.retryable(); ok {
		c.s.writes[session] = write{number, reply}
	}
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
	return d
}

// modify runs an update pipeline over the first document that the filter
// matches. after is nil if there was none, and none was made.
func (c *call) modify(filter, pipeline value, upsert bool) (before, after bson.D) {
	ns := c.namespace()
	match := parseQuery(filter)
	for i, d := range c.s.collections[ns] {
		if !match(d) {
			continue
		}
		out := run(pipeline, d, c.now)
		if compare(field(out, "_id"), field(d, "_id")) != 0 {
			panic(failed(66, "ImmutableField", "Performing an update on the path '_id' would modify the immutable field '_id'"))
		}
		if same(d, out) {
			return d, d
		}
		c.s.collections[ns][i] = out
		c.s.changed(ns, d, out)
		return d, out
	}
	if !upsert {
		return nil, nil
	}
	seed := bson.D{} // what the filter says is so
	for _, f := range filter.(bson.D) {
		if _, is := f.Value.(bson.D); is {
			panic(refuse("an upsert with the condition %s", f.Key))
		}
		seed = append(seed, f)
	}
	out := run(pipeline, seed, c.now)
	id := field(out, "_id")
	if isMissing(id) {
		panic(refuse("an upsert without _id"))
	}
	out = append(bson.D{{Key: "_id", Value: id}}, with(out, "_id", missing{})...)
	for _, d := range c.s.collections[ns] {
		if compare(field(d, "_id"), id) == 0 {
			panic(duplicate(ns, id))
		}
	}
	c.s.collections[ns] = append(c.s.collections[ns], out)
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
	reply := func(d value) bson.D {
		return bson.D{{Key: "lastErrorObject", Value: last}, {Key: "value", Value: d}}
	}
	if after == nil {
		return reply(nil)
	}
	if before == nil || !same(before, after) {
		c.keep(reply(after)) // whole, without the projection
	}
	if fields := field(c.D, "fields"); !isMissing(fields) {
		if c.s.o.Timeless { // what was written stays
			panic(failed(51144, "Location51144", "Builtin variable '$$NOW' is not available"))
		}
		after = project(fields, after, c.now)
	}
	return reply(after)
}

func (c *call) update() bson.D {
	updates, _ := field(c.D, "updates").(bson.A)
	if truth(field(c.D, "ordered")) {
		panic(refuse("updates in order"))
	}
	n, modified := 0, 0
	errs := bson.A{}
	for i, u := range updates {
		u := u.(bson.D)
		for _, f := range u {
			if f.Key != "q" && f.Key != "u" {
				panic(refuse("an update with %s", f.Key))
			}
		}
		func() {
			defer func() {
				switch r := recover().(type) {
				case nil:
				case *answered:
					errs = append(errs, append(bson.D{{Key: "index", Value: int32(i)}, {Key: "code", Value: r.code}, {Key: "errmsg", Value: r.text}}, r.fields...))
				default:
					panic(r)
				}
			}()
			before, after := c.modify(field(u, "q"), field(u, "u"), false)
			n += bit(after != nil)
			modified += bit(after != nil && !same(before, after))
		}()
	}
	reply := bson.D{{Key: "n", Value: int32(n)}, {Key: "nModified", Value: int32(modified)}}
	if len(errs) > 0 {
		reply = append(reply, bson.E{Key: "writeErrors", Value: errs})
	}
	if modified > 0 {
		c.keep(reply)
	}
	return reply
}

// aggregate is a filter, and fields computed for what it matches, in one batch.
func (c *call) aggregate() bson.D {
	stages, _ := field(c.D, "pipeline").(bson.A)
	if st, ok := c.watch(stages); ok {
		return st
	}
	found := c.s.collections[c.namespace()]
	for _, st := range stages {
		stage, _ := st.(bson.D)
		if len(stage) != 1 {
			panic(failed(40323, "Location40323", "A pipeline stage specification object must contain exactly one field."))
		}
		if stage[0].Key == "$facet" {
			found = []bson.D{facet(stage[0].Value, found)}
			continue
		}
		var out []bson.D
		match := func(bson.D) bool { return true }
		if stage[0].Key == "$match" {
			match = parseQuery(stage[0].Value)
		}
		for _, d := range found {
			if !match(d) {
				continue
			}
			if stage[0].Key != "$match" {
				d = run(bson.A{stage}, d, c.now)
			}
			out = append(out, d)
		}
		found = out
	}
	batch := bson.A{}
	for _, d := range found {
		batch = append(batch, d)
	}
	return bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: batch}, {Key: "id", Value: int64(0)}, {Key: "ns", Value: c.namespace()}}}}
}

// facet makes one document of what there is, also of nothing: a list for each of
// its pipelines, which are filters here.
func facet(arg value, found []bson.D) bson.D {
	spec, is := arg.(bson.D)
	if !is || len(spec) == 0 {
		panic(failed(40169, "Location40169", "the $facet specification must be a non-empty object"))
	}
	out := bson.D{}
	for _, f := range spec {
		stages, _ := f.Value.(bson.A)
		if len(stages) != 1 {
			panic(refuse("a $facet of other than one stage"))
		}
		stage, _ := stages[0].(bson.D)
		if len(stage) != 1 || stage[0].Key != "$match" {
			panic(refuse("a $facet with another stage than $match"))
		}
		match, list := parseQuery(stage[0].Value), bson.A{}
		for _, d := range found {
			if match(d) {
				list = append(list, d)
			}
		}
		out = append(out, bson.E{Key: f.Key, Value: list})
	}
	return out
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
		}
	}
	return bson.D{
		{Key: "numIndexesBefore", Value: int32(before + 1)}, {Key: "numIndexesAfter", Value: int32(len(c.s.indexes[ns]) + 1)}, // and that of _id
		{Key: "createdCollectionAutomatically", Value: false},
	}
}
