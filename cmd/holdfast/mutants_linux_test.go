package main

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// one is a command that differs in one place; most were seen in a prototype.
func one(name, test, file, old, new string) mutant.Broken {
	return mutant.Broken{Name: name, Pkg: "cmd/holdfast", Test: test, Edits: []mutant.Edit{{File: "cmd/holdfast/" + file, Old: old, New: new}}}
}

var mutants = []mutant.Broken{
	one("what the command has started is not looked for", "TestKillingTheFrontEndsAllAndFreesTheLock/file/process", "internal/front/children_linux.go",
		"\treturn pids\n}\n\n// childrenOf", "\treturn pids[:0]\n}\n\n// childrenOf"),
	one("the supervisor is done while there is more to kill", "TestKillingTheFrontEndsAllAndFreesTheLock/file/process", "supervise.go",
		"return !s.dying || s.group.none()", "return true"),
	one("the end of the front is not seen", "TestKillingTheFrontEndsAllAndFreesTheLock/file/process", "internal/front/link_unix.go",
		"l.Signals <- syscall.SIGKILL\n", ""),
	one("the kernel alone kills the command of a killed engine", "TestKillingTheEngineEndsAllAndFreesTheLock/file", "internal/front/deadman_unix.go",
		"f.killAll()\n\tf.take(true)\n\ttell(\"internal", "f.take(true)\n\ttell(\"internal"),
	one("the kernel does not kill the command of a killed engine", "TestKillingBothEndsTheCommand/outside", "group_linux.go",
		"{Pdeathsig: syscall.SIGKILL}", "{}"),
	one("nobody acts for two that are stopped", "TestBothStoppedEndTheCommandBeforeSomebodyElseGetsIn/stopped_command/file", "internal/front/killtimer_linux.go",
		"if t == nil {", "if true {"),
	one("the kernel acts too late", "TestBothStoppedEndTheCommandBeforeSomebodyElseGetsIn/stopped_command/file", "internal/front/link_unix.go",
		"l.killAt = now + d\n", "l.killAt = now + 2*end\n"),
	one("only the command itself dies with two that are stopped", "TestBothStoppedEndTheCommandBeforeSomebodyElseGetsIn/frozen_grandchild/file", "internal/front/killtimer_linux.go",
		"unix.O_NONBLOCK | unix.O_ASYNC}", "unix.O_NONBLOCK}"),
	one("only the command itself dies with two that are killed", "TestKillingBothEndsTheCommand/group", "internal/front/killtimer_linux.go",
		"{unix.F_SETOWN, -group}", "{unix.F_SETOWN, group}"),
	one("only the command's own group dies with two that are stopped", "TestBothStoppedEndOtherGroupsToo", "internal/front/groups_linux.go",
		"	l.before, l.below = l.below, releases\n", "	l.before, l.below = l.below, releases\n\tl.unguardBelow()\n"),
	one("daemons die with us at the end", "TestADaemonIsLeftAloneAfterLong", "internal/front/link_unix.go", "	l.unguardBelow()\n	l.board", "	l.board"),
	one("what was late is said to have been in time", "TestBothStoppedSayWhatRanOn/what_has_left_the_group", "internal/front/deadman_unix.go", "case late < 0:", "case true:"),
	one("what may have run on is said to have been killed", "TestBothStoppedSayWhatRanOn/stopped_in_version_1", "internal/front/deadman_unix.go", " && !frozenV1()", ""),
	one("the front does not keep the name", "TestWhoWaitsGetsInOnlyWhenAllIsKilled", "group_unix.go",
		"return s.Presence(id.Process())", "_ = id\n\t\treturn nil, nil"),
	one("the front does not keep the session", "TestSession_WhoWaitsGetsInOnlyWhenAllIsKilled", "group_unix.go", "return s.Presence()\n", "return nil, nil\n"),
	one("TERM when it is too late for that", "TestSession_ALossKillsAtOnce", "hold.go", " || j.ttl == 0,", ","),
	one("nobody acts for a stopped engine without deadline", "TestSession_AStoppedEngineEndsTheCommand", "supervise.go", "return clock.Now().Add(silence)", "return clock.Now().Add(time.Hour)"),
	one("a lock without end is said to run out", "TestSession_AStoppedEngineEndsTheCommand", "internal/front/deadman_unix.go", "case end == 0:", "case false:"),
	one("a TTL for a store that has none", "TestSession_TheCommandIsToldOfNoTTLAndOfNoToken", "run.go", "j.ttl = 0 // there", "_ = 0 // there"),
	one("a token that is none is told", "TestSession_TheCommandIsToldOfNoTTLAndOfNoToken", "hold.go", "if l.Token != 0 {", "if true {"),
	one("times are told that nobody knows", "TestSession_ARefusalSaysWho", "journal.go", "if !h.Since.IsZero() {", "if true {"),
	one("what was there before is killed", "TestWhatWasThereBeforeIsNotKilled", "internal/front/front_unix.go", "Children(), // of", "nil, // of"),
	one("a daemon is ended with the command", "TestADaemonIsLeftAloneAtTheEnd", "supervise.go", "s.ended = &e\n", "s.ended, s.dying = &e, true\n"),
	one("the lock is given back when the command's first process has ended", "TestWhatTheCommandLeavesInItsGroupIsEnded", "supervise.go",
		"case s.ended != nil && s.group.gone():", "case s.ended != nil:"),

	{Name: "nobody acts for a stopped engine, neither front nor kernel", Pkg: "cmd/holdfast", Test: "TestAStoppedEngineEndsTheCommandBeforeSomebodyElseGetsIn/file", Edits: []mutant.Edit{
		{File: "cmd/holdfast/internal/front/front_unix.go", Old: "if f.board.over() {", New: "if false {"},
		{File: "cmd/holdfast/internal/front/killtimer_linux.go", Old: "if t == nil {", New: "if true {"},
	}},
	one("the front acts too late", "TestAStoppedEngineEndsTheCommandBeforeSomebodyElseGetsIn/file", "supervise.go",
		"s.deadline.Sub(last)/4", "s.deadline.Sub(last)*4"),
	{Name: "the front acts by what it knew when it set its timer", Pkg: "cmd/holdfast", Test: "TestALongStopOfTheFrontLosesNothing/file", Edits: []mutant.Edit{
		{File: "cmd/holdfast/internal/front/front_unix.go", Old: "\t<-due.C\n", New: "\t<-due.C\n\tvar known int64\n"},
		{File: "cmd/holdfast/internal/front/front_unix.go", Old: "if f.board.over() {", New: "var then board\n\t\t\tthen.deadline.Store(known)\n\t\t\tif then.over() {"},
		{File: "cmd/holdfast/internal/front/front_unix.go", Old: "due.Reset(f.board.left())", New: "known = f.board.deadline.Load()\n\t\t\tdue.Reset(f.board.left())"},
	}},
	one("a signal lets the command run after the deadline", "TestAfterTheDeadlineTheCommandIsOnlyKilled", "supervise.go",
		"case now >= last || s.killed != 0:", "case s.killed != 0:"),
	one("TERM lets the command run after the deadline", "TestAfterTheDeadlineTheCommandIsOnlyKilled", "supervise.go",
		"if now >= last || code == exitLost && s.killOnLost {", "if now >= last && false || code == exitLost && s.killOnLost {"),
	one("TERM comes between two renewals", "TestTheCommandIsKilledStrictlyBeforeTheDeadline", "supervise.go",
		"s.deadline.Add(-s.gives/2)", "s.deadline.Add(-s.gives)"),
	one("no TERM before the KILL", "TestACutWayToTheStoreEndsTheCommandBeforeSomebodyElseGetsIn", "supervise.go",
		"if !s.ending && now >= term {", "if !s.ending && now >= last {"),

	one("the engine takes signals for itself", "TestASignalToTheEngineIsNotPassedOn", "internal/front/link_unix.go",
		"signal.Notify(make(chan os.Signal, 1), sig)", "_ = sig"),
	one("what was ignored is caught", "TestIgnoredSignalsStayIgnored", "internal/front/link_unix.go", "if !l.Ignored[sig.(syscall.Signal)] {", "if true {"),
	one("what we ignore the command ignores", "TestIgnoredSignalsStayIgnored", "group_unix.go", "if front.Above.Ignored[syscall.SIGTTOU] {", "if true {"),
	one("a third interrupt is one more", "TestTheThirdInterruptKills", "supervise.go", "case s.insists(sig, now):", "case false:"),

	one("a stopped command goes on at once", "TestCtrlZStopsTheJobAndFgLetsItGoOn", "internal/front/jobcontrol_unix.go", "if f.stop() || sig", "if true || sig"),
	one("a command stays stopped where there is no shell", "TestCtrlZStopsNothingWhereThereIsNoShell", "internal/front/jobcontrol_unix.go",
		"if f.stop() || sig == syscall.SIGTSTP {", "if f.stop() {"),
	one("the terminal is given whoever has it", "TestACommandThatStartsLaterDoesNotTakeTheTerminal", "group_unix.go",
		"if tty.Foreground(front.Above.Group()) {", "if tty != nil {"),
	one("the terminal is not mended", "TestTheTerminalIsMendedAfterAKilledCommand", "internal/front/front_unix.go", "f.take(sig != 0)", "f.take(false)"),

	one("a job in the background writes", "TestABackgroundJobDoesNotScribble", "voice.go", "if v.over || !v.screen.foreground() {", "if v.over {"),
	one("the line stays", "TestWhoWaitsAtATerminalSeesForWhomAndNoTraceIsLeft", "voice.go", "func (v *voice) ends() {\n\tv.mu.Lock()\n\tdefer v.mu.Unlock()\n\tv.erase()\n", "func (v *voice) ends() {\n\tv.mu.Lock()\n\tdefer v.mu.Unlock()\n"),
	one("the line is wider than the terminal", "TestTheLineFitsTheTerminalAlsoWhenThatChanges", "voice.go", "fit(text, columns-1)", "fit(text, columns+1)"),
	one("wide characters are taken for narrow", "TestATextIsCutToColumns", "voice.go", "\treturn 2\n", "\treturn 1\n"),
	one("events do not name the hold", "TestCommandOnFiles/run-json-tells-what-happens", "journal.go", "r.ID, r.Token = j.leases[0].ID, j.leases[0].Token", "r.ID, r.Token = \"\", 0"),
	one("a loss is not told", "TestCommandOnFiles/run-json-tells-what-happens", "voice.go", "Event: eventLost", "Event: eventWarning"),
	one("a refusal is not told", "TestCommandOnFiles/run-json-tells-what-happens", "obtain.go", "stderr.say(refusal(held, message))", ""),
	one("the end is not told", "TestCommandOnFiles/run-json-tells-what-happens", "run.go", "\tif j.json {\n\t\tstderr.say(record{Event: eventEnded", "\tif false {\n\t\tstderr.say(record{Event: eventEnded"),
	one("a skip is refused", "TestCommandOnFiles/one-of-twenty-runs-it", "obtain.go", "case j.skipOK:", "case false:"),
	one("a skip is told", "TestCommandOnFiles/one-of-twenty-runs-it", "obtain.go", "\t\treturn &exitError{code: 0}\n", "\t\treturn &exitError{0, errors.New(message)}\n"),
	one("the name is free when the job has ended", "TestCommandOnFiles/one-of-twenty-runs-it", "run.go", "MinHold: time.Duration(j.atLeast)", "MinHold: 0"),
	one("the command sees the password", "TestTheCommandFindsTheSameStoreButNoPassword", "choose.go", "if open.Secret(c.url) {", "if false {"),
	one("a variable that is empty is not there", "TestAnEmptyStoreIsRefused", "choose.go", "case hasEnv && blank(env):", "case hasEnv && blank(env) && env != \"\" && env != \" \":"),
	one("a store that is required may be this host's", "TestRequiredAStoreOfThisHostAloneIsRefused", "choose.go", "	if c.shared() {\n\t\treturn nil\n", "	if c.shared() || true {\n\t\treturn nil\n"),
	one("only the flag requires a shared store", "TestRequiredAStoreOfThisHostAloneIsRefused", "choose.go", "		switch _, err := os.Lstat(by); {\n", "		switch _, err := os.Lstat(by + \"-not\"); {\n"),
	one("a pod uses its own files", "TestCommandOnFiles/pod-needs-a-store", "choose.go", "os.Getenv(\"KUBERNETES_SERVICE_HOST\") != \"\"", "false"),
}

func TestTheTestsCatchEachMutantOfTheCommand(t *testing.T) {
	t.Parallel()
	mutant.Catch(t, mutants, "HOLDFAST_TEST_PATIENCE=15s", sharedPostgres+"="+testserver.SharedPostgres(t))
}
