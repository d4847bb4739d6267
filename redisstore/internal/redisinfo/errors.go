package redisinfo

import (
	"regexp"
	"sync"
)

// WithoutScript removes from the text of a server error the hash and the line of the script, which
// mean nothing to readers.
func WithoutScript(err error) error {
	if at := inScript().FindStringIndex(err.Error()); at != nil {
		return &scriptless{err, err.Error()[:at[0]]}
	}
	return err
}

// inScript is compiled on first use, because work before main delays each start of the command.
var inScript = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`,? script: [0-9a-f]{40}, on @user_script:\d+\.?$`)
})

type scriptless struct {
	err  error
	text string
}

func (e *scriptless) Error() string { return e.text }
func (e *scriptless) Unwrap() error { return e.err }
