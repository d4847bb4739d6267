//go:build !holdfast_lean

package main

import (
	"os"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// key handles a key.
func (m *topModel) key(k tea.Key) tea.Cmd {
	switch name := k.String(); {
	case name == "ctrl+c":
		m.end = endedBy(os.Interrupt) // like the signal of that key
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.mode == browsing:
		return m.browse(name)
	default:
		return m.edit(name, k.Text)
	}
}

func (m *topModel) browse(name string) tea.Cmd {
	page := max(m.room()-1, 1)
	switch name {
	case "q":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-page)
	case "pgdown":
		m.move(page)
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	case "enter":
		if m.detail == "" && m.chosen != "" {
			m.detail, m.entry, m.said = m.chosen, "", ""
			m.move(0)
		}
	case "esc", "left", "backspace":
		switch {
		case m.detail != "":
			m.detail = ""
			m.arrange()
		case name == "esc":
			m.filter = ""
			m.arrange()
		}
		m.said = ""
	case "/":
		m.detail, m.mode, m.typed, m.said = "", filtering, m.filter, ""
		m.arrange()
	case "r":
		m.reverse = !m.reverse
		m.arrange()
	case "b":
		m.startBreak()
	default:
		if len(name) == 1 && strings.Contains(sortKeys, name) {
			m.sortBy, m.reverse = name, false
			m.arrange()
		}
	}
	return nil
}

// edit handles a key while text is typed.
func (m *topModel) edit(name, text string) tea.Cmd {
	switch name {
	case "enter":
		return m.enter()
	case "esc":
		if m.mode == filtering {
			m.filter = ""
		} else {
			m.said = printable(m.hold.Name) + ": not broken"
		}
		m.mode, m.typed = browsing, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.typed)
		m.typed = m.typed[:len(m.typed)-size]
	case "ctrl+u":
		m.typed = ""
	default:
		if len(m.typed) < 512 {
			m.typed += text
		}
	}
	if m.mode == filtering {
		m.filter = m.typed
	}
	m.arrange()
	return nil
}
