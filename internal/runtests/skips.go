package main

import (
	"os"
	"os/exec"
	"regexp"
)

// withoutServer is the stores whose server cannot be installed where the tests
// run, each with what stands in for it, unless there is one after all.
func withoutServer() (all []string) {
	if _, err := exec.LookPath("mongod"); err != nil && os.Getenv("HOLDFAST_TEST_MONGODB") == "" {
		all = append(all, "mongostore (on a stand-in, internal/mongosim)")
	}
	if os.Getenv("HOLDFAST_TEST_SQLSERVER") == "" {
		all = append(all, "mssqlstore (what needs no server)")
	}
	return all
}

// exceptions are the reasons for which a test may be skipped even in a strict
// run. Want of a server, a tool or an account is none of them, but
// for servers that scripts/newest-servers has tried to get in vain.
var exceptions = []struct {
	reason *regexp.Regexp // matches what t.Skip said, without the file and the line
	why    string         // for the reader
}{
	{regexp.MustCompile(`the store lacks "`), "a promise that the store says it does not make"},
	{regexp.MustCompile(`the store is no (Watcher|Poller|Checker|NameWatcher): `), "an ability that the store does not have"},
	{regexp.MustCompile(`the backend (has no|does not|is no) |joins are void in the other way$`), "a promise about what the backend of a store does not have"},
	{regexp.MustCompile(`the greatest TTL, .*, is no longer than a position`), "a promise about long TTLs, on a store without them"},
	{regexp.MustCompile(`files do not go away|a file can be removed by rm`), "a case of the other store"},
	{regexp.MustCompile(`only a MongoDB server shows it, and this is the stand-in: `), "what a stand-in for MongoDB cannot show"},
	{regexp.MustCompile(`this MongoDB server does not let the tests `), "what the MongoDB server that is named is not set up for"},
	{regexp.MustCompile(`HOLDFAST_TEST_MONGODB$`), "a test of the stand-in, or of being without a server, and one is named"},
	{regexp.MustCompile(`no SQL Server is named: HOLDFAST_TEST_SQLSERVER$`), "a test on SQL Server, which cannot be installed here, and none is named"},
	{regexp.MustCompile(`this SQL Server does not let the tests `), "what the SQL Server that is named is not set up for"},
	{regexp.MustCompile(`no time namespace can be made here: `), "this machine lets nobody make a time namespace"},
	{regexp.MustCompile(`no container can be made here: `), "this machine lets nobody make a mount namespace and mount in it"},
	{regexp.MustCompile(`no PID namespace can be made here: `), "this machine lets nobody make a PID namespace"},
	{regexp.MustCompile(`no cgroup.* can be made here: `), "this machine has no such cgroups, or lets nobody make one"},
	{regexp.MustCompile(`only root can make a set-uid program`), "it needs a process that we may not signal"},
	{regexp.MustCompile(`only root can be two users`), "it needs processes of two users"},
	{regexp.MustCompile(`this file system has no ACLs: `), "the tests' directory is on a file system without POSIX ACLs"},
	{regexp.MustCompile(`this user is not in the user database: `), "this user has no entry in the user database"},
	{regexp.MustCompile(`^the suite with [a-z]+-[0-9.]+ cannot be reached: `), "a newer server, which comes from a suite of Debian's that this machine cannot reach"},
	{regexp.MustCompile(`^the history of this clone does not have .*: git fetch`), "two versions on one store, and this clone does not have the older one"},
	{regexp.MustCompile(`^the mutants are tried by make mutants and make nightly$`), "mutants, which make nightly tries"},
	{regexp.MustCompile(`^it takes long: make nightly runs it$`), "what takes long, which make nightly runs"},
	{regexp.MustCompile(`only Linux kills a command with its parent|open files cannot be counted here: `), "it is about another operating system"},
}

// position is where t.Skip was called, as it prints that.
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
