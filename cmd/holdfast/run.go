package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/report"
	"github.com/holdfast-go/holdfast/store"
)

func (p *program) runCommand() *cobra.Command {
	j := &job{program: p, runs: true, ttl: duration(30 * time.Second), onLost: "term", conflict: exitHeld, ends: endSignal{syscall.SIGTERM}}
	var metrics string
	var trace bool
	cmd := &cobra.Command{
		Use:   "run [flags] NAME... [flags] -- COMMAND [ARG]...",
		Short: "Run a command while holding a lock",
		Long: `Run takes the lock NAME, runs the command, and gives the lock back when every
process of the command's group has ended. If another run holds the lock, it
waits, unless -n or -w say otherwise. Waiters are served in the order in which
they came. Of several NAMEs it takes all or none, always in the same order, so
two runs never wait for each other; the flags apply to each of them.

A DUR is a duration like 30s, 1m30s, 2d, 1w or 1d12h (weeks and days first), or
a decimal number of seconds (0.5).

The command finds HOLDFAST_NAME, HOLDFAST_TOKEN (the fencing token: larger than
that of every earlier holder), HOLDFAST_ID and HOLDFAST_TTL_MS in its
environment. With several NAMEs it finds HOLDFAST_LEASES in place of the first
three: a JSON array of objects with name, id and token. It runs in a process
group of its own. TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to it. If the
lock cannot be renewed, or is broken, the command gets TERM, and KILL before
anyone else can get the lock.

A waiter can ask for the lock, with --ask or 'holdfast ask'. A command under
--give-up SIGNAL then gets the signal, and decides. Any other command continues.

With --require-store, or if the file /etc/holdfast/require-store exists, run
refuses a store that only this host can use, and runs nothing.

A store without deadlines (postgres+session:) has no TTL: HOLDFAST_TTL_MS is 0,
there is no HOLDFAST_TOKEN unless its URL asks for tokens, and --ttl,
--at-least-for and --slots are refused with 64. There a loss is only seen after
it has happened: the command gets KILL at once, but another may hold the lock by
then.

Exit codes: the command's own; 128+N if signal N ended it; 64 wrong usage;
69 the store does not answer; 70 internal error; 75 not obtained, another
holds it; 76 lost while the command ran; 77 not allowed; 124 ran past
--at-most-for; 126 the command cannot be run; 127 there is no such command.`,
		Example: `  # one after the other
  holdfast run deploy -- ./deploy.sh production

  # one of twenty hosts; the others skip it silently, also if their clocks differ
  holdfast run nightly --require-store -n --skip-ok --at-least-for 10m --at-most-for 2h -- backup.sh

  # wait up to half a minute, then say who holds it and exit with 75
  holdfast run deploy -w 30 -- ./deploy.sh

  # many readers or one writer
  holdfast run catalog -s -- ./report.sh
  holdfast run catalog -- ./rebuild.sh

  # at most four at a time; this one counts for two
  holdfast run encode --slots 2/4 -- ffmpeg -i in.mkv out.mp4

  # both or none
  holdfast run account/3 account/7 -- ./transfer.sh

  # a shell line
  holdfast run counter -c 'echo $((1 + $(cat n))) > n'`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			needFront()
			if err := j.read(cmd, args); err != nil {
				return err // without exit: execute adds the advice to see --help
			}
			if cmd.Flags().Changed("metrics-file") && blank(metrics) { //mutant:report-empty-file
				return errors.New("--metrics-file is empty: write the name of a file, or leave the flag out")
			}
			if asked, err := j.reports(metrics, trace); err != nil {
				return err
			} else if asked {
				j.keepAccount(metrics, trace)
			}
			return j.run(cmd)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	j.claimFlags(cmd, true)
	f.StringVarP(&j.line, "command", "c", "", "run `LINE` by $SHELL -c (or /bin/sh)")
	f.Var(&j.ttl, "ttl", "how long the lock outlives a host that dies; at least 2s; not on a store without deadlines")
	f.Var(&j.atLeast, "at-least-for", "keep the name taken for `DUR` after the grant, even if the command ends sooner")
	f.Var(&j.atMost, "at-most-for", "end the command after `DUR`: TERM, -k later KILL, exit 124")
	f.StringVar(&j.onLost, "on-lost", "term", "`HOW` to end the command when the lock is lost: term (and kill after -k), or kill")
	f.VarP(&j.grace, "kill-after", "k", "`DUR` between TERM and KILL (default 10s, at most a third of --ttl)")
	f.Var(&j.ends, "signal", "end the command by `SIGNAL`, a name or number, in place of TERM")
	f.Var(&j.giveUp, "give-up", "send `SIGNAL` to the command when a waiter asks for the lock ('holdfast ask')")
	f.BoolVar(&j.preserve, "preserve-status", false, "exit with the command's own code in place of 124, past --at-most-for")
	f.BoolVar(&j.foreground, "foreground", false, "give the command the terminal even if its stdin or stdout is not one")
	f.StringVar(&j.asks, "ask", "", "while waiting, ask the holder to give the lock up, and say why (`TEXT`)")
	p.requires(cmd)
	f.StringVar(&j.note, "note", "", "a remark (`TEXT`) that others see when they are refused")
	f.BoolVar(&j.json, "json", false, "print on stderr what happens, one JSON object a line")
	f.StringVar(&metrics, "metrics-file", "", "write metrics of the run to `FILE` (*.prom) for Prometheus")
	f.BoolVar(&trace, "trace", false, "send a span of the run by OpenTelemetry; the OTEL_ variables say where to")
	f.BoolVarP(&j.verbose, "verbose", "v", false, "print on stderr what is done, and warnings about the store")
	cmd.RegisterFlagCompletionFunc("on-lost", cobra.FixedCompletions([]cobra.Completion{"term", "kill"}, cobra.ShellCompDirectiveNoFileComp))
	for _, plain := range []string{"command", "ttl", "at-least-for", "at-most-for", "kill-after", "note", "ask"} {
		cmd.RegisterFlagCompletionFunc(plain, cobra.NoFileCompletions)
	}
	for _, signal := range []string{"signal", "give-up"} {
		cmd.RegisterFlagCompletionFunc(signal, cobra.FixedCompletions([]cobra.Completion{"TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"}, cobra.ShellCompDirectiveNoFileComp))
	}
	p.exclude(cmd, "json", "verbose")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !p.dashes() && !cmd.Flags().Changed("command") {
			return fmt.Errorf("%w (%v)", errNoCommand, p.flagError(cmd, err)) // a flag of the command, most likely
		}
		return p.flagError(cmd, err)
	})
	return cmd
}

