package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// askAndBreak breaks the hold of a name that the user at the terminal chooses and confirms.
func (p *program) askAndBreak(ctx context.Context, b holdfast.Break) error {
	in, err := p.inspector(choose(p.store))
	if err != nil {
		return err
	}
	defer in.done()
	state, err := in.one(ctx, b.Name, lookTime)
	if err != nil {
		return err
	}
	holders := linesOf([]store.State{inTheWay(state)}, time.Now())
	if len(holders) == 0 {
		return &message{fmt.Sprintf("%s: nobody holds it on %s%s", printable(b.Name), in.where, in.meant(ctx, b.Name)), holdfast.ErrLost}
	}
	q := &question{bufio.NewReader(os.Stdin), os.Stderr}
	which, ok := q.which(holders)
	if !ok {
		return notBroken(b.Name)
	}
	b.ID, b.Token = which.ID, which.Token
	switch err := in.broken(ctx, b); {
	case errors.Is(err, errBroken):
		tell("%v", err)
		return nil
	case err != nil:
		return err
	}
	if blank(b.Reason) {
		b.Reason, _ = q.ask("Why? The holder gets this reason: ")
		b.Reason = plainText(b.Reason)
		if err := checkReason(b.Reason); err != nil {
			return &message{fmt.Sprintf("%s: not broken: %v", printable(b.Name), err), holdfast.ErrInvalid} //mutant:cmd-reason-is-asked-for
		}
	}
	when := "when the hold has expired, within its TTL" // it may be renewed before the answer
	if b.Now {
		when = "at once, though the holder may work on"
	}
	answer, _ := q.ask(fmt.Sprintf("The holder stops its command, if it has one; the next waiter gets the lock %s. Break it? [yes/no] ", when))
	if !saysYes(answer) { //mutant:cmd-break-needs-yes
		return notBroken(b.Name)
	}
	return in.breakIt(ctx, b)
}

// checkReason returns what is wrong with the reason of a break that the user has typed.
func checkReason(text string) error {
	switch {
	case text == "":
		return errors.New("the reason is empty: tell the holder why")
	case len(text) > store.MaxReason:
		return fmt.Errorf("the reason has %d bytes, at most %d are kept", len(text), store.MaxReason)
	}
	return nil
}

// saysYes reports whether the answer confirms a break.
func saysYes(answer string) bool { return strings.EqualFold(strings.TrimSpace(answer), "yes") }

// notBroken returns the error of a break that the user did not confirm.
func notBroken(name string) error {
	return &exitError{exitUsage, &message{printable(name) + ": not broken", holdfast.ErrInvalid}}
}

// A question asks the user at the terminal.
type question struct {
	from *bufio.Reader
	to   io.Writer
}

// ask returns what the user types; false at the end of input.
func (q *question) ask(text string) (string, bool) {
	fmt.Fprint(q.to, text)
	line, err := q.from.ReadString('\n')
	if err != nil {
		fmt.Fprintln(q.to)
	}
	return strings.TrimSpace(line), err == nil
}

// which shows the holders, and asks for one of them if there are several.
func (q *question) which(holders []line) (line, bool) {
	for i, h := range holders {
		number := ""
		if len(holders) > 1 {
			number = fmt.Sprintf("%d. ", i+1)
		}
		state := h.State + " by"
		if h.Broken != "" {
			state = "broken, and was held by"
		}
		fmt.Fprintf(q.to, "%s%s is %s %s\n", number, printable(h.Name), state, summary([]line{h}))
	}
	if len(holders) == 1 {
		return holders[0], true
	}
	answer, _ := q.ask(fmt.Sprintf("Which one? [1-%d] ", len(holders)))
	n, err := strconv.Atoi(answer)
	if err != nil || n < 1 || n > len(holders) {
		return line{}, false
	}
	return holders[n-1], true
}
