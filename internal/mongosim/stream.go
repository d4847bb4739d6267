package mongosim

import (
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// An event is a change, as a change stream shows it to a client that watches the collection.
type event struct {
	namespace string
	bson.D
}

// mostEvents is how many events are kept; a stream that is further behind is lost.
const mostEvents = 4096

// A stream is a cursor over the events.
type stream struct {
	namespace string
	match     query
	project   value
	behind    bson.A        // events that it has not returned; nil if
	lost      bool          // it was too far behind
	woken     chan struct{} // has a buffer of one
}

// wake makes a waiting getMore check for events.
func (st *stream) wake() {
	select {
	case st.woken <- struct{}{}:
	default:
	}
}

// meets adds an event to the stream if it matches.
func (st *stream) meets(e event) {
	if st.lost || e.namespace != st.namespace || st.match != nil && !st.match(e.D) {
		return
	}
	d := e.D
	if st.project != nil {
		d = project(st.project, d)
	}
	if st.behind = append(st.behind, d); len(st.behind) > mostEvents {
		st.behind, st.lost = nil, true
	}
	st.wake()
}

// changed records a write. before is nil for an insert, after is nil for a delete.
func (s *Server) changed(ns string, before, after bson.D) {
	s.written++
	of := after
	if after == nil {
		of = before
	}
	e := bson.D{{Key: "_id", Value: resumeToken(s.happened() + 1)}, {Key: "documentKey", Value: bson.D{{Key: "_id", Value: field(of, "_id")}}}}
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
	for _, st := range s.streams {
		st.meets(event{ns, e})
	}
}

// happened returns how many events there were.
func (s *Server) happened() int { return s.forgotten + len(s.events) }

func resumeToken(n int) bson.D { return bson.D{{Key: "_data", Value: strconv.Itoa(n)}} }

// watch opens a change stream if the pipeline begins with one: from now on, or after an event.
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
	st, from := &stream{namespace: c.namespace(), woken: make(chan struct{}, 1)}, c.s.happened()
	options, _ := first[0].Value.(bson.D)
	for _, o := range options {
		token, isToken := at(o.Value, []string{"_data"}).(string)
		n, err := strconv.Atoi(token)
		if o.Key != "resumeAfter" || !isToken || err != nil || n > c.s.happened() {
			panic(refuse("a change stream with %s", o.Key))
		}
		if from = n; from < c.s.forgotten {
			panic(historyLost())
		}
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
	for _, e := range c.s.events[from-c.s.forgotten:] {
		st.meets(e)
	}
	c.s.cursors++
	c.s.streams[c.s.cursors] = st
	return c.batch(c.s.cursors, "firstBatch"), true
}

func historyLost() *answered {
	return failed(286, "ChangeStreamHistoryLost", "the resume point may no longer be in the oplog")
}

func (c *call) batch(id int64, as string) bson.D {
	st := c.s.streams[id]
	if st.lost {
		panic(historyLost())
	}
	told := append(bson.A{}, st.behind...)
	st.behind = nil
	return bson.D{{Key: "cursor", Value: bson.D{
		{Key: as, Value: told}, {Key: "id", Value: id}, {Key: "ns", Value: st.namespace}, {Key: "postBatchResumeToken", Value: resumeToken(c.s.happened())},
	}}}
}

// wait makes a getMore wait for an event, for at most its maxTimeMS, or a second.
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
	for end, over := time.After(long), false; !over && len(st.behind) == 0 && !st.lost && !s.closed && s.streams[id] != nil; {
		s.mu.Unlock()
		select {
		case <-st.woken:
		case <-end:
			over = true
		}
		s.mu.Lock()
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
		if st := c.s.streams[id.(int64)]; st != nil {
			delete(c.s.streams, id.(int64))
			st.wake()
		}
	}
	return bson.D{{Key: "cursorsKilled", Value: ids}}
}
