package main

import (
	"os"
	"os/exec"
	"regexp"
)

// withoutServer returns the stores whose server cannot be installed where the tests run, each
// with what is tested instead, unless a server is available.
func withoutServer() (all []string) {
	if _, err := exec.LookPath("mongod"); err != nil && os.Getenv("HOLDFAST_TEST_MONGODB") == "" {
		all = append(all, "mongostore (on a stand-in, internal/mongosim)")
	}
	if os.Getenv("HOLDFAST_TEST_SQLSERVER") == "" {
		all = append(all, "mssqlstore (what needs no server)")
	}
	return all
}

// exceptions are the reasons for which a test may be skipped even in a strict run. A missing
// server, tool or account is not one of them, except for servers that scripts/newest-servers
// tried to get in vain.
var exceptions = []struct {
	reason *regexp.Regexp // matches the message of t.Skip, without the file and the line
	why    string         // for the reader
}{
	{regexp.MustCompile(`the store lacks "`), "a promise that the store says it does not make"},
	{regexp.MustCompile(`the store is no (Watcher|Poller|Checker|NameWatcher): `), "an ability that the store does not have"},
	{regexp.MustCompile(`the backend (has no|does not|is no) |joins are void in the other way$`), "a promise about what the backend of a store does not have"},
	{regexp.MustCompile(`the greatest TTL, .*, is no longer than a position`), "a promise about long TTLs, on a store without them"},
	{regexp.MustCompile(`^the store does not work without the server's time$`), "a case without the server's time, on a store that needs it"},
	{regexp.MustCompile(`only a real MongoDB server shows this: `), "what a stand-in for MongoDB cannot show"},
	{regexp.MustCompile(`this MongoDB server does not let the tests `), "a case for which the given MongoDB server is not set up"},
	{regexp.MustCompile(`HOLDFAST_TEST_MONGODB$`), "a test of the stand-in, or of a missing server, but a server is given"},
	{regexp.MustCompile(`^files do not go away`), "a case of the other store"},
	{regexp.MustCompile(`no SQL Server is named: HOLDFAST_TEST_SQLSERVER$`), "a test on SQL Server, which cannot be installed here, and none is given"},
	{regexp.MustCompile(`this SQL Server does not let the tests `), "a case for which the given SQL Server is not set up"},
	{regexp.MustCompile(`no time namespace can be made here: `), "this machine does not allow time namespaces"},
	{regexp.MustCompile(`no container can be made here: `), "this machine does not allow mount namespaces, or mounts in them"},
	{regexp.MustCompile(`no PID namespace can be made here: `), "this machine does not allow PID namespaces"},
	{regexp.MustCompile(`no cgroup.* can be made here: `), "this machine has no such cgroups, or does not allow new ones"},
	{regexp.MustCompile(`only root can make a set-uid program`), "a test that needs a process that we may not signal"},
	{regexp.MustCompile(`^only root can make networks$|^this machine does not allow new networks: `), "a test with servers whose network is cut, which needs network namespaces"},
	{regexp.MustCompile(`only root can be two users`), "a test that needs processes of two users"},
	{regexp.MustCompile(`this file system has no ACLs: `), "the tests' directory is on a file system without POSIX ACLs"},
	{regexp.MustCompile(`this user is not in the user database: `), "this user has no entry in the user database"},
	{regexp.MustCompile(`^the suite with [a-z]+-[0-9.]+ cannot be reached: `), "a newer server, from a Debian suite that this machine cannot reach"},
	{regexp.MustCompile(`^the history of this clone does not have .*: git fetch`), "two versions on one store, and this clone does not have the older one"},
	{regexp.MustCompile(`^the mutants are tried by make mutants and make nightly$`), "mutants, which make nightly tries"},
	{regexp.MustCompile(`^it takes long: make nightly runs it$`), "what takes long, which make nightly runs"},
	{regexp.MustCompile(`only Linux kills a command with its parent|open files cannot be counted here: `), "a test of another operating system"},
}

// position is the position of the t.Skip call, as t.Skip prints it.
var position = regexp.MustCompile(`^\S+\.go:\d+: `)

// allowed returns the exception that covers the skip, or "".
func (s skip) allowed() string {
	said := position.ReplaceAllString(s.reason, "")
	for _, e := range exceptions {
		if e.reason.MatchString(said) {
			return e.why
		}
	}
	return ""
}
