package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A voice prints what holdfast itself says on stderr. All of it goes through one voice, so that
// it never mixes with the status line.
type voice struct {
	mu      sync.Mutex
	to      io.Writer
	journal *journal // with --json; nil: text
	screen  *screen  // where the status line is; nil: nowhere
	shown   bool     // the status line is there
	over    bool     // the wait has ended
}

var stderr = &voice{to: os.Stderr}

// tell prints a message; with --json it is a warning.
func tell(format string, args ...any) {
	stderr.say(record{Event: eventWarning, Message: fmt.Sprintf(format, args...)})
}

// tellAsked reports that a waiter asks for the lock.
func tellAsked(format string, args ...any) {
	stderr.say(record{Event: eventAsked, Message: fmt.Sprintf(format, args...)})
}

// tellLost reports why the lock is lost.
func tellLost(format string, args ...any) {
	stderr.say(record{Event: eventLost, Message: fmt.Sprintf(format, args...)}) //mutant:run-loss-told
}

// say writes the record, or only its message without --json.
func (v *voice) say(r record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.put(r)
}

// waits reports that we wait, unless the wait has ended.
func (v *voice) waits(r record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.over {
		v.put(r)
	}
}

func (v *voice) put(r record) {
	v.erase()
	switch {
	case v.journal != nil:
		v.to.Write(v.journal.line(r))
	case r.Message != "":
		fmt.Fprintln(v.to, asLine(r.Message))
	}
}

// holds reports that we hold the leases. All later records name them.
func (v *voice) holds(all *holdfast.LeaseSet) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.journal != nil {
		v.journal.leases = held(all)
		r := record{Event: eventHeld}
		if d := all.Deadline(); !d.IsZero() {
			r.Expires = time.Until(d).Milliseconds()
		}
		v.put(r)
	}
}

// Write erases the status line and writes.
func (v *voice) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	return v.to.Write(p)
}

// status shows the text on one line of the terminal, in place of the one before. A background
// process prints nothing.
func (v *voice) status(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over || !v.screen.foreground() { //mutant:run-status-in-foreground
		return
	}
	columns := v.screen.columns()
	if columns < minColumns {
		return
	}
	fmt.Fprint(v.to, eraseLine+fit(text, columns-1)+"\r") // in one write //mutant:run-status-fits
	v.shown = true
}

// ends reports that the wait has ended: the status line is gone for good.
func (v *voice) ends() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase() //mutant:run-status-erased
	v.over = true
}

func (v *voice) erase() {
	// In the background another process has written over it.
	if v.shown && v.screen.foreground() {
		fmt.Fprint(v.to, eraseLine)
	}
	v.shown = false
}

// eraseLine relies on the cursor being at the first column. If a terminal became narrower and
// wrapped the line, the cursor is on its first row, and the rest is erased too.
const eraseLine = "\r\x1b[J"

// minColumns is the width below which there is no status line.
const minColumns = 20

// fit cuts a text of printable characters to that many columns.
func fit(text string, columns int) string {
	used, cut := 0, 0 // cut: what fits together with an ellipsis
	for i, r := range text {
		used += width(r)
		if used <= columns-1 {
			cut = i + len(string(r))
		}
		if used > columns {
			return text[:cut] + "…"
		}
	}
	return text
}

// width returns the most columns that a character may take: beyond the first alphabets, terminals
// disagree.
func width(r rune) int {
	if r < 0x1100 {
		return 1
	}
	return 2 //mutant:run-width-of-rune
}
