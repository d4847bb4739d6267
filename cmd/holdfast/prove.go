package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filestore"
	"github.com/holdfast-go/holdfast/prove"
)

// exitNotProved is the exit code of prove if a promise was broken, or too little happened.
const exitNotProved = 1

// childCommand is the hidden command by which prove starts its processes.
const childCommand = "prove-child"

func (p *program) proveCommand() *cobra.Command {
	o := &prove.Options{}
	var check, faults string
	var asJSON bool
	length, ttl := duration(60*time.Second), duration(0)
	cmd := &cobra.Command{
		Use:   "prove [flags] [-- WORKER [ARG...]]",
		Short: "Prove a store, or a lock of your own, under faults",
		Long: `Run several processes that compete for locks in the store, and freeze, kill, cut
off and delay them meanwhile. Then check what each of them saw: no two conflicting
holders at the same time, larger tokens for new holders, answers that a correct
lock would give (linearizable), losses reported in time, names that come free in
the end, waiters served in order, and no call that takes too long. prove prints
what was proved, and under which faults.

It uses names of its own, below "holdfast-prove/", and leaves nothing behind. It
puts load on the store: do not run it on one that is in production.

With a WORKER, a lock of your own is proved, in any language. The worker is started
once for each process. It reads requests from stdin, one a line, and answers each
with a line on stdout. HOLDFAST_PROVE_URL has the URL of --store, with the address
of a proxy in it, and HOLDFAST_PROVE_TTL_MS the TTL:

  at first      ready
  request       lock NAME WAIT_MS       0: try once
    answer      granted [TOKEN], refused (another has it), or error TEXT
  request       check NAME              does the worker have the lock, as far as it knows?
    answer      held, or lost
  request       release NAME
    answer      released, lost, or error TEXT

The worker ends when its stdin does. Stores and locks in Go are proved with the package
prove: docs/proof.md has both, with examples.

At a terminal a line on stderr shows the progress; elsewhere one is printed every
half minute.

By default all faults are used that are possible with the store:
` + strings.Join(faultNames(allFaults()), ", ") + `.
The last eight harm the connection to a server; each process has its own.
container is for a store of files, where Linux lets a process start in one.

Exit codes: 0 proved; 1 a promise was broken, or too little happened to
be proof; 64 and 69 as elsewhere.`,
		Example: `  holdfast prove
  holdfast prove --store redis://localhost:6379 --for 5m --out proof
  holdfast prove --check proof/history.jsonl
  holdfast prove --store redis://localhost:6379 --stop -- python3 worker.py`,
		RunE: func(cmd *cobra.Command, worker []string) error {
			if len(worker) > 0 && cmd.ArgsLenAtDash() != 0 {
				return mistake("write the worker after --: holdfast prove --store URL -- python3 worker.py")
			}
			if len(worker) == 0 && cmd.ArgsLenAtDash() == 0 {
				return mistake("no worker after --")
			}
			if check != "" {
				if len(worker) > 0 {
					return mistake("--check reads a file and takes no worker")
				}
				return p.judgeFile(check, asJSON)
			}
			if len(worker) > 0 {
				// The report shows the command line, but must not show a password in it.
				name := regexp.MustCompile(`(://[^/@\s:]*:)[^/@\s]*@`).ReplaceAllString(strings.Join(worker, " "), "$1…@")
				o.Own = &prove.Own{Name: name, Lines: worker}
			}
			if o.Names < 1 || o.Processes < 2 {
				return mistake("--names is at least 1, and --processes at least 2")
			}
			o.For, o.TTL = time.Duration(length), time.Duration(ttl)
			if !cmd.Flags().Changed("seed") {
				o.Seed = rand.Uint64() >> 11 // other readers of JSON keep 53 bits
			}
			if o.Wide && !cmd.Flags().Changed("names") {
				o.Names = 60
			}
			if cmd.Flags().Changed("faults") {
				o.Faults = faultsOf(faults)
			}
			return exit(p.prove(cmd, o, asJSON))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&length, "for", "how long the faults go on; the run takes a few seconds more")
	f.IntVar(&o.Processes, "processes", 6, "`N` processes")
	f.IntVar(&o.Names, "names", 3, "`N` names that they compete for")
	f.BoolVar(&o.Wide, "wide", false, "twenty claims at once in each process, and one hold that lasts as long as the process; --names is then 60")
	f.StringVar(&o.Mode, "mode", "mixed", "`MODE` of the locks: mutex, rw, slots, upgrade (readers that become writers, and hold long) or mixed")
	f.Var(&ttl, "ttl", "DUR is the TTL of the locks; default 500ms, or the shortest that the store allows")
	f.StringVar(&faults, "faults", "", "a `LIST` of faults, with commas between them, or none")
	f.Uint64Var(&o.Seed, "seed", 0, "`SEED` of an earlier run, to repeat its faults")
	f.BoolVar(&o.Stop, "stop", false, "end soon after the first violation")
	f.StringVar(&o.Out, "out", "", "`DIR` to write history.jsonl, report.html and report.json to")
	f.StringVar(&check, "check", "", "run nothing: judge the history in `FILE` again")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// allFaults returns the faults of files and those of servers.
func allFaults() []prove.Fault {
	all := prove.Faults("file:")
	for _, f := range prove.Faults("redis:") {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

func faultNames(all []prove.Fault) (names []string) {
	for _, f := range all {
		names = append(names, string(f))
	}
	return names
}

func faultsOf(list string) []prove.Fault {
	all := []prove.Fault{}
	if list == "none" {
		return all
	}
	for _, name := range strings.Split(list, ",") {
		all = append(all, prove.Fault(strings.TrimSpace(name)))
	}
	return all
}

func (p *program) prove(cmd *cobra.Command, o *prove.Options, asJSON bool) error {
	chosen, err := choose(p.store)
	if err != nil {
		return err
	}
	if o.URL = chosen.url; o.URL == "" && o.Own == nil {
		dir, err := filestore.DefaultDir()
		if err != nil {
			return fmt.Errorf("%w: no store is named: %w", holdfast.ErrInvalid, err)
		}
		o.URL = "file:" + dir
	}
	for _, f := range o.Faults {
		if o.Own == nil && !slices.Contains(prove.Faults(o.URL), f) {
			return mistake("there is no fault %.20q for this store; see 'holdfast prove --help'", f)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Command = func() *exec.Cmd { return exec.Command(self, childCommand) }
	shown := &progressLine{w: os.Stderr, onTerminal: screenOn(os.Stderr) != nil, every: 30 * time.Second}
	o.Progress = shown.show
	begin := time.Now()
	report, err := prove.Prove(cmd.Context(), o)
	shown.end()
	if o.Own == nil && (errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrDenied)) { //mutant:cmd-prove-says-it-once
		return say(err, "", chosen.named(), time.Since(begin))
	}
	if err != nil {
		return err
	}
	return tellReport(report, asJSON)
}

// proveChildCommand returns the command that is one of the processes of prove.
func proveChildCommand() *cobra.Command {
	return &cobra.Command{
		Use:    childCommand,
		Hidden: true,
		Args:   noArgs,
		RunE:   func(*cobra.Command, []string) error { return exit(prove.Child(os.Stdin, os.Stdout)) },
	}
}

// judgeFile judges a recorded history.
func (p *program) judgeFile(path string, asJSON bool) error {
	if p.store != "" {
		return errors.New("--check reads a file and takes no --store")
	}
	f, err := os.Open(path)
	if err != nil {
		return exit(fmt.Errorf("%w: the history: %w", holdfast.ErrInvalid, err))
	}
	defer f.Close()
	h, err := prove.Read(f)
	if err != nil {
		return exit(fmt.Errorf("%s: %w", path, err))
	}
	return tellReport(&prove.Report{Run: h.Run, Verdict: prove.Check(h)}, asJSON)
}

// tellReport prints the report and returns the exit code.
func tellReport(r *prove.Report, asJSON bool) error {
	var err error
	if asJSON {
		err = json.NewEncoder(os.Stdout).Encode(r)
	} else {
		err = r.Print(os.Stdout)
	}
	if err == nil && !r.Verdict.Proved {
		return &exitError{code: exitNotProved}
	}
	return exit(err)
}
