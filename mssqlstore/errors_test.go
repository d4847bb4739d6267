package mssqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/microsoft/go-mssqldb"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
)

func sqlError(number int32) error {
	one := mssql.Error{Number: number, Message: "of a test"}
	one.All = []mssql.Error{one}
	return one
}

func TestAnErrorNumberIsTheErrorOfTheContract(t *testing.T) {
	t.Parallel()
	sentinels := []error{store.ErrDenied, store.ErrCorrupt, store.ErrUnsupported, store.ErrInvalid}
	for number, want := range map[int32]error{
		229: store.ErrDenied, 230: store.ErrDenied, 262: store.ErrDenied, 916: store.ErrDenied, 2760: store.ErrDenied, 18452: store.ErrDenied, 18456: store.ErrDenied,
		207: store.ErrCorrupt, 515: store.ErrCorrupt, 51000: store.ErrUnsupported,
		// None of the sentinels: the server has not executed the statement now, but may do so later, or the statement may be repeated.
		208: nil, 1205: nil, 1222: nil, 2601: nil, 2627: nil, 3906: nil, 3960: nil, 4060: nil, 40613: nil,
	} {
		b := &backend{Base: row.NewBase("")}
		b.Checked.Done.Store(true)
		err := b.failed(fmt.Errorf("so: %w", sqlError(number)))
		for _, s := range sentinels {
			if errors.Is(err, s) != (s == want) {
				t.Errorf("%d: %v, want %v", number, err, want)
			}
		}
		if !is(err, number) {
			t.Errorf("the number %d is lost: %v", number, err)
		}
		if again := number == 207 || number == 208 || number == 515; b.Checked.Done.Load() == again {
			t.Errorf("%d: the tables are read again: %v, want %v", number, !again, again)
		}
		if twice := b.failed(err); store.Definite(err) && twice != err {
			t.Errorf("%d: the error is wrapped twice: %v", number, twice)
		}
	}
	if is(errors.New("1205"), 1205) || is(nil, 1205) || is(sqlError(1205), 1222) {
		t.Error("is finds a number that the error lacks")
	}
}

// A database that is starting refuses logins as if the password were wrong: 4060, followed by 18456.
func TestAStartingDatabaseIsNotAWrongPassword(t *testing.T) {
	t.Parallel()
	first, last := mssql.Error{Number: 4060}, mssql.Error{Number: 18456}
	last.All = []mssql.Error{first, last}
	b := &backend{Base: row.NewBase("")}
	if err := b.failed(last); store.Definite(err) {
		t.Errorf("%v is definite, want indeterminate", err)
	}
}
