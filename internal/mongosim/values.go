package mongosim

import (
	"bytes"
	"cmp"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A value is what the driver's package bson decodes into interfaces: nil, bool, int32, int64,
// string, bson.Binary, bson.DateTime, bson.D, bson.A; or missing, for a field that does not
// exist.
type value = any

type missing struct{}

func isMissing(v value) bool { _, is := v.(missing); return is }

// rank is the position of the value's type in the order of BSON types, for the types known here
// (manual, "Comparison/Sort Order").
func rank(v value) int {
	switch v.(type) {
	case missing:
		return 0
	case nil:
		return 1
	case int32, int64:
		return 2
	case string:
		return 3
	case bson.D:
		return 4
	case bson.A:
		return 5
	case bson.Binary:
		return 6
	case bool:
		return 8
	case bson.DateTime:
		return 9
	}
	panic(refuse("a value of type %T", v))
}

// number is the value of an int or a long; ok is false for any other type.
func number(v value) (n int64, ok bool) {
	switch v := v.(type) {
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// compare orders values of all types.
func compare(a, b value) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case int32, int64:
		x, _ := number(a)
		y, _ := number(b)
		return cmp.Compare(x, y)
	case string:
		return cmp.Compare(a, b.(string)) // by bytes: there is no collation
	case bson.Binary: // first by length
		b := b.(bson.Binary)
		return cmp.Or(cmp.Compare(len(a.Data), len(b.Data)), cmp.Compare(a.Subtype, b.Subtype), bytes.Compare(a.Data, b.Data))
	case bson.DateTime:
		return cmp.Compare(a, b.(bson.DateTime))
	case bool:
		return cmp.Compare(bit(a), bit(b.(bool)))
	case bson.A:
		b := b.(bson.A)
		for i := range min(len(a), len(b)) {
			if c := compare(a[i], b[i]); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(a), len(b))
	case bson.D:
		b := b.(bson.D)
		for i := range min(len(a), len(b)) {
			if c := cmp.Or(cmp.Compare(rank(a[i].Value), rank(b[i].Value)), cmp.Compare(a[i].Key, b[i].Key)); c != 0 {
				return c
			}
			if c := compare(a[i].Value, b[i].Value); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(a), len(b))
	}
	return 0
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// truth is the value as a boolean: false, null, missing and zero are false, all
// else is true.
func truth(v value) bool {
	switch v := v.(type) {
	case nil, missing:
		return false
	case bool:
		return v
	case int32:
		return v != 0
	case int64:
		return v != 0
	}
	return true
}

// field returns the value of a document's field.
func field(d bson.D, key string) value {
	for _, e := range d {
		if e.Key == key {
			return e.Value
		}
	}
	return missing{}
}

// at follows a path. Through an array, it returns the array of what it finds in each element,
// without the elements that have nothing there.
func at(v value, path []string) value {
	if len(path) == 0 {
		return v
	}
	switch v := v.(type) {
	case bson.D:
		return at(field(v, path[0]), path[1:])
	case bson.A:
		all := bson.A{}
		for _, e := range v {
			if _, is := e.(bson.A); is {
				continue // arrays in arrays are skipped
			}
			if x := at(e, path); !isMissing(x) {
				all = append(all, x)
			}
		}
		return all
	}
	return missing{}
}

// with returns the document with a field set, in its old position or else at the end; if v is
// missing, without the field.
func with(d bson.D, key string, v value) bson.D {
	out := make(bson.D, 0, len(d)+1)
	found := false
	for _, e := range d {
		if e.Key == key {
			found = true
			e.Value = v
		}
		if !isMissing(e.Value) {
			out = append(out, e)
		}
	}
	if !found && !isMissing(v) {
		out = append(out, bson.E{Key: key, Value: v})
	}
	return out
}

func encode(d bson.D) []byte {
	b, err := bson.Marshal(d)
	if err != nil {
		panic(refuse("a document that cannot be encoded: %v", err))
	}
	return b
}

// decode reads a document. The driver's decoding into any uses reflection, and would take most
// of the time of a command.
func decode(b []byte) bson.D {
	elements, err := bson.Raw(b).Elements()
	if err != nil {
		panic(refuse("a document that cannot be decoded: %v", err))
	}
	d := make(bson.D, len(elements))
	for i, e := range elements {
		d[i] = bson.E{Key: e.Key(), Value: decodeValue(e.Value())}
	}
	return d
}

func decodeValue(v bson.RawValue) value {
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		return decode(v.Value)
	case bson.TypeArray:
		elements := decode(v.Value)
		list := make(bson.A, len(elements))
		for i, e := range elements {
			list[i] = e.Value
		}
		return list
	case bson.TypeString:
		return v.StringValue()
	case bson.TypeInt64:
		return v.Int64()
	case bson.TypeInt32:
		return v.Int32()
	case bson.TypeBoolean:
		return v.Boolean()
	case bson.TypeBinary:
		subtype, data := v.Binary()
		return bson.Binary{Subtype: subtype, Data: data}
	case bson.TypeDateTime:
		return bson.DateTime(v.DateTime())
	case bson.TypeNull:
		return nil
	}
	var of any
	if err := v.Unmarshal(&of); err != nil {
		panic(refuse("a value that cannot be decoded: %v", err))
	}
	return of
}

// same reports whether two documents are equal byte by byte: order and types count.
func same(a, b bson.D) bool { return identical(a, b) }

func identical(a, b value) bool {
	switch a := a.(type) {
	case bson.D:
		b, is := b.(bson.D)
		if !is || len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i].Key != b[i].Key || !identical(a[i].Value, b[i].Value) {
				return false
			}
		}
		return true
	case bson.A:
		b, is := b.(bson.A)
		if !is || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !identical(a[i], b[i]) {
				return false
			}
		}
		return true
	case bson.Binary:
		b, is := b.(bson.Binary)
		return is && a.Subtype == b.Subtype && bytes.Equal(a.Data, b.Data)
	case nil, bool, int32, int64, float64, string, bson.DateTime:
		return a == b
	}
	panic(refuse("a value of type %T", a))
}