// claimFlags adds the flags for the claim and for its refusal. skips adds --skip-ok: after a skip
// run ends, but a script that calls hold would go on.
func (j *job) claimFlags(cmd *cobra.Command, skips bool) {
	f := cmd.Flags()
	f.BoolVarP(&j.try, "nonblock", "n", false, "do not wait: exit 75 if another holds it")
	f.VarP(&j.wait, "wait", "w", "wait at most `DUR`, then exit 75; 0 is -n; with -n, wait for the store alone")
	f.IntVarP(&j.conflict, "conflict-exit-code", "E", exitHeld, "exit with `CODE` in place of 75")
	if skips {
		f.BoolVar(&j.skipOK, "skip-ok", false, "exit 0, silently, in place of 75")
		j.exclude(cmd, "conflict-exit-code", "skip-ok")
	}
	f.BoolVarP(&j.shared, "shared", "s", false, "share the lock with others that use -s")
	f.Var(&j.slots, "slots", "take K of N slots; all who use NAME should give the same N")
	for _, plain := range []string{"wait", "conflict-exit-code", "slots"} {
		cmd.RegisterFlagCompletionFunc(plain, cobra.NoFileCompletions)
	}
	j.exclude(cmd, "shared", "slots")
}

// readClaim checks the names and the flags of claimFlags.
func (j *job) readClaim(cmd *cobra.Command, names []string) error {
	switch {
	case len(names) == 0:
		return errors.New("no NAME to lock")
	case slices.Contains(names, ""):
		return errors.New("the name is empty")
	case slices.ContainsFunc(names, isURL):
		return errNameIsURL
	case twice(names) != "":
		advice := "write it once"
		if j.runs { //mutant:hold-has-no-command-to-write
			advice = "write the command after --"
		}
		return fmt.Errorf("NAME %.40q given twice; %s", twice(names), advice)
	case j.ttl < duration(2*time.Second):
		return fmt.Errorf("--ttl %v: at least 2s, or there is no time to stop the work when the lock is lost", time.Duration(j.ttl))
	case j.ttl > duration(holdfast.MaxDuration):
		return fmt.Errorf("--ttl %v: at most %v", time.Duration(j.ttl), holdfast.MaxDuration)
	case j.atLeast > duration(holdfast.MaxDuration):
		return fmt.Errorf("--at-least-for %v: at most %v", time.Duration(j.atLeast), holdfast.MaxDuration)
	case j.conflict < 0 || j.conflict > 255:
		return fmt.Errorf("-E %d: an exit code is 0 to 255", j.conflict)
	case len(j.note) > store.MaxNote:
		return fmt.Errorf("--note has %d bytes, at most %d are kept", len(j.note), store.MaxNote)
	}
	j.names, j.waits = names, cmd.Flags().Changed("wait")
	j.try = j.try || j.waits && j.wait == 0
	return nil
}

