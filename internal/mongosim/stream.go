package mongosim

import (
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// An event is a change as a change stream shows it, to whoever watches the
// collection.
type event struct {
	namespace string
	bson.D
}

// mostEvents is how many are kept; a stream that is further behind is lost.
const mostEvents = 4096

// A stream is a cursor over the events.
type stream struct {
	namespace string
	match     query
	project   value
	next      int // event, counted from the first
}

// changed notes a write. before is nil of what was made, after of what was
// deleted.
func (s *Server) changed(ns string, before, after bson.D) {
	s.written++
	of := after
	if after == nil {
		of = before
	}
	e := bson.D{{Key: "_id", Value: resumeToken(s.forgotten + len(s.events) + 1)}, {Key: "documentKey", Value: bson.D{{Key: "_id", Value: field(of, "_id")}}}}
	switch {
	case after == nil:
		e = append(e, bson.E{Key: "operationType", Value: "delete"})
	case before == nil:
		e = append(e, bson.E{Key: "operationType", Value: "insert"}, bson.E{Key: "fullDocument", Value: after})
	default:
		changed, removed := bson.D{}, bson.A{}
		for _, f := range after {
			if was := field(before, f.Key); isMissing(was) || compare(was, f.Value) != 0 {
				changed = append(changed, f)
			}
		}
		for _, f := range before {
			if isMissing(field(after, f.Key)) {
				removed = append(removed, f.Key)
			}
		}
		e = append(e, bson.E{Key: "operationType", Value: "update"},
			bson.E{Key: "updateDescription", Value: bson.D{{Key: "updatedFields", Value: changed}, {Key: "removedFields", Value: removed}}})
	}
	if s.events = append(s.events, event{ns, e}); len(s.events) > mostEvents {
		n := len(s.events) / 2
		s.events = append([]event{}, s.events[n:]...)
		s.forgotten += n
	}
	s.tell()
}

func (s *Server) tell() {
	close(s.news)
	s.news = make(chan struct{})
}

func resumeToken(n int) bson.D { return bson.D{{Key: "_data", Value: strconv.Itoa(n)}} }

// watch opens a change stream, if the pipeline begins with one: from now on, or
// behind an event.
func (c *call) watch(stages bson.A) (reply bson.D, ok bool) {
	if len(stages) == 0 {
		return nil, false
	}
	first, _ := stages[0].(bson.D)
	if len(first) != 1 || first[0].Key != "$changeStream" {
		return nil, false
	}
	if c.s.o.Engine == NoChangeStreams {
		panic(failed(115, "CommandNotSupported", "Change streams are not supported"))
	}
	if c.s.o.Standalone {
		panic(failed(40573, "Location40573", "The $changeStream stage is only supported on replica sets"))
	}
	if level := field(c.D, "readConcern"); !isMissing(level) && compare(at(level, []string{"level"}), "majority") != 0 {
		panic(failed(2, "InvalidOptions", "$changeStream cannot run with a readConcern other than 'majority'"))
	}
	st := &stream{namespace: c.namespace(), next: c.s.forgotten + len(c.s.events)}
	options, _ := first[0].Value.(bson.D)
	for _, o := range options {
		token, isToken := at(o.Value, []string{"_data"}).(string)
		n, err := strconv.Atoi(token)
		if o.Key != "resumeAfter" || !isToken || err != nil || n > c.s.forgotten+len(c.s.events) {
			panic(refuse("a change stream with %s", o.Key))
		}
		st.next = n
	}
	for _, s := range stages[1:] {
		stage := s.(bson.D)
		switch stage[0].Key {
		case "$match":
			st.match = parseQuery(stage[0].Value)
		case "$project":
			st.project = stage[0].Value
		default:
			panic(refuse("a change stream with the stage %s", stage[0].Key))
		}
	}
	c.s.cursors++
	c.s.streams[c.s.cursors] = st
	return c.batch(c.s.cursors, "firstBatch"), true
}

// more is what there is on a stream.
func (s *Server) more(st *stream) bson.A {
	out := bson.A{}
	for _, e := range s.behind(st) {
		if e.namespace != st.namespace || st.match != nil && !st.match(e.D) {
			continue
		}
		d := e.D
		if st.project != nil {
			d = project(st.project, d)
		}
		out = append(out, d)
	}
	st.next = s.forgotten + len(s.events)
	return out
}

// behind is the events that the stream has not told.
func (s *Server) behind(st *stream) []event {
	if st.next < s.forgotten {
		panic(failed(286, "ChangeStreamHistoryLost", "the resume point may no longer be in the oplog"))
	}
	return s.events[st.next-s.forgotten:]
}

func (c *call) batch(id int64, as string) bson.D {
	st := c.s.streams[id]
	batch := c.s.more(st)
	return bson.D{{Key: "cursor", Value: bson.D{
		{Key: as, Value: batch}, {Key: "id", Value: id}, {Key: "ns", Value: st.namespace}, {Key: "postBatchResumeToken", Value: resumeToken(st.next)},
	}}}
}

// wait has a getMore wait until there may be something, for as long as it says,
// or a second.
func (s *Server) wait(command bson.D) {
	id, _ := command[0].Value.(int64)
	st := s.streams[id]
	if command[0].Key != "getMore" || st == nil {
		return
	}
	long := time.Second
	if ms, is := number(field(command, "maxTimeMS")); is {
		long = time.Duration(ms) * time.Millisecond
	}
	for end := time.After(long); ; {
		for ; st.next >= s.forgotten && st.next < s.forgotten+len(s.events); st.next++ {
			if e := s.events[st.next-s.forgotten]; e.namespace == st.namespace && (st.match == nil || st.match(e.D)) {
				return
			}
		}
		if st.next < s.forgotten {
			return // the command tells it
		}
		if s.closed || s.streams[id] == nil {
			return
		}
		news := s.news
		s.mu.Unlock()
		over := false
		select {
		case <-news:
		case <-end:
			over = true
		}
		s.mu.Lock()
		if over {
			return
		}
	}
}

func (c *call) getMore() bson.D {
	id, _ := c.D[0].Value.(int64)
	if c.s.streams[id] == nil {
		panic(failed(43, "CursorNotFound", "cursor id %d not found", id))
	}
	return c.batch(id, "nextBatch")
}

func (c *call) killCursors() bson.D {
	ids, _ := field(c.D, "cursors").(bson.A)
	for _, id := range ids {
		delete(c.s.streams, id.(int64))
	}
	c.s.tell()
	return bson.D{{Key: "cursorsKilled", Value: ids}}
}
