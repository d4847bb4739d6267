//go:build !holdfast_lean

package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-go/holdfast"
)

// A topStore is what top needs of a store.
type topStore interface {
	read(context.Context) reading
	breakHold(context.Context, holdfast.Break) error
}

// The messages of the model, in addition to keys and sizes.
type (
	readMsg struct{ reading }   // a read has ended
	askMsg  struct{}            // it is time to read again
	timeMsg struct{ time.Time } // a second has passed
	endMsg  struct{ error }     // a signal
	doneMsg struct {            // a break has ended
		name string
		err  error
	}
)

// A topMode is what keys are for.
type topMode int

const (
	browsing topMode = iota
	filtering
	reasoning  // the reason of a break is typed
	confirming // yes or no is typed
)

// A topModel is what top shows. It knows the time only from its messages.
type topModel struct {
	ctx   context.Context
	store topStore
	pace  rhythm

	width, height int
	now           time.Time
	last          reading // the newest that was answered
	trouble       error   // the error of the newest read
	again         time.Time
	rows          []topRow // that pass the filter, in order

	sortBy  string // one of sortKeys
	reverse bool
	filter  string
	chosen  string // the name under the cursor
	at      int    // its row, or the last row it had
	detail  string // the name that is shown alone; "" for the list
	entry   string // the id under the cursor there

	mode   topMode
	typed  string
	hold   line // the hold to break
	reason string
	said   string // the result of the last command
	end    error  // what the program ends with
}

// A topRow is one name.
type topRow struct {
	name    string
	lines   []line // holders first, then waiters in order
	waiters int
}

// first returns the entry that the row shows.
func (r *topRow) first() *line { return &r.lines[0] }

const sortKeys = "naew"

func newTop(ctx context.Context, s topStore, every time.Duration) *topModel {
	return &topModel{ctx: ctx, store: s, pace: rhythm{every: every}, sortBy: "n", now: time.Now(), width: 80, height: 24}
}

func (m *topModel) Init() tea.Cmd { return tea.Batch(m.ask, tick()) }

func (m *topModel) ask() tea.Msg { return readMsg{m.store.read(m.ctx)} }

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return timeMsg{t} })
}

func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case timeMsg:
		m.now = msg.Time
		return m, tick()
	case askMsg:
		return m, m.ask
	case readMsg:
		return m, m.took(&msg.reading)
	case endMsg:
		m.end = msg.error
		return m, tea.Quit
	case doneMsg:
		m.said = printable(msg.name) + ": broken; the next waiter gets the lock when the hold has expired"
		if msg.err != nil {
			m.said = msg.err.Error()
		}
	case tea.PasteMsg:
		if m.mode != browsing {
			m.typed += plainText(msg.Content)
		}
	case tea.KeyPressMsg:
		return m, m.key(tea.Key(msg))
	}
	return m, nil
}

// took stores a reading, and schedules the next read.
func (m *topModel) took(r *reading) tea.Cmd {
	if r.hopeless() && len(m.last.where) == 0 {
		m.end = r.err
		return tea.Quit
	}
	m.now, m.trouble = r.at, r.err
	if r.known() {
		m.last = *r
		m.arrange()
	}
	pause := m.pace.next(r)
	m.again = r.at.Add(pause)
	return tea.Tick(pause, func(time.Time) tea.Msg { return askMsg{} })
}

// arrange makes the rows from the last reading.
func (m *topModel) arrange() {
	m.rows = nil
	for i := range m.last.states {
		row := topRow{name: m.last.states[i].Name, lines: linesOf(m.last.states[i:i+1], m.last.at)}
		for _, l := range row.lines {
			if l.State == "waiting" {
				row.waiters++
			}
		}
		if len(row.lines) > 0 && row.matches(m.filter) {
			m.rows = append(m.rows, row)
		}
	}
	slices.SortStableFunc(m.rows, func(a, b topRow) int {
		c := 0
		switch m.sortBy {
		case "a": // the oldest first
			c = a.oldest().Compare(b.oldest())
		case "e": // the next to expire first
			c = cmp.Compare(a.first().Expires, b.first().Expires)
		case "w": // the longest queue first
			c = cmp.Compare(b.waiters, a.waiters)
		default:
			c = cmp.Compare(a.name, b.name)
		}
		if m.reverse {
			return -c
		}
		return c
	})
	if i := slices.IndexFunc(m.rows, func(r topRow) bool { return r.name == m.chosen }); i >= 0 {
		m.at = i
	}
	m.move(0)
}

