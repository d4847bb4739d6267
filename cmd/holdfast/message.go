package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// All lines on stderr have this form, so that one mail, one line of a log, or one row of a
// terminal says what happened.
const (
	linePrefix = "holdfast: "
	lineLength = 160 // characters, with the prefix
	leastShown = 24  // a store or a name is not cut below this
	leastNote  = 12  // nor the note of a holder below this
)

// asLine returns the text as one line for stderr.
func asLine(text string) string {
	return linePrefix + shorten(plainText(text), lineLength-len(linePrefix))
}

// plainText returns the text on one line, with nothing that a terminal would obey: names and
// reasons come from others.
func plainText(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == utf8.RuneError:
			b.WriteByte('?')
		case unicode.IsPrint(r): //mutant:cmd-controls-shown
			b.WriteRune(r)
		case unicode.IsSpace(r):
			if !strings.HasSuffix(b.String(), " ") {
				b.WriteByte(' ')
			}
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return strings.TrimSpace(b.String())
}

// shorten cuts the text to n characters in the middle: the subject comes first, and the cause
// last.
func shorten(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n { //mutant:cmd-line-length
		return text
	}
	head := n * 2 / 5
	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-head-1):])
}

// A message is an error in the command's own words. The exit code and -v need the original error.
type message struct {
	text string
	err  error
}

func (m *message) Error() string { return m.text }
func (m *message) Unwrap() error { return m.err }

// about returns a text about a name on a store, or about the store if the name is empty. If it is
// longer than a line, the store is cut first and then the name: the reader knows them.
func about(name, where, why string) string {
	parts := slices.DeleteFunc([]string{name, where, why}, func(s string) bool { return s == "" })
	over := utf8.RuneCountInString(strings.Join(parts, ": ")) - (lineLength - len(linePrefix))
	for i := len(parts) - 2; i >= 0 && over > 0; i-- { //mutant:cmd-cause-is-kept
		had := utf8.RuneCountInString(parts[i])
		cut := min(over, max(had-leastShown, 0))
		parts[i] = shorten(parts[i], had-cut)
		over -= cut
	}
	return strings.Join(parts, ": ")
}

// aboutHolders returns a text about a name and its holders. If it is longer than a line, their
// notes are cut first and then the name.
func aboutHolders(name string, notes []*string, who func() string) string {
	for _, note := range notes {
		over := utf8.RuneCountInString(plainText(name+": "+who())) - (lineLength - len(linePrefix))
		if had := utf8.RuneCountInString(*note); over > 0 { //mutant:cmd-notes-are-cut-first
			*note = shorten(*note, had-min(over, max(had-leastNote, 0)))
		}
	}
	return about(name, "", who())
}

// say shortens err, which came from an operation on the name, to name, store and cause, each
// once. name is "" for all names. waited is how long no answer came; 0: not known.
func say(err error, name, where string, waited time.Duration) error {
	mismatch := (*store.MismatchError)(nil)
	if name != "" {
		name = printable(name)
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch):
		return &message{fmt.Sprintf("%s: in use as %s, you asked for %s: all who use a name must ask for the same kind", name, kindOf(mismatch.Have), kindOf(mismatch.Want)), err}
	case errors.Is(err, holdfast.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		if nodes := byNode(nil); errors.As(err, &nodes) {
			where, _, _ = strings.Cut(where, " on ") // the cause names the nodes
			room := lineLength - len(linePrefix) - len(about(shorten(name, leastShown), where, " "))
			return &message{about(name, where, causeByNode(nodes, room)), err}
		}
		why := cause(err, where, waited)
		if short := withoutAside(why); asLine(about(name, where, why)) != linePrefix+about(name, where, why) { //mutant:cmd-aside-is-cut-first
			why = short
		}
		return &message{about(name, where, why), err}
	}
	text := about(name, where, rest(err.Error(), where, "invalid"))
	const see = "; see 'holdfast doctor'"
	if short := strings.TrimSuffix(text, "."); errors.Is(err, store.ErrDenied) && utf8.RuneCountInString(short+see) <= lineLength-len(linePrefix) { //mutant:cmd-denied-see-doctor
		text = short + see
	}
	return &message{text, err}
}