var errNameIsURL = errors.New("a NAME is the URL of a store; write --store URL") // the URL may have a password

// twice returns a name that is given more than once; "" if there is none.
func twice(names []string) string {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name
		}
	}
	return ""
}

// A job is one run of `run`, `hold` or `ask`.
type job struct {
	*program
	runs bool // a command; the messages of hold speak of none

	try, shared, skipOK, json, verbose bool
	wait, ttl, atLeast, atMost, grace  duration
	conflict                           int
	slots                              slots
	line, onLost, note, asks           string
	ends, giveUp                       endSignal
	preserve, foreground               bool

	waits   bool // -w was given
	begun   time.Time
	where   string   // the store, for people
	forgets bool     // the store keeps no reason of a break --now
	account *account // nil: neither metrics nor a span was requested
	names   []string
	argv    []string
	path    string // of the command
}

var errNoCommand = errors.New("no command: write it after --")

// read checks the flags and arguments. An error is the caller's mistake.
func (j *job) read(cmd *cobra.Command, args []string) error {
	f := cmd.Flags()
	dash, shell := cmd.ArgsLenAtDash(), f.Changed("command")
	if dash < 0 {
		dash = len(args)
		if !shell {
			return errNoCommand
		}
		if len(args) > 1 { // the second may be a command, and -c its flag
			return errors.New("several NAMEs and -c, or a command: write -- after the NAMEs")
		}
	}
	if err := j.readClaim(cmd, args[:dash]); err != nil {
		return err
	}
	switch {
	case shell && len(args) > dash:
		return errors.New("a command both in -c and after --: give one")
	case !shell && len(args) == dash:
		return errors.New("no command after --")
	case !shell && args[dash] == "":
		return errors.New("the command after -- is empty")
	case f.Changed("kill-after") && j.grace > j.ttl/3:
		return fmt.Errorf("-k %v: more than a third of the TTL, %v, leaves no time to renew", time.Duration(j.grace), time.Duration(j.ttl))
	case f.Changed("ask") && checkAsk("--ask", j.asks) != nil:
		return checkAsk("--ask", j.asks)
	case f.Changed("ask") && j.try:
		return errors.New("--ask and -n: a request lasts as long as somebody waits")
	case j.onLost != "term" && j.onLost != "kill":
		return fmt.Errorf("--on-lost %q: term or kill", j.onLost)
	}
	if !f.Changed("kill-after") {
		j.grace = min(duration(10*time.Second), j.ttl/3)
	}
	j.argv = args[dash:]
	if shell {
		sh := os.Getenv("SHELL")
		if sh == "" {
			sh = "/bin/sh"
		}
		j.argv = []string{sh, "-c", j.line}
	}
	return nil
}