// oldest returns when the first holder got the lock. A name with only waiters counts as young.
func (r *topRow) oldest() time.Time {
	if t := r.first().since; !t.IsZero() {
		return t
	}
	return time.Unix(1<<40, 0)
}

// matches reports whether the text is in the name, or in what is known of its users.
func (r *topRow) matches(text string) bool {
	text = strings.ToLower(text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return text == "" || has(r.name) || slices.ContainsFunc(r.lines, func(l line) bool {
		return has(l.Owner.Host) || has(l.Owner.Program) || has(l.Owner.Note) || has(strconv.Itoa(l.Owner.PID))
	})
}

// shown returns the row of the detail view; nil if nobody uses the name now.
func (m *topModel) shown() *topRow {
	for i := range m.last.states {
		if s := m.last.states[i : i+1]; s[0].Name == m.detail && len(s[0].Entries) > 0 {
			return &topRow{name: m.detail, lines: linesOf(s, m.last.at)}
		}
	}
	return nil
}

// move moves the cursor by n rows.
func (m *topModel) move(n int) {
	if m.detail != "" {
		if row := m.shown(); row != nil {
			i := slices.IndexFunc(row.lines, func(l line) bool { return l.ID == m.entry })
			m.entry = row.lines[max(min(max(i, 0)+n, len(row.lines)-1), 0)].ID
		}
		return
	}
	m.at = max(min(m.at+n, len(m.rows)-1), 0)
	m.chosen = ""
	if len(m.rows) > 0 {
		m.chosen = m.rows[m.at].name
	}
}

// breakable reports whether the line is a hold that can be broken.
func (l *line) breakable() bool {
	return l.State == "held" || l.State == "broken" || l.State == "expired"
}

// breakable returns the holds of a row that can be broken.
func breakable(r *topRow) (holds []line) {
	for _, l := range r.lines {
		if l.breakable() {
			holds = append(holds, l)
		}
	}
	return holds
}

// startBreak begins the questions of a break.
func (m *topModel) startBreak() {
	row := m.shown()
	if m.detail == "" && len(m.rows) > 0 {
		row = &m.rows[m.at]
	}
	if row == nil {
		return
	}
	holds := breakable(row)
	if m.detail != "" {
		holds = slices.DeleteFunc(holds, func(l line) bool { return l.ID != m.entry })
	}
	switch {
	case len(holds) == 0:
		m.said = printable(row.name) + ": this is no hold that can be broken"
	case len(holds) > 1:
		m.detail, m.entry = row.name, holds[0].ID
		m.said = "several hold it: choose one and press b again"
	default:
		m.hold, m.mode, m.typed, m.said = holds[0], reasoning, "", ""
	}
}

// doBreak breaks the hold that the user confirmed. A newer hold has another id, and is never
// broken.
func (m *topModel) doBreak() tea.Cmd {
	b := holdfast.Break{Name: m.hold.Name, ID: m.hold.ID, Token: m.hold.Token, Reason: m.reason}
	m.said = printable(b.Name) + ": breaking…"
	return func() tea.Msg { return doneMsg{b.Name, m.store.breakHold(m.ctx, b)} }
}

// enter handles the text that was typed.
func (m *topModel) enter() tea.Cmd {
	text := m.typed
	m.typed = ""
	switch m.mode {
	case reasoning:
		m.reason = plainText(text)
		if err := checkReason(m.reason); err != nil {
			m.mode, m.said = browsing, "not broken: "+err.Error()
			return nil
		}
		m.mode = confirming
	case confirming:
		m.mode = browsing
		if !saysYes(text) { //mutant:cmd-top-break-needs-yes
			m.said = printable(m.hold.Name) + ": not broken"
			return nil
		}
		return m.doBreak()
	case filtering:
		m.mode = browsing
	}
	return nil
}

// known reports whether the reading says which names are in use. One damaged name does not
// prevent that.
func (r *reading) known() bool {
	return !r.away() && (r.err == nil || len(r.states) > 0 || errors.Is(r.err, holdfast.ErrCorrupt))
}
