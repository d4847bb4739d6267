package row

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// CheckClock is the finding of how far the server's clock is from this host's: it told now, in microseconds since 1970,
// at half the round trip of what was sent then and answered just now.
func CheckClock(now int64, sent time.Time) store.Finding {
	half := time.Since(sent) / 2
	ahead := time.UnixMicro(now).Sub(sent.Add(half)).Round(100 * time.Microsecond)
	within := max(half.Round(100*time.Microsecond), 100*time.Microsecond)
	found := fmt.Sprintf("%v ahead of this host's, to within %v", ahead, within)
	switch {
	case ahead.Abs() <= within:
		found = fmt.Sprintf("as this host's, to within %v", within)
	case ahead < 0:
		found = fmt.Sprintf("%v behind this host's, to within %v", -ahead, within)
	}
	return store.Finding{About: "clock", Found: found}
}

// Known is an error that says which it is: what is not definite is store.ErrUnavailable.
func Known(err error) error {
	if err != nil && !store.Definite(err) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}
