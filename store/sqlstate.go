package store

import (
	"reflect"
	"regexp"
)

// SQLState returns the code of five characters (SQLSTATE) that the server of an SQL
// database gave an error, with any driver, or "" if there is none. It is for stores
// and guards. Newer drivers have the code as a method, SQLState; others as a field:
// lib/pq before 1.10 as Code, go-sql-driver/mysql as SQLState. Errors that wrap
// several are searched too, in the order of errors.As; a method is preferred to a
// field.
func SQLState(err error) string {
	if code := search(err, stateMethod); code != "" {
		return code
	}
	return search(err, stateField)
}

// search returns the first code that is found in an error or in those it wraps.
func search(err error, code func(error) string) string {
	if err == nil {
		return ""
	}
	if found := code(err); found != "" {
		return found
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return search(err.Unwrap(), code)
	case interface{ Unwrap() []error }: //mutant:sqlstate-several
		for _, err := range err.Unwrap() {
			if found := search(err, code); found != "" {
				return found
			}
		}
	}
	return ""
}

func stateMethod(err error) string {
	e, ok := err.(interface{ SQLState() string })
	if v := reflect.ValueOf(err); !ok || v.Kind() == reflect.Pointer && v.IsNil() { //mutant:sqlstate-nil
		return ""
	}
	return e.SQLState()
}

func stateField(err error) string {
	v := reflect.Indirect(reflect.ValueOf(err))
	if v.Kind() != reflect.Struct {
		return ""
	}
	for _, name := range []string{"Code", "SQLState"} {
		f, ok := v.Type().FieldByName(name)
		if !ok {
			continue
		}
		code, bad := v.FieldByIndexErr(f.Index) // an embedded pointer may be nil
		if bad != nil {                         //mutant:sqlstate-embedded
			continue
		}
		var text []byte
		switch {
		case name == "Code" && code.Kind() == reflect.String:
			text = []byte(code.String())
		case name == "SQLState" && code.Kind() == reflect.Array && code.Type().Elem().Kind() == reflect.Uint8:
			for i := range code.Len() {
				text = append(text, byte(code.Index(i).Uint()))
			}
		}
		if sqlState.Match(text) {
			return string(text)
		}
	}
	return ""
}

var sqlState = regexp.MustCompile("^[0-9A-Z]{5}$")
