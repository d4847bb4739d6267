package main

import (
	"fmt"
	"slices"
	"strings"
)

// A manualSection is a section that is not made from flags.
type manualSection struct{ title, text string }

// An item is an element of a list: a code, a variable or a file, and its meaning.
type item struct{ what, is string }

func list(items []item) string {
	var b strings.Builder
	for _, i := range items {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(i.what), roff(i.is))
	}
	return b.String()
}

var runExits = []item{
	{"the command's own", "The command ran and ended by itself."},
	{"128+N", "Signal N ended the command (143: TERM, 137: KILL), or ended the waiting for the lock."},
	{"64", "Wrong usage: flags, NAME, or the URL of the store; or NAME is in use as another kind of lock. Nothing was run."},
	{"69", "The store does not answer, or the outcome is unknown. Nothing was run. Anything left in the store expires after the TTL."},
	{"70", "An internal error, or what is stored under NAME is damaged or was not written by holdfast."},
	{"75", "Not obtained: another holds it, and -n or -w ended the waiting. -E gives another code, --skip-ok a silent 0."},
	{"76", "The lock was lost while the command ran, and the command was stopped: the store was away, an operator broke the lock, or this host stood still."},
	{"77", "The store refuses this user."},
	{"124", "The command ran past --at-most-for and was stopped."},
	{"126", "The command was found but cannot be run. The lock was not asked for."},
	{"127", "There is no such command. The lock was not asked for."},
}

var otherExits = map[string][]item{
	"holdfast-ls":     {{"0", "Listed, even if no lock is in use."}, {"128+N", "Signal N ended --watch."}},
	"holdfast-top":    {{"0", "Quit with q."}, {"128+N", "Signal N ended it; Ctrl-C is 130."}},
	"holdfast-ui":     {{"128+N", "Signal N ended it; Ctrl-C is 130."}},
	"holdfast-show":   {{"0", "Shown, even if nobody holds or waits."}},
	"holdfast-check":  {{"0", "Held by this id (and token)."}, {"76", "It does not hold the name, or not any more."}},
	"holdfast-wait":   {{"0", "Nobody holds NAME."}, {"75", "Another holds NAME, and -n or -w ended the waiting."}},
	"holdfast-doctor": {{"0", "The store works, even with warnings. Otherwise the code is that of the first failure; 64 also means that the store cannot be used, because of its version for example."}},
	"holdfast-prove":  {{"0", "Proved."}, {"1", "A promise was broken, or too little happened to be sure."}},
	"holdfast-stores": {{"0", "Listed."}},
	"holdfast-hold": {
		{"0", "The lock was held, and given back. With --fd: it is held."}, {"128+N", "Signal N ended the waiting for the lock."}, {"75", "Not obtained: another holds it, and -n or -w ended the waiting."},
		{"76", "Lost: the store was away, an operator broke the lock, or this host stood still."}, {"124", "Held past --at-most-for, and given back."},
	},
	"holdfast-ask":   {{"0", "The holder has given the lock up, or nobody held it."}, {"75", "The holder has not given it up, and -w ended the waiting."}},
	"holdfast-break": {{"0", "Broken."}, {"76", "There is no such hold."}},
}

var storeExits = []item{
	{"64", "Wrong usage."}, {"69", "The store does not answer."}, {"70", "An internal error, or what is stored is damaged."}, {"77", "The store refuses this user."},
}

var storeVariables = []item{
	{"HOLDFAST_STORE", "URL of the store, if --store does not name one. It must not be set and empty."},
	{"HOLDFAST_STORE_FILE", "A file with that URL in its one line, so that no password is in the environment. It must not be set and empty."},
	{"KUBERNETES_SERVICE_HOST", "Set inside the pods of Kubernetes: there is no default store then."},
}

var givenVariables = []item{
	{"HOLDFAST_NAME", "The name."},
	{"HOLDFAST_TOKEN", "The fencing token, a decimal number, larger than that of every earlier holder. Pass it to what the command writes to, so that it can refuse a writer that comes late."},
	{"HOLDFAST_ID", "The id of this hold, for holdfast-check(1)."},
	{"HOLDFAST_TTL_MS", "The TTL in milliseconds."},
	{"TRACEPARENT", "With --trace: the span of the run."},
	{"HOLDFAST_LEASES", "With several NAMEs, instead of the first three: a JSON array of objects with name, id and token."},
}

var storeFiles = []item{
	{"/etc/holdfast/store", "The URL of the store of this host, in one line."},
	{"/etc/holdfast/require-store", "If this file exists, run, wait and check refuse a store of this host alone, as with --require-store."},
	{"/run/holdfast", "The locks of root on this host, if no store is named."},
	{"~/.local/state/holdfast", "The locks of other users on this host, if no store is named."},
}

// manualRoot is used for a page without its own exit status.
const manualRoot = "See the page of each command."

// manualSections are those of a page between OPTIONS and SEE ALSO, in order.
func manualSections(page string) (sections []manualSection) {
	add := func(title, text string) { sections = append(sections, manualSection{title, text}) }
	variables := list(storeVariables)
	switch exits, other := otherExits[page]; {
	case page == "holdfast-run":
		add("EXIT STATUS", list(runExits)+".PP\n"+roff("The command may exit with any of these itself. For each code of its own, except 0, 128+N and a skip, holdfast writes a line that begins with \"holdfast:\" to stderr.")+"\n")
		variables += ".TP\n.B SHELL\n" + roff("What runs the LINE of -c.") + "\n.TP\n.B TERM\n" +
			roff("If it is dumb, there is no line about the waiting at a terminal.") + "\n" +
			".TP\n.B OTEL_*, TRACEPARENT\n" + roff("Where --trace sends the span, and its parent. OTEL_EXPORTER_OTLP_ENDPOINT is http://localhost:4318 unless it is set.") + "\n" +
			".PP\nThe command finds\n" + list(givenVariables) +
			".PP\n" + roff("and HOLDFAST_STORE, so that a holdfast inside it uses the same store. If the URL has a user name or a password, the value is \"withheld:\", which every holdfast refuses.") + "\n"
	case other:
		exits = append(exits, storeExits...)
		if page == "holdfast-ui" || page == "holdfast-top" { // which try again
			exits = slices.DeleteFunc(exits, func(i item) bool { return i.what == "69" })
		}
		add("EXIT STATUS", list(exits))
	default:
		add("EXIT STATUS", roff(manualRoot)+"\n")
	}
	add("ENVIRONMENT", variables)
	add("FILES", list(storeFiles))
	return sections
}
