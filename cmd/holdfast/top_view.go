//go:build !holdfast_lean

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// room returns how many rows are left for the list, after a title, a header, a message and the
// help.
func (m *topModel) room() int { return max(m.height-4, 1) }

func (m *topModel) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	return v
}

// text returns the whole screen.
func (m *topModel) text() string {
	if m.width < 2 {
		return ""
	}
	lines := []string{m.title()}
	if m.detail != "" {
		lines = append(lines, m.details()...)
	} else {
		lines = append(lines, m.list()...)
	}
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(m.height-2, 0)], fit(m.message(), m.width), fit(m.help(), m.width))
	return strings.Join(lines[max(len(lines)-m.height, 0):], "\n")
}

func (m *topModel) title() string {
	where := m.last.where
	if where == "" {
		where = "reading the store"
	}
	text := fmt.Sprintf("holdfast top  %s  %s  %d in use", m.now.Format(time.TimeOnly), plainText(where), len(m.last.states))
	if m.filter != "" {
		text += fmt.Sprintf(", %d with %s", len(m.rows), strconv.Quote(m.filter))
	}
	return fit(text, m.width)
}

// message returns the line above the help: a question, an error of the store, or the result of
// the last command.
func (m *topModel) message() string {
	switch m.mode {
	case filtering:
		return "Show only: " + plainText(m.typed) + "▏"
	case reasoning:
		return "Break " + printable(m.hold.Name) + " of " + owned(&m.hold) + ". Why? The holder gets this reason: " + plainText(m.typed) + "▏"
	case confirming:
		return "The holder stops its command, if it has one. Break " + printable(m.hold.Name) + "? [yes/no] " + plainText(m.typed) + "▏"
	}
	switch {
	case m.trouble != nil && unanswered(m.trouble):
		text := plainText(m.trouble.Error())
		if left := m.again.Sub(m.now); left > 0 {
			text += fmt.Sprintf("; asking again in %v", left.Round(time.Second))
		}
		return text
	case m.said != "":
		return plainText(m.said)
	case m.trouble != nil:
		return plainText(m.trouble.Error())
	case len(m.rows) == 0 && m.last.where != "" && m.filter == "":
		return "no lock is in use"
	}
	return ""
}

func (m *topModel) help() string {
	switch {
	case m.mode == filtering:
		return "Enter keeps it  Esc shows all"
	case m.mode != browsing:
		return "Enter goes on  Esc leaves it as it is"
	case m.detail != "":
		return "↑↓ choose  b break  Esc back  q quit"
	}
	return "↑↓ choose  Enter details  / filter  sort: n name, a age, e expiry, w waiters, r reverse  b break  q quit"
}

// list returns the table of names, with the cursor in view.
func (m *topModel) list() []string {
	table := [][]string{{"NAME", "STATE", "MODE", "WAIT", "AGE", "EXPIRES", "HOLDER", "NOTE"}}
	from := window(m.at, len(m.rows), m.room())
	to := min(from+m.room(), len(m.rows))
	for i := range m.rows[from:to] {
		r := &m.rows[from+i]
		l := r.first()
		holder := owned(l)
		if more := len(r.lines) - r.waiters - 1; more > 0 {
			holder += fmt.Sprintf(" and %d more", more)
		}
		table = append(table, []string{printable(r.name), l.State, l.kind(), strconv.Itoa(r.waiters), m.age(l), m.left(l), holder, plainText(l.Owner.Note)})
	}
	return m.columns(table, []int{nameColumn, 9, 12, 6, 10, 10, 40, 0}, m.at-from)
}

// details returns the table of all holders and waiters of the name.
func (m *topModel) details() []string {
	row := m.shown()
	if row == nil {
		return []string{fit(printable(m.detail)+": nobody holds it or waits for it", m.width)}
	}
	table := [][]string{{"", "STATE", "MODE", "AGE", "EXPIRES", "TOKEN", "OWNER", "NOTE"}}
	at, position := 0, 0
	for i := range row.lines {
		l := &row.lines[i]
		place, token, note := "", strconv.FormatInt(l.Token, 10), plainText(l.Owner.Note)
		if l.State == "waiting" {
			position++
			place, token = strconv.Itoa(position)+".", "-"
		}
		if l.Broken != "" {
			note = "broken by " + plainText(l.Broken) + "  " + note
		}
		if l.ID == m.entry {
			at = i
		}
		table = append(table, []string{place, l.State, l.kind(), m.age(l), m.left(l), token, owned(l), note})
	}
	room := max(m.room()-1, 1)
	from := window(at, len(row.lines), room)
	table = append(table[:1], table[1+from:1+min(from+room, len(row.lines))]...)
	return append([]string{fit(printable(row.name), m.width)}, m.columns(table, []int{6, 9, 12, 10, 10, 20, 40, 0}, at-from)...)
}

// window returns the first row to show of n, so that the one at the cursor is in view.
func window(at, n, room int) int { return max(min(at-room/2, n-room), 0) }

// columns formats the table as lines, with no column wider than its bound (0: none), and marks
// the row at the cursor.
func (m *topModel) columns(table [][]string, most []int, cursor int) (lines []string) {
	wide := make([]int, len(most))
	for _, row := range table {
		for i, cell := range row {
			if wide[i] = max(wide[i], columnsOf(cell)); most[i] > 0 {
				wide[i] = min(wide[i], most[i])
			}
		}
	}
	for n, row := range table {
		var b strings.Builder
		for i, cell := range row {
			cell = fit(cell, wide[i])
			b.WriteString(cell + strings.Repeat(" ", max(wide[i]-columnsOf(cell), 0)+2))
		}
		text := fit(strings.TrimRight(b.String(), " "), m.width)
		switch {
		case n == 0:
			text = "\x1b[1m" + text + "\x1b[m"
		case n-1 == cursor:
			text = "\x1b[7m" + text + strings.Repeat(" ", max(m.width-columnsOf(text), 0)) + "\x1b[m"
		}
		lines = append(lines, text)
	}
	return lines
}

func columnsOf(text string) (n int) {
	for _, r := range text {
		n += width(r)
	}
	return n
}

func owned(l *line) string {
	return plainText(fmt.Sprintf("%s pid %s (%s)", l.Owner.Host, l.Owner.pid(), l.Owner.Program))
}

// age returns how long ago the hold was granted.
func (m *topModel) age(l *line) string {
	if l.since.IsZero() {
		return "-"
	}
	return max(m.now.Sub(l.since), 0).Round(time.Second).String()
}

// left returns the time until the entry expires unless it is renewed. It counts down between two
// reads.
func (m *topModel) left(l *line) string {
	d := time.Duration(l.Expires)*time.Millisecond - m.now.Sub(m.last.at)
	return max(d, 0).Round(time.Second).String()
}
