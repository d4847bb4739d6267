package main

import "regexp"

// withoutServer has the stores whose server cannot be installed where the
// tests run, each with what stands in for it.
var withoutServer = []string{}

// exceptions are the reasons for which a test may be skipped even in a strict
// run. Want of a server, a tool or an account is none of them.
var exceptions = []struct {
	reason *regexp.Regexp // matches what t.Skip said
	why    string         // for the reader
}{
	{regexp.MustCompile(`: nightly: `), "it runs nightly (HOLDFAST_TEST_NIGHTLY=1)"},
	{regexp.MustCompile(`: this store lacks: `), "a promise that the store does not make"},
	{regexp.MustCompile(`: needs a plain user: `), "it needs a plain user, and root runs the tests"},
	{regexp.MustCompile(`: needs root: `), "it needs root, and a plain user runs the tests"},
	{regexp.MustCompile(`: needs (linux|darwin|windows): `), "it is about another operating system"},
}

// allowed returns the exception that covers the skip, or "".
func (s skip) allowed() string {
	for _, e := range exceptions {
		if e.reason.MatchString(s.reason) {
			return e.why
		}
	}
	return ""
}
