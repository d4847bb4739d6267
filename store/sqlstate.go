package store

import (
	"errors"
	"reflect"
	"regexp"
)

// SQLState is the code of five characters (SQLSTATE) that the server of an SQL
// database gave an error, whatever the driver, or "" if the server gave none. It is
// for stores and guards. Newer drivers have the code as a method, SQLState; others
// as a field: lib/pq before 1.10 as Code, go-sql-driver/mysql as SQLState.
func SQLState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() != reflect.Struct {
			continue
		}
		if code := v.FieldByName("Code"); code.Kind() == reflect.String && sqlState.MatchString(code.String()) {
			return code.String()
		}
		if code := v.FieldByName("SQLState"); code.Kind() == reflect.Array && code.Type().Elem().Kind() == reflect.Uint8 {
			text := make([]byte, code.Len())
			reflect.Copy(reflect.ValueOf(text), code)
			if sqlState.Match(text) {
				return string(text)
			}
		}
	}
	return ""
}

var sqlState = regexp.MustCompile("^[0-9A-Z]{5}$")