// find looks up the command, as a shell does.
func (j *job) find() error {
	if _, ok := os.LookupEnv("PATH"); !ok { // the default of execvp
		os.Setenv("PATH", "/usr/local/bin:/bin:/usr/bin")
		defer os.Unsetenv("PATH")
	}
	path, err := exec.LookPath(j.argv[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil // the user's PATH says so
	}
	if err == nil {
		j.path = path
		return nil
	}
	code := exitCannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		code = exitNotFound
	}
	return &exitError{code, fmt.Errorf("%s: %w", j.argv[0], errors.Unwrap(err))}
}

func (j *job) run(cmd *cobra.Command) error {
	if j.json {
		stderr.journal = newJournal(j)
	}
	return j.told(j.obtainAndHold(cmd))
}

// told prints how the job ended, writes the reports, and returns only the exit code.
func (j *job) told(err error) error {
	ended := &exitError{}
	errors.As(exit(err), &ended)
	switch {
	case ended.err == nil: // printed before, or nothing to print
	case ended.code == exitLost:
		tellLost("%v", ended.err)
	default:
		stderr.say(record{Event: eventFailed, Message: ended.err.Error()})
	}
	j.report(ended.code)
	j.tellEnded(ended.code)
	return &exitError{code: ended.code}
}

// tellEnded prints the exit code, with --json.
func (j *job) tellEnded(code int) {
	if stderr.journal != nil { //mutant:run-end-told
		stderr.say(record{Event: eventEnded, Code: &code})
	}
}

// obtainAndHold runs the command under the lock.
func (j *job) obtainAndHold(cmd *cobra.Command) error {
	if err := j.find(); err != nil {
		j.account.ends(report.NotRun)
		return err
	}
	chosen, s, err := j.open()
	if err != nil {
		return exit(err)
	}
	if _, lacks := s.Describe().Lacks[store.PromiseGiveUp]; lacks && j.giveUp.Signal != nil { //mutant:run-give-up-needs-requests
		s.Close()
		return exit(j.passesNoRequest(holdfast.ErrUnsupported))
	}
	owner := holdfast.ThisProcess()
	owner.PID, owner.Program, owner.Note = frontPID(), filepath.Base(j.argv[0]), j.note
	if _, lacks := s.Describe().Lacks[store.PromiseDeadline]; lacks && !cmd.Flags().Changed("ttl") {
		j.ttl = 0 // the store has none, and refuses one //mutant:run-no-ttl
	}
	o := &holdfast.Options{
		TTL: time.Duration(j.ttl), MinHold: /*mutant:run-min-hold*/ time.Duration(j.atLeast), Owner: owner, Logger: logger(j.verbose),
		AskToGiveUp: j.asks,
	}
	asked := newRequests()
	if j.giveUp.Signal != nil {
		o.Observer = asked.observe
	}
	locks, err := holdfast.New(s, o)
	if err != nil {
		s.Close()
		return exit(j.cannotAsk(err))
	}
	signals := signals()
	forget := j.watch(s, owner)
	leases, err := j.acquire(locks, signals)
	forget()
	held := err == nil
	if held {
		stderr.holds(leases)
		j.account.holds(leases)
		err = j.hold(leases, s, chosen, signals, asked)
	}
	err = exit(err)
	closeWithin(closesFor(err, held), locks)
	return err
}

// endSignal is the value of --signal and of --give-up.
type endSignal struct{ os.Signal }

func (s *endSignal) String() string { return "" } // the help text has TERM
func (s *endSignal) Type() string   { return "SIGNAL" }

func (s *endSignal) Set(text string) (err error) {
	s.Signal, err = signalOf(text)
	return err
}

// slots is the value of --slots: K of N.
type slots struct{ k, n int }

func (s *slots) String() string {
	if s.n == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.k, s.n)
}

func (s *slots) Type() string { return "K/N" }

func (s *slots) Set(text string) error {
	k, n, _ := strings.Cut(text, "/")
	var err1, err2 error
	s.k, err1 = strconv.Atoi(k)
	s.n, err2 = strconv.Atoi(n)
	if err1 != nil || err2 != nil || s.k < 1 || s.n < s.k || s.n > store.MaxSlots {
		return fmt.Errorf("want K/N, 1 ≤ K ≤ N ≤ %d", store.MaxSlots)
	}
	return nil
}
