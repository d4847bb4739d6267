package mongosim

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// run runs the stages of an update over a document, all at one time.
func run(pipeline value, d bson.D, now bson.DateTime) bson.D {
	stages, is := pipeline.(bson.A)
	if !is {
		panic(refuse("an update that is no pipeline"))
	}
	for _, st := range stages {
		stage, is := st.(bson.D)
		if !is || len(stage) != 1 {
			panic(failed(40323, "Location40323", "A pipeline stage specification object must contain exactly one field."))
		}
		s := scope{root: d, now: now}
		switch arg := stage[0].Value; stage[0].Key {
		case "$set", "$addFields":
			d = s.fields(arg)
		case "$replaceWith":
			out, is := s.eval(arg).(bson.D)
			if !is {
				panic(failed(40228, "Location40228", "'replacement document' must evaluate to an object"))
			}
			d = out
		default:
			panic(refuse("the stage %s", stage[0].Key))
		}
	}
	return d
}

// An assignment is a path of a $set and the value for it.
type assignment struct {
	path  []string
	value value
}

// fields is the stage $set: every expression sees the document as it came in.
func (s scope) fields(arg value) bson.D {
	spec, is := arg.(bson.D)
	if !is || len(spec) == 0 {
		panic(failed(40272, "Location40272", "$set specification stage must be an object that is not empty"))
	}
	var all []assignment
	s.assignments(nil, spec, &all)
	for i, a := range all {
		for _, b := range all[:i] {
			n := min(len(a.path), len(b.path))
			if strings.Join(a.path[:n], ".") == strings.Join(b.path[:n], ".") {
				panic(failed(40176, "Location40176", "specification contains two conflicting paths: %v and %v", b.path, a.path))
			}
		}
	}
	d := s.root
	for _, a := range all {
		d = assign(d, a.path, a.value)
	}
	return d
}

// assignments evaluates what a $set says. An object that is no operator is a
// specification of what is in it.
func (s scope) assignments(above []string, spec bson.D, all *[]assignment) {
	for _, f := range spec {
		path := append(append([]string{}, above...), parts(f.Key)...)
		if inner, is := f.Value.(bson.D); is && (len(inner) == 0 || !strings.HasPrefix(inner[0].Key, "$")) {
			if len(inner) == 0 {
				panic(failed(40180, "Location40180", "an empty object is not a valid value"))
			}
			s.assignments(path, inner, all)
			continue
		}
		*all = append(*all, assignment{path, s.eval(f.Value)})
	}
}

// assign sets a path. What is in the way and no object becomes one.
func assign(d bson.D, path []string, v value) bson.D {
	if len(path) == 1 {
		return with(d, path[0], v)
	}
	var inner bson.D
	switch x := field(d, path[0]).(type) {
	case bson.D:
		inner = x
	case bson.A:
		// It applies to each element then.
		out := bson.A{}
		for _, e := range x {
			of, _ := e.(bson.D)
			out = append(out, assign(of, path[1:], v))
		}
		return with(d, path[0], out)
	}
	return with(d, path[0], assign(inner, path[1:], v))
}

// A query is a filter: equalities on _id, one of a list of them, and a field
// that is not a value.
type query func(d bson.D) bool

func parseQuery(filter value) query {
	spec, is := filter.(bson.D)
	if !is {
		panic(refuse("a filter that is no document"))
	}
	var all []query
	for _, f := range spec {
		if f.Key == "$or" {
			all = append(all, either(f.Value))
			continue
		}
		if strings.HasPrefix(f.Key, "$") {
			panic(refuse("the filter %s", f.Key))
		}
		all = append(all, condition(parts(f.Key), f.Value))
	}
	return func(d bson.D) bool {
		for _, q := range all {
			if !q(d) {
				return false
			}
		}
		return true
	}
}

func either(list value) query {
	var any []query
	of, _ := list.(bson.A)
	for _, q := range of {
		any = append(any, parseQuery(q))
	}
	if len(any) == 0 {
		panic(failed(2, "BadValue", "$and/$or/$nor must be a nonempty array"))
	}
	return func(d bson.D) bool {
		for _, q := range any {
			if q(d) {
				return true
			}
		}
		return false
	}
}

func condition(key []string, want value) query {
	of, is := want.(bson.D)
	if !is || len(of) == 0 || !strings.HasPrefix(of[0].Key, "$") {
		if _, is := want.(bson.A); is || want == nil {
			panic(refuse("an equality with null or an array"))
		}
		return func(d bson.D) bool { return equals(at(d, key), want) }
	}
	if len(of) != 1 {
		panic(refuse("two conditions on %v", key))
	}
	switch op, arg := of[0].Key, of[0].Value; op {
	case "$in":
		list, is := arg.(bson.A)
		if !is {
			panic(failed(2, "BadValue", "$in needs an array"))
		}
		return func(d bson.D) bool {
			for _, v := range list {
				if equals(at(d, key), v) {
					return true
				}
			}
			return false
		}
	case "$gt":
		return func(d bson.D) bool { // of the same type only
			v := at(d, key)
			return rank(v) == rank(arg) && compare(v, arg) > 0
		}
	case "$ne":
		return func(d bson.D) bool { return !equals(at(d, key), arg) }
	default:
		panic(refuse("the condition %s", op))
	}
}

// equals is an equality of a filter: the value itself, or an element of it.
func equals(have, want value) bool {
	if compare(have, want) == 0 {
		return true
	}
	list, is := have.(bson.A)
	if !is {
		return false
	}
	for _, v := range list {
		if compare(v, want) == 0 {
			return true
		}
	}
	return false
}

// project is a projection of fields to include, or to compute; _id is included.
func project(spec value, d bson.D, now bson.DateTime) bson.D {
	fields, is := spec.(bson.D)
	if !is {
		panic(refuse("a projection that is no document"))
	}
	out := bson.D{{Key: "_id", Value: field(d, "_id")}}
	s := scope{root: d, now: now}
	for _, e := range d { // in the order of the document
		if v, is := number(field(fields, e.Key)); is && v == 1 && e.Key != "_id" {
			out = append(out, e)
		}
	}
	for _, f := range fields {
		if path := parts(f.Key); len(path) > 1 {
			if f.Value != int32(1) {
				panic(refuse("a projection of %s by %T", f.Key, f.Value))
			}
			if v := at(d, path); !isMissing(v) {
				out = assign(out, path, v)
			}
			continue
		}
		switch f.Value.(type) {
		case bson.D, string:
			out = with(out, f.Key, s.eval(f.Value))
		case int32:
			if f.Value != int32(1) {
				panic(refuse("a projection that leaves out"))
			}
		default:
			panic(refuse("a projection by %T", f.Value))
		}
	}
	return out
}
