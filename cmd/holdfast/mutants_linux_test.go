package main

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// one is a command that differs in one place; most were seen in a prototype.
func one(name, test, mark string, do mutant.Op) mutant.Broken {
	return broken(name, test, mutant.At(mark, do))
}

func broken(name, test string, edits ...mutant.Edit) mutant.Broken {
	return mutant.Broken{Name: name, Pkg: "cmd/holdfast", Test: test, Edits: edits}
}

var mutants = []mutant.Broken{
	one("a command that may give up is not asked to", "TestCommandOnFiles/a-holder-is-asked-to-give-up", "run-gives-up", mutant.Delete()),
	one("what the command has started is not looked for", "TestKillingTheFrontEndsAllAndFreesTheLock/file/process", "front-children-found", mutant.Return("pids[:0]")),
	one("the supervisor is done while there is more to kill", "TestKillingTheFrontEndsAllAndFreesTheLock/file/process", "run-done-when-none-left", mutant.Return("true")),
	one("the end of the front is not seen", "TestKillingTheFrontEndsAllAndFreesTheLock/file/process", "front-end-seen", mutant.Delete()),
	one("the kernel alone kills the command of a killed engine", "TestKillingTheEngineEndsAllAndFreesTheLock/file", "front-orphan-kills-all", mutant.Delete()),
	one("the kernel does not kill the command of a killed engine", "TestKillingBothEndsTheCommand/outside", "run-kernel-kills-command", mutant.Return("&syscall.SysProcAttr{}")),
	one("nobody acts for two that are stopped", "TestBothStoppedEndTheCommandBeforeSomebodyElseGetsIn/stopped_command/file", "front-killtimer-set", mutant.Cond("true")),
	one("nobody acts for a stopped engine without a front", "TestAStoppedEngineWithoutAFrontEndsTheCommandInTime/file", "front-killtimer-set", mutant.Cond("true")),
	one("the kernel acts too late", "TestBothStoppedEndTheCommandBeforeSomebodyElseGetsIn/stopped_command/file", "front-kill-at", mutant.Value("now + 2*end")),
	one("only the command itself dies with two that are stopped", "TestBothStoppedEndTheCommandBeforeSomebodyElseGetsIn/frozen_grandchild/file", "front-group-killed-with-us", mutant.Line("{unix.F_SETOWN, group},")),
	one("only the command itself dies with two that are killed", "TestKillingBothEndsTheCommand/group", "front-group-killed-with-us", mutant.Line("{unix.F_SETOWN, group},")),
	one("only the command's own group dies with two that are stopped", "TestBothStoppedEndOtherGroupsToo", "front-groups-guarded", mutant.After("l.unguardBelow()")),
	one("daemons die with us at the end", "TestADaemonIsLeftAloneAfterLong", "front-daemons-let-go", mutant.Delete()),
	one("what was late is said to have been in time", "TestBothStoppedSayWhatRanOn/what_has_left_the_group", "front-killed-in-time", mutant.Cond("true")),
	one("what may have run on is said to have been killed", "TestBothStoppedSayWhatRanOn/stopped_in_version_1", "front-all-died-in-time",
		mutant.Value("f.board.guarded.Load() && (f.reaped || died(f.engine)) && clock.Slept()-f.slept < 100*time.Millisecond")),
	one("the front does not keep the name", "TestWhoWaitsGetsInOnlyWhenAllIsKilled", "run-presence-of-process", mutant.Stmt("_ = id\nreturn nil, nil")),
	one("the front does not keep the session", "TestSession_WhoWaitsGetsInOnlyWhenAllIsKilled", "run-presence-of-session", mutant.Return("nil, nil")),
	one("TERM when it is too late for that", "TestSession_ALossKillsAtOnce", "run-loss-without-ttl-kills", mutant.Expr("false")),
	one("nobody acts for a stopped engine without deadline", "TestSession_AStoppedEngineEndsTheCommand", "run-silence", mutant.Return("clock.Now().Add(time.Hour)")),
	one("a lock without end is said to run out", "TestSession_AStoppedEngineEndsTheCommand", "front-lock-without-end", mutant.Cond("false")),
	one("a TTL for a store that has none", "TestSession_TheCommandIsToldOfNoTTLAndOfNoToken", "run-no-ttl", mutant.Delete()),
	one("a token that is none is told", "TestSession_TheCommandIsToldOfNoTTLAndOfNoToken", "run-token-told", mutant.Cond("true")),
	one("times are told that nobody knows", "TestSession_ARefusalSaysWho", "run-known-times-told", mutant.Cond("true")),
	one("an end is told that nobody knows", "TestARefusalTellsNoEndThatNobodyKnows", "run-known-ends-told", mutant.Cond("true")),
	one("what was there before is killed", "TestWhatWasThereBeforeIsNotKilled", "front-spared", mutant.Value("nil")),
	one("a daemon is ended with the command", "TestADaemonIsLeftAloneAtTheEnd", "run-command-ended", mutant.Stmt("s.ended, s.dying = &e, true")),
	one("the lock is given back when the command's first process has ended", "TestWhatTheCommandLeavesInItsGroupIsEnded", "run-done-when-group-gone", mutant.Cond("s.ended != nil")),
	one("an answer after a silence is told a minute later", "TestWaitingIsToldAtOnceWhenTheStoreAnswersAtLast", "cmd-answer-told", mutant.Return("q.waits() && (now.Sub(w.told) >= tellsAgain || answers && w.known)")),

	broken("nobody acts for a stopped engine, neither front nor kernel", "TestAStoppedEngineEndsTheCommandBeforeSomebodyElseGetsIn/file",
		mutant.At("front-board-over", mutant.Cond("false")),
		mutant.At("front-killtimer-set", mutant.Cond("true"))),
	one("the front acts too late", "TestAStoppedEngineEndsTheCommandBeforeSomebodyElseGetsIn/file", "run-front-armed",
		mutant.Stmt("armFront(last.Add(s.deadline.Sub(last)*4).Sub(now), s.deadline.Sub(now), s.ttl == 0)")),
	broken("the front acts by what it knew when it set its timer", "TestALongStopOfTheFrontLosesNothing/file",
		mutant.At("front-timer", mutant.After("var known int64")),
		mutant.At("front-board-over", mutant.Cond("then.over()")),
		mutant.At("front-board-over", mutant.Before("var then board\nthen.deadline.Store(known)")),
		mutant.At("front-timer-set", mutant.Before("known = f.board.deadline.Load()"))),
	one("a signal lets the command run after the deadline", "TestAfterTheDeadlineTheCommandIsOnlyKilled", "run-signal-after-deadline", mutant.Cond("s.killed != 0")),
	one("TERM lets the command run after the deadline", "TestAfterTheDeadlineTheCommandIsOnlyKilled", "run-no-time-for-term", mutant.Cond("now >= last && false || code == exitLost && s.killOnLost")),
	one("TERM comes between two renewals", "TestTheCommandIsKilledStrictlyBeforeTheDeadline", "run-term-at", mutant.Return("max(kill.Add(-min(s.grace, span/3)), s.deadline.Add(-s.gives)), kill")),
	one("no TERM before the KILL", "TestACutWayToTheStoreEndsTheCommandBeforeSomebodyElseGetsIn", "run-term-due", mutant.Cond("!s.ending && now >= last")),

	one("the engine takes signals for itself", "TestASignalToTheEngineIsNotPassedOn", "front-engine-takes-no-signals", mutant.Stmt("_ = sig")),
	one("what was ignored is caught", "TestIgnoredSignalsStayIgnored", "front-ignored-stays", mutant.Cond("true")),
	one("what we ignore the command ignores", "TestIgnoredSignalsStayIgnored", "run-command-ignores-as-we-found", mutant.Cond("true")),
	one("a third interrupt is one more", "TestTheThirdInterruptKills", "run-third-signal", mutant.Cond("false")),

	one("a stopped command goes on at once", "TestCtrlZStopsTheJobAndFgLetsItGoOn", "front-stop-passed-on", mutant.Cond("true || sig == syscall.SIGTSTP")),
	one("a command stays stopped where there is no shell", "TestCtrlZStopsNothingWhereThereIsNoShell", "front-stop-passed-on", mutant.Cond("f.stop()")),
	one("a stop from before fg stops the job again", "TestAStopFromBeforeFgDoesNotStopTheJobAgain/TSTP", "front-stop-outdated", mutant.Cond("false")),
	one("a late signal stops a job in the foreground", "TestALateTerminalSignalDoesNotStopAForegroundJob", "front-foreground-goes-on", mutant.Cond("f.tty.Foreground(unix.Getpgrp())")),
	one("the terminal is given whoever has it", "TestACommandThatStartsLaterDoesNotTakeTheTerminal", "run-terminal-given", mutant.Cond("tty != nil")),
	one("the terminal is not mended", "TestTheTerminalIsMendedAfterAKilledCommand", "front-terminal-mended", mutant.Stmt("f.take(false)")),

	one("a job in the background writes", "TestABackgroundJobDoesNotScribble", "run-status-in-foreground", mutant.Cond("v.over")),
	one("the line stays", "TestWhoWaitsAtATerminalSeesForWhomAndNoTraceIsLeft", "run-status-erased", mutant.Delete()),
	one("the line is wider than the terminal", "TestTheLineFitsTheTerminalAlsoWhenThatChanges", "run-status-fits", mutant.Stmt(`fmt.Fprint(v.to, eraseLine+fit(text, columns+1)+"\r")`)),
	one("wide characters are taken for narrow", "TestATextIsCutToColumns", "run-width-of-rune", mutant.Return("1")),
	one("events do not name the hold", "TestCommandOnFiles/run-json-tells-what-happens", "run-events-name-hold", mutant.Value(`"", 0`)),
	one("a loss is not told", "TestCommandOnFiles/run-json-tells-what-happens", "run-loss-told", mutant.Value("eventWarning")),
	one("a refusal is not told", "TestCommandOnFiles/run-json-tells-what-happens", "run-refusal-told", mutant.Delete()),
	one("a wait is told behind its refusal", "TestNothingIsToldOfAWaitBehindItsRefusal", "run-wait-told-as-over", mutant.Delete()),
	one("the end is not told", "TestCommandOnFiles/run-json-tells-what-happens", "run-end-told", mutant.Cond("false")),
	one("a skip is refused", "TestCommandOnFiles/one-of-twenty-runs-it", "run-skip-is-fine", mutant.Cond("false")),
	one("a skip is told", "TestCommandOnFiles/one-of-twenty-runs-it", "run-skip-not-told", mutant.Return("&exitError{0, errors.New(message)}")),
	one("the name is free when the job has ended", "TestCommandOnFiles/one-of-twenty-runs-it", "run-min-hold", mutant.Expr("0")),
	one("a signal beside the grant keeps the minimum", "TestASignalBesideTheGrantKeepsNoMinimum", "run-unused-at-signal", mutant.Stmt("r.leases.Release()")),
	one("what could not be started keeps the minimum", "TestCommandOnFiles/at-least-for-keeps-the-name", "run-unused-not-started", mutant.Stmt("leases.Release()")),
	one("the command sees the password", "TestTheCommandFindsTheSameStoreButNoPassword", "run-password-withheld", mutant.Cond("false")),
	one("a variable that is empty is not there", "TestAnEmptyStoreIsRefused", "run-empty-store-variable", mutant.Cond(`hasEnv && blank(env) && env != "" && env != " "`)),
	one("a file variable that is empty is not there", "TestAnEmptyStoreIsRefused", "run-empty-store-file", mutant.Cond(`hasFile && blank(file) && file != "" && file != " "`)),
	one("a flag that is empty is not there", "TestCommandOnFiles/store-is-found", "run-empty-store-flag", mutant.Cond("false")),
	one("a store that is required may be this host's", "TestRequiredAStoreOfThisHostAloneIsRefused", "run-store-shared", mutant.Cond("WAS || true")),
	one("only the flag requires a shared store", "TestRequiredAStoreOfThisHostAloneIsRefused", "run-require-store-file", mutant.Value(`os.Lstat(by + "-not")`)),
	one("a name is sent to the terminal as it is", "TestNoControlCharactersOfANameAreShown", "cmd-controls-shown", mutant.Cond("true")),
	one("a reason is sent to the terminal as it is", "TestNoControlCharactersOfAReasonAreShown", "cmd-reason-is-plain", mutant.Stmt(`fmt.Fprintf(t, "  broken:\t%s\n", l.Broken)`)),
	one("a line has any length", "TestALineIsCutInItsMiddle", "cmd-line-length", mutant.Cond("true")),
	one("a long place is not cut", "TestTheCauseIsNotCutForTheStore", "cmd-cause-is-kept", mutant.Cond("false")),
	one("a cause is told with the store again", "TestAnErrorHasItsCauseOnce", "cmd-cause-once", mutant.Cond("WAS || true")),
	one("the store's settings are told by each run", "TestAClosedPortIsOneLineAndSoon/Redis", "cmd-settings-are-doctors", mutant.Value("settings && false || p.told[text]")),
	one("a try waits for a silent store", "TestASilentServerIsOneLineAndBounded/Redis", "cmd-try-is-bounded", mutant.Return("0")),
	one("a try waits no longer for a store than ever", "TestASilentServerIsOneLineAndBounded/Redis", "cmd-try-for-as-long", mutant.Cond("WAS && !j.try")),
	broken("a store that was silent is waited for again", "TestAStoreThatWasSilentIsNotWaitedForAgain",
		mutant.At("cmd-closed-port-is-left", mutant.Cond("WAS && false")),
		mutant.At("cmd-silent-store-is-left", mutant.Cond("WAS && false"))),
	one("a look waits for its driver", "TestALookDoesNotWaitForADriverThatHeedsNoContext", "cmd-look-is-bounded", mutant.Value("(<-chan struct{})(nil)")),
	one("an unreachable store is many lines", "TestCommandOnFiles/doctor-tells-whether-a-store-will-do", "cmd-doctor-one-line", mutant.Return("false")),
	one("any answer breaks", "TestBreakAsksAtATerminal", "cmd-break-needs-yes", mutant.Cond("answer == \"no\"")),
	one("any answer breaks in top", "TestTopBreaksOnlyAfterAReasonAndAYes", "cmd-top-break-needs-yes", mutant.Cond("text == \"no\"")),
	one("top shows control characters", "TestTopEscapesWhatOthersWrote", "cmd-controls-shown", mutant.Cond("true")),
	one("a slow store is read each second", "TestAStoreIsNotReadTooOften", "cmd-slow-store-rests", mutant.Return("pause")),
	one("a store that is away is read each second", "TestAStoreIsNotReadTooOften", "cmd-store-away-rests", mutant.Delete()),
	one("each read says that the store is away", "TestWatchSaysOnceThatTheStoreIsAway", "cmd-watch-says-away-once", mutant.Cond("true")),
	one("each read is printed", "TestWatchPrintsABlockPerChange", "cmd-watch-prints-changes", mutant.Cond("false")),
	one("a part of the store that is silent is all of it", "TestWatchShowsThePartOfTheStoreThatAnswers", "cmd-part-is-not-away", mutant.Return("unanswered(r.err)")),
	one("what could not be read is drawn over", "TestWatchShowsThePartOfTheStoreThatAnswers", "cmd-watch-draws-its-errors", mutant.Delete()),
	one("the page is for any host", "TestUIRefusesOtherHosts", "cmd-ui-refuses-other-hosts", mutant.Cond("WAS && false")),
	one("the page is for any site", "TestUIRefusesOtherSites", "cmd-ui-refuses-other-sites", mutant.Stmt("sameSite := http.Handler(mux)")),
	one("the page needs no token", "TestUINeedsItsToken", "cmd-ui-needs-its-token", mutant.Cond("WAS && false")),
	one("the page may always break", "TestUIIsReadOnlyUnlessToldOtherwise", "cmd-ui-is-read-only", mutant.Line("case false:")),
	one("any answer breaks on the page", "TestUIBreaksOnlyAfterAReasonAndAYes", "cmd-ui-break-needs-yes", mutant.Line(`case asked.Answer == "no":`)),
	one("no reason is needed on the page", "TestUIBreaksOnlyAfterAReasonAndAYes", "cmd-ui-break-needs-a-reason", mutant.Cond("WAS && false")),
	one("the page gets control characters", "TestUIEscapesWhatOthersWrote", "cmd-controls-shown", mutant.Cond("true")),
	one("what could not be read is lost", "TestUIDoesNotTakeForGoneWhatItCouldNotRead", "cmd-ui-lacking-is-not-gone", mutant.Line("case true:")),
	one("what was given back is lost", "TestUITellsWhatWasLostAndNotWhatWasGivenBack", "cmd-ui-late-with-a-renewal", mutant.Line("case true:")),
	one("what was freed is held", "TestCommandOnFiles/break-now-frees-at-once", "cmd-freed-is-held", mutant.Line("case e.Freed && e.Token < 0:")),
	one("what was freed is in the way", "TestCommandOnFiles/break-now-frees-at-once", "cmd-freed-is-in-the-way", mutant.Cond("e.Granted")),
	one("the end of stdin is not seen", "TestCommandOnFiles/hold-speaks-json", "hold-ends-with-stdin", mutant.Delete()),
	one("the end of the script is not seen", "TestCommandOnFiles/hold-keeps-a-lock-for-a-script", "hold-ends-with-descriptor", mutant.Delete()),
	one("the process in the background has the descriptor", "TestCommandOnFiles/hold-keeps-a-lock-for-a-script", "hold-inherits-nothing", mutant.Delete()),
	one("a script goes on without its lock", "TestCommandOnFiles/hold-ends-a-script-that-lost-it", "hold-stops-the-script", mutant.Stmt("_ = pid")),
	one("the signal is TERM", "TestCommandOnFiles/the-signal-can-be-another", "run-ends-by-signal", mutant.Stmt("s.group.terminate(syscall.SIGTERM)")),
	one("past its time the code is 124", "TestCommandOnFiles/the-signal-can-be-another", "run-preserves-status", mutant.Cond("false")),
	one("a pipeline has the terminal", "TestForegroundGivesTheTerminalInAPipeline", "run-foreground-anyway", mutant.Cond("front.IsTerminal(0) && front.IsTerminal(1)")),
	broken("a span is sent unasked", "TestNothingIsSentUnlessItIsAskedFor", mutant.At("report-off", mutant.Cond("false")), mutant.At("report-span-asked", mutant.Cond("true"))),
	one("the command is told of the span above ours", "TestASpanOfTheRunIsSent", "report-child-of-span", mutant.Return("env")),
	one("a reporter that hangs is waited for", "TestAReporterThatHangsIsNotWaitedFor", "report-bounded", mutant.After("<-ended")),
	one("a name breaks the file of metrics", "TestMetricsOfTheRunAreWritten", "report-labels-escaped", mutant.Return("value")),
	one("a failure forgets the last success", "TestMetricsOfTheRunAreWritten", "report-last-success-kept", mutant.Value("0.0")),
	one("metrics are written over", "TestMetricsAreReplacedAndNotWrittenOver", "report-written-beside", mutant.Before("if true {\nreturn os.WriteFile(file, text, 0o644)\n}")),
	one("a pod uses its own files", "TestCommandOnFiles/pod-needs-a-store", "run-pod-needs-store", mutant.Cond("false")),
}

func TestTheTestsCatchEachMutantOfTheCommand(t *testing.T) {
	t.Parallel()
	mutant.Catch(t, mutants, "HOLDFAST_TEST_PATIENCE=15s", sharedPostgres+"="+testserver.SharedPostgres(t))
}
