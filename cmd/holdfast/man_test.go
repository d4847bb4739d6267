package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/prove"
)

//go:generate go test -run ^TestTheManualIsMadeFromTheFlags$ . -args -write-manual

var writeManual = flag.Bool("write-manual", false, "write docs/man in place of comparing with it")

const manualDir = "../../docs/man"

// The pages of the manual are made from the commands, their flags, and
// man_sections_test.go.
func TestTheManualIsMadeFromTheFlags(t *testing.T) {
	pages := manual(newRoot(nil))
	if *writeManual {
		if err := os.MkdirAll(manualDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, page := range pages {
			if err := os.WriteFile(filepath.Join(manualDir, name), page, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(manualDir + "/*")
	if err != nil || len(files) != len(pages) {
		t.Errorf("docs/man has %d files, want %d (%v): go generate ./cmd/holdfast", len(files), len(pages), err)
	}
	for name, page := range pages {
		if have, err := os.ReadFile(filepath.Join(manualDir, name)); err != nil || !bytes.Equal(have, page) {
			t.Errorf("docs/man/%s does not match the flags (%v): go generate ./cmd/holdfast", name, err)
		}
	}
}

func TestTheHelpOfProveNamesEachFault(t *testing.T) {
	cmd, _, err := newRoot(nil).Find([]string{"prove"})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"mem:", "file:", "redis:"} {
		for _, f := range prove.Faults(url) {
			if !strings.Contains(cmd.Long, string(f)+",") && !strings.Contains(cmd.Long, string(f)+".\n") {
				t.Errorf("the help does not name the fault %q of %s", f, url)
			}
		}
	}
}

func TestTheManualHasEveryFlagAndExitCode(t *testing.T) {
	pages := manual(newRoot(nil))
	for name, page := range pages {
		if alone := strings.Contains(string(page), manualRoot); alone != (name == "holdfast.1") {
			t.Errorf("%s lacks an exit status of its own: man_sections_test.go", name)
		}
	}
	run := string(pages["holdfast-run.1"])
	cmd, _, err := newRoot(nil).Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(run, roff("--"+f.Name)) {
			t.Errorf("--%s is not in holdfast-run(1)", f.Name)
		}
	})
	_, status, _ := strings.Cut(run, ".SH EXIT STATUS\n")
	operate, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{exitUsage, exitUnavailable, exitInternal, exitHeld, exitLost, exitDenied, exitTimeout, exitCannotRun, exitNotFound} {
		if !strings.Contains(status, fmt.Sprintf(".B %d\n", code)) {
			t.Errorf("%d is not in EXIT STATUS of holdfast-run(1)", code)
		}
		if !strings.Contains(string(operate), fmt.Sprintf("\n### %d: ", code)) {
			t.Errorf("%d has no section in docs/operate.md", code)
		}
	}
}

// manual is all pages, by file name.
func manual(root *cobra.Command) map[string][]byte {
	root.InitDefaultHelpFlag()
	pages := map[string][]byte{"holdfast.1": page(root)}
	for _, cmd := range root.Commands() {
		if hasPage(cmd) {
			pages["holdfast-"+cmd.Name()+".1"] = page(cmd)
		}
	}
	return pages
}

func hasPage(cmd *cobra.Command) bool { return cmd.IsAvailableCommand() && cmd.Name() != "version" }

func page(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	b.WriteString(".\\\" Made by go generate from the command's flags. Do not edit.\n")
	fmt.Fprintf(&b, ".TH %s 1 \"\" holdfast \"User Commands\"\n.nh\n.ad l\n", strings.ToUpper(name))
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(name), roff(lowerFirst(cmd.Short)))
	section("SYNOPSIS")
	b.WriteString(synopsis(cmd))
	section("DESCRIPTION")
	long, _, _ := strings.Cut(cmd.Long, "\n\nExit codes:") // they have their own section
	b.WriteString(prose(long))
	if cmd.HasAvailableSubCommands() {
		section("COMMANDS")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(sub.Name()), roff(sub.Short))
			}
		}
		fmt.Fprintf(&b, ".TP\n.B completion\n%s\n", roff("Print the script that makes a shell complete commands, flags and names: completion bash, zsh, fish or powershell."))
	}
	section("OPTIONS")
	b.WriteString(options(cmd.NonInheritedFlags()))
	if cmd.HasParent() {
		b.WriteString(options(cmd.InheritedFlags()))
	}
	for _, s := range manualSections(name) {
		section(s.title)
		b.WriteString(s.text)
		if s.title == "FILES" && cmd.Example != "" {
			section("EXAMPLES")
			b.WriteString(example(cmd.Example))
		}
	}
	section("SEE ALSO")
	b.WriteString(seeAlso(cmd))
	return b.Bytes()
}

func synopsis(cmd *cobra.Command) string {
	words := strings.Fields(cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		words = []string{"holdfast", "COMMAND", "[flags]", "[ARG]..."}
	}
	var b strings.Builder
	bold := true // until the first that is not typed literally
	for i, w := range words {
		if i > 0 {
			b.WriteString(" ")
		}
		bold = bold && strings.ToLower(w) == w && !strings.HasPrefix(w, "[")
		switch {
		case bold || strings.HasPrefix(w, "-"):
			b.WriteString("\\fB" + roff(w) + "\\fR")
		case strings.ToUpper(w) == w:
			b.WriteString("\\fI" + roff(w) + "\\fR")
		default:
			b.WriteString(roff(w))
		}
	}
	return b.String() + "\n"
}

func options(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		names := "\\fB" + roff("--"+f.Name) + "\\fR"
		if f.Shorthand != "" {
			names = "\\fB" + roff("-"+f.Shorthand) + "\\fR, " + names
		}
		if value != "" {
			names += " \\fI" + roff(value) + "\\fR"
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, ".TP\n%s\n%s.\n", names, roff(upperFirst(usage)))
	})
	return b.String()
}

// prose makes paragraphs of text; indented lines stay as they are.
func prose(text string) string {
	var b strings.Builder
	for i, par := range strings.Split(text, "\n\n") {
		if strings.HasPrefix(par, "  ") {
			b.WriteString(example(par))
			continue
		}
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for line := range strings.Lines(par) {
			b.WriteString(roff(strings.TrimSpace(line)) + "\n")
		}
	}
	return b.String()
}

func example(text string) string {
	var b strings.Builder
	b.WriteString(".PP\n.RS 4\n.nf\n")
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimPrefix(strings.TrimRight(line, "\n"), "  ")) + "\n")
	}
	b.WriteString(".fi\n.RE\n")
	return b.String()
}

func seeAlso(cmd *cobra.Command) string {
	var pages []string
	for _, c := range cmd.Root().Commands() {
		if c != cmd && hasPage(c) {
			pages = append(pages, "\\fB"+roff("holdfast-"+c.Name())+"\\fR(1)")
		}
	}
	if cmd.HasParent() {
		pages = append([]string{"\\fBholdfast\\fR(1)"}, pages...)
	}
	if cmd.Name() == "run" || !cmd.HasParent() {
		pages = append(pages, "\\fBflock\\fR(1)", "\\fBtimeout\\fR(1)", "\\fBcrontab\\fR(5)", "\\fBsystemd.service\\fR(5)")
	}
	return strings.Join(pages, ",\n") + "\n"
}

// roff quotes what roff would take for its own syntax. A hyphen is one that can be
// copied.
var roffQuote = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "≤", "<=", "–", `\(en`)

func roff(text string) string {
	text = roffQuote.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
