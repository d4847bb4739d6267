package mongosim

import (
	"math"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A scope is what an expression sees: the document that came into its stage,
// the time, and the variables around it.
type scope struct {
	root bson.D
	now  bson.DateTime
	vars *variable
}

// A variable is one of $let, $map, $filter or $reduce, and those around it.
type variable struct {
	name  string
	value value
	outer *variable
}

func (s scope) set(name string, v value) scope {
	s.vars = &variable{name, v, s.vars}
	return s
}

// eval evaluates an aggregation expression.
func (s scope) eval(e value) value {
	switch e := e.(type) {
	case string:
		if strings.HasPrefix(e, "$") {
			return s.path(e)
		}
	case bson.A:
		out := make(bson.A, len(e))
		for i, x := range e {
			if out[i] = s.eval(x); isMissing(out[i]) {
				out[i] = nil // an array has no gaps
			}
		}
		return out
	case bson.D:
		if len(e) > 0 && strings.HasPrefix(e[0].Key, "$") {
			if len(e) != 1 {
				panic(failed(15983, "Location15983", "an object representing an expression must have exactly one field"))
			}
			return s.operator(e[0].Key, e[0].Value)
		}
		out := make(bson.D, 0, len(e))
		for _, f := range e {
			if strings.HasPrefix(f.Key, "$") || strings.Contains(f.Key, ".") || f.Key == "" {
				panic(failed(16410, "Location16410", "a field name of an object may not be %q", f.Key))
			}
			if v := s.eval(f.Value); !isMissing(v) {
				out = append(out, bson.E{Key: f.Key, Value: v})
			}
		}
		return out
	}
	return e
}

// path is a field of the document, or a variable or a part of one.
func (s scope) path(p string) value {
	name, isVariable := strings.CutPrefix(p, "$$")
	if !isVariable {
		return at(s.root, parts(p[1:]))
	}
	name, rest, more := strings.Cut(name, ".")
	var path []string
	if more {
		path = parts(rest)
	}
	switch name {
	case "ROOT":
		return at(s.root, path)
	case "NOW":
		return at(s.now, path)
	}
	for v := s.vars; v != nil; v = v.outer {
		if v.name == name {
			return at(v.value, path)
		}
	}
	panic(failed(17276, "Location17276", "Use of undefined variable: %s", name))
}

func parts(path string) []string {
	all := strings.Split(path, ".")
	for _, p := range all {
		if p == "" || strings.HasPrefix(p, "$") {
			panic(failed(40353, "Location40353", "FieldPath %q has an empty part, or one that begins with $", path))
		}
	}
	return all
}

// operators take their operands evaluated; least and most bound how many there
// are.
var operators = map[string]struct {
	least, most int
	f           func(in []value) value
}{
	"$toLong":       {1, 1, toLong},
	"$toString":     {1, 1, toString},
	"$isArray":      {1, 1, func(in []value) value { _, is := in[0].(bson.A); return is }},
	"$size":         {1, 1, size},
	"$not":          {1, 1, func(in []value) value { return !truth(in[0]) }},
	"$ifNull":       {2, 2, ifNull}, // more from MongoDB 5.0 on
	"$eq":           {2, 2, func(in []value) value { return compare(in[0], in[1]) == 0 }},
	"$ne":           {2, 2, func(in []value) value { return compare(in[0], in[1]) != 0 }},
	"$gt":           {2, 2, func(in []value) value { return compare(in[0], in[1]) > 0 }},
	"$gte":          {2, 2, func(in []value) value { return compare(in[0], in[1]) >= 0 }},
	"$lt":           {2, 2, func(in []value) value { return compare(in[0], in[1]) < 0 }},
	"$lte":          {2, 2, func(in []value) value { return compare(in[0], in[1]) <= 0 }},
	"$in":           {2, 2, in},
	"$add":          {1, math.MaxInt, add},
	"$subtract":     {2, 2, subtract},
	"$multiply":     {1, math.MaxInt, multiply},
	"$concatArrays": {1, math.MaxInt, concatArrays},
	"$concat":       {1, math.MaxInt, concat},
	"$mergeObjects": {1, math.MaxInt, mergeObjects},
}

func (s scope) operator(op string, arg value) value {
	switch op {
	case "$literal":
		return arg
	case "$cond":
		if list := operands(op, arg, 3, 3); truth(s.eval(list[0])) {
			return s.eval(list[1])
		} else {
			return s.eval(list[2])
		}
	case "$and":
		for _, e := range operands(op, arg, 1, math.MaxInt) {
			if !truth(s.eval(e)) {
				return false
			}
		}
		return true
	case "$or":
		for _, e := range operands(op, arg, 1, math.MaxInt) {
			if truth(s.eval(e)) {
				return true
			}
		}
		return false
	case "$max", "$min", "$sum":
		return s.accumulate(op, arg)
	case "$let":
		of := named(op, arg, "vars", "in")
		vars, is := of[0].(bson.D)
		if !is {
			panic(failed(16876, "Location16876", "invalid parameter: expected an object (vars)"))
		}
		inner := s // the variables do not see each other
		for _, v := range vars {
			inner = inner.set(variableName(v.Key), s.eval(v.Value))
		}
		return inner.eval(of[1])
	case "$filter", "$map":
		of := named(op, arg, "input", "as", map[string]string{"$filter": "cond", "$map": "in"}[op])
		list, null := s.list(op, of[0])
		if null {
			return nil
		}
		name, is := of[1].(string)
		if !is {
			panic(refuse("%s with a variable that is no string", op))
		}
		variableName(name)
		out := bson.A{}
		for _, e := range list {
			switch v := s.set(name, e).eval(of[2]); {
			case op == "$map" && isMissing(v):
				out = append(out, nil)
			case op == "$map":
				out = append(out, v)
			case truth(v):
				out = append(out, e)
			}
		}
		return out
	case "$reduce":
		of := named(op, arg, "input", "initialValue", "in")
		list, null := s.list(op, of[0])
		if null {
			return nil
		}
		v := s.eval(of[1])
		for _, e := range list {
			v = s.set("value", v).set("this", e).eval(of[2])
		}
		return v
	}
	known, ok := operators[op]
	if !ok {
		panic(refuse("the operator %s", op))
	}
	list := operands(op, arg, known.least, known.most)
	in := make([]value, len(list))
	for i, e := range list {
		in[i] = s.eval(e)
	}
	return known.f(in)
}

// operands is the list of an operator's operands; one may stand by itself.
func operands(op string, arg value, least, most int) []value {
	list, is := arg.(bson.A)
	if !is {
		list = bson.A{arg}
	}
	if len(list) < least || len(list) > most {
		panic(failed(16020, "Location16020", "Expression %s takes %d to %d arguments. %d were passed in.", op, least, most, len(list)))
	}
	return list
}

// named is the values of an operator's named arguments, all of which must be
// there, and no others.
func named(op string, arg value, keys ...string) []value {
	d, is := arg.(bson.D)
	if !is || len(d) != len(keys) {
		panic(refuse("%s with other arguments than %v", op, keys))
	}
	out := make([]value, len(keys))
	for i, key := range keys {
		if out[i] = field(d, key); isMissing(out[i]) {
			panic(refuse("%s without %s", op, key))
		}
	}
	return out
}

func variableName(name string) string {
	if name == "" || name[0] < 'a' || 'z' < name[0] {
		panic(failed(16867, "Location16867", "%q starts with an invalid character for a user variable name", name))
	}
	return name
}

// list is the input of $filter, $map or $reduce; null and missing give null.
func (s scope) list(op string, input value) (list bson.A, null bool) {
	v := s.eval(input)
	if nullish(v) {
		return nil, true
	}
	list, is := v.(bson.A)
	if !is {
		code := map[string]int32{"$filter": 28651, "$map": 16883, "$reduce": 40080}[op]
		panic(failed(code, "Location"+strconv.Itoa(int(code)), "input to %s must be an array not %T", op, v))
	}
	return list, false
}

// accumulate is $max, $min and $sum as expressions: one operand that is an
// array is looked into, those of a list are not.
func (s scope) accumulate(op string, arg value) value {
	var in bson.A
	if list, is := arg.(bson.A); is && len(list) != 1 {
		in = s.eval(list).(bson.A)
	} else {
		if is {
			arg = list[0]
		}
		v := s.eval(arg)
		if in, is = v.(bson.A); !is {
			in = bson.A{v}
		}
	}
	if op == "$sum" {
		var numbers []value
		for _, v := range in {
			if _, is := number(v); is {
				numbers = append(numbers, v)
			}
		}
		if len(numbers) == 0 {
			return int32(0)
		}
		return add(numbers)
	}
	var best value
	for _, v := range in {
		if nullish(v) {
			continue
		}
		if c := compare(v, best); best == nil || op == "$max" && c > 0 || op == "$min" && c < 0 {
			best = v
		}
	}
	return best
}

func toLong(in []value) value {
	switch v := in[0].(type) {
	case bson.DateTime:
		return int64(v)
	case int64:
		return v
	case int32:
		return int64(v)
	}
	if nullish(in[0]) {
		return nil
	}
	panic(refuse("$toLong of %T", in[0]))
}

func toString(in []value) value {
	if n, is := number(in[0]); is {
		return strconv.FormatInt(n, 10)
	}
	if s, is := in[0].(string); is {
		return s
	}
	if nullish(in[0]) {
		return nil
	}
	panic(refuse("$toString of %T", in[0]))
}

func size(in []value) value {
	list, is := in[0].(bson.A)
	if !is {
		panic(failed(17124, "Location17124", "The argument to $size must be an array, but was of type: %T", in[0]))
	}
	return int32(len(list))
}

func ifNull(in []value) value {
	if nullish(in[0]) {
		return in[1]
	}
	return in[0]
}

func in(in []value) value {
	list, is := in[1].(bson.A)
	if !is {
		panic(failed(40081, "Location40081", "$in requires an array as a second argument, found: %T", in[1]))
	}
	for _, v := range list {
		if compare(v, in[0]) == 0 {
			return true
		}
	}
	return false
}

// add sums numbers, and milliseconds to one date.
func add(in []value) value {
	var sum int64
	long, date, null := false, false, false
	for _, v := range in {
		switch v := v.(type) {
		case int32:
			sum = plus(sum, int64(v))
		case int64:
			sum, long = plus(sum, v), true
		case bson.DateTime:
			if date {
				panic(failed(16612, "Location16612", "only one date allowed in an $add expression"))
			}
			sum, date = plus(sum, int64(v)), true
		default:
			if !nullish(v) {
				panic(failed(16554, "Location16554", "$add only supports numeric or date types, not %T", v))
			}
			null = true
		}
	}
	switch {
	case null:
		return nil
	case date:
		return bson.DateTime(sum)
	}
	return whole(sum, long)
}

func subtract(in []value) value {
	if nullish(in[0]) || nullish(in[1]) {
		return nil
	}
	a, isDate := in[0].(bson.DateTime)
	if b, both := in[1].(bson.DateTime); isDate && both {
		return int64(a - b)
	}
	y, ok := number(in[1])
	if x, is := number(in[0]); is && ok {
		_, longX := in[0].(int64)
		_, longY := in[1].(int64)
		return whole(plus(x, -y), longX || longY)
	}
	if !isDate || !ok {
		panic(failed(16556, "Location16556", "can't $subtract %T from %T", in[1], in[0]))
	}
	return a - bson.DateTime(y)
}

func multiply(in []value) value {
	product, long := int64(1), false
	for _, v := range in {
		n, is := number(v)
		switch {
		case nullish(v):
			return nil
		case !is:
			panic(failed(16555, "Location16555", "$multiply only supports numeric types, not %T", v))
		case n != 0 && (product*n/n != product):
			panic(refuse("a $multiply that overflows"))
		}
		_, isLong := v.(int64)
		product, long = product*n, long || isLong
	}
	return whole(product, long)
}

func plus(a, b int64) int64 {
	if sum := a + b; (sum > a) == (b > 0) {
		return sum
	}
	panic(refuse("a sum that overflows"))
}

// whole is an int, unless one of the operands was a long or it does not fit.
func whole(n int64, long bool) value {
	if long || n != int64(int32(n)) {
		return n
	}
	return int32(n)
}

func concatArrays(in []value) value {
	out := bson.A{}
	null := false
	for _, v := range in {
		list, is := v.(bson.A)
		if !is && !nullish(v) {
			panic(failed(28664, "Location28664", "$concatArrays only supports arrays, not %T", v))
		}
		null = null || !is
		out = append(out, list...)
	}
	if null {
		return nil
	}
	return out
}

func concat(in []value) value {
	var b strings.Builder
	for _, v := range in {
		s, is := v.(string)
		switch {
		case is:
			b.WriteString(s)
		case nullish(v):
			return nil
		default:
			panic(failed(16702, "Location16702", "$concat only supports strings, not %T", v))
		}
	}
	return b.String()
}

func mergeObjects(in []value) value {
	out := bson.D{}
	for _, v := range in {
		d, is := v.(bson.D)
		if !is && !nullish(v) {
			panic(failed(40400, "Location40400", "$mergeObjects requires object inputs, but input %v is of type %T", v, v))
		}
		for _, e := range d {
			out = with(out, e.Key, e.Value)
		}
	}
	return out
}
