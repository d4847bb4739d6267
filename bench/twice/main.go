// Command twice runs a command as the child of its own child, and does nothing else. `holdfast run` has two processes
// as well: this is the least that they take.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

// inner marks the second of the two processes.
const inner = "HOLDFAST_BENCH_INNER"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "twice:", err)
		os.Exit(1)
	}
}

func run(argv []string) error {
	if len(argv) == 0 {
		return fmt.Errorf("no command was given")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	if os.Getenv(inner) == "" {
		cmd = exec.Command(self, argv...)
		cmd.Env = append(os.Environ(), inner+"=1")
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
