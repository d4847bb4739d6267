package mongostore

import "go.mongodb.org/mongo-driver/v2/bson"

// What follows writes expressions of the server. Operators are those of MongoDB
// 4.4, as its manual has them. Numbers are int64 throughout: the type is part of
// what is stored.

// object is a document of keys and values in turn.
func object(pairs ...any) bson.D {
	d := make(bson.D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

func op(name string, args ...any) bson.D { return object(name, bson.A(args)) }

// literal is a value of which nothing is an expression.
func literal(v any) bson.D { return object("$literal", v) }

func long(n int64) bson.D { return literal(n) }

func set(pairs ...any) bson.D { return object("$set", object(pairs...)) }

func and(all ...any) bson.D         { return op("$and", all...) }
func or(all ...any) bson.D          { return op("$or", all...) }
func not(a any) bson.D              { return op("$not", a) }
func eq(a, b any) bson.D            { return op("$eq", a, b) }
func ne(a, b any) bson.D            { return op("$ne", a, b) }
func gt(a, b any) bson.D            { return op("$gt", a, b) }
func lt(a, b any) bson.D            { return op("$lt", a, b) }
func lte(a, b any) bson.D           { return op("$lte", a, b) }
func in(a, list any) bson.D         { return op("$in", a, list) }
func add(all ...any) bson.D         { return op("$add", all...) }
func subtract(a, b any) bson.D      { return op("$subtract", a, b) }
func most(a, b any) bson.D          { return op("$max", a, b) }
func least(a, b any) bson.D         { return op("$min", a, b) }
func mostOf(list any) bson.D        { return object("$max", list) }
func sumOf(list any) bson.D         { return object("$sum", list) }
func sizeOf(list any) bson.D        { return object("$size", list) }
func orElse(a, b any) bson.D        { return op("$ifNull", a, b) }
func cond(test, yes, no any) bson.D { return op("$cond", test, yes, no) }
func join(lists ...any) bson.D      { return op("$concatArrays", lists...) }
func text(all ...any) bson.D        { return op("$concat", all...) }
func digits(n any) bson.D           { return object("$toString", n) }

// edited is an object with some of its fields set.
func edited(of any, pairs ...any) bson.D { return op("$mergeObjects", of, object(pairs...)) }

// each is the list of what f is of each element e of a list.
func each(list any, f any) bson.D { return object("$map", object("input", list, "as", "e", "in", f)) }

// those is the elements e of a list of which the test is true.
func those(list any, test any) bson.D {
	return object("$filter", object("input", list, "as", "e", "cond", test))
}

// some is whether there is such an element.
func some(list any, test any) bson.D { return gt(sizeOf(those(list, test)), long(0)) }
