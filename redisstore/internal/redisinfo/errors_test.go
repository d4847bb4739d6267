package redisinfo

import (
	"errors"
	"testing"
)

func TestWithoutScriptLeavesTheCause(t *testing.T) {
	for text, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'. script: 5c2b423dfc1ae4c035fc1c5275dd059e32eb8019, on @user_script:11.": "OOM command not allowed when used memory > 'maxmemory'.",
		"WRONGTYPE kind of value script: 5c2b423dfc1ae4c035fc1c5275dd059e32eb8019, on @user_script:2.":                                  "WRONGTYPE kind of value",
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                              "NOPERM this user has no permissions to run the 'evalsha' command",
	} {
		err := errors.New(text)
		if got := WithoutScript(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
