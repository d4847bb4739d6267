package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/prove"
)

// exitNotProved is the exit code of prove if a promise was broken, or too
// little was seen.
const exitNotProved = 1

func (p *program) proveCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "Prove a store under faults",
		Long: `Judge what several processes saw of the locks of a store while they were frozen,
killed, cut off and delayed.

Exit codes: 0 proved; 1 a promise was broken, or too little was seen to be
proof; 64 and 69 as elsewhere.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if file == "" {
				return fmt.Errorf("--check FILE is needed")
			}
			report, err := judgeFile(file)
			if err != nil {
				return exit(err)
			}
			return tellReport(report, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "check", "", "judge the history in `FILE` again")
	f.BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// judgeFile judges a history that was written before.
func judgeFile(path string) (*prove.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: the history: %w", holdfast.ErrInvalid, err)
	}
	defer f.Close()
	h, err := prove.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &prove.Report{Run: h.Run, Verdict: prove.Check(h)}, nil
}

// tellReport prints the report and is the exit code.
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
