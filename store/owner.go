package store

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Owner describes a holder or waiter, for people to read. It grants
// nothing.
type Owner struct {
	Host    string `json:"host"`            // its host name
	PID     int    `json:"pid"`             // its process
	Program string `json:"program"`         // base name, never the arguments
	Note    string `json:"note,omitempty"`  // what the user wrote
	Space   string `json:"space,omitempty"` // the pid namespace, on systems that have them: pids of another namespace mean nothing here
}

// MaxOwner is the length of the longest Owner of a claim, in bytes.
const MaxOwner = 256

// MaxNote is the length of the longest [Owner.Note], in bytes; longer ones are cut.
const MaxNote = 100

// The longest other parts of an owner, in bytes; longer ones are cut. All together
// stay within MaxOwner.
const (
	maxHost    = 64
	maxProgram = 48
	maxSpace   = 20
)

// Stored returns the text that stores keep: host, pid, program, space and note,
// separated by tabs, at most MaxOwner bytes. Characters that cannot be
// printed, or would reverse the text, become blanks, and parts that are too
// long are cut.
func (o Owner) Stored() string {
	return strings.Join([]string{
		OneLine(o.Host, maxHost), strconv.Itoa(o.PID), OneLine(o.Program, maxProgram),
		OneLine(o.Space, maxSpace), OneLine(o.Note, MaxNote),
	}, "\t")
}

// ParseOwner reads what [Owner.Stored] wrote. From any other text it keeps what it
// can: an owner is for people, and a foreign one is no reason to fail.
func ParseOwner(s string) Owner {
	var part [5]string
	copy(part[:], strings.SplitN(s, "\t", len(part)))
	pid, _ := strconv.Atoi(part[1])
	return Owner{
		Host: OneLine(part[0], maxHost), PID: pid, Program: OneLine(part[2], maxProgram),
		Space: OneLine(part[3], maxSpace), Note: OneLine(part[4], MaxNote),
	}
}

// OneLine makes s safe to print on one line, and cuts it to at most n bytes: characters
// that cannot be printed, or would reverse the text, become blanks. It is for text that
// people write and others read: notes, reasons.
func OneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	for len(s) > n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// String returns the owner on one line: "host web-3, pid 4711 (backup.sh)",
// followed by the note if there is one. It leaves out the Space.
func (o Owner) String() string {
	s := "host " + o.Host + ", pid " + strconv.Itoa(o.PID) + " (" + o.Program + ")"
	if o.Note != "" {
		s += ", " + strconv.Quote(o.Note)
	}
	return s
}