// kindOf returns a kind of lock as the flags name it.
func kindOf(limit int64) string {
	if limit == store.Full {
		return "a lock"
	}
	return fmt.Sprintf("--slots K/%d", limit)
}

// cause returns why a store is unavailable.
func cause(err error, where string, waited time.Duration) string {
	text := rest(err.Error(), where, "store unavailable")
	text, last, _ := strings.Cut(text, "; when it last answered: ")
	text, _, _ = strings.Cut(text, "; gave up waiting")
	dns := (*net.DNSError)(nil)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "connection refused"
	case errors.As(err, &dns) && dns.IsNotFound:
		text = "there is no host " + dns.Name
	case errors.As(err, &dns):
		text = "the name service does not answer for " + dns.Name
	// By the text: an error can have our own timeout beside a refusal.
	case text == "", silent(text): //mutant:cmd-silence-by-its-text
		text = "no answer"
		if waited >= time.Second {
			text += " within " + waited.Round(100*time.Millisecond).String()
		}
	}
	if last != "" {
		text += "; last known: " + last
	}
	return text
}

// withoutAside removes the text in brackets at the end, which a store adds to its server's words.
func withoutAside(text string) string {
	if i := strings.LastIndex(text, " ("); i > 0 && strings.HasSuffix(text, ")") {
		return text[:i]
	}
	return text
}

// byNode is an error of a store of several servers, with the cause of each. One is redlock's. It
// is an interface because the command imports no store.
type byNode interface {
	error
	ByNode() (count string, failed iter.Seq2[string, error])
}

// causeByNode returns how many nodes have failed, and if there is room which and why: each cause
// once, with its nodes. If not all fits, fewer nodes of each cause are named, and then the causes
// are cut.
func causeByNode(e byNode, room int) string {
	count, failed := e.ByNode()
	var causes []string
	of := map[string][]string{}
	for node, err := range failed {
		why := cause(err, node, 0)
		if of[why] == nil {
			causes = append(causes, why)
		}
		of[why] = append(of[why], node)
	}
	line := func(named, length int) string {
		parts := make([]string, len(causes))
		for i, why := range causes {
			nodes := of[why]
			more := ""
			if n := len(nodes) - named; n > 0 {
				nodes, more = nodes[:named], fmt.Sprintf(" and %d more", n)
			}
			if utf8.RuneCountInString(why) > length {
				why = withoutAside(why)
			}
			parts[i] = strings.Join(nodes, ", ") + more + ": " + shorten(why, length)
		}
		if len(parts) == 0 {
			return count
		}
		return count + ": " + strings.Join(parts, "; ")
	}
	fits := func(text string) bool { return utf8.RuneCountInString(text) <= room }
	for named := 7; named > 1; named-- {
		if text := line(named, room); fits(text) { //mutant:cmd-nodes-named
			return text
		}
	}
	for length := room; length > leastNote; length-- {
		if text := line(1, length); fits(text) {
			return text
		}
	}
	return count
}

// silent reports whether a driver's text says only that no answer came.
func silent(text string) bool {
	return slices.ContainsFunc([]string{"deadline exceeded", "i/o timeout", "nats: timeout", "server selection timeout", "timed out", "no answer for", "no answer in time", "DeadlineExceeded", "zk: could not connect to a server", "there is no connection at the moment"}, func(s string) bool {
		return strings.Contains(text, s)
	})
}

// rest returns the text of an error without what its message says already: the store, the
// operation on it, and repeated parts. sentinel is the text of the kind of error, and is removed
// too.
func rest(text, where, sentinel string) string {
	var parts []string
	for _, part := range strings.Split(text, ": ") {
		about := strings.HasSuffix(part, " on "+where) || part == where
		if !about && part != sentinel && !slices.Contains(parts, part) { //mutant:cmd-cause-once
			parts = append(parts, part)
		}
	}
	text = strings.Join(parts, ": ")
	if where != "" {
		for _, word := range []string{" on ", " of ", " to "} {
			text = strings.ReplaceAll(text, word+where, "")
		}
	}
	return text
}
