package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// Errors as drivers have them.
type (
	text       string
	byMethod   struct{ state string }       // pgx, newer lib/pq
	byCode     struct{ Code text }          // lib/pq before 1.10
	byState    struct{ SQLState [5]byte }   // go-sql-driver/mysql
	embeds     struct{ *byCode }            // one of a driver in one of its user's
	unexported struct{ inner }              // whose type nobody can name
	inner      struct{ SQLState [5]byte }   //
	otherTypes struct{ Code, SQLState int } // the names mean something else
	both       struct{ Code, Other string } // and a method
)

func (e *byMethod) Error() string    { return "method" }
func (e *byMethod) SQLState() string { return e.state }
func (e *byCode) Error() string      { return "code" }
func (e *byState) Error() string     { return "state" }
func (e embeds) Error() string       { return "embeds" }
func (e unexported) Error() string   { return "unexported" }
func (e otherTypes) Error() string   { return "other" }
func (e both) Error() string         { return "both" }
func (e both) SQLState() string      { return e.Other }

func TestTheCodeOfAnErrorIsFoundInAnyWrapping(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	method, code, state := &byMethod{"40001"}, &byCode{"40P01"}, &byState{[5]byte([]byte("40001"))}
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"none":                         {nil, ""},
		"plain":                        {plain, ""},
		"a method":                     {method, "40001"},
		"a field of text":              {code, "40P01"},
		"a field of bytes":             {state, "40001"},
		"wrapped":                      {fmt.Errorf("a: %w", fmt.Errorf("b: %w", code)), "40P01"},
		"joined, a method":             {errors.Join(plain, method), "40001"},
		"joined, a field of text":      {errors.Join(plain, code), "40P01"},
		"joined, a field of bytes":     {errors.Join(plain, fmt.Errorf("a: %w", state)), "40001"},
		"the second of two wrapped":    {fmt.Errorf("%w: %w", ErrUnavailable, state), "40001"},
		"the first of two":             {errors.Join(code, state), "40P01"},
		"a method before a field":      {errors.Join(code, method), "40001"},
		"a method that knows none":     {errors.Join(&byMethod{}, code), "40P01"},
		"its own method":               {both{"40P01", "40001"}, "40001"},
		"embedded":                     {embeds{code}, "40P01"},
		"an embedded nil":              {errors.Join(embeds{}, state), "40001"},
		"embedded, of a hidden type":   {unexported{inner{[5]byte([]byte("40001"))}}, "40001"},
		"a nil error with a method":    {errors.Join((*byMethod)(nil), code), "40P01"},
		"a nil error with a field":     {errors.Join((*byCode)(nil), state), "40001"},
		"an invalid code":              {&byCode{"no rows"}, ""},
		"an invalid state":             {&byState{}, ""},
		"fields of another type":       {otherTypes{40001, 40001}, ""},
		"an error without an Unwrap":   {fmt.Errorf("a: %v", code), ""},
		"joined with nothing but that": {errors.Join(code), "40P01"},
	} {
		if got := SQLState(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
	}
}

func TestTheTestsCatchEachMutantOfSQLState(t *testing.T) {
	t.Parallel()
	const found = "TestTheCodeOfAnErrorIsFoundInAnyWrapping"
	var all []mutant.Broken
	for _, m := range []struct {
		name, mark string
		do         mutant.Op
	}{
		{"an error that wraps several is not searched", "sqlstate-several", mutant.Delete()},
		{"a method is called on a nil error", "sqlstate-nil", mutant.Cond("!ok && v.IsValid()")},
		{"a nil embedded error is searched", "sqlstate-embedded", mutant.Before("code, bad = v.FieldByName(name), nil")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "store", Test: found, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all)
}
