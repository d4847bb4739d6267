package mongosim

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// apply returns the document after an update. The update has operators, which change only
// top-level fields.
func (c *call) apply(update value, d bson.D) bson.D {
	operators, is := update.(bson.D)
	if !is || len(operators) == 0 || !strings.HasPrefix(operators[0].Key, "$") {
		panic(refuse("an update that has no operators"))
	}
	changed := map[string]bool{}
	for _, op := range operators {
		fields, is := op.Value.(bson.D)
		if !is {
			panic(failed(9, "FailedToParse", "Modifiers operate on fields but we found type %T instead", op.Value))
		}
		for _, f := range fields {
			switch {
			case strings.Contains(f.Key, "."):
				panic(refuse("an update of the path %s", f.Key))
			case changed[f.Key]:
				panic(failed(40, "ConflictingUpdateOperators", "Updating the path '%s' would create a conflict at '%s'", f.Key, f.Key))
			}
			changed[f.Key] = true
			was := field(d, f.Key)
			next := c.operator(op.Key, was, f.Value)
			if f.Key == "_id" && compare(was, next) != 0 {
				panic(failed(66, "ImmutableField", "Performing an update on the path '_id' would modify the immutable field '_id'"))
			}
			d = with(d, f.Key, next)
		}
	}
	return d
}

// operator returns the new value of a field to which an operator is applied.
func (c *call) operator(op string, was, arg value) value {
	switch op {
	case "$set":
		return arg
	case "$unset":
		return missing{}
	case "$inc":
		n, is := arg.(int64)
		if !is {
			panic(refuse("$inc by a %T", arg))
		}
		if isMissing(was) {
			return n
		}
		have, is := number(was)
		if !is {
			panic(failed(14, "TypeMismatch", "Cannot apply $inc to a value of non-numeric type"))
		}
		return have + n
	case "$currentDate":
		if c.s.o.Engine == NoDates {
			panic(failed(9, "FailedToParse", "Unknown modifier: $currentDate"))
		}
		if arg != true {
			panic(refuse("$currentDate of %v", arg))
		}
		return c.now
	case "$push":
		each, _ := at(arg, []string{"$each"}).(bson.A)
		if of, is := arg.(bson.D); !is || len(of) != 1 || each == nil {
			panic(refuse("$push without $each alone"))
		}
		if c.s.o.Engine == PushesReplace {
			return each
		}
		return append(slices.Clone(list(op, was)), each...)
	case "$pull":
		if isMissing(was) {
			return was
		}
		of, is := arg.(bson.D)
		if !is {
			panic(refuse("$pull of a %T", arg))
		}
		match, out := parseQuery(of), bson.A{}
		for _, e := range list(op, was) {
			if d, is := e.(bson.D); !is || !match(d) {
				out = append(out, e)
			}
		}
		return out
	}
	panic(refuse("the operator %s", op))
}

func list(op string, was value) bson.A {
	all, is := was.(bson.A)
	if !is && !isMissing(was) {
		panic(failed(2, "BadValue", "%s needs an array", op))
	}
	return all
}

// A query is a filter.
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
		all = append(all, condition(strings.Split(f.Key, "."), f.Value))
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
	op, arg := of[0].Key, of[0].Value
	var values bson.A
	switch op {
	case "$in", "$all":
		if values, is = arg.(bson.A); !is {
			panic(failed(2, "BadValue", "%s needs an array", op))
		}
	case "$gt", "$lt", "$exists":
	default:
		panic(refuse("the condition %s", op))
	}
	return func(d bson.D) bool {
		have := at(d, key)
		switch op {
		case "$in":
			return slices.ContainsFunc(values, func(v value) bool { return equals(have, v) })
		case "$all": // an empty list matches nothing
			return len(values) > 0 && !slices.ContainsFunc(values, func(v value) bool { return !equals(have, v) })
		case "$gt": // values of the same type only
			return rank(have) == rank(arg) && compare(have, arg) > 0
		case "$lt":
			return rank(have) == rank(arg) && compare(have, arg) < 0
		}
		return arg == !isMissing(have) // $exists
	}
}

// equals is a filter's equality: the value itself, or an element of it.
func equals(have, want value) bool {
	if compare(have, want) == 0 {
		return true
	}
	list, is := have.(bson.A)
	return is && slices.ContainsFunc(list, func(v value) bool { return compare(v, want) == 0 })
}

// project applies a projection that lists the fields to include; _id is always included.
func project(spec value, d bson.D) bson.D {
	fields, is := spec.(bson.D)
	if !is {
		panic(refuse("a projection that is no document"))
	}
	out := bson.D{{Key: "_id", Value: field(d, "_id")}}
	for _, f := range fields {
		if f.Value != int32(1) || f.Key == "_id" {
			panic(refuse("a projection of %s by %v", f.Key, f.Value))
		}
		path := strings.Split(f.Key, ".")
		if v := at(d, path); !isMissing(v) {
			out = assign(out, path, v)
		}
	}
	return out
}

// assign sets a path. A value on the path that is not an object is replaced by one.
func assign(d bson.D, path []string, v value) bson.D {
	if len(path) == 1 {
		return with(d, path[0], v)
	}
	inner, _ := field(d, path[0]).(bson.D)
	return with(d, path[0], assign(inner, path[1:], v))
}
