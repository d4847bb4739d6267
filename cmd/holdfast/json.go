package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"
)

// jsonLine returns the value, of strings and numbers, as a line of JSON. It escapes everything
// that a terminal would obey: encoding/json leaves DEL and the controls from 80 to 9f as they
// are.
func jsonLine(v any) []byte {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.Encode(v) // nothing in it can fail
	var line bytes.Buffer
	for rest := text.Bytes(); len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r >= 0x7f && r < 0xa0 { //mutant:json-escapes-controls
			fmt.Fprintf(&line, `\u%04x`, r)
		} else {
			line.Write(rest[:n])
		}
		rest = rest[n:]
	}
	return line.Bytes()
}

// writeJSON writes a line for each value.
func writeJSON[T any](w io.Writer, all ...T) error {
	for _, v := range all {
		if _, err := w.Write(jsonLine(v)); err != nil {
			return err
		}
	}
	return nil
}
