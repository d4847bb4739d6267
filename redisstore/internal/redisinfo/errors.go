package redisinfo

import (
	"regexp"
	"sync"
)

// WithoutScript is the error of a server with a text that does not say in which script, which
// it has by a hash, and in which line it was: nobody who reads that knows it.
func WithoutScript(err error) error {
	if at := inScript().FindStringIndex(err.Error()); at != nil {
		return &scriptless{err, err.Error()[:at[0]]}
	}
	return err
}

// inScript is compiled once it is needed: what a package does before main is paid at each start of the command.
var inScript = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`,? script: [0-9a-f]{40}, on @user_script:\d+\.?$`)
})

type scriptless struct {
	err  error
	text string
}

func (e *scriptless) Error() string { return e.text }
func (e *scriptless) Unwrap() error { return e.err }
