//go:build !holdfast_lean

package main

import (
	"strings"
	"time"
)

// onScreen waits until the screen shows the text. A program that draws sends only the
// cells that differ from what it has drawn, so the text need not be in its output. The
// screen is as wide as the terminal was made last.
func (s *shell) onScreen(text string) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		shown := visible(s.all(), s.columns)
		if strings.Contains(shown, text) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("the screen does not show %q but\n%s", text, shown)
		}
	}
}
