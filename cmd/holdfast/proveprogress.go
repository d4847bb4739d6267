package main

import (
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/prove"
)

// A progressLine shows the progress of prove: on a terminal one line that is rewritten, elsewhere
// a line now and then.
type progressLine struct {
	w          io.Writer
	onTerminal bool
	every      time.Duration // between two lines, if there is no terminal

	told  time.Duration // when the newest of those was written, since the start
	found int           // violations that it reported
	open  bool          // a line is on the terminal
}

// show shows the progress. The first violation is printed at once.
func (l *progressLine) show(p prove.Progress) {
	switch {
	case l.onTerminal:
		fmt.Fprintf(l.w, "\r\x1b[K%s", p)
		l.open = true
	case p.Elapsed-l.told >= l.every, p.Found > 0 && l.found == 0:
		fmt.Fprintf(l.w, "holdfast: prove: %s\n", p)
		l.told, l.found = p.Elapsed, p.Found
	}
}

// end erases the line on the terminal.
func (l *progressLine) end() {
	if l.open {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.open = false
	}
}
