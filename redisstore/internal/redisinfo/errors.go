package redisinfo

import "regexp"

// WithoutScript is the error of a server with a text that does not say in which script, which
// it has by a hash, and in which line it was: nobody who reads that knows it.
func WithoutScript(err error) error {
	if at := inScript.FindStringIndex(err.Error()); at != nil {
		return &scriptless{err, err.Error()[:at[0]]}
	}
	return err
}

var inScript = regexp.MustCompile(`,? script: [0-9a-f]{40}, on @user_script:\d+\.?$`)

type scriptless struct {
	err  error
	text string
}

func (e *scriptless) Error() string { return e.text }
func (e *scriptless) Unwrap() error { return e.err }
