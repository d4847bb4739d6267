package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// A name or note from another program cannot control the terminal that shows it.
func TestAJSONLineHasNoControls(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r < 0x100; r++ {
		all.WriteRune(r)
	}
	text := all.String() + "<&>\u2028世\U0001F512"
	line := string(jsonLine(text))
	shown, ended := strings.CutSuffix(line, "\n")
	if i := strings.IndexFunc(shown, unicode.IsControl); i >= 0 || !ended {
		t.Errorf("the byte %d is a control character, or the line has no end: %q", i, line)
	}
	var got string
	if err := json.Unmarshal([]byte(line), &got); err != nil || got != text {
		t.Errorf("read %q from the line, want %q (%v)", got, text, err)
	}
	if !strings.Contains(line, "<&>") || !strings.Contains(line, "é") || !strings.Contains(line, "世\U0001F512") {
		t.Errorf("printable characters are escaped, too: %s", line)
	}
}
